/* SPDX-License-Identifier: MIT */
/* Retired objects inside the library: queues, batches of grace periods, memory that waits. */
#include <semaphore.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include "cache/cache.h"
#include "internal/kit/ready.h"
#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/clock.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "page/map.h"
#include "page/pool.h"
#include "percpu/sheaf.h"
#include "rcu/any.h"
#include "rcu/rcu_free.h"

enum {
	MANY = 1000
};

struct item {
	uint64_t stamp[2];
	struct sheaf_rcu_head rcu;
	uint64_t end[4];
};

static struct capture captured;

static struct kmem_cache *make_items(const char *name, slab_flags_t flags)
{
	pin(0);
	return make(name, sizeof(struct item), flags);
}

static void fill(struct kmem_cache *s, struct item **items, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		items[i] = kmem_cache_alloc(s, GFP_KERNEL);
		assert_non_null(items[i]);
		memset(items[i], 0, sizeof(*items[i]));
		items[i]->stamp[0] = items[i]->end[3] = (uintptr_t)items[i] ^ 0x5a5a;
	}
}

static void destroy(struct kmem_cache *s)
{
	assert_int_equal(kmem_cache_verify(s), 0);
	capture_begin(&captured);
	kmem_cache_destroy(s);
	assert_int_equal(capture_end(&captured), 0);
}

static struct {
	struct kmem_cache *s;
	struct item *items[MANY];
	unsigned int next;
	bool busy;
} steady;

/* Retire as many as were allocated; their grace period passes immediately. */
static void retire_again(struct sheaf_cache *cache, void **objects, unsigned int n)
{
	(void)cache, (void)objects;
	if (steady.busy)
		return;
	steady.busy = true;
	for (unsigned int i = 0; i < n && steady.next < MANY; i++)
		kmem_cache_free_rcu(steady.s, steady.items[steady.next++]);
	by_hand_pass();
	by_hand_pass();
	steady.busy = false;
}

static void drains_take_what_had_passed(void **state)
{
	static struct item *items[MANY];
	struct kmem_cache *s = steady.s = make_items("rcu-steady", 0);
	uint64_t waiting, passed, taken = 0;
	struct sheaf *list, *next;
	struct sheaf_rcu *rcu;

	(void)state;
	needs(NEED_SHEAVES);
	fill(s, items, MANY);
	fill(s, steady.items, MANY);
	for (unsigned int i = 0; i < MANY; i++)
		kmem_cache_free_rcu(s, items[i]);
	by_hand_pass();
	by_hand_pass();
	rcu = sheaf_rcu_of(&s->sheaf);
	assert_non_null(rcu);
	sheaf_rcu_count(&s->sheaf, &waiting, &passed);
	assert_true(passed > 0);
	rcu->passed = retire_again;
	list = rcu_take_all(rcu);
	rcu->passed = NULL;
	for (; list; list = next) {
		next = list->next;
		taken += list->size;
		sheaf_flush(&s->sheaf, list);
		sheaf_release(&s->sheaf, list);
	}
	assert_in_range(taken, 1, passed);
	kmem_cache_free_bulk(s, MANY - steady.next, (void **)&steady.items[steady.next]);
	destroy(s);
}

static void retire_in_child(void)
{
	struct kmem_cache *s = make_items("rcu-child", 0);
	static struct item *items[MANY];

	fill(s, items, MANY);
	for (unsigned int i = 0; i < MANY; i++)
		kfree_rcu(items[i], rcu);
	kvfree_rcu_barrier();
	CHECK(look(s).objects_in_use == 0);
	CHECK(kmem_cache_verify(s) == 0);
	kmem_cache_destroy(s);
}

/* Many grace periods run in parallel while many objects are retired, but only then. */
static void few_grace_periods_while_little_waits(void **state)
{
	struct kmem_cache *s = make_items("rcu-little", 0);
	struct item *item;
	unsigned int before;

	(void)state;
	/* GRACE-G3 */
	needs(NEED_SHEAVES);
	fill(s, &item, 1);
	kfree_rcu(item, rcu);
	for (int i = 0; i < GRACE_BATCHES; i++)
		grace_start(grace_of(NULL));
	clock_pass_ms(50);
	by_hand_pass();
	before = by_hand.calls;
	for (int i = 0; i < 8; i++)
		by_hand_pass();
	assert_in_range(by_hand.calls - before, 1, 2 * 8);
	destroy(s);
}

static void lose_heads_in_child(void)
{
	by_hand.first = NULL;
	by_hand.end = &by_hand.first;
	retire_in_child();
}

/* Heads that a vanished thread had taken out of the provider's queue never come back. */
static void a_forked_child_goes_on_without_lost_heads(void **state)
{
	(void)state;
	for (int i = 0; i < GRACE_BATCHES; i++)
		grace_start(grace_of(NULL));
	assert_int_equal(in_child(lose_heads_in_child), 0);
	by_hand_pass();
}

static void *lock_and_vanish(void *queue)
{
	os_lock(&((struct rcu_queue *)queue)->lock);
	return NULL;
}

/* The child of a fork that took no lock of this queue, because its cache was not active yet; a
 * thread that does not exist in the child has locked it. */
static void lose_a_queue(void)
{
	static struct item *items[MANY];
	struct kmem_cache *s = make_items("rcu-locked", 0);
	uint64_t waiting, passed;
	struct rcu_queue *queue;
	struct sheaf_rcu *rcu;
	pthread_t thread;

	fill(s, items, MANY);
	for (unsigned int i = 0; i < MANY / 2; i++)
		kfree_rcu(items[i], rcu);
	rcu = sheaf_rcu_of(&s->sheaf);
	queue = rcu_queue_from(rcu, 0);
	CHECK(queue && !rcu_queue_is_empty(queue));
	grace_hold(rcu->user.grace);
	/* Neither a queue that is not locked, nor one that fork() locked. */
	CHECK(sheaf_rcu_reset_in_child() == 0);
	sheaf_rcu_act_on_locks(os_lock_for_fork);
	CHECK(sheaf_rcu_reset_in_child() == 0);
	sheaf_rcu_act_on_locks(os_unlock_after_fork);
	CHECK(!rcu_queue_is_empty(queue));
	CHECK(pthread_create(&thread, NULL, lock_and_vanish, queue) == 0);
	pthread_join(thread, NULL);
	CHECK(sheaf_rcu_reset_in_child() == 1);
	CHECK(rcu_queue_is_empty(queue) && !os_lock_held(&queue->lock));
	grace_let_go(rcu->user.grace);
	for (unsigned int i = MANY / 2; i < MANY; i++)
		kfree_rcu(items[i], rcu);
	kvfree_rcu_barrier();
	sheaf_rcu_count(&s->sheaf, &waiting, &passed);
	CHECK(waiting == 0);
}

static void a_forked_child_empties_a_locked_queue(void **state)
{
	(void)state;
	needs(NEED_SHEAVES);
	assert_int_equal(in_child(lose_a_queue), 0);
}

/* Threads that lose their CPUs after they took the numbers of their batches and before call(). */
static struct {
	pthread_t waits; /* goes on */
	sem_t held, go_on;
	unsigned int barriers;
} between;

static void stay_between(void)
{
	if (pthread_equal(pthread_self(), between.waits))
		return;
	sem_post(&between.held);
	sem_wait(&between.go_on);
}

static void *begin_and_stay(void *grace)
{
	grace_start(grace);
	return NULL;
}

/* The waiting thread makes no progress: the others continue after all. */
static void count_barriers(void)
{
	if (++between.barriers > 2)
		for (int i = 0; i < GRACE_BATCHES; i++)
			sem_post(&between.go_on);
}

/* The batch that it waits for belongs to another thread, which does not continue: a barrier does
 * not help either. */
static void who_waits_needs_nobody_else(void **state)
{
	struct kmem_cache *s = make_items("rcu-between", 0);
	pthread_t others[GRACE_BATCHES];
	struct item *item;

	(void)state;
	for (int n = 1; n <= GRACE_BATCHES; n += GRACE_BATCHES - 1) {
		while (by_hand.first)
			by_hand_pass();
		between.waits = pthread_self();
		between.barriers = 0;
		sem_init(&between.held, 0, 0);
		sem_init(&between.go_on, 0, 0);
		by_hand.in_call = stay_between;
		by_hand.in_barrier = count_barriers;
		for (int i = 0; i < n; i++) {
			pthread_create(&others[i], NULL, begin_and_stay, grace_of(NULL));
			sem_wait(&between.held);
		}
		fill(s, &item, 1);
		kfree_rcu(item, rcu);
		grace_wait(grace_of(NULL), os_load_relaxed(&grace_of(NULL)->started));
		kvfree_rcu_barrier();
		assert_true(look(s).rcu_pending_objects == 0);
		by_hand.in_call = by_hand.in_barrier = NULL;
		assert_in_range(between.barriers, 1, 2);
		for (int i = 0; i < n; i++)
			sem_post(&between.go_on);
		for (int i = 0; i < n; i++)
			pthread_join(others[i], NULL);
	}
	destroy(s);
}

static void too_much_is_counted_and_reported(void **state)
{
	static struct item *items[40000];
	unsigned int limit = os_options.rcu_limit, calls;
	struct kmem_cache *s = make_items("rcu-limit", 0);

	(void)state;
	os_options.rcu_limit = 1;
	fill(s, items, 40000);
	capture_begin(&captured);
	for (unsigned int i = 0; i < 30000; i++)
		kfree_rcu(items[i], rcu);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "rcu_limit"));
	if (look(s).counted)
		assert_true(look(s).rcu_over_limit > 0);
	/* A caller that may wait waits. */
	calls = by_hand.barriers;
	kfree_rcu_mightsleep(items[30000]);
	for (unsigned int i = 30001; i < 40000; i++)
		kfree_rcu_mightsleep(items[i]);
	assert_true(by_hand.barriers > calls);
	assert_in_range(look(s).rcu_pending_bytes, 0, (1 << 20) + (1 << 16));
	os_options.rcu_limit = limit;
	destroy(s);
}

/* Also of objects that no rcu_free sheaf takes. */
static void too_much_without_sheaves_is_counted(void **state)
{
	static struct item *items[30000];
	unsigned int limit = os_options.rcu_limit;
	struct kmem_cache *s = make_items("rcu-bare", SLAB_NO_SHEAVES);

	(void)state;
	os_options.rcu_limit = 1;
	fill(s, items, 30000);
	capture_begin(&captured);
	for (unsigned int i = 0; i < 30000; i++)
		kfree_rcu(items[i], rcu);
	capture_end(&captured);
	os_options.rcu_limit = limit;
	if (look(s).counted)
		assert_true(look(s).rcu_over_limit > 0);
	destroy(s);
}

static void retire_some(struct item **items)
{
	for (unsigned int i = 0; i < MANY / 4; i++)
		kfree_rcu(items[i], rcu);
}

static void a_stalled_reader_is_reported_once(void **state)
{
	struct kmem_cache *s = make_items("rcu-stall", 0);
	static struct item *items[MANY];

	(void)state;
	fill(s, items, MANY);
	retire_some(items);
	capture_begin(&captured);
	clock_pass_ms(os_options.rcu_stall - 1);
	retire_some(items + MANY / 4); /* no report yet: it says how long nothing has ended */
	clock_pass_ms(1);
	retire_some(items + MANY / 2);
	clock_pass_ms(os_options.rcu_stall);
	retire_some(items + 3 * MANY / 4);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(
		strstr(captured.text, "RCU (by hand): no grace period has ended for 10000 ms"));
	destroy(s);
}

/* The objects of a slab that waits are free: a double free is found, and the slab is freed
 * later. */
static void double_frees_of_waiting_slabs(void **state)
{
	static const unsigned int sizes[] = {16, 64}; /* bits in a table, and in the descriptor */
	static void *objects[MANY];

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct kmem_cache *s =
			kmem_cache_create("rcu-waiting", sizes[i], NULL, SLAB_TYPESAFE_BY_RCU);
		struct slab_cache *slab = &s->sheaf.slab;

		assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, MANY, objects), MANY);
		kmem_cache_free_bulk(s, MANY, objects);
		assert_int_equal(kmem_cache_shrink(s), 1);
		capture_begin(&captured);
		slab_give(slab, &objects[0], 1, "test_free");
		slab_give(slab, &objects[MANY / 2], 1, "test_free");
		assert_int_equal(capture_end_deferred(&captured), 2);
		assert_non_null(strstr(captured.text, "double free"));
		assert_int_equal(kmem_cache_verify(s), 0);
		by_hand_pass();
		by_hand_pass();
		assert_true(look(s).slabs == 0);
		destroy(s);
	}
}

/* The pages of a sample are returned to the system, which then refuses them. */
static void fail_every_allocation(void)
{
	static struct item *items[4 * MANY];
	struct kmem_cache *s = make_items("rcu-no-memory", no_samples());

	/* Larger sheaves would take the pages of slabs that become empty. Some have no sheaves. */
	if (sheaf_capacity(&s->sheaf))
		CHECK(kmem_cache_set_sheaf_capacity(s, 60) == 0);
	fill(s, items, 4 * MANY);
	kfree_rcu(items[0], rcu);
	no_more_memory();
	while (kmem_cache_alloc(s, GFP_NOWAIT))
		;
	capture_begin(&captured);
	for (unsigned int i = 1; i < 4 * MANY; i++)
		kfree_rcu(items[i], rcu);
	CHECK(capture_end(&captured) == 0);
	kvfree_rcu_barrier();
	CHECK(look(s).rcu_pending_objects == 0);
	/* All objects, freed in each way. */
	for (unsigned int i = 0; i < 4 * MANY; i++)
		CHECK(kmem_cache_alloc(s, GFP_NOWAIT));
	CHECK(kmem_cache_verify(s) <= 0); /* -ENOMEM: no memory for the check */
}

/* Also the memory for sheaves. */
static void take_all_memory(struct kmem_cache *s)
{
	no_more_memory();
	while (kmem_cache_alloc(s, GFP_NOWAIT))
		;
	for (size_t size = 4096; size >= 64; size /= 2)
		while (pool_alloc(size))
			;
}

static struct item **meanwhile;
static unsigned int nr_meanwhile;

/* Retire one for each time that a thread waits for the provider. */
static void retire_meanwhile(void)
{
	if (nr_meanwhile)
		kfree_rcu(meanwhile[--nr_meanwhile], rcu);
}

/* A barrier frees all objects retired before it, even if others retire more while it waits. */
static void barrier_without_memory(void)
{
	static struct item *items[4 * MANY];
	struct kmem_cache *s = make_items("rcu-barrier-no-memory", 0);
	uint64_t in_use;

	fill(s, items, 4 * MANY);
	take_all_memory(s);
	in_use = look(s).objects_in_use;
	for (unsigned int i = MANY; i < 4 * MANY; i++)
		kfree_rcu(items[i], rcu);
	meanwhile = items;
	nr_meanwhile = MANY;
	by_hand.in_barrier = retire_meanwhile;
	kvfree_rcu_barrier();
	CHECK(look(s).objects_in_use <= in_use - 3 * MANY);
}

static void nothing_is_lost_without_memory(void **state)
{
	(void)state;
	assert_int_equal(in_child(fail_every_allocation), 0);
	assert_int_equal(in_child(barrier_without_memory), 0);
}

/* A few blocks with much memory wait only for a grace period. */
static void large_blocks_do_not_stay(void **state)
{
	unsigned int delay = os_options.rcu_delay;
	size_t before = map_bytes();

	(void)state;
	kvfree_rcu_barrier();
	os_options.rcu_delay = 3600000;
	for (int i = 0; i < 8; i++) {
		void *block = kvmalloc(KMALLOC_MAX_SIZE, GFP_KERNEL);

		assert_non_null(block);
		kvfree_rcu_mightsleep(block);
	}
	by_hand_pass();
	by_hand_pass();
	os_options.rcu_delay = delay;
	assert_true(map_bytes() == before);
}

static size_t nr_freed;

static size_t size_of_huge(const void *pointer)
{
	(void)pointer;
	return (size_t)256 << 30;
}

static void count_freed(size_t n, void **pointers, const char *call)
{
	(void)pointers, (void)call;
	nr_freed += n;
}

/* Of a provider whose blocks have more bytes than a sheaf can count. */
static void huge_blocks_are_counted(void **state)
{
	static const struct rcu_any_ops huge = {size_of_huge, count_freed};
	static struct sheaf_rcu_ops second;
	struct grace *grace;
	uint64_t before;
	int blocks[3];

	(void)state;
	second = by_hand_ops;
	kvfree_rcu_barrier();
	before = grace_bytes();
	os_lock(&caches.lock);
	grace = grace_of(&second);
	assert_true(grace && rcu_any_init(grace, &huge));
	os_unlock(&caches.lock);
	capture_begin(&captured);
	for (unsigned int i = 0; i < 3; i++) {
		assert_true(rcu_any_free(grace, &blocks[i], RCU_NO_HEAD));
		assert_true(grace_bytes() - before > (uint64_t)(i + 1) << 36);
	}
	rcu_any_barrier(grace, false);
	capture_end(&captured);
	assert_int_equal(nr_freed, 3);
	assert_int_equal(grace_bytes(), before);
}

int test_structures(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drains_take_what_had_passed),
		cmocka_unit_test(few_grace_periods_while_little_waits),
		cmocka_unit_test(a_forked_child_goes_on_without_lost_heads),
		cmocka_unit_test(a_forked_child_empties_a_locked_queue),
		cmocka_unit_test(who_waits_needs_nobody_else),
		cmocka_unit_test(too_much_is_counted_and_reported),
		cmocka_unit_test(too_much_without_sheaves_is_counted),
		cmocka_unit_test(a_stalled_reader_is_reported_once),
		cmocka_unit_test(double_frees_of_waiting_slabs),
		cmocka_unit_test(large_blocks_do_not_stay),
		cmocka_unit_test(nothing_is_lost_without_memory),
		cmocka_unit_test(huge_blocks_are_counted),
	};

	clock_stands = true;
	if (sheaf_rcu_register(&by_hand_ops))
		return 1;
	return cmocka_run_group_tests(tests, setup, NULL);
}
