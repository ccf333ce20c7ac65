/* SPDX-License-Identifier: MIT */
/*
 * Threads in the middle of slow calls when the process begins to track objects: at the first group,
 * and at the first cache of secrets. They notice it sooner or later, and no object is lost. In a
 * build with the thread sanitizer, this shows that each reads the word by itself.
 */
#include <pthread.h>
#include <sched.h>
#include <sheaf/group.h>
#include <sheaf/mempool.h>

#include "kit/cache.h"
#include "kit/unit.h"

enum {
	THREADS = 2,
	BULK = 8,
	ROUNDS = 64
};

static struct kmem_cache *s;
static mempool_t *pool;
static uint32_t rounds[THREADS], stop;

static void all_calls(void)
{
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 4);
	void *objects[BULK], *element = mempool_alloc(pool, GFP_KERNEL);

	kmem_cache_free(s, kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf));
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	for (unsigned int n = 1; n <= BULK; n++) {
		assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, n, objects), n);
		kmem_cache_free_bulk(s, n, objects);
	}
	kmem_cache_free(s, kmem_cache_alloc_nolock(s, 0));
	kmem_cache_free(s, kmem_cache_alloc_node(s, GFP_KERNEL, 0));
	mempool_free(element, pool);
}

static void *run(void *number)
{
	do {
		all_calls();
		__atomic_fetch_add(&rounds[(uintptr_t)number], 1, __ATOMIC_RELAXED);
	} while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE));
	return NULL;
}

static void let_all_run(void)
{
	uint32_t from[THREADS];

	for (int i = 0; i < THREADS; i++)
		from[i] = __atomic_load_n(&rounds[i], __ATOMIC_ACQUIRE);
	for (int i = 0; i < THREADS; i++)
		while (__atomic_load_n(&rounds[i], __ATOMIC_ACQUIRE) - from[i] < ROUNDS)
			sched_yield();
}

static uint64_t bytes(struct kmem_group *g)
{
	struct kmem_group_stats stats;

	assert_int_equal(kmem_group_stats(g, &stats), 0);
	return stats.bytes;
}

static void each_call_may_be_under_way(void **state)
{
	struct kmem_cache *secret, *charged = make("charged", 104, SLAB_ACCOUNT);
	pthread_t threads[THREADS];
	struct kmem_group *g;
	void *object;

	(void)state;
	s = make("watched", 104, 0);
	pool = mempool_create_slab_pool(2, s);
	assert_non_null(pool);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run, (void *)i), 0);
	let_all_run();
	secret = make("secret", 64, SLAB_SECRET);
	let_all_run();
	g = kmem_group_create("first", NULL, NULL);
	let_all_run();
	/* As each call of one object does. */
	kmem_group_restore_current(kmem_group_get(g));
	for (unsigned int i = 0; i < 2; i++) {
		struct kmem_cache *of = i ? s : charged;
		gfp_t flags = i ? GFP_KERNEL_ACCOUNT : GFP_KERNEL;

		assert_int_equal(kmem_cache_alloc_bulk(of, flags, 1, &object), 1);
		assert_int_equal(bytes(g), look(of).slab_size);
		kmem_cache_free_bulk(of, 1, &object);
		assert_int_equal(bytes(g), 0);
	}
	kmem_group_restore_current(NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	mempool_destroy(pool);
	assert_true(all_freed(s) && all_freed(charged));
	assert_int_equal(kmem_cache_verify(s) + kmem_group_verify(), 0);
	kmem_group_put(g);
	kmem_cache_destroy(s);
	kmem_cache_destroy(secret);
	kmem_cache_destroy(charged);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_may_be_under_way),
	};

	return cmocka_run_group_tests_name("watching", tests, NULL, NULL);
}
