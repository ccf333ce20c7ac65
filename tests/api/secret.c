/* SPDX-License-Identifier: MIT */
/*
 * Caches of secrets (SLAB_SECRET): their slabs are locked in memory and left out of core dumps,
 * objects are cleared, and a process that may not lock memory gets a report.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sheaf/kmalloc.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <sheaf/trim.h>

#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/process.h"
#include "kit/sanitizers.h"
#include "kit/unit.h"

enum {
	SIZE = 96,
	MANY = 500,
	NOBODY = 65534
};

/* The runtimes of these sanitizers lock no memory. */
#if HAS_ASAN || HAS_TSAN
#define LOCKS false
#else
#define LOCKS true
#endif

static struct kmem_cache *s;
static unsigned char *objects[MANY];

/* As if memory were short: some pages are locked, but the call fails. */
static struct {
	bool fails;
	const void *address;
} locking;

int mlock(const void *address, size_t size)
{
	int failed = LOCKS ? (int)syscall(SYS_mlock, address, size) : 0;

	if (!locking.fails)
		return failed;
	locking.address = address;
	errno = ENOMEM;
	return -1;
}

/* Does the mapping with this address have both flags? lo: locked, dd: not in core dumps. */
static bool has_flags(const void *address, const char *one, const char *other)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	unsigned long begin, end;
	bool here = false, has = false;
	char line[512];

	CHECK(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
			here = (uintptr_t)address - begin < end - begin;
		if (here && !strncmp(line, "VmFlags:", 8))
			has = strstr(line, one) && strstr(line, other);
	}
	fclose(maps);
	return has;
}

static bool is_hidden(const void *address)
{
	return has_flags(address, " dd", " lo");
}

static bool is_clear(const unsigned char *object)
{
	static const unsigned char none[SIZE];

	return !memcmp(object, none, SIZE);
}

static void take_all(void)
{
	/* Pages that other caches used before are not clear. */
	sheaf_trim(0);
	for (unsigned int i = 0; i < MANY; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		assert_non_null(objects[i]);
		assert_true(is_clear(objects[i]));
		memset(objects[i], 0x5a, SIZE);
	}
}

static void slabs_are_locked_and_not_dumped(void **state)
{
	struct kmem_cache *other = make("public", SIZE, 0);
	void *shown = kmem_cache_alloc(other, GFP_KERNEL);

	(void)state;
	assert_ptr_not_equal(s, other);
	take_all();
	for (unsigned int i = 0; LOCKS && i < MANY; i += 50)
		assert_true(is_hidden(objects[i]));
	assert_false(is_hidden(shown));
	kmem_cache_free(other, shown);
	kmem_cache_destroy(other);
	kmem_cache_free_bulk(s, MANY, (void **)objects);
}

static void objects_are_cleared(void **state)
{
	void *first, *retired;

	(void)state;
	take_all();
	for (unsigned int i = 0; i < MANY; i += 2) {
		kmem_cache_free(s, objects[i]);
		assert_true(is_clear(objects[i]));
	}
	first = objects[1];
	kmem_cache_free_bulk(s, 1, &first);
	assert_true(is_clear(first));
	for (unsigned int i = 3; i < MANY; i += 2)
		kmem_cache_free(s, objects[i]);
	assert_int_equal(kmem_cache_verify(s), 0);

	retired = kmem_cache_alloc(s, GFP_KERNEL);
	memset(retired, 0x5a, SIZE);
	kmem_cache_free_rcu(s, retired);
	assert_false(is_clear(retired)); /* a reader may look at it */
	kvfree_rcu_barrier();
	assert_true(is_clear(retired));
}

/* Pages that have gone to the system read as zero, others were cleared. */
static void pages_go_back_clear(void **state)
{
	(void)state;
	take_all();
	kmem_cache_free_bulk(s, MANY, (void **)objects);
	kmem_cache_shrink(s);
	for (unsigned int i = 0; i < MANY; i++) {
		assert_true(is_clear(objects[i]));
		assert_false(LOCKS && i % 50 == 0 && is_hidden(objects[i]));
	}
}

static void ctor(void *object)
{
	(void)object;
}

static void what_contradicts_is_refused(void **state)
{
	struct kmem_cache_args args = {.ctor = ctor};
	struct capture captured;

	(void)state;
	capture_begin(&captured);
	assert_null(kmem_cache_create("a", SIZE, &args, SLAB_SECRET));
	assert_null(kmem_cache_create("b", SIZE, NULL, SLAB_SECRET | SLAB_TYPESAFE_BY_RCU));
	assert_null(kmem_cache_create("c", SIZE, NULL, SLAB_SECRET | SLAB_POISON));
	assert_null(kmem_buckets_create("d", SLAB_SECRET, 0, 0, NULL));
	assert_int_equal(capture_end(&captured), 4);
	assert_non_null(strstr(captured.text, "SLAB_SECRET clears objects"));
}

/* kmalloc's memory is not locked. */
static void no_secret_moves_to_another_cache(void **state)
{
	unsigned char *object = kmem_cache_alloc(s, GFP_KERNEL);
	struct capture captured;

	(void)state;
	assert_non_null(object);
	memset(object, 0x5a, SIZE);
	assert_ptr_equal(krealloc(object, 1, GFP_KERNEL), object);
	assert_ptr_equal(krealloc(object, SIZE, GFP_KERNEL), object);
	capture_begin(&captured);
	assert_null(krealloc(object, SIZE + 1, GFP_KERNEL));
	assert_null(kvrealloc(object, 3 << 20, GFP_KERNEL));
	assert_int_equal(capture_end(&captured), 2);
	assert_non_null(strstr(captured.text, "\"secrets\" with SLAB_SECRET"));
	assert_int_equal(object[SIZE - 1], 0x5a);
	kmem_cache_free(s, object);
}

static void fails_halfway(void)
{
	struct capture captured;

	take_all();
	capture_begin(&captured);
	locking.fails = true;
	while (kmem_cache_alloc(s, GFP_KERNEL))
		;
	CHECK(capture_end(&captured) == 1);
	CHECK(locking.address && !has_flags(locking.address, " dd", "") &&
	      !has_flags(locking.address, " lo", ""));
	locking.fails = false;
	CHECK(is_hidden(kmem_cache_alloc(s, GFP_KERNEL)));
}

static void nothing_stays_locked_after_a_failure(void **state)
{
	(void)state;
	if (!LOCKS)
		skip();
	assert_int_equal(in_child(fails_halfway), 0);
}

static void may_not_lock(void)
{
	struct rlimit none = {0, 0};
	struct capture captured;

	take_all();
	CHECK(setrlimit(RLIMIT_MEMLOCK, &none) == 0);
	CHECK(getuid() || setuid(NOBODY) == 0);
	capture_begin(&captured);
	for (unsigned int i = 0; i < 2; i++) {
		while (kmem_cache_alloc(s, GFP_KERNEL))
			;
	}
	CHECK(capture_end(&captured) == 1);
	CHECK(strstr(captured.text, "secrets: the system refused to lock a slab"));
	CHECK(strstr(captured.text, "ulimit -l"));
	/* Existing objects stay usable. */
	kmem_cache_free(s, objects[0]);
	CHECK(kmem_cache_alloc(s, GFP_KERNEL) == objects[0]);
}

static void who_may_not_lock_is_reported_once(void **state)
{
	(void)state;
	if (!LOCKS)
		skip();
	assert_int_equal(in_child(may_not_lock), 0);
}

static int set_up(void **state)
{
	(void)state;
	pin((unsigned int)sched_getcpu());
	sheaf_rcu_register(&by_hand_ops);
	s = make("secrets", SIZE, SLAB_SECRET);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kmem_cache_destroy(s);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slabs_are_locked_and_not_dumped),
		cmocka_unit_test(objects_are_cleared),
		cmocka_unit_test(pages_go_back_clear),
		cmocka_unit_test(what_contradicts_is_refused),
		cmocka_unit_test(no_secret_moves_to_another_cache),
		cmocka_unit_test(nothing_stays_locked_after_a_failure),
		cmocka_unit_test(who_may_not_lock_is_reported_once),
	};

	return cmocka_run_group_tests_name("secret", tests, set_up, tear_down);
}
