/* SPDX-License-Identifier: MIT */
/* Memory pools: the reserve is used last and filled first, and no thread sleeps while there is an
 * element. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sheaf/mempool.h>
#include <sheaf/stats.h>
#include <stdint.h>
#include <string.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/unit.h"

enum {
	ELEMENTS = 16,
	THREADS = 6,
	ROUNDS = 20000
};

/* An allocator of a few elements that refuses on request, and checks its callers. */
static struct {
	int refuse;
	int refuse_calls; /* refuse this many of the next calls */
	int nr_alloc, nr_free;
	gfp_t gfp;
	int used[ELEMENTS];
	long elements[ELEMENTS];
} few;

static struct capture captured;

static void *few_alloc(gfp_t gfp, void *data)
{
	assert_ptr_equal(data, &few);
	__atomic_store_n(&few.gfp, gfp, __ATOMIC_RELAXED);
	if (few.refuse_calls && few.refuse_calls--)
		return NULL;
	for (int i = 0; i < ELEMENTS && !__atomic_load_n(&few.refuse, __ATOMIC_RELAXED); i++)
		if (!__atomic_exchange_n(&few.used[i], 1, __ATOMIC_ACQ_REL)) {
			__atomic_fetch_add(&few.nr_alloc, 1, __ATOMIC_RELAXED);
			return &few.elements[i];
		}
	return NULL;
}

static void few_free(void *element, void *data)
{
	long i = (long *)element - few.elements;

	CHECK(data == &few && i >= 0 && i < ELEMENTS);
	CHECK(__atomic_load_n(&few.used[i], __ATOMIC_RELAXED));
	__atomic_fetch_add(&few.nr_free, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&few.used[i], 0, __ATOMIC_RELEASE);
}

static mempool_t *make_pool(int min_nr)
{
	mempool_t *pool = mempool_create(min_nr, few_alloc, few_free, &few);

	assert_non_null(pool);
	assert_int_equal(few.nr_alloc - few.nr_free, min_nr);
	return pool;
}

static int reset(void **state)
{
	(void)state;
	memset(&few, 0, sizeof(few));
	return 0;
}

static void nothing_is_out(void)
{
	assert_int_equal(few.nr_alloc, few.nr_free);
}

static void reserve_is_the_last_resort(void **state)
{
	mempool_t *pool = make_pool(3);
	void *p[5];

	(void)state;
	for (int i = 0; i < 2; i++)
		p[i] = mempool_alloc(pool, GFP_KERNEL);
	assert_int_equal(few.nr_alloc, 5);
	assert_true(few.gfp & __GFP_NORETRY);
	assert_false(few.gfp & __GFP_DIRECT_RECLAIM);
	few.refuse = 1;
	for (int i = 2; i < 5; i++)
		assert_non_null(p[i] = mempool_alloc(pool, GFP_KERNEL));
	assert_null(mempool_alloc(pool, GFP_NOWAIT));
	assert_null(mempool_alloc_preallocated(pool));
	/* The reserve is filled before elements return to the allocator. */
	for (int i = 0; i < 5; i++) {
		mempool_free(p[i], pool);
		assert_int_equal(few.nr_free, i < 3 ? 0 : i - 2);
	}
	mempool_destroy(pool);
	nothing_is_out();
}

static void preallocated_only(void **state)
{
	mempool_t *pool = make_pool(2);
	void *a = mempool_alloc_preallocated(pool), *b = mempool_alloc_preallocated(pool);

	(void)state;
	assert_true(a && b && a != b);
	assert_null(mempool_alloc_preallocated(pool));
	assert_int_equal(few.nr_alloc, 2);
	mempool_free(b, pool);
	assert_ptr_equal(mempool_alloc_preallocated(pool), b);
	mempool_free(a, pool);
	mempool_free(b, pool);
	mempool_free(NULL, pool);
	mempool_destroy(pool);
	nothing_is_out();
}

static void resized(void **state)
{
	mempool_t *pool = make_pool(2);
	void *p[ELEMENTS + 1];
	int n = 0;

	(void)state;
	assert_int_equal(mempool_resize(pool, 8), 0);
	assert_int_equal(few.nr_alloc - few.nr_free, 8);
	assert_int_equal(mempool_resize(pool, 3), 0);
	assert_int_equal(few.nr_alloc - few.nr_free, 3);
	assert_int_equal(mempool_resize(pool, 6), 0);
	assert_int_equal(few.nr_alloc - few.nr_free, 6);
	assert_int_equal(mempool_resize(pool, ELEMENTS + 1), -ENOMEM);
	/* The pool keeps the elements that it lacked when they are freed. */
	while ((p[n] = mempool_alloc_preallocated(pool)) != NULL)
		n++;
	assert_int_equal(n, ELEMENTS);
	while (n)
		mempool_free(p[--n], pool);
	assert_int_equal(few.nr_free, few.nr_alloc - ELEMENTS);
	mempool_destroy(pool);
	nothing_is_out();
}

static size_t used_bytes(void)
{
	struct sheaf_stats stats;

	sheaf_stats(&stats);
	return stats.used_bytes;
}

/* Of many elements: a block of 2 MiB. There are not so many elements. */
static void its_array_gives_its_pages_back(void **state)
{
	size_t before;

	(void)state;
	assert_null(mempool_create(ELEMENTS + 1, few_alloc, few_free, &few));
	before = used_bytes();
	assert_null(mempool_create(200000, few_alloc, few_free, &few));
	assert_true(used_bytes() < before + (1 << 20));
	nothing_is_out();
}

static void resized_again_after_no_memory(void **state)
{
	mempool_t *pool = make_pool(2);

	(void)state;
	few.refuse = 1;
	assert_int_equal(mempool_resize(pool, 8), -ENOMEM);
	assert_int_equal(mempool_resize(pool, 8), -ENOMEM);
	few.refuse = 0;
	assert_int_equal(mempool_resize(pool, 8), 0);
	assert_int_equal(few.nr_alloc - few.nr_free, 8);
	mempool_destroy(pool);
	nothing_is_out();
}

static void misuse(void **state)
{
	mempool_t *pool = make_pool(1), own;

	(void)state;
	capture_begin(&captured);
	assert_null(mempool_create(-5, few_alloc, few_free, &few));
	assert_null(mempool_create(1, NULL, few_free, &few));
	assert_null(mempool_create(1, few_alloc, NULL, &few));
	assert_null(mempool_create_slab_pool(1, NULL));
	assert_int_equal(mempool_resize(pool, -1), -EINVAL);
	assert_int_equal(mempool_resize(pool, 1 << 20), -EINVAL);
	assert_int_equal(mempool_init(&own, -1, few_alloc, few_free, &few), -EINVAL);
	assert_int_equal(mempool_init(&own, 1, NULL, few_free, &few), -EINVAL);
	assert_int_equal(mempool_init_slab_pool(&own, 1, NULL), -EINVAL);
	assert_false(mempool_initialized(&own));
	mempool_exit(&own);
	assert_null(mempool_alloc_slab(GFP_KERNEL, NULL));
	assert_int_equal(capture_end(&captured), 10);
	capture_begin(&captured);
	for (int i = 0; i < 2; i++)
		mempool_free(mempool_alloc(pool, GFP_KERNEL | __GFP_ZERO), pool);
	assert_int_equal(capture_end(&captured), 1);
	few.refuse = 1;
	assert_null(mempool_create(1, few_alloc, few_free, &few));
	assert_int_equal(mempool_init(&own, 1, few_alloc, few_free, &few), -ENOMEM);
	assert_false(mempool_initialized(&own));
	mempool_destroy(pool);
	mempool_destroy(NULL);
	nothing_is_out();
	capture_begin(&captured);
	mempool_destroy(pool);
	assert_int_equal(mempool_resize(pool, 2), -EINVAL);
	assert_int_equal(mempool_resize(&own, 2), -EINVAL);
	assert_int_equal(capture_end(&captured), 3);
	assert_non_null(strstr(captured.text, "mempool_destroy(0x"));
	/* The library's memory was not given twice. */
	few.refuse = 0;
	mempool_destroy(make_pool(1));
	nothing_is_out();
}

/* Memory that is all zero, or anything. */
static void not_initialised(void **state)
{
	mempool_t zero = {NULL}, wrong = {(void *)&few};

	(void)state;
	capture_begin(&captured);
	assert_null(mempool_alloc(&zero, GFP_KERNEL));
	assert_null(mempool_alloc_preallocated(&zero));
	mempool_free(&few, &zero);
	assert_int_equal(mempool_resize(&zero, 2), -EINVAL);
	mempool_exit(&wrong);
	assert_int_equal(capture_end(&captured), 5);
	mempool_free(NULL, &zero);
	mempool_exit(&zero);
}

/* --- many elements ---------------------------------------------------------------------------- */

static unsigned int nr_in(mempool_t *pool)
{
	void *p[ELEMENTS];
	unsigned int n = 0;

	while ((p[n] = mempool_alloc_preallocated(pool)) != NULL)
		n++;
	assert_int_equal(mempool_free_bulk(pool, p, n), n);
	return n;
}

static void bulk_of_the_allocator_first(void **state)
{
	mempool_t *pool = make_pool(4);
	void *p[6] = {NULL};

	(void)state;
	assert_true(mempool_is_saturated(pool));
	p[2] = mempool_alloc(pool, GFP_KERNEL);
	assert_int_equal(mempool_alloc_bulk(pool, p, 4, 1), 0);
	assert_true(p[0] && p[1] && p[2] && p[3] && !p[4]);
	assert_int_equal(few.nr_alloc, 8);
	assert_true(mempool_is_saturated(pool));
	few.refuse = 1;
	assert_null(mempool_alloc_noreserve(pool, GFP_KERNEL));
	p[4] = mempool_alloc(pool, GFP_KERNEL);
	p[5] = mempool_alloc(pool, GFP_KERNEL);
	assert_false(mempool_is_saturated(pool));
	/* Those that fit go into the reserve. */
	assert_int_equal(mempool_free_bulk(pool, p, 6), 2);
	assert_true(!p[0] && !p[1] && p[2]);
	assert_true(mempool_is_saturated(pool));
	for (int i = 2; i < 6; i++)
		mempool_free(p[i], pool);
	few.refuse = 0;
	p[0] = mempool_alloc_noreserve(pool, GFP_KERNEL);
	assert_non_null(p[0]);
	assert_true(mempool_is_saturated(pool));
	mempool_free(p[0], pool);
	mempool_destroy(pool);
	nothing_is_out();
}

/* What the allocator lacks comes from the reserve. */
static void bulk_of_the_reserve(void **state)
{
	mempool_t *pool = make_pool(4);
	void *p[5] = {NULL, &few, NULL, NULL, &few};

	(void)state;
	few.refuse = 1;
	assert_int_equal(mempool_alloc_bulk(pool, p, 5, 2), 0);
	assert_true(p[0] && p[2] && p[3] && p[0] != p[2] && p[2] != p[3]);
	assert_true(p[1] == &few && p[4] == &few);
	assert_int_equal(nr_in(pool), 1);
	p[1] = p[4] = NULL;
	assert_int_equal(mempool_free_bulk(pool, p, 5), 4);
	assert_int_equal(mempool_alloc_bulk(pool, p, 0, 0), 0);
	assert_int_equal(nr_in(pool), 4);
	mempool_destroy(pool);
	nothing_is_out();
}

static void wrong_bulks(void **state)
{
	mempool_t *pool = make_pool(2), zero = {NULL};
	void *p[3] = {NULL};

	(void)state;
	capture_begin(&captured);
	assert_int_equal(mempool_alloc_bulk(pool, p, 3, 0), -EINVAL);
	assert_int_equal(mempool_alloc_bulk(&zero, p, 1, 0), -EINVAL);
	assert_int_equal(mempool_free_bulk(&zero, p, 1), 0);
	assert_false(mempool_is_saturated(&zero));
	assert_null(mempool_alloc_noreserve(&zero, GFP_KERNEL));
	assert_int_equal(capture_end(&captured), 5);
	assert_non_null(strstr(captured.text, "3 elements are missing, and the reserve has 2"));
	assert_true(!p[0] && !p[1] && !p[2]);
	assert_int_equal(few.nr_alloc, 2);
	mempool_destroy(pool);
	nothing_is_out();
}

static void *bulk_reserve[3];

static void *free_one_by_one(void *pool)
{
	pin(library().cpus - 1);
	for (int i = 0; i < 3; i++) {
		wait_until_first_sleeps();
		mempool_free(bulk_reserve[i], pool);
	}
	return NULL;
}

/* The call waits for all of them; what is there meanwhile is not taken in part. */
static void bulk_waits_for_all(void **state)
{
	mempool_t *pool = make_pool(3);
	void *p[3] = {NULL};
	pthread_t thread;

	(void)state;
	pin(0);
	few.refuse = 1;
	for (int i = 0; i < 3; i++)
		bulk_reserve[i] = mempool_alloc(pool, GFP_KERNEL);
	pthread_create(&thread, NULL, free_one_by_one, pool);
	assert_int_equal(mempool_alloc_bulk(pool, p, 3, 0), 0);
	pthread_join(thread, NULL);
	assert_true(p[0] && p[1] && p[2]);
	assert_int_equal(nr_in(pool), 0);
	assert_int_equal(mempool_free_bulk(pool, p, 3), 3);
	mempool_destroy(pool);
	nothing_is_out();
}

static mempool_t *contended;

static void *takes_many(void *number)
{
	uint64_t seed = (uintptr_t)number + 1;

	for (int i = 0; i < ROUNDS / 200; i++) {
		unsigned int n = 1 + random_below(&seed, 4);
		void *p[4] = {NULL};

		CHECK(mempool_alloc_bulk(contended, p, n, 0) == 0);
		for (unsigned int j = 0; j < n; j++)
			CHECK(p[j]);
		for (unsigned int done = mempool_free_bulk(contended, p, n); done < n; done++)
			mempool_free(p[done], contended);
		mempool_free(mempool_alloc(contended, GFP_KERNEL), contended);
	}
	return NULL;
}

/* Each wants most of the reserve, and there is nothing else: none waits forever. */
static void bulks_do_not_wait_for_each_other(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	contended = make_pool(4);
	few.refuse = 1;
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, takes_many, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(nr_in(contended), 4);
	mempool_destroy(contended);
	nothing_is_out();
}

static void *handed_over;

static void *free_later(void *pool)
{
	pin(library().cpus - 1);
	wait_until_first_sleeps();
	mempool_free(handed_over, pool);
	return NULL;
}

/* Everything is used up: the thread waits until another CPU frees. */
static void free_elsewhere_wakes(void **state)
{
	mempool_t *pool = make_pool(1);
	pthread_t thread;

	(void)state;
	pin(0);
	few.refuse = 1;
	handed_over = mempool_alloc(pool, GFP_KERNEL);
	pthread_create(&thread, NULL, free_later, pool);
	errno = 4242;
	assert_ptr_equal(mempool_alloc(pool, GFP_KERNEL), handed_over);
	assert_int_equal(errno, 4242);
	pthread_join(thread, NULL);
	mempool_free(handed_over, pool);
	mempool_destroy(pool);
	nothing_is_out();
}

/* The waiting thread may be about to try the allocator: then the element goes to the allocator, and
 * this thread takes it back. */
static void *free_until_it_waits(void *pool)
{
	int *used = &few.used[(long *)handed_over - few.elements];

	pin(library().cpus - 1);
	wait_until_first_sleeps();
	mempool_free(handed_over, pool);
	while (!__atomic_exchange_n(used, 1, __ATOMIC_ACQ_REL)) {
		few.nr_alloc++;
		wait_until_first_sleeps();
		mempool_free(handed_over, pool);
	}
	return NULL;
}

/* With min_nr 0, a freed element returns to the allocator, unless a thread waits for it. */
static void reserve_of_none(void **state)
{
	mempool_t *pool = make_pool(0);
	pthread_t thread;
	void *element;

	(void)state;
	pin(0);
	mempool_free(mempool_alloc(pool, GFP_KERNEL), pool);
	nothing_is_out();
	assert_null(mempool_alloc_preallocated(pool));
	handed_over = mempool_alloc(pool, GFP_KERNEL);
	few.refuse = 1;
	assert_null(mempool_alloc(pool, GFP_NOWAIT));
	pthread_create(&thread, NULL, free_until_it_waits, pool);
	element = mempool_alloc(pool, GFP_KERNEL);
	assert_ptr_equal(element, handed_over);
	pthread_join(thread, NULL);
	mempool_free(element, pool);
	nothing_is_out();
	few.refuse = 0;
	assert_int_equal(mempool_resize(pool, 2), 0);
	assert_int_equal(mempool_resize(pool, 0), 0);
	nothing_is_out();
	mempool_destroy(pool);
}

/* Pools in the program's own memory, initialised several times. */
static void in_ones_own_memory(void **state)
{
	struct kmem_cache *s = kmem_cache_create("pool", 256, NULL, SLAB_NO_MERGE);
	static mempool_t pool, other;
	void *p[3];

	(void)state;
	mempool_exit(&pool);
	for (int i = 0; i < 3; i++) {
		assert_false(mempool_initialized(&pool));
		few.refuse = 0;
		assert_int_equal(
			mempool_init_node(&pool, 2, few_alloc, few_free, &few, GFP_NOWAIT, 0), 0);
		assert_int_equal(few.gfp, GFP_NOWAIT);
		assert_true(mempool_initialized(&pool));
		few.refuse = 1;
		p[0] = mempool_alloc(&pool, GFP_KERNEL);
		p[1] = mempool_alloc(&pool, GFP_NOWAIT);
		assert_true(p[0] && p[1] && !mempool_alloc(&pool, GFP_NOWAIT));
		mempool_free(p[0], &pool);
		mempool_free(p[1], &pool);
		mempool_exit(&pool);
		nothing_is_out();
	}
	assert_int_equal(mempool_init_slab_pool(&pool, 3, s), 0);
	assert_int_equal(mempool_init_kmalloc_pool(&other, 3, 1000), 0);
	mempool_free(mempool_alloc(&pool, GFP_KERNEL), &pool);
	mempool_free(mempool_alloc(&other, GFP_KERNEL), &other);
	mempool_exit(&other);
	mempool_exit(&pool);
	kmem_cache_destroy(s);
}

/* No thread frees to the pool, but the allocator has memory again at the fifth request. */
static void memory_that_is_back_is_used(void **state)
{
	mempool_t *pool = make_pool(1);
	void *reserve = mempool_alloc_preallocated(pool), *element;

	(void)state;
	few.refuse_calls = 4;
	element = mempool_alloc(pool, GFP_KERNEL);
	assert_non_null(element);
	assert_ptr_not_equal(element, reserve);
	assert_true(few.gfp & __GFP_DIRECT_RECLAIM);
	mempool_free(element, pool);
	mempool_free(reserve, pool);
	mempool_destroy(pool);
	nothing_is_out();
}

static int owners;

static void *pass_on(void *pool)
{
	uint64_t seed = (uintptr_t)&pool | 1;

	for (int i = 0; i < ROUNDS; i++) {
		void *element = mempool_alloc(pool, GFP_KERNEL);

		CHECK(element);
		CHECK(__atomic_fetch_add(&owners, 1, __ATOMIC_ACQ_REL) < ELEMENTS);
		if (random_below(&seed, 64) == 0)
			sched_yield();
		__atomic_fetch_sub(&owners, 1, __ATOMIC_ACQ_REL);
		mempool_free(element, pool);
	}
	return NULL;
}

/* There are fewer elements than threads. (The simulator checks that no wake-up is lost.) */
static void everybody_goes_on(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	for (int min_nr = 1; min_nr <= 3; min_nr++) {
		mempool_t *pool;

		few.refuse = 0;
		pool = make_pool(min_nr);
		few.refuse = 1;
		for (int i = 0; i < THREADS; i++)
			pthread_create(&threads[i], NULL, pass_on, pool);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		mempool_destroy(pool);
		nothing_is_out();
	}
}

static mempool_t *inherited;

static void use_inherited(void)
{
	for (int i = 0; i < 100; i++) {
		void *element = mempool_alloc(inherited, GFP_KERNEL);

		CHECK(element);
		mempool_free(element, inherited);
	}
	mempool_destroy(inherited);
}

static int stop;

static void *churn(void *pool)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		mempool_free(mempool_alloc_preallocated(pool), pool);
	return NULL;
}

/* In the child, the elements of other threads are lost, but the pool's lock is free. */
static void fork_beside_threads(void **state)
{
	pthread_t thread;

	(void)state;
	inherited = make_pool(4);
	stop = 0;
	pthread_create(&thread, NULL, churn, inherited);
	for (int i = 0; i < 50; i++)
		assert_int_equal(in_child(use_inherited), 0);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	mempool_destroy(inherited);
	nothing_is_out();
}

static void out_of_memory(void)
{
	struct kmem_cache *s = kmem_cache_create("pool", 256, NULL, SLAB_NO_MERGE);
	mempool_t *pool = mempool_create_slab_pool(5, s), none;
	void *p[5], *all = NULL, *object;

	CHECK(pool);
	CHECK(mempool_init_slab_pool(&none, 0, s) == 0);
	no_more_memory();
	while ((object = kmem_cache_alloc(s, GFP_KERNEL)) != NULL) {
		*(void **)object = all;
		all = object;
	}
	for (int i = 0; i < 5; i++)
		CHECK((p[i] = mempool_alloc(pool, GFP_KERNEL)) != NULL);
	CHECK(!mempool_alloc(pool, GFP_NOWAIT));
	CHECK(!mempool_alloc(&none, GFP_NOWAIT));
	for (int i = 0; i < 5; i++)
		mempool_free(p[i], pool);
	mempool_exit(&none);
	for (; all; all = object) {
		object = *(void **)all;
		mempool_free(all, pool);
	}
	mempool_destroy(pool);
	CHECK(kmem_cache_verify(s) <= 0);
	CHECK(kmem_cache_shrink(s) == 0);
}

static void over_a_cache_without_memory(void **state)
{
	(void)state;
	assert_int_equal(in_child(out_of_memory), 0);
}

static void over_kmalloc(void **state)
{
	mempool_t *pool = mempool_create_kmalloc_pool(3, 1000);
	void *p[10];

	(void)state;
	assert_non_null(pool);
	for (int i = 0; i < 10; i++) {
		assert_non_null(p[i] = mempool_alloc(pool, GFP_NOWAIT));
		assert_true(ksize(p[i]) >= 1000);
	}
	for (int i = 0; i < 10; i++)
		mempool_free(p[i], pool);
	mempool_destroy(pool);
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(reserve_is_the_last_resort),
		TEST(preallocated_only),
		TEST(bulk_of_the_allocator_first),
		TEST(bulk_of_the_reserve),
		TEST(wrong_bulks),
		TEST(bulk_waits_for_all),
		TEST(bulks_do_not_wait_for_each_other),
		TEST(resized),
		TEST(its_array_gives_its_pages_back),
		TEST(resized_again_after_no_memory),
		TEST(misuse),
		TEST(not_initialised),
		TEST(free_elsewhere_wakes),
		TEST(reserve_of_none),
		TEST(in_ones_own_memory),
		TEST(memory_that_is_back_is_used),
		TEST(everybody_goes_on),
		TEST(fork_beside_threads),
		TEST(over_a_cache_without_memory),
		TEST(over_kmalloc),
	};

	return cmocka_run_group_tests_name("mempool", tests, NULL, NULL);
}
