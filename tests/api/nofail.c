/* SPDX-License-Identifier: MIT */
/* First uses that meet refusals: __GFP_NOFAIL waits for memory; few addresses suffice; a child has
 * what it needs, wherever its parent's first use ended. */
#include <sheaf/slab.h>
#include <stdlib.h>
#include <string.h>

#include "kit/cache.h"
#include "kit/hooks.h"
#include "kit/process.h"
#include "kit/sanitizers.h"
#include "kit/unit.h"

enum {
	REFUSALS = 100,
	ENOUGH = 99 /* exit status: the first use met no refusal */
};

static unsigned int left;

static bool refuse_first(const char *point)
{
	(void)point;
	return left && left--;
}

static void refuse(unsigned int n)
{
	left = n;
	hook_fail_by(refuse_first);
}

static void use(void *block, size_t size)
{
	CHECK(block && !left);
	memset(block, 1, size);
	kfree(block);
}

/* Not even the library's start can be refused for ever. */
static void first_object(void)
{
	refuse(REFUSALS);
	use(kmalloc(100, GFP_KERNEL | __GFP_NOFAIL), 100);
}

static void first_block(void)
{
	refuse(REFUSALS);
	use(kvmalloc(3 << 20, GFP_KERNEL | __GFP_NOFAIL), 3 << 20);
}

static void from_cache(void)
{
	struct kmem_cache *s = make("objects", 1000, 0);

	refuse(REFUSALS);
	use(kmem_cache_alloc(s, GFP_KERNEL | __GFP_NOFAIL), 1000);
}

/* More addresses are wished for than there are: the reserve is a part of them. */
static void in_few_addresses(void)
{
	struct rlimit limit = {(rlim_t)4 << 30, (rlim_t)4 << 30};
	const char *before = getenv("SHEAF_OPTIONS");
	char options[200];

	snprintf(options, sizeof(options), "%s;reserve=16777216", before ? before : "");
	CHECK(setenv("SHEAF_OPTIONS", options, 1) == 0);
	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	use(kmalloc(100, GFP_KERNEL), 100);
}

static unsigned int accepted;

static bool refuse_later(const char *point)
{
	(void)point;
	return !accepted || !accepted--;
}

static void use_cache(void)
{
	struct kmem_cache *s;

	hook_fail_by(NULL);
	s = kmem_cache_create("child", 100, NULL, 0);
	CHECK(s);
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	CHECK(kmem_cache_verify(s) == 0);
	kmem_cache_destroy(s);
}

static void fork_after_refusals(void)
{
	hook_fail_by(refuse_later);
	if (kmem_cache_create("parent", 100, NULL, 0))
		_exit(ENOUGH);
	CHECK(in_child(use_cache) == 0);
	use_cache();
}

static void at_each_point(void **state)
{
	int status = 0;

	(void)state;
	for (unsigned int n = 0; WEXITSTATUS(status) != ENOUGH; n++) {
		accepted = n;
		status = in_child(fork_after_refusals);
		assert_true(status == 0 || WEXITSTATUS(status) == ENOUGH);
	}
}

#define IN_CHILD(body)                                                                             \
	static void body##_in_child(void **state)                                                  \
	{                                                                                          \
		(void)state;                                                                       \
		assert_int_equal(in_child(body), 0);                                               \
	}

IN_CHILD(first_object)
IN_CHILD(first_block)
IN_CHILD(from_cache)

static void in_few_addresses_in_child(void **state)
{
	(void)state;
	/* They need more themselves. */
	if (HAS_ASAN || HAS_TSAN)
		skip();
	assert_int_equal(in_child(in_few_addresses), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_object_in_child),
		cmocka_unit_test(first_block_in_child),
		cmocka_unit_test(from_cache_in_child),
		cmocka_unit_test(in_few_addresses_in_child),
		cmocka_unit_test(at_each_point),
	};

	return cmocka_run_group_tests_name("nofail", tests, NULL, NULL);
}
