/* SPDX-License-Identifier: MIT */
/* First uses that meet refusals: __GFP_NOFAIL waits for memory; few addresses suffice. */
#include <sheaf/slab.h>
#include <stdlib.h>
#include <string.h>

#include "kit/cache.h"
#include "kit/hooks.h"
#include "kit/process.h"
#include "kit/sanitizers.h"
#include "kit/unit.h"

enum {
	REFUSALS = 100
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
	};

	return cmocka_run_group_tests_name("nofail", tests, NULL, NULL);
}
