/* SPDX-License-Identifier: MIT */
/*
 * Out of memory: NULL, nothing is lost, and allocation continues once something was freed.
 *
 * Each test runs in a new image of this program, under a limit on its addresses (ulimit -v), so
 * that the library meets the limit when it reserves its ranges; or under a limit that lets its data
 * grow no more.
 */
#include <sheaf/slab.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/clock.h"
#include "kit/hooks.h"
#include "kit/parts.h"
#include "kit/process.h"
#include "kit/unit.h"

enum {
	MAX_OBJECTS = 1 << 20,
	SIZE = 256,
	SMALL = 40 /* more than 64 a slab */
};

static void **objects;
static size_t nr_objects;

static void allocate_all(struct kmem_cache *s, gfp_t flags)
{
	void *object;

	while (nr_objects < MAX_OBJECTS && (object = kmem_cache_alloc(s, flags)) != NULL) {
		memset(object, 0x11, kmem_cache_size(s));
		objects[nr_objects++] = object;
	}
	CHECK(nr_objects < MAX_OBJECTS);
}

static void free_down_to(struct kmem_cache *s, size_t n)
{
	for (; nr_objects > n; nr_objects--)
		kmem_cache_free(s, objects[nr_objects - 1]);
}

/* Allocate until NULL, with both kinds of flags; then free half and allocate it again. */
static void fill_and_empty(struct kmem_cache *s)
{
	size_t most, again;

	allocate_all(s, GFP_NOWAIT);
	CHECK(nr_objects > 1000);
	allocate_all(s, GFP_KERNEL);
	most = nr_objects;
	CHECK(kmem_cache_verify(s) <= 0);
	free_down_to(s, most / 2);
	CHECK(kmem_cache_verify(s) <= 0);
	allocate_all(s, GFP_KERNEL);
	again = nr_objects;
	CHECK(again >= most - most / 50);
	free_down_to(s, 0);
	CHECK(kmem_cache_verify(s) == 0);
	CHECK(kmem_cache_shrink(s) == 0);
}

static void one_cache(void)
{
	struct kmem_cache *s = kmem_cache_create("oom", SIZE, NULL, SLAB_NO_MERGE);

	CHECK(s);
	for (int round = 0; round < 3; round++)
		fill_and_empty(s);
	kmem_cache_destroy(s);
}

/* The table of words has room for every page of a range that is as small as the limit makes it. */
static void words_of_bits(void)
{
	/* A checked cache has fewer objects in a slab. */
	struct kmem_cache *s =
		kmem_cache_create("oom-words", SMALL, NULL, SLAB_NO_MERGE | SLAB_NO_USER_FLAGS);

	CHECK(s);
	CHECK(hook_reserved() <= (size_t)64 << 20);
	CHECK(look(s).objs_per_slab > 64);
	allocate_all(s, GFP_KERNEL);
	CHECK(nr_objects * look(s).slab_size > hook_reserved() / 10 * 9);
	free_down_to(s, 0);
	fill_and_empty(s);
	kmem_cache_destroy(s);
}

/* Memory of one cache can be used for another. */
static void memory_moves_between_caches(void)
{
	struct kmem_cache *a = kmem_cache_create("oom-a", SIZE, NULL, SLAB_NO_MERGE);
	struct kmem_cache *b = kmem_cache_create("oom-b", 2 * SIZE, NULL, SLAB_NO_MERGE);
	size_t of_a, of_b;

	CHECK(a && b);
	allocate_all(a, GFP_KERNEL);
	of_a = nr_objects;
	free_down_to(a, 0);
	CHECK(kmem_cache_shrink(a) == 0);
	allocate_all(b, GFP_KERNEL);
	of_b = nr_objects;
	CHECK(of_b > of_a / 2 - of_a / 10);
	free_down_to(b, 0);
	CHECK(kmem_cache_shrink(b) == 0);
	CHECK(kmem_cache_verify(b) == 0);
}

static void bulk_is_all_or_nothing(void)
{
	struct kmem_cache *s = kmem_cache_create("oom-bulk", SIZE, NULL, SLAB_NO_MERGE);
	void *p[500];
	size_t left;

	CHECK(s);
	pin((unsigned int)sched_getcpu()); /* The slot of another CPU would take memory. */
	/* The first time, sheaves take some of what is freed. */
	for (int i = 0; i < 2; i++) {
		allocate_all(s, GFP_KERNEL);
		free_down_to(s, nr_objects - 400);
	}
	left = nr_objects;
	CHECK(kmem_cache_alloc_bulk(s, GFP_NOWAIT, 500, p) == 0);
	CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, 500, p) == 0);
	CHECK(kmem_cache_verify(s) <= 0);
	allocate_all(s, GFP_KERNEL);
	CHECK(nr_objects >= left + 400);
	free_down_to(s, 0);
	CHECK(kmem_cache_shrink(s) == 0);
}

/* A refill must not be reserved for callers that may sleep: pools clear direct reclaim. */
static void refill_without_sleeping(void)
{
	struct kmem_cache *s = kmem_cache_create("nowait", SIZE, NULL, SLAB_NO_MERGE);
	void *object = kmem_cache_alloc(s, GFP_NOWAIT);

	CHECK(object);
	CHECK(look(s).objects_in_sheaves + 1 >= look(s).sheaf_capacity);
	kmem_cache_free(s, object);
	kmem_cache_destroy(s);
}

static void free_elsewhere(struct kmem_cache *s)
{
	pin((unsigned int)sysconf(_SC_NPROCESSORS_CONF) - 1);
	free_down_to(s, nr_objects - 1);
	pin(0);
}

/* Only a reclaim can reach this object: flags of 0 find it if and only if GFP_NOWAIT does. */
static void no_flags_are_nowait(void)
{
	struct kmem_cache *s = kmem_cache_create("no-flags", SIZE, NULL, SLAB_NO_MERGE);
	static const gfp_t flags[] = {GFP_NOWAIT, 0, GFP_KERNEL};
	void *object[3];
	bool found[3];

	CHECK(s);
	allocate_all(s, GFP_KERNEL);
	for (int i = 0; i < 3; i++) {
		free_elsewhere(s);
		object[i] = kmem_cache_alloc(s, flags[i]);
		found[i] = object[i] != NULL;
		allocate_all(s, GFP_KERNEL);
	}
	CHECK(found[0] == found[1] && found[2]);
}

/* If a cache cannot be made, the call returns NULL and does not crash; the caches that were made
 * work. */
static void many_caches(void)
{
	static struct kmem_cache *caches_made[4000];
	unsigned int n = 0;

	while (n < 4000 &&
	       (caches_made[n] = kmem_cache_create("one-of-many", 64, NULL, SLAB_NO_MERGE)) != NULL)
		n++;
	CHECK(n > 100);
	for (unsigned int i = 0; i < n; i++) {
		void *object = kmem_cache_alloc(caches_made[i], GFP_KERNEL);

		CHECK(object || i > 10);
		kmem_cache_free(caches_made[i], object);
	}
	while (n)
		kmem_cache_destroy(caches_made[--n]);
}

static void no_more_data(void)
{
	struct kmem_cache *s = kmem_cache_create("data", SIZE, NULL, SLAB_NO_MERGE);

	allocate_all(s, GFP_KERNEL_ACCOUNT | __GFP_NORETRY);
	free_down_to(s, 0);
}

static const struct part parts[] = {
	{"one-cache", one_cache},
	{"words", words_of_bits},
	{"moves", memory_moves_between_caches},
	{"bulk", bulk_is_all_or_nothing},
	{"nowait", refill_without_sleeping},
	{"no-flags", no_flags_are_nowait},
	{"caches", many_caches},
	{"data", no_more_data},
};

/* Run the whole program under a limit on its addresses, in bytes. */
static int run_limited(const char *name, rlim_t bytes)
{
	struct rlimit limit = {bytes, bytes};
	pid_t child = fork();
	int status = -1;

	if (child == 0) {
		setrlimit(RLIMIT_AS, &limit);
		start_again(name);
	}
	waitpid(child, &status, 0);
	return status;
}

static void under_ulimit(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		static struct capture captured;
		int status;

		capture_begin(&captured);
		status = run_limited(parts[i].name, (rlim_t)64 << 20);
		capture_end(&captured);
		if (status)
			print_error("%s under ulimit -v 65536: status %#x\n%s", parts[i].name,
				    (unsigned int)status, captured.text);
		assert_int_equal(status, 0);
	}
}

static void under_other_limits(void **state)
{
	(void)state;
	assert_int_equal(run_limited("one-cache", (rlim_t)48 << 20), 0);
	assert_int_equal(run_limited("words", (rlim_t)48 << 20), 0);
	assert_int_equal(run_limited("one-cache", (rlim_t)200 << 20), 0);
}

/* Under a limit that leaves no room for the smallest range, creation fails with one line. */
static void no_address_space(void **state)
{
	static struct capture captured;

	(void)state;
	capture_begin(&captured);
	assert_int_equal(run_limited("no-cache", RLIM_INFINITY), 0);
	capture_end(&captured);
	assert_non_null(
		strstr(captured.text, "limit of addresses, 1024 KiB. Raise it (ulimit -v)"));
}

/* The program has more already, so nothing can be mapped. */
static int no_cache(void)
{
	struct rlimit limit = {1 << 20, 1 << 20};

	CHECK(!setrlimit(RLIMIT_AS, &limit));
	return kmem_cache_create("none", 64, NULL, 0) != NULL;
}

static int run(const char *name)
{
	size_t bytes = MAX_OBJECTS * sizeof(void *);

	if (!strcmp(name, "no-cache"))
		return no_cache();
	objects = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(objects != MAP_FAILED);
	return run_part(parts, sizeof(parts) / sizeof(parts[0]), name);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(under_ulimit),
		cmocka_unit_test(under_other_limits),
		cmocka_unit_test(no_address_space),
	};

	clock_stands = true; /* or the sheaves of idle CPUs are emptied */
	if (argc > 1)
		return run(argv[1]);
	return cmocka_run_group_tests_name("oom", tests, NULL, NULL);
}
