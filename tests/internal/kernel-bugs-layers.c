/* SPDX-License-Identifier: MIT */
/* Bugs that the kernel's allocator has had, one test each, shown inside the layer concerned. */
#include <pthread.h>
#include <sched.h>
#include <sheaf/slab.h>
#include <stdbool.h>
#include <string.h>

#include "cache/cache.h"
#include "internal/kit/pages.h"
#include "internal/kit/ready.h"
#include "internal/kit/sheaves.h"
#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/unit.h"
#include "os/lock.h"
#include "os/machine.h"
#include "os/report/report.h"
#include "os/section.h"
#include "page/page.h"
#include "page/pool.h"
#include "percpu/drain.h"

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

static void is_in_no_cache(void *data, struct sheaf *sheaf, bool waits)
{
	(void)waits;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(remote_batch_fills_on_the_last_element),
		cmocka_unit_test(aliases_take_nothing),
		cmocka_unit_test(flush_waits_for_locks),
		cmocka_unit_test(rcu_callback_forgets_its_sheaf),
		cmocka_unit_test(sheaves_own_no_sheaves),
		cmocka_unit_test(order_beyond_a_small_slab_without_memory),
		cmocka_unit_test(spare_with_some_objects),
	};

	return cmocka_run_group_tests_name("kernel-bugs-layers", tests, setup, NULL);
}
