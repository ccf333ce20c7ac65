/* SPDX-License-Identifier: MIT */
/* Guarded slots that run out, or guard pages that the system refuses: further objects are not
 * guarded, and one line reports that. */
#include <errno.h>
#include <sheaf/kmalloc.h>
#include <sheaf/slab.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "kit/capture.h"
#include "kit/check.h"
#include "kit/guarded.h"
#include "kit/process.h"
#include "kit/refuse.h"
#include "kit/unit.h"

#define MANY	      20000
#define GUARD_INSTALL 102

static struct capture captured;
static void *objects[MANY];

static void silent(const char *options, void (*body)(void), const char *says)
{
	setenv("SHEAF_OPTIONS", options, 1);
	capture_begin(&captured);
	assert_int_equal(in_child(body), 0);
	assert_int_equal(capture_end(&captured), says ? 1 : 0);
	assert_true(!says || strstr(captured.text, says));
}

static void *take(struct kmem_cache *s)
{
	void *object = kmem_cache_alloc(s, GFP_KERNEL);

	CHECK(object);
	return object;
}

/* All objects work; at least this many are guarded, and some are not. */
static void use_many(unsigned int size, int n, unsigned int least, bool all)
{
	struct kmem_cache *s = kmem_cache_create("many", size, NULL, 0);
	unsigned int guarded = 0;

	for (int round = 0; round < 2; round++) {
		guarded = 0;
		for (int i = 0; i < n; i++) {
			objects[i] = take(s);
			memset(objects[i], i, size);
			guarded += is_guarded(objects[i]);
		}
		CHECK(kmem_cache_verify(s) == 0);
		CHECK(guarded >= least && (guarded == (unsigned int)n) == all);
		for (int i = 0; i < n; i++)
			kmem_cache_free(s, objects[i]);
	}
	kmem_cache_destroy(s);
}

static void all_are_guarded(void)
{
	use_many(64, MANY, MANY, true);
}

static void some_are_guarded(void)
{
	use_many(64, MANY, 400, false);
}

static void none_is_guarded(void)
{
	use_many(3 * 4096, 100, 0, false);
}

static void room(void **state)
{
	(void)state;
	silent("slab_debug=G", all_are_guarded, NULL);
	silent("slab_debug=G;slab_guard=8", some_are_guarded,
	       "all addresses for guard pages are in use; further objects are not guarded");
}

/* As long as there is no memory for another chunk, objects are not guarded; later they are. */
static void memory_comes_back(void)
{
	struct kmem_cache *s = kmem_cache_create("comes back", 64, NULL, 0);
	struct rlimit before, none;

	/* A slab. */
	kmem_cache_free(s, kmem_cache_alloc_node(s, GFP_KERNEL | __GFP_THISNODE, 0));
	CHECK(is_guarded(take(s)));
	CHECK(getrlimit(RLIMIT_DATA, &before) == 0);
	/* The kernel takes a soft limit of 0 as unlimited as long as it may be raised. */
	none = (struct rlimit){1, before.rlim_max};
	CHECK(setrlimit(RLIMIT_DATA, &none) == 0);
	while (is_guarded(take(s)))
		;
	for (int i = 0; i < 100; i++) {
		void *object = take(s);

		CHECK(!is_guarded(object));
		kmem_cache_free(s, object);
	}
	CHECK(setrlimit(RLIMIT_DATA, &before) == 0);
	CHECK(is_guarded(take(s)));
}

static void no_chunk_is_lost(void **state)
{
	(void)state;
	silent("slab_debug=G;slab_guard=64", memory_comes_back, "further objects are not guarded");
}

static void few_addresses(void)
{
	struct rlimit limit = {64 << 20, 64 << 20};

	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	none_is_guarded();
}

static void address_limits(void **state)
{
	(void)state;
	silent("slab_debug=G", few_addresses,
	       "libsheaf: slab_debug: there are no addresses for guard pages, so no object is "
	       "guarded. Raise the limit (ulimit -v): they get a sixteenth of it, and need 8 "
	       "MiB\n");
	silent("profile=4096", few_addresses,
	       "libsheaf: profile: there are no addresses for samples, so none is taken. Raise the "
	       "limit (ulimit -v): they get a sixteenth of it, and need 8 MiB\n");
}

static void refuse_light(void)
{
	const struct scmp_arg_cmp install[] = {SCMP_A2(SCMP_CMP_EQ, GUARD_INSTALL, 0)};

	refuse_where(SCMP_SYS(madvise), EINVAL, 1, install);
}

static void no_light_guards(void)
{
	refuse_light();
	some_are_guarded();
}

static void freed_faults(void)
{
	struct kmem_cache *s = kmem_cache_create("faults", 64, NULL, 0);
	volatile char *object;

	refuse_light();
	object = kmem_cache_alloc(s, GFP_KERNEL);
	*object = 1;
	kmem_cache_free(s, (void *)(uintptr_t)object);
	*object = 1;
}

static void refuse_all(void)
{
	/* Only the calls that make an object's pages accessible. */
	const struct scmp_arg_cmp open[] = {SCMP_A2(SCMP_CMP_EQ, PROT_READ | PROT_WRITE, 0),
					    SCMP_A1(SCMP_CMP_EQ, 3 * 4096, 0)};

	refuse_light();
	refuse_where(SCMP_SYS(mprotect), ENOMEM, 2, open);
	none_is_guarded();
}

static void refused(void **state)
{
	(void)state;
	/* Changes of protection, of which only a few can exist at the same time. */
	silent("slab_debug=G", no_light_guards, "the system refuses more guard pages");
	silent("slab_debug=G", refuse_all, "the system refuses more guard pages");
	capture_begin(&captured);
	assert_int_equal(in_child(freed_faults), SIGSEGV);
	capture_end(&captured);
	assert_non_null(strstr(captured.text, "BUG faults: Use after free"));
}

static void close_refused(void)
{
	struct kmem_cache *s = kmem_cache_create("open", 64, NULL, 0);
	void *object = kmem_cache_alloc(s, GFP_KERNEL);
	const struct scmp_arg_cmp nothing[] = {SCMP_A2(SCMP_CMP_EQ, PROT_NONE, 0)};

	CHECK(is_guarded(object));
	refuse_light();
	refuse_where(SCMP_SYS(mprotect), ENOMEM, 1, nothing);
	kmem_cache_free(s, object);
	/* Its pages stay accessible, so no object gets them any more. */
	for (int i = 0; i < 1000; i++)
		CHECK(kmem_cache_alloc(s, GFP_KERNEL) != object);
}

static void stays_open(void **state)
{
	(void)state;
	silent("slab_debug=G", close_refused, "the system refuses to close guard pages");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(room),		  cmocka_unit_test(no_chunk_is_lost),
		cmocka_unit_test(address_limits), cmocka_unit_test(refused),
		cmocka_unit_test(stays_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
