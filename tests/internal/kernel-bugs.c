/* SPDX-License-Identifier: MIT */
/* Bugs that the kernel's allocator has had, one test each. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sheaf/mempool.h>
#include <sheaf/slab.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "cache/cache.h"
#include "internal/kit/pages.h"
#include "internal/kit/ready.h"
#include "internal/kit/sheaves.h"
#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/check.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/told.h"
#include "kit/unit.h"
#include "os/lock.h"
#include "os/machine.h"
#include "os/report/report.h"
#include "os/section.h"
#include "page/page.h"
#include "page/pool.h"
#include "percpu/drain.h"

static struct told told;

static void all_is_there(struct kmem_cache *s)
{
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(kmem_cache_shrink(s), 0);
	kmem_cache_destroy(s);
}

/* Objects of a mixed array were lost when the remote batch filled up on its last element. */
static void remote_batch_fills_on_the_last_element(void **state)
{
	static const unsigned int counts[] = {1, 31, 32, 33, 63, 64, 65, 96};
	struct kmem_cache *s;
	void *p[300];

	(void)state;
	if (os.nr_nodes < 2 || !pin(0))
		skip();
	s = make("remote-batch", 64, 0);
	for (unsigned int i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		for (unsigned int local = 0; local <= 130; local += 13) {
			unsigned int remote = counts[i], n = remote + local;

			/* Remote and local in turn while there are both; the last one is remote. */
			for (unsigned int j = n, there = remote, here = local; j-- > 0;) {
				bool far = there && (!here || (n - j) % 2);

				p[j] = kmem_cache_alloc_node(s, GFP_KERNEL, far);
				assert_int_equal(page_node(p[j]), far);
				there -= far;
				here -= !far;
			}
			kmem_cache_free_bulk(s, n, p);
			assert_int_equal(kmem_cache_verify(s), 0);
			assert_int_equal(kmem_cache_shrink(s), 0);
		}
	kmem_cache_destroy(s);
}

/* Creating an alias allocated sheaves again, and the first ones leaked. */
static void aliases_take_nothing(void **state)
{
	struct sheaf_cache before;
	struct kmem_cache *s;
	void *object;
	size_t used;

	(void)state;
	needs(NEED_MERGING);
	s = kmem_cache_create("alias", 328, NULL, 0);
	object = kmem_cache_alloc(s, GFP_KERNEL);
	kmem_cache_free(s, object);
	used = page_usage().used;
	before = s->sheaf;
	for (int i = 0; i < 1000; i++) {
		struct kmem_cache *alias = kmem_cache_create("alias-too", 328, NULL, 0);

		assert_ptr_equal(alias, s);
		if (i % 2)
			kmem_cache_destroy(alias);
	}
	assert_ptr_equal(s->sheaf.at.handle, before.at.handle);
	assert_ptr_equal(s->sheaf.barns, before.barns);
	assert_int_equal(page_usage().used, used);
	for (int i = 0; i < 500; i++)
		kmem_cache_destroy(s);
	all_is_there(s);
}

static int holding;

static void *hold_node_lock(void *lock)
{
	os_lock(lock);
	__atomic_store_n(&holding, 1, __ATOMIC_RELEASE);
	wait_until_first_sleeps();
	os_unlock(lock);
	return NULL;
}

/* A flush only tried to take a lock, and left objects behind. */
static void flush_waits_for_locks(void **state)
{
	struct kmem_cache *s = make("flush", 64, no_samples());
	pthread_t thread;
	void *p[400];

	(void)state;
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 400, p), 400);
	kmem_cache_free_bulk(s, 400, p);
	holding = 0;
	pthread_create(&thread, NULL, hold_node_lock, &s->sheaf.slab.nodes[page_node(p[0])]->lock);
	while (!__atomic_load_n(&holding, __ATOMIC_ACQUIRE))
		sched_yield();
	assert_int_equal(kmem_cache_shrink(s), 0);
	pthread_join(thread, NULL);
	all_is_there(s);
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
	told_begin(&told);
	for (int round = 0; round < 4000; round++) {
		uint32_t before = os_reports;

		race.object = kmem_cache_alloc(s, GFP_KERNEL);
		assert_non_null(race.object);
		pthread_barrier_wait(&race.both);
		kmem_cache_free(s, race.object);
		pthread_barrier_wait(&race.both);
		assert_int_equal(os_reports, before + 1);
		assert_int_equal(kmem_cache_verify(s), 0);
	}
	told_end(&told);
	race.object = NULL;
	pthread_barrier_wait(&race.both);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&race.both);
	all_is_there(s);
}

/* The callback of a sheaf whose objects went to their slabs, because the barn was full, forgot
 * the sheaf. */
static void rcu_callback_forgets_its_sheaf(void **state)
{
	struct kmem_cache_args args = {.rcu = &by_hand_ops};
	struct kmem_cache *s;
	size_t used = 0;
	void *p[1000];

	(void)state;
	needs(NEED_SHEAVES);
	s = kmem_cache_create("retired", 64, &args, SLAB_NO_MERGE);
	assert_non_null(s);
	assert_int_equal(kmem_cache_set_barn(s, 1, 1), 0);
	for (int round = 0; round < 20; round++) {
		assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 1000, p), 1000);
		for (int i = 0; i < 1000; i++)
			kmem_cache_free_rcu(s, p[i]);
		kvfree_rcu_barrier_on_cache(s);
		kmem_cache_shrink(s);
		if (round == 1)
			used = page_usage().used;
	}
	assert_true(page_usage().used <= used);
	all_is_there(s);
}

static size_t nr_sheaves;

static void is_in_no_cache(void *data, struct sheaf *sheaf)
{
	(void)data;
	assert_null(page_slab(sheaf));
	nr_sheaves++;
}

/* A sheaf was allocated from a cache that needed a sheaf for that. */
static void sheaves_own_no_sheaves(void **state)
{
	struct kmem_cache *s;
	void *p[500];

	(void)state;
	needs(NEED_SHEAVES);
	s = make("recursion", sizeof(struct sheaf) + 60 * sizeof(void *), 0);
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 500, p), 500);
	for (int i = 0; i < 500; i++)
		kmem_cache_free(s, p[i]);
	nr_sheaves = 0;
	sheaf_for_each(&s->sheaf, is_in_no_cache, NULL);
	assert_true(nr_sheaves > 0);
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
		assert_true(objects_in_sheaves(s) >= sheaf_capacity(&s->sheaf) - 1);
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
	assert_true(objects_in_sheaves(s) >= sheaf_capacity(&s->sheaf) - 10);
	for (int i = 0; i < 2; i++)
		assert_non_null(reserve[i] = mempool_alloc_preallocated(pool));
	for (int i = 0; i < 2; i++)
		mempool_free(reserve[i], pool);
	for (int i = 0; i < 10; i++)
		mempool_free(p[i], pool);
	mempool_destroy(pool);
	all_is_there(s);
}

static void allocate_from_small_slabs(void)
{
	struct kmem_cache *s = make("small-slab", 700, no_samples());
	void *first = kmem_cache_alloc(s, GFP_KERNEL), *p[300];

	CHECK(first);
	leave_single_pages(0);
	CHECK(kmem_cache_alloc_bulk(s, GFP_NOWAIT, 300, p) == 300);
	for (int i = 0; i < 300; i++) {
		CHECK(page_slab(p[i]) && page_slab(p[i])->cache == &s->sheaf.slab);
		memset(p[i], i, 700);
	}
	for (int i = 0; i < 300; i++)
		for (int j = 0; j < 700; j++)
			CHECK(((unsigned char *)p[i])[j] == (unsigned char)i);
	kmem_cache_free_bulk(s, 300, p);
	kmem_cache_free(s, first);
	CHECK(kmem_cache_verify(s) <= 0); /* -ENOMEM: no memory for the check */
	CHECK(kmem_cache_shrink(s) == 0);
}

/* A random order for large slabs was applied to small ones, and led beyond their end. */
static void order_beyond_a_small_slab_without_memory(void **state)
{
	(void)state;
	if (os.nr_nodes > 1)
		skip(); /* other nodes would provide large slabs */
	assert_int_equal(in_child(allocate_from_small_slabs), 0);
}

static struct sheaf *partly_filled(struct kmem_cache *s, unsigned int n)
{
	struct sheaf *sheaf = pool_alloc(SHEAF_HEADER + sheaf_capacity(&s->sheaf) * sizeof(void *));

	assert_non_null(sheaf);
	sheaf->capacity = sheaf_capacity(&s->sheaf);
	/* Not by a public call: an object that a program has cannot be in a sheaf. */
	sheaf->size = slab_take(&s->sheaf.slab, os_node(), SLAB_THIS_NODE, sheaf->objects, n);
	assert_int_equal(sheaf->size, n);
	return sheaf;
}

/* Make it this CPU's spare, and flush the old spare. */
static void make_spare(struct kmem_cache *s, struct sheaf *sheaf)
{
	struct sheaf *old = NULL;

	for (int tries = 0; !section_replace_spare(&s->sheaf.at, sheaf, &old); tries++)
		assert_true(tries < 1000);
	if (old && old->capacity) {
		slab_give(&s->sheaf.slab, old->objects, old->size, "test");
		pool_free(old, SHEAF_HEADER + old->capacity * sizeof(void *));
	}
}

/* A spare that is neither full nor empty must serve allocations and frees. */
static void spare_with_some_objects(void **state)
{
	unsigned int capacity;
	struct kmem_cache *s;
	static void *p[1000];

	(void)state;
	needs(NEED_SHEAVES);
	if (!pin(0))
		skip();
	s = make("some", 64, 0);
	capacity = sheaf_capacity(&s->sheaf);
	for (unsigned int some = 0; some <= capacity; some += 10) {
		struct sheaf *sheaf = partly_filled(s, some);

		/* Main is full: frees go to the spare while it has room. */
		assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 500, p), 500);
		make_spare(s, sheaf);
		for (int i = 0; i < 500; i++)
			kmem_cache_free(s, p[i]);
		assert_int_equal(kmem_cache_verify(s), 0);
		/* Main is empty: objects come from the spare while it has some. */
		sheaf = partly_filled(s, some);
		make_spare(s, sheaf);
		for (int i = 0; i < 500; i++) {
			p[i] = kmem_cache_alloc(s, GFP_KERNEL);
			assert_non_null(p[i]);
		}
		assert_int_equal(kmem_cache_verify(s), 0);
		kmem_cache_free_bulk(s, 500, p);
		assert_int_equal(kmem_cache_verify(s), 0);
	}
	all_is_there(s);
}

static void *migrate(void *cache)
{
	uint64_t seed = (uintptr_t)&cache;
	void *p[200] = {NULL};

	for (int i = 0; i < 20000; i++) {
		unsigned int at = random_below(&seed, 200);

		if (i % 4 == 0)
			pin(random_below(&seed, os.nr_cpus));
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
			 sheaf_capacity(&s->sheaf) ? 0 : -ENOTSUP);
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
	told_begin(&told);
	kmem_cache_free(none, NULL);
	assert_int_equal(told_end_kept(&told), 0);
	told_begin(&told);
	kmem_cache_free(none, block);
	assert_int_equal(told_end_kept(&told), 1);
	assert_non_null(strstr(told.text, "kmem_cache_free(NULL, "));
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
		cmocka_unit_test(remote_batch_fills_on_the_last_element),
		cmocka_unit_test(aliases_take_nothing),
		cmocka_unit_test(flush_waits_for_locks),
		cmocka_unit_test(flush_beside_others),
		cmocka_unit_test(double_free_by_two_threads),
		cmocka_unit_test(rcu_callback_forgets_its_sheaf),
		cmocka_unit_test(sheaves_own_no_sheaves),
		cmocka_unit_test(refill_without_direct_reclaim),
		cmocka_unit_test(mempool_refills_sheaves),
		cmocka_unit_test(order_beyond_a_small_slab_without_memory),
		cmocka_unit_test(spare_with_some_objects),
		cmocka_unit_test(migration_between_steps),
		cmocka_unit_test(bulk_returns_the_count),
		cmocka_unit_test(free_without_a_cache),
		cmocka_unit_test(blocks_are_aligned),
	};

	return cmocka_run_group_tests_name("kernel-bugs", tests, setup, NULL);
}
