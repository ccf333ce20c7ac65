/* SPDX-License-Identifier: MIT */
/*
 * What a call or a forked child does while a lock is held that it may not wait for: nolock calls
 * with each lock held, what they defer, and fork() while another thread holds a node's lock.
 */
#include <pthread.h>
#include <sched.h>
#include <sheaf/mempool.h>
#include <sheaf/slab.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/cache.h"
#include "cache/process.h"
#include "internal/kit/locks.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/needs.h"
#include "kit/nolock.h"
#include "kit/process.h"
#include "kit/sanitizers.h"
#include "kit/unit.h"
#include "os/atomic.h"
#include "os/lock.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "page/page.h"
#include "page/range.h"
#include "percpu/drain.h"
#include "slab/drain_marks.h"
#include "slab/slab.h"

enum {
	SIZE = 64,
	LATE_SLABS = 3,
	LATE_OBJECTS = LATE_SLABS * 64
};

static struct capture captured;

/* --- with each lock held by the thread itself: a call that waited would wait forever --- */

static struct kmem_cache *beside;

static struct os_lock *locked;

/* Of objects that were taken, wherever the thread runs now. Guarded ones are on no node. */
static void lock_node(void)
{
	void **object = held;

	while (!page_is_ours(*object))
		CHECK(++object < held + MANY);
	locked = &beside->sheaf.slab.nodes[page_node(*object)]->lock;
	os_lock(locked);
}

static void unlock_node(void)
{
	os_unlock(locked);
}

static void lock_pool(void)
{
	os_lock(&ranges[os_node()].pool.lock);
}

static void unlock_pool(void)
{
	os_unlock(&ranges[os_node()].pool.lock);
}

static const struct {
	const char *name;
	void (*lock)(void);
	void (*unlock)(void);
} ranks[] = {
	{"OS_RANK_CACHES", lock_caches, unlock_caches},
	{"OS_RANK_DRAIN", lock_drains, unlock_drains},
	{"OS_RANK_NODE", lock_node, unlock_node},
	{"OS_RANK_POOL", lock_pool, unlock_pool},
	{"OS_RANK_PAGES", page_lock_all, page_unlock_all},
	{"OS_RANK_MEMPOOL", mempool_lock_all, mempool_unlock_all},
};

static void with_locks_held(void)
{
	static const slab_flags_t kinds[] = {0, SLAB_NO_SHEAVES};
	mempool_t *pool = mempool_create_slab_pool(1, make("pooled", SIZE, 0));

	CHECK(pool);
	pin((unsigned int)sched_getcpu());
	for (size_t i = 0; i < 2 * sizeof(ranks) / sizeof(ranks[0]); i++) {
		unsigned int n;

		beside = make(ranks[i / 2].name, SIZE, kinds[i % 2]);
		take(beside, 1500);
		kmem_cache_free_bulk(beside, 1000, held + 500);
		ranks[i / 2].lock();
		/* At least the objects of sheaves; the others are in slabs, which need the node's
		 * lock. */
		give_nolock(beside, 500);
		n = take_nolock(beside);
		CHECK(n >= 100 || !sheaf_capacity(&beside->sheaf));
		give_nolock(beside, n);
		ranks[i / 2].unlock();
		CHECK(kmem_cache_verify(beside) == 0);
		CHECK(look(beside).objects_in_use == 0);
		CHECK(kmem_cache_shrink(beside) == 0);
		kmem_cache_destroy(beside);
	}
}

static void each_lock_held(void **state)
{
	(void)state;
	assert_int_equal(in_child(with_locks_held), 0);
}

/* The cache has slabs on one node. */
static void no_new_slab_without_its_locks(void **state)
{
	static const struct {
		void (*lock)(void), (*unlock)(void);
	} ways[] = {{lock_node, unlock_node}, {page_lock_all, page_unlock_all}};

	(void)state;
	needs(NEED_SLABS);
	pin((unsigned int)sched_getcpu());
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct kmem_cache_stats before;
		unsigned int n;

		beside = make("beside", SIZE, 0);
		take(beside, 100);
		kmem_cache_free_bulk(beside, 100, held);
		before = look(beside);
		ways[i].lock();
		n = take_nolock(beside);
		ways[i].unlock();
		assert_int_equal(look(beside).total_objects, before.total_objects);
		give_nolock(beside, n);
		all_is_there(beside);
	}
}

/* Free objects of full slabs while the slabs cannot be listed. */
static void defer(struct kmem_cache *s)
{
	take(s, 640);
	beside = s;
	lock_node();
	give_nolock(s, 640);
	unlock_node();
	CHECK(slab_has_deferred(&s->sheaf.slab));
}

static void deferred_until_a_slow_path(void **state)
{
	struct kmem_cache *s = make("deferred", SIZE, SLAB_NO_SHEAVES);

	(void)state;
	for (int way = 0; way < 5; way++) {
		defer(s);
		if (os.counting)
			assert_true(look(s).nolock_deferred > 0);
		switch (way) {
		case 0:
			kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
			break;
		case 1:
			assert_int_equal(kmem_cache_shrink(s), 0);
			break;
		case 2:
			assert_int_equal(kmem_cache_verify(s), 0);
			break;
		case 3:
			take(s, 100);
			kmem_cache_free_bulk(s, 100, held);
			break;
		default:
			/* They are not reported as still in use. */
			capture_begin(&captured);
			kmem_cache_destroy(s);
			assert_int_equal(capture_end(&captured), 0);
			return;
		}
		assert_false(slab_has_deferred(&s->sheaf.slab));
		assert_int_equal(kmem_cache_verify(s), 0);
	}
}

static void shrink_inherited(void)
{
	CHECK(kmem_cache_shrink(beside) == 0);
}

static void deferred_across_fork(void **state)
{
	struct kmem_cache *s = make("forked", SIZE, SLAB_NO_SHEAVES);

	(void)state;
	defer(s);
	assert_int_equal(in_child(shrink_inherited), 0);
	all_is_there(s);
}

static void find_inherited(void)
{
	CHECK(slab_has_deferred(&beside->sheaf.slab));
	kmem_cache_free(beside, kmem_cache_alloc(beside, GFP_KERNEL));
	CHECK(!slab_has_deferred(&beside->sheaf.slab));
	CHECK(kmem_cache_shrink(beside) == 0);
}

/* The thread that deferred them had not yet set the flag. */
static void deferred_without_a_flag_across_fork(void **state)
{
	struct kmem_cache *s = make("unflagged", SIZE, SLAB_NO_SHEAVES);

	(void)state;
	defer(s);
	s->sheaf.slab.marks &= (uint16_t)~MARK_DEFERRED;
	assert_int_equal(in_child(find_inherited), 0);
	s->sheaf.slab.marks |= MARK_DEFERRED;
	all_is_there(s);
}

static void find_unmarked(void)
{
	CHECK(slab_marks(&beside->sheaf.slab) & MARK_SHEAVES || !sheaf_capacity(&beside->sheaf));
	CHECK(kmem_cache_shrink(beside) == 0);
}

/* The thread that put a sheaf into a slot or the barn had not yet set the mark. */
static void sheaves_without_a_mark_across_fork(void **state)
{
	struct kmem_cache *s = beside = make("unmarked", SIZE, no_samples());

	(void)state;
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	s->sheaf.slab.marks &= (uint16_t)~MARK_SHEAVES;
	assert_int_equal(in_child(find_unmarked), 0);
	s->sheaf.slab.marks |= MARK_SHEAVES;
	all_is_there(s);
}

/* Objects hold no links, so a write to a freed object does no harm. */
static void deferred_and_overwritten(void **state)
{
	struct kmem_cache *s = make("overwritten", SIZE, SLAB_NO_SHEAVES | no_samples());

	(void)state;
	defer(s);
	memset(held[0], 0x5e, SIZE);
	capture_begin(&captured);
	kmem_cache_shrink(s);
	assert_int_equal(capture_end(&captured), 0);
	all_is_there(s);
}

/* --- fork() --- */

/*
 * A thread makes a node's part of a cache when fork() has locked those that were there, and holds
 * its lock when the child begins: it has just taken an object, and has not counted it yet.
 */
static struct {
	struct kmem_cache *s;
	struct slab_node **at, *part;
	struct slab *slab;
	void *objects[LATE_OBJECTS];
	unsigned int n;
	uint64_t bits;
} late;

static void make_part_late(void)
{
	uint32_t unlocked = 0;

	if (!late.part)
		return;
	/* As another thread would: the thread that forks holds no lock of this rank. */
	if (!os_cmpxchg(&late.part->lock.word, &unlocked, 1))
		abort();
	late.bits = os_exchange(&late.slab->bits, 0);
	*late.at = late.part;
}

/* Of several handlers that run before a fork, the first one that was registered runs last. */
static __attribute__((constructor(101))) void register_before_the_library(void)
{
	pthread_atfork(make_part_late, NULL, NULL);
}

static void list_is_whole(void)
{
	unsigned int slabs = late.part->nr_slabs;

	/* One of them is full now. */
	CHECK(late.part->nr_partial == LATE_SLABS - 1);
	for (unsigned int i = 1; i < LATE_SLABS; i++) {
		void **object = &late.objects[i * late.n / LATE_SLABS];

		*object = kmem_cache_alloc_node(late.s, GFP_KERNEL, 0);
		CHECK(*object);
	}
	CHECK(late.part->nr_slabs == slabs);
	CHECK(kmem_cache_verify(late.s) == 0);
	kmem_cache_free_bulk(late.s, late.n - 1, late.objects + 1);
	CHECK(kmem_cache_verify(late.s) == 0);
	kmem_cache_shrink(late.s);
	/* The object that was taken keeps its slab. */
	CHECK(late.part->nr_slabs == 1);
	CHECK(late.part->nr_partial == 1);
}

static void list_that_vanished_thread_changed(void **state)
{
	unsigned int of_slab;
	int status;

	(void)state;
	if (os_options.slab_debug[0])
		skip();
	late.s = kmem_cache_create("late", 1000, NULL, SLAB_NO_MERGE | SLAB_NO_SHEAVES);
	assert_non_null(late.s);
	of_slab = late.s->sheaf.slab.oo.objects;
	assert_in_range(of_slab, 1, 64);
	late.n = LATE_SLABS * of_slab;
	for (unsigned int i = 0; i < late.n; i++)
		late.objects[i] = kmem_cache_alloc_node(late.s, GFP_KERNEL, 0);
	for (unsigned int i = 0; i < late.n; i += of_slab)
		kmem_cache_free(late.s, late.objects[i]);
	late.slab = page_slab(late.objects[0]);
	late.at = late.s->sheaf.slab.nodes;
	late.part = *late.at;
	assert_int_equal(late.part->nr_partial, LATE_SLABS);
	*late.at = NULL;
	status = in_child(list_is_whole);
	os_store_relaxed(&late.slab->bits, late.bits);
	os_unlock(&late.part->lock);
	late.part = NULL;
	assert_int_equal(status, 0);
	for (unsigned int i = 0; i < late.n; i += of_slab)
		late.objects[i] = kmem_cache_alloc_node(late.s, GFP_KERNEL, 0);
	kmem_cache_free_bulk(late.s, late.n, late.objects);
	assert_int_equal(kmem_cache_shrink(late.s), 0);
	kmem_cache_destroy(late.s);
}

static struct kmem_cache *leaked;
static unsigned int leaked_node;
static uint32_t node_is_held;

static void *hold_node(void *unused)
{
	struct slab_node *node = leaked->sheaf.slab.nodes[leaked_node];

	(void)unused;
	os_lock(&node->lock);
	__atomic_store_n(&node_is_held, 1, __ATOMIC_RELEASE);
	wait_until_first_sleeps();
	os_unlock(&node->lock);
	return NULL;
}

/* Objects of a cache that was destroyed too early stay usable, also in a forked child. */
static void a_leaked_cache_is_forked(void)
{
	void *objects[100];
	pthread_t thread;
	pid_t child;
	int status;

	leaked_node = os_node();
	leaked = kmem_cache_create("leaked", 2048, NULL, SLAB_NO_MERGE | SLAB_NO_SHEAVES);
	/* The first one is in a slab, also where each object is a sample. */
	for (int i = 0; i < 100; i++) {
		objects[i] = kmem_cache_alloc_node(leaked, GFP_KERNEL | (i ? 0 : __GFP_THISNODE),
						   (int)leaked_node);
		CHECK(objects[i]);
	}
	kmem_cache_destroy(leaked);
	CHECK(pthread_create(&thread, NULL, hold_node, NULL) == 0);
	while (!__atomic_load_n(&node_is_held, __ATOMIC_ACQUIRE))
		sched_yield();
	child = fork();
	if (child == 0) {
		for (int i = 0; i < 100; i++)
			kmem_cache_free(leaked, objects[i]);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	pthread_join(thread, NULL);
}

static void a_leaked_cache_in_a_child(void **state)
{
	(void)state;
	if (HAS_TSAN) {
		print_message("skipped: a fork beside a thread that runs may leave the sanitizer "
			      "locked\n");
		skip();
	}
	assert_int_equal(in_child(a_leaked_cache_is_forked), 0);
}

int test_held_locks(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_lock_held),
		cmocka_unit_test(no_new_slab_without_its_locks),
		cmocka_unit_test(deferred_until_a_slow_path),
		cmocka_unit_test(deferred_across_fork),
		cmocka_unit_test(deferred_without_a_flag_across_fork),
		cmocka_unit_test(sheaves_without_a_mark_across_fork),
		cmocka_unit_test(deferred_and_overwritten),
		cmocka_unit_test(list_that_vanished_thread_changed),
		cmocka_unit_test(a_leaked_cache_in_a_child),
	};

	return cmocka_run_group_tests_name("held-locks", tests, NULL, NULL);
}
