/* SPDX-License-Identifier: MIT */
/*
 * Schedules in which a thread pauses between two steps of a mark, or of a return of memory, while
 * others free and allocate: nothing that is free is missed (MARKS-F1, MARKS-F2, MARKS-F3, MARKS-F4,
 * MARKS-F5, DEFER-E3, HOLD-H2, src/page/limit.h).
 */
#include <sheaf/debug.h>
#include <sheaf/kmalloc.h>
#include <sheaf/limit.h>
#include <sheaf/rcu.h>

#include "cache/cache.h"
#include "kit/by_hand.h"
#include "os/lock.h"
#include "page/limit.h"
#include "page/map_kept.h"
#include "percpu/rows.h"
#include "sim/kit/quiet.h"
#include "sim/sim.h"
#include "slab/drain_marks.h"
#include "slab/partial.h"

enum {
	PAUSES, /* when `reached` says so, until no other fibre can continue */
	FREES,
	LOOKS,
	FIBRES
};

static bool (*reached)(void);
static bool begun, paused, looks, asks;

static bool has_reached(void)
{
	bool yes;

	/* This may make steps, too. */
	if (!reached || paused || asks)
		return false;
	asks = true;
	yes = reached();
	asks = false;
	return yes;
}

/* PAUSES runs until it pauses, then FREES to its end, then LOOKS, which may wait for PAUSES. */
static unsigned int decide(unsigned int fibre)
{
	static unsigned int next;

	if (fibre != SIM_NOBODY) {
		if (fibre == PAUSES && has_reached()) {
			paused = true;
			return next = FREES;
		}
		return fibre;
	}
	if (!paused) {
		if (begun)
			sim_fail("the end, and no pause");
		begun = reached;
		return next = PAUSES;
	}
	if (next == FREES) {
		looks = true;
		return next = LOOKS;
	}
	return next = next == LOOKS ? PAUSES : LOOKS;
}

static struct kmem_cache *s, *fails;
static void *objects[40];
static struct slab_node *node;

enum {
	OBJECTS = sizeof(objects) / sizeof(objects[0])
};

/* --- a bit is set, and not yet counted --- */

static bool has_set_bit(void)
{
	return s->sheaf.slab.marks & MARK_SHEAVES;
}

static void use_at_limit(unsigned int fibre, void *unused)
{
	(void)unused;
	sim_go_to(fibre);
	if (fibre == PAUSES)
		kmem_cache_free(s, objects[0]);
	for (unsigned int i = 1; fibre == FREES && i < OBJECTS; i++)
		kmem_cache_free(s, objects[i]);
	if (fibre == LOOKS && !kmem_cache_alloc(fails, GFP_KERNEL))
		sim_fail("NULL, although all objects of two slabs were free");
}

/* From now on, allocations of pages fail, and the cache has no free objects in sheaves. */
static void forbid_pages(void)
{
	fails = kmem_cache_create("fails", OS_PAGE, NULL, SLAB_NO_MERGE | SLAB_NO_SHEAVES);
	kmem_cache_shrink(s);
	sheaf_set_limits(0, page_limit.held << OS_PAGE_SHIFT);
	while (kmem_cache_alloc(fails, GFP_KERNEL))
		;
	if (s->sheaf.slab.marks)
		sim_fail("marks %#x after a failure", s->sheaf.slab.marks);
}

static void reach_limit(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	s = kmem_cache_create("freed", 512, NULL, SLAB_NO_MERGE);
	for (unsigned int i = 0; i < OBJECTS; i++)
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
	forbid_pages();
}

/* As above, but the child of fork() searches, where the thread that pauses does not exist. */
static int look_in_child(void *unused)
{
	(void)unused;
	if (slab_is_marking(slab_marked.n))
		sim_fail("nobody sets a mark, and failures visit all caches");
	if (!kmem_cache_alloc(fails, GFP_KERNEL))
		sim_fail("NULL in a child, although all objects of two slabs were free");
	return 0;
}

static void fork_at_limit(unsigned int fibre, void *unused)
{
	if (fibre != LOOKS)
		use_at_limit(fibre, unused);
	else if (sim_fork(look_in_child, NULL))
		sim_fail("the child failed");
}

/* --- a bit gets its number, and others that come later are set and visited before it is --- */

static struct kmem_cache *other;
static void *other_objects[2];

static bool is_marking(void)
{
	return slab_is_marking(slab_marked.n);
}

static void reach_limit_with_other(unsigned int fibre, void *unused)
{
	other = kmem_cache_create("other", 512, NULL, SLAB_NO_MERGE);
	for (unsigned int i = 0; i < 2; i++)
		other_objects[i] = kmem_cache_alloc(other, GFP_KERNEL);
	kmem_cache_shrink(other);
	reach_limit(fibre, unused);
}

/* Its slab stays, because of the other object. */
static void free_other_and_fail(void)
{
	kmem_cache_free(other, other_objects[0]);
	if (kmem_cache_alloc(fails, GFP_KERNEL))
		sim_fail("a page beyond the limit");
	other_objects[0] = kmem_cache_alloc(other, GFP_KERNEL);
}

static void free_all(void)
{
	for (unsigned int i = 0; i < OBJECTS; i++)
		kmem_cache_free(s, objects[i]);
}

static void free_around_failure(unsigned int fibre, void *unused)
{
	(void)unused;
	sim_go_to(fibre);
	if (fibre == PAUSES)
		free_all();
	if (fibre == FREES)
		free_other_and_fail();
}

static void allocate_freed(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	if (!kmem_cache_alloc(fails, GFP_KERNEL))
		sim_fail("NULL, although all objects of two slabs are free");
}

static int counted_late(void *config)
{
	sim_start(config);
	sim_run(1, reach_limit_with_other, NULL);
	reached = is_marking;
	sim_run(FIBRES, free_around_failure, NULL);
	reached = NULL;
	begun = paused = false;
	sim_run(1, allocate_freed, NULL);
	return !looks;
}

/* --- so many bits are set that the first ones are no longer known; and a cache has ended --- */

static void set_many(unsigned int fibre, void *unused)
{
	struct kmem_cache *ends = kmem_cache_create("ends", 512, NULL, SLAB_NO_MERGE);

	reach_limit_with_other(fibre, unused);
	kmem_cache_free(ends, kmem_cache_alloc(ends, GFP_KERNEL));
	kmem_cache_destroy(ends);
	free_other_and_fail();
	for (unsigned int i = 0; i < MARK_LAST; i++)
		if (slab_marked.of[i] == &ends->sheaf.slab)
			sim_fail("a cache that has ended is known as marked");
	free_all();
	for (unsigned int i = 0; i <= MARK_LAST; i++) {
		kmem_cache_free(other, other_objects[0]);
		kmem_cache_shrink(other);
		other_objects[0] = kmem_cache_alloc(other, GFP_KERNEL);
	}
	allocate_freed(fibre, unused);
}

static int forgotten(void *config)
{
	sim_start(config);
	sim_run(1, set_many, NULL);
	return 0;
}

/* --- one stray is remembered, and another one joins it while the node is searched --- */

static bool has_lock(void)
{
	return os_lock_held(&node->lock);
}

static void shrink_or_free(unsigned int fibre, void *unused)
{
	(void)unused;
	sim_go_to(fibre);
	if (fibre == FREES)
		kmem_cache_free_nolock(s, objects[1]);
	if (fibre != PAUSES)
		return;
	kmem_cache_shrink(s);
	if (node->nr_slabs)
		sim_fail("%u slabs are left, and no object is in use", node->nr_slabs);
}

static void leave_stray(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	s = kmem_cache_create("strays", 2048, NULL, SLAB_NO_MERGE | SLAB_NO_SHEAVES);
	for (unsigned int i = 0; i < 4; i++)
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
	kmem_cache_free(s, objects[0]);
	kmem_cache_free(s, objects[3]);
	objects[0] = objects[2];
	node = s->sheaf.slab.nodes[0];
	os_lock(&node->lock);
	kmem_cache_free_nolock(s, objects[0]);
	os_unlock(&node->lock);
	if (node->nr_slabs != 2 || node->stray >= PARTIAL_STRAYS)
		sim_fail("no stray");
}

/* --- the mark of a stray is set while a drain looks --- */

static bool has_marked(void)
{
	return s->sheaf.slab.marks & MARK_EMPTY;
}

static void leave_partial(unsigned int fibre, void *unused)
{
	leave_stray(fibre, unused);
	kmem_cache_shrink(s);
	/* The first one marked the stray that it found. */
	kmem_cache_shrink(s);
}

static void unlock_and_shrink(unsigned int fibre, void *unused)
{
	(void)unused;
	sim_go_to(fibre);
	if (fibre == PAUSES)
		kmem_cache_free_nolock(s, objects[1]);
	if (fibre == FREES)
		os_lock_init(&node->lock, OS_RANK_NODE);
	if (fibre == LOOKS)
		kmem_cache_shrink(s);
}

/* --- the same, and its thread vanishes in a fork before it has marked it --- */

static bool has_emptied(void)
{
	const struct slab *slab = partial_slab(node, node->first);

	return slab && !slab_inuse(slab->state) && node->stray == SLAB_NONE;
}

static int shrink_in_child(void *unused)
{
	(void)unused;
	kmem_cache_shrink(s);
	if (node->nr_slabs)
		sim_fail("a slab is left in a child, and no object is in use");
	return 0;
}

static void unlock_and_fork(unsigned int fibre, void *unused)
{
	if (fibre != LOOKS)
		unlock_and_shrink(fibre, unused);
	else if (sim_fork(shrink_in_child, NULL))
		sim_fail("the child failed");
}

/* --- a prefilled sheaf returns, and a drain begins and ends before it is in the slot; or, on a CPU
 * where the program did not run yet, in the barn --- */

static struct slab_sheaf *lent;

static void lend(unsigned int fibre, void *to_barn)
{
	(void)fibre;
	s = kmem_cache_create("lends", 512, NULL, SLAB_NO_MERGE);
	sim_go_to(to_barn ? FREES : PAUSES);
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	lent = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 8);
	kmem_cache_shrink(s);
	if (!lent || has_set_bit())
		sim_fail("no sheaf, or marks %#x", s->sheaf.slab.marks);
}

static void return_or_shrink(unsigned int fibre, void *unused)
{
	(void)unused;
	sim_go_to(fibre);
	if (fibre == PAUSES)
		kmem_cache_return_sheaf(s, GFP_KERNEL, lent);
	if (fibre == FREES)
		kmem_cache_shrink(s);
}

/* As above, but instead of a drain, a fork: the thread that returns the sheaf does not exist in the
 * child. */
static int marks_in_child(void *unused)
{
	(void)unused;
	quiet_marks(&s->sheaf);
	return 0;
}

static void return_or_fork(unsigned int fibre, void *unused)
{
	if (fibre == PAUSES)
		return_or_shrink(fibre, unused);
	if (fibre == LOOKS && sim_fork(marks_in_child, NULL))
		sim_fail("the child failed");
}

/* --- a slow path takes an empty slab off the stack, and has not yet listed it --- */

static bool has_taken_deferred(void)
{
	return node->deferred == SLAB_NONE;
}

static void defer_empty(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	s = kmem_cache_create("defers", 512, NULL, SLAB_NO_MERGE | SLAB_NO_SHEAVES);
	for (unsigned int i = 0; i < OBJECTS; i++)
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
	forbid_pages();
	node = s->sheaf.slab.nodes[0];
	os_lock(&node->lock);
	for (unsigned int i = 0; i < s->sheaf.slab.oo.objects; i++)
		kmem_cache_free_nolock(s, objects[i]);
	os_unlock(&node->lock);
	if (s->sheaf.slab.marks != MARK_DEFERRED)
		sim_fail("marks %#x after the frees", s->sheaf.slab.marks);
}

static void list_at_limit(unsigned int fibre, void *unused)
{
	(void)unused;
	sim_go_to(fibre);
	if (fibre == PAUSES)
		kmem_cache_free(s, objects[OBJECTS - 1]);
	if (fibre == LOOKS && !kmem_cache_alloc(fails, GFP_KERNEL))
		sim_fail("NULL, although all objects of a slab were free");
}

/* --- a retired sheaf gets its number, which passes before it is in the queue --- */

struct retired {
	struct sheaf_rcu_head head;
};

static struct sheaf *retiring;
static unsigned int nr_retired;

static bool has_number(void)
{
	return retiring->number;
}

static void retire_one(void)
{
	kfree_rcu((struct retired *)objects[nr_retired++], head);
}

static void fill_retired(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	sim_go_to(PAUSES);
	s = kmem_cache_create("retires", 512, NULL, SLAB_NO_MERGE);
	for (unsigned int i = 0; i < OBJECTS; i++)
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
	/* Sheaves of this size need a page. */
	retire_one();
	forbid_pages();
	do {
		retire_one();
		retiring = slot_of_row(s->sheaf.at.handle, os_row())->rcu_free;
	} while (sheaf_size(retiring) < retiring->capacity);
	retiring->number = 0;
}

static void retire_or_fail(unsigned int fibre, void *unused)
{
	(void)unused;
	sim_go_to(fibre);
	if (fibre == PAUSES)
		retire_one();
	if (fibre != FREES)
		return;
	for (int i = 0; i < 3; i++)
		by_hand_pass();
	if (kmem_cache_alloc(fails, GFP_KERNEL))
		sim_fail("a page beyond the limit");
}

static void allocate_after(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	if (!kmem_cache_alloc(fails, GFP_KERNEL))
		sim_fail("NULL, although a grace period has passed for all objects of a slab");
}

static int passed_early(void *config)
{
	sim_start(config);
	if (sheaf_rcu_register(&by_hand_ops))
		return 1;
	sim_run(1, fill_retired, NULL);
	reached = has_number;
	sim_run(FIBRES, retire_or_fail, NULL);
	reached = NULL;
	begun = paused = false;
	sim_run(1, allocate_after, NULL);
	return !looks;
}

/* --- a thread looks at an empty slab, and holds it --- */

static struct kmem_cache *wanted; /* which LOOKS allocates from */

static bool is_looked_at(void)
{
	return node->nr_slabs == 1 && !node->nr_partial && !os_lock_held(&node->lock);
}

static void keep_empty(unsigned int fibre, void *own_limit)
{
	struct kmem_cache_args limited = {.limit = OS_PAGE};

	(void)fibre;
	s = kmem_cache_create("empty", 512, own_limit ? &limited : NULL,
			      SLAB_NO_MERGE | SLAB_NO_SHEAVES);
	objects[0] = kmem_cache_alloc(s, GFP_KERNEL);
	forbid_pages();
	wanted = own_limit ? s : fails;
	node = s->sheaf.slab.nodes[0];
	kmem_cache_free(s, objects[0]);
	if (!node->nr_unused)
		sim_fail("the slab is not kept");
}

static void validate_or_allocate(unsigned int fibre, void *unused)
{
	(void)unused;
	sim_go_to(fibre);
	if (fibre == PAUSES)
		kmem_cache_validate(s);
	if (fibre == LOOKS && !kmem_cache_alloc(wanted, GFP_KERNEL))
		sim_fail("NULL, although all objects of a slab were free");
}

/* --- a block that waited goes, because a smaller one takes its cell --- */

enum {
	BLOCKS = 256,
	SMALL = 9 << 17,
	LARGE = 4 * SMALL
};

static void *blocks[BLOCKS + 1];

static bool lacks_large(void)
{
	return map_kept_bytes() < LARGE + (BLOCKS - 1) * SMALL;
}

static void fill_cells(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	for (unsigned int i = 0; i <= BLOCKS; i++)
		blocks[i] = kvmalloc(i ? SMALL : LARGE, GFP_KERNEL);
	/* An eighth of what is held may wait. */
	for (unsigned int i = 0; i < 2; i++)
		if (!kvmalloc((size_t)5 << 28, GFP_KERNEL))
			sim_fail("no memory");
	for (unsigned int i = 0; i < BLOCKS; i++)
		kvfree(blocks[i]);
	sheaf_set_limits(0, page_limit.held << OS_PAGE_SHIFT);
	if (lacks_large())
		sim_fail("the blocks do not wait");
}

static void replace_block(unsigned int fibre, void *unused)
{
	(void)unused;
	sim_go_to(fibre);
	if (fibre == PAUSES)
		kvfree(blocks[BLOCKS]);
	if (fibre == LOOKS && !kvmalloc(LARGE + (BLOCKS - 1) * SMALL, GFP_KERNEL))
		sim_fail("NULL, although blocks of this many bytes were free");
}

/* --- a thread retires an object into a sheaf of any kind's, whose lock fork() waits for --- */

static void begin_retiring(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	if (sheaf_rcu_register(&by_hand_ops))
		sim_fail("no provider");
	s = kmem_cache_create("any", 512, NULL, SLAB_NO_MERGE | SLAB_NO_SHEAVES);
	for (unsigned int i = 0; i < 3; i++)
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
	sim_go_to(PAUSES);
	kmem_cache_free_rcu(s, objects[0]);
}

static int retire_in_child(void *unused)
{
	(void)unused;
	sim_go_to(PAUSES);
	kmem_cache_free_rcu(s, objects[2]);
	return 0;
}

static void retire_or_fork(unsigned int fibre, void *unused)
{
	(void)unused;
	sim_go_to(fibre);
	if (fibre == PAUSES)
		kmem_cache_free_rcu(s, objects[1]);
	if (fibre == LOOKS && sim_fork(retire_in_child, NULL))
		sim_fail("the child failed");
}

/* --- others return memory at each moment, but none of them for long --- */

static bool has_failed, ended[FIBRES];

static bool others_return(void)
{
	return page_limit.returning[0] || page_limit.returning[1];
}

static unsigned int decide_in_turns(unsigned int fibre)
{
	if (fibre == SIM_NOBODY || has_failed)
		return fibre != SIM_NOBODY ? fibre : ended[PAUSES] ? FREES : PAUSES;
	if (fibre == FREES)
		return others_return() ? LOOKS : PAUSES;
	return fibre == PAUSES ? FREES : PAUSES;
}

static void return_steadily(unsigned int fibre, void *unused)
{
	(void)unused;
	if (fibre == LOOKS) {
		if (kmem_cache_alloc(fails, GFP_KERNEL))
			sim_fail("an object beyond the limit");
		has_failed = true;
	}
	while (!has_failed) {
		uint32_t *returning = page_begin_return();

		for (unsigned int i = 0; i < 3; i++)
			os_load_relaxed(&page_limit.held);
		page_end_return(returning);
	}
	ended[fibre] = true;
}

static int waits_for_the_first(void *config)
{
	struct sim_config in_turns = *(struct sim_config *)config;

	in_turns.decide = decide_in_turns;
	has_failed = true;
	sim_start(&in_turns);
	sim_run(1, reach_limit, NULL);
	has_failed = false;
	sim_run(FIBRES, return_steadily, NULL);
	return 0;
}

/* --- */

static const struct scene {
	void (*prepare)(unsigned int fibre, void *how);
	const char *how; /* NULL: the usual way */
	bool (*reached)(void);
	void (*body)(unsigned int fibre, void *unused);
	bool stuck; /* after prepare(), as if another thread had the node's lock */
} scenes[] = {
	{reach_limit, NULL, has_set_bit, use_at_limit, false},
	{reach_limit, NULL, has_set_bit, fork_at_limit, false},
	{leave_stray, NULL, has_lock, shrink_or_free, false},
	{leave_partial, NULL, has_marked, unlock_and_shrink, true},
	{leave_partial, NULL, has_emptied, unlock_and_fork, true},
	{lend, NULL, has_set_bit, return_or_shrink, false},
	{lend, "to the barn", has_set_bit, return_or_shrink, false},
	{lend, NULL, is_marking, return_or_fork, false},
	{lend, "to the barn", is_marking, return_or_fork, false},
	{defer_empty, NULL, has_taken_deferred, list_at_limit, false},
	{keep_empty, NULL, is_looked_at, validate_or_allocate, false},
	{keep_empty, "with a limit of its own", is_looked_at, validate_or_allocate, false},
	{fill_cells, NULL, lacks_large, replace_block, false},
	{begin_retiring, NULL, sim_holds_locks, retire_or_fork, false},
};

static const struct scene *scene;

static int run_scene(void *config)
{
	sim_start(config);
	sim_run(1, scene->prepare, (void *)(uintptr_t)scene->how);
	if (scene->stuck)
		node->lock.word = 1;
	reached = scene->reached;
	sim_run(FIBRES, scene->body, NULL);
	if (s)
		quiet_marks(&s->sheaf);
	if (node && node->stray != SLAB_NONE && !has_marked())
		sim_fail("a stray without a mark");
	return !looks;
}

int main(void)
{
	struct sim_config config = {.seed = 1,
				    .cpus = FIBRES,
				    .nodes = 1,
				    .backend = OS_BACKEND_RSEQ,
				    .options = "slab_max_order=0",
				    .silent = true,
				    .decide = decide,
				    .max_steps = 1000000};
	int (*const others[])(void *config) = {counted_late, forgotten, passed_early,
					       waits_for_the_first};
	uint64_t hash;
	int failed = 0;

	for (scene = scenes; scene < scenes + sizeof(scenes) / sizeof(*scenes); scene++)
		failed += sim_in_child(run_scene, &config, &hash) != 0;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		failed += sim_in_child(others[i], &config, &hash) != 0;
	return failed != 0;
}
