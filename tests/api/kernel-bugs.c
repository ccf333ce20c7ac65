/* SPDX-License-Identifier: MIT */
/* Bugs that the kernel's allocator has had, one test each. */
#include <errno.h>
#include <pthread.h>
#include <sheaf/mempool.h>
#include <sheaf/slab.h>
#include <stdint.h>
#include <string.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/clock.h"
#include "kit/hooks.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/unit.h"

static struct capture captured;

static void all_is_there(struct kmem_cache *s)
{
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(kmem_cache_shrink(s), 0);
	kmem_cache_destroy(s);
}

static int stop_churning;

static void *churn(void *cache)
{
	void *p[100];

	while (!__atomic_load_n(&stop_churning, __ATOMIC_RELAXED)) {
		for (int i = 0; i < 100; i++)
			p[i] = kmem_cache_alloc(cache, GFP_KERNEL);
		for (int i = 0; i < 100; i++)
			kmem_cache_free(cache, p[i]);
	}
	return NULL;
}

/* A flush while other threads use the cache: no object that was freed before may be left in a
 * sheaf. */
static void flush_beside_others(void **state)
{
	struct kmem_cache *s = make("flush-beside", 64, 0);
	pthread_t thread;
	void *p[400];

	(void)state;
	stop_churning = 0;
	pthread_create(&thread, NULL, churn, s);
	for (int round = 0; round < 100; round++) {
		assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 400, p), 400);
		kmem_cache_free_bulk(s, 400, p);
		kmem_cache_shrink(s);
	}
	__atomic_store_n(&stop_churning, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	all_is_there(s);
}

static struct {
	struct kmem_cache *s;
	void *object; /* NULL ends the thread */
	pthread_barrier_t both;
} race;

static void *free_it_too(void *unused)
{
	for (;;) {
		pthread_barrier_wait(&race.both);
		if (!race.object)
			return unused;
		kmem_cache_free(race.s, race.object);
		pthread_barrier_wait(&race.both);
	}
}

/* If two threads free a slab's last objects at the same time, the slab must not be counted twice.
 */
static void double_free_by_two_threads(void **state)
{
	struct kmem_cache *s = make("double-race", 1024, SLAB_NO_SHEAVES);
	pthread_t thread;

	(void)state;
	race.s = s;
	pthread_barrier_init(&race.both, NULL, 2);
	pthread_create(&thread, NULL, free_it_too, NULL);
	capture_begin(&captured);
	for (int round = 0; round < 4000; round++) {
		uint32_t before = hook_reports();

		race.object = kmem_cache_alloc(s, GFP_KERNEL);
		assert_non_null(race.object);
		pthread_barrier_wait(&race.both);
		kmem_cache_free(s, race.object);
		pthread_barrier_wait(&race.both);
		assert_int_equal(hook_reports(), before + 1);
		assert_int_equal(kmem_cache_verify(s), 0);
	}
	capture_end(&captured);
	race.object = NULL;
	pthread_barrier_wait(&race.both);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&race.both);
	all_is_there(s);
}

/* Callers without direct reclaim never refilled a sheaf, and starved. */
static void refill_without_direct_reclaim(void **state)
{
	static const gfp_t flags[] = {GFP_NOWAIT, GFP_ATOMIC, GFP_KERNEL & ~__GFP_DIRECT_RECLAIM,
				      GFP_KERNEL | __GFP_NORETRY};

	(void)state;
	needs(NEED_SHEAVES);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		struct kmem_cache *s = make("nowait", 64, 0);
		void *object = kmem_cache_alloc(s, flags[i]);

		assert_non_null(object);
		assert_true(look(s).objects_in_sheaves >= look(s).sheaf_capacity - 1);
		kmem_cache_free(s, object);
		all_is_there(s);
	}
}

/* A memory pool's first try may not reclaim: still, it must not use the reserve. */
static void mempool_refills_sheaves(void **state)
{
	void *p[10], *reserve[2];
	struct kmem_cache *s;
	mempool_t *pool;

	(void)state;
	needs(NEED_SHEAVES);
	s = make("pooled", 64, 0);
	pool = mempool_create_slab_pool(2, s);
	assert_non_null(pool);
	assert_int_equal(kmem_cache_shrink(s), 1);
	for (int i = 0; i < 10; i++)
		assert_non_null(p[i] = mempool_alloc(pool, i % 2 ? GFP_KERNEL : GFP_NOWAIT));
	assert_true(look(s).objects_in_sheaves >= look(s).sheaf_capacity - 10);
	for (int i = 0; i < 2; i++)
		assert_non_null(reserve[i] = mempool_alloc_preallocated(pool));
	for (int i = 0; i < 2; i++)
		mempool_free(reserve[i], pool);
	for (int i = 0; i < 10; i++)
		mempool_free(p[i], pool);
	mempool_destroy(pool);
	all_is_there(s);
}

static void *migrate(void *cache)
{
	uint64_t seed = (uintptr_t)&cache;
	void *p[200] = {NULL};

	for (int i = 0; i < 20000; i++) {
		unsigned int at = random_below(&seed, 200);

		if (i % 4 == 0)
			pin(random_below(&seed, library().cpus));
		if (p[at])
			p[at] = (kmem_cache_free(cache, p[at]), NULL);
		else
			p[at] = kmem_cache_alloc(cache, GFP_KERNEL);
	}
	kmem_cache_free_bulk(cache, 200, p);
	return NULL;
}

/* A thread moves to another CPU between two steps of a slow path; sheaves there may be in any
 * state. */
static void migration_between_steps(void **state)
{
	struct kmem_cache *s = make("migration", 64, 0);
	pthread_t threads[3];

	(void)state;
	assert_int_equal(kmem_cache_set_sheaf_capacity(s, 2),
			 look(s).sheaf_capacity ? 0 : -ENOTSUP);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, migrate, s);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	all_is_there(s);
}

/* Some callers compare the result with the count, others only test it for truth. */
static void bulk_returns_the_count(void **state)
{
	struct kmem_cache *s = make("count", 64, 0);
	void *p[17];
	int got = kmem_cache_alloc_bulk(s, GFP_KERNEL, 17, p);

	(void)state;
	assert_int_equal(got, 17);
	assert_false(!got);
	kmem_cache_free_bulk(s, 17, p);
	/* With objects and room in main: an array of none is not touched. */
	memset(p, 0x5a, sizeof(p));
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 0, p + 8), 0);
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL | __GFP_ZERO, 0, p + 8), 0);
	kmem_cache_free_bulk(s, 0, p + 8);
	for (size_t i = 0; i < sizeof(p); i++)
		assert_int_equal(((unsigned char *)p)[i], 0x5a);
	all_is_there(s);
}

/* Programs free to a cache that they never created. */
static void free_without_a_cache(void **state)
{
	struct kmem_cache *none = NULL;
	char *block = kmalloc(32, 0);

	(void)state;
	assert_non_null(block);
	capture_begin(&captured);
	kmem_cache_free(none, NULL);
	assert_int_equal(capture_end_deferred(&captured), 0);
	capture_begin(&captured);
	kmem_cache_free(none, block);
	assert_int_equal(capture_end_deferred(&captured), 1);
	assert_non_null(strstr(captured.text, "kmem_cache_free(NULL, "));
	memset(block, 1, 32);
	kfree(block);
}

/* The documented alignment, whatever the sizes of the caches. */
static void blocks_are_aligned(void **state)
{
	(void)state;
	for (size_t size = 1; size <= 3 * 8192; size += size < 600 ? 1 : 97) {
		size_t align = size & (size - 1) ? size < 16 ? 8 : 16 : size < 8 ? 8 : size;
		void *blocks[3];

		for (int i = 0; i < 3; i++) {
			blocks[i] = kmalloc(size, GFP_NOWAIT);
			assert_non_null(blocks[i]);
			assert_int_equal((uintptr_t)blocks[i] % align, 0);
		}
		for (int i = 0; i < 3; i++)
			kfree(blocks[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flush_beside_others),
		cmocka_unit_test(double_free_by_two_threads),
		cmocka_unit_test(refill_without_direct_reclaim),
		cmocka_unit_test(mempool_refills_sheaves),
		cmocka_unit_test(migration_between_steps),
		cmocka_unit_test(bulk_returns_the_count),
		cmocka_unit_test(free_without_a_cache),
		cmocka_unit_test(blocks_are_aligned),
	};

	clock_stands = true; /* or the sheaves of idle CPUs are emptied */
	return cmocka_run_group_tests_name("kernel-bugs", tests, NULL, NULL);
}
