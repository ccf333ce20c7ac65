/* SPDX-License-Identifier: MIT */
/*
 * Readers without the lock next to writers: an entry that is always in the tree is always found, by
 * a lookup and in an iteration; every entry that is found is alive and belongs to the place where
 * it was found.
 *
 * A place is 16 pages. Place 0 of each group of 16 is never erased; its two entries share it, and
 * the border between them moves. The others are stored and erased, one by one, and all of a group
 * by one store.
 *
 * It ends when the writer has done N stores, and the readers as many reads.
 *
 *     storm [--stores N]
 */
#ifdef STORM_ONE_LOCK
#include "grace.h"
#else
#define _LGPL_SOURCE
#include <urcu.h>
#endif

#include <pthread.h>
#include <sheaf/maple_tree.h>
#include <sheaf/rcu.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/random.h"

enum {
	GROUPS = 200,
	GROUP = 16,
	PLACES = GROUPS * GROUP,
	READERS = 2,
	WIDTH = 16
};
#define LIVE UINT64_C(0x6c697665)

struct entry {
	_Atomic uint64_t live;
	_Atomic unsigned long gone; /* the tree's age when it was erased; 0: it is in the tree */
	unsigned long first, last;
	struct rcu_head rcu;
};

static struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_USE_RCU | MT_FLAGS_ALLOC_RANGE);
static struct kmem_cache *cache;
static struct entry *entries[PLACES];
static struct entry *lower[GROUPS], *upper[GROUPS];
static unsigned long border[GROUPS];
static _Atomic unsigned long age; /* entries erased so far */
static atomic_bool stop;
static atomic_uint faults;
static unsigned long stores = 100000;
static _Atomic unsigned long looked;

#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			atomic_fetch_add(&faults, 1);                                              \
		}                                                                                  \
	} while (0)

static struct entry *make(unsigned long first, unsigned long last)
{
	struct entry *entry = kmem_cache_alloc(cache, GFP_KERNEL);

	if (!entry)
		abort();
	entry->first = first;
	entry->last = last;
	atomic_store(&entry->gone, 0);
	atomic_store(&entry->live, LIVE);
	return entry;
}

static void retire(struct entry *entry)
{
	atomic_store(&entry->gone, atomic_fetch_add(&age, 1) + 1);
	kfree_rcu(entry, rcu);
}

static unsigned long place_min(unsigned int place)
{
	return (unsigned long)place * WIDTH;
}

/* --- writers --------------------------------------------------------------------------------- */

static void check(int error)
{
	if (error)
		abort();
}

static void come_or_go(unsigned int place)
{
	unsigned long first = place_min(place) + place % 3, last = first + WIDTH - 1 - place % 5;
	struct entry *old = entries[place];

	if (old) {
		EXPECT(mtree_erase(&tree, first + 2) == old);
		entries[place] = NULL;
		retire(old);
		return;
	}
	if (last >= place_min(place + 1))
		last = place_min(place + 1) - 1;
	entries[place] = make(first, last);
	check(mtree_store_range(&tree, first, last, entries[place], GFP_KERNEL));
}

/* All places of a group by one store: free, or one range. */
static void cover(unsigned int group, uint64_t *seed)
{
	unsigned int place = group * GROUP + 1, last = place + GROUP - 2;
	struct entry *whole = NULL;

	if (random_below(seed, 2))
		whole = make(place_min(place), place_min(last + 1) - 1);
	check(mtree_store_range(&tree, place_min(place), place_min(last + 1) - 1, whole,
				GFP_KERNEL));
	for (unsigned int p = place; p <= last; p++) {
		if (entries[p])
			retire(entries[p]);
		entries[p] = NULL;
	}
	if (whole) {
		check(mtree_store_range(&tree, place_min(place), place_min(last + 1) - 1, NULL,
					GFP_KERNEL));
		retire(whole);
	}
}

/* The lower entry takes some of the upper one, or the reverse. */
static void move_border(unsigned int group, uint64_t *seed)
{
	unsigned long first = place_min(group * GROUP), last = first + WIDTH - 1;
	unsigned long to = first + 1 + random_below(seed, WIDTH - 2);

	if (to > border[group])
		check(mtree_store_range(&tree, first, to - 1, lower[group], GFP_KERNEL));
	else
		check(mtree_store_range(&tree, to, last, upper[group], GFP_KERNEL));
	border[group] = to;
}

static void *write_on(void *argument)
{
	uint64_t seed = 4711;

	(void)argument;
	rcu_register_thread();
	for (unsigned long n = 0; n < stores || atomic_load(&looked) < stores; n++) {
		unsigned int what = random_below(&seed, 64), group = random_below(&seed, GROUPS);

		if (what == 0)
			cover(group, &seed);
		else if (what < 12)
			move_border(group, &seed);
		else
			come_or_go(group * GROUP + 1 + random_below(&seed, GROUP - 1));
	}
	atomic_store(&stop, true);
	rcu_unregister_thread();
	return NULL;
}

/* --- readers --------------------------------------------------------------------------------- */

/* Check that it is alive, and was in the tree at some time since the age `since`. */
static void check_entry(struct entry *entry, unsigned long since)
{
	unsigned long gone = atomic_load(&entry->gone);

	EXPECT(atomic_load(&entry->live) == LIVE);
	EXPECT(gone == 0 || gone > since);
}

static void look(uint64_t *seed)
{
	unsigned long index = random_below(seed, PLACES * WIDTH), since;
	struct entry *entry;

	rcu_read_lock();
	since = atomic_load(&age);
	entry = mtree_load(&tree, index);
	EXPECT(entry || index / WIDTH % GROUP != 0);
	if (entry) {
		check_entry(entry, since);
		EXPECT(entry->first <= index && index <= entry->last);
	}
	rcu_read_unlock();
}

/* Iterate over some groups: entries that are always there are found, in order. A range that has
 * grown since is found again. */
static void iterate(uint64_t *seed)
{
	unsigned int group = random_below(seed, GROUPS - 4), met = 0;
	unsigned long limit = place_min((group + 3) * GROUP) + WIDTH - 1, at = 0, since;
	MA_STATE(mas, &tree, place_min(group * GROUP), 0);
	struct entry *entry;

	rcu_read_lock();
	since = atomic_load(&age);
	mas_for_each(&mas, entry, limit)
	{
		check_entry(entry, since);
		since = atomic_load(&age);
		EXPECT(mas.last >= at && mas.index <= mas.last);
		EXPECT(entry->first <= mas.index && mas.last <= entry->last);
		for (unsigned int g = group; g <= group + 3; g++)
			met |= (unsigned int)(mas.index == place_min(g * GROUP)) << (g - group);
		at = mas.last + 1;
	}
	EXPECT(met == 15);
	mas_set(&mas, limit);
	at = limit + 1;
	met = 0;
	mas_for_each_rev(&mas, entry, place_min(group * GROUP))
	{
		EXPECT(mas.index < at && mas.index <= mas.last);
		EXPECT(entry->first <= mas.index && mas.last <= entry->last);
		for (unsigned int g = group; g <= group + 3; g++)
			met |= (unsigned int)(mas.index == place_min(g * GROUP)) << (g - group);
		at = mas.index;
	}
	EXPECT(met == 15);
	rcu_read_unlock();
}

static void *read_on(void *argument)
{
	uint64_t seed = (uintptr_t)argument;

	rcu_register_thread();
	while (!atomic_load(&stop)) {
		for (unsigned int i = 0; i < 64; i++)
			look(&seed);
		iterate(&seed);
		atomic_fetch_add(&looked, 64);
	}
	rcu_unregister_thread();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[READERS + 1];

	if (argc == 3 && !strcmp(argv[1], "--stores"))
		stores = strtoul(argv[2], NULL, 0);
	rcu_register_thread();
#ifdef STORM_ONE_LOCK
	if (grace_register())
		return 1;
#else
	if (sheaf_urcu_register(0))
		return 1;
#endif
	cache = kmem_cache_create("storm_entry", sizeof(struct entry), NULL, SLAB_NO_MERGE);
	for (unsigned int g = 0; g < GROUPS; g++) {
		unsigned long first = place_min(g * GROUP), last = first + WIDTH - 1;

		lower[g] = make(first, last);
		upper[g] = make(first, last);
		border[g] = first + WIDTH / 2;
		check(mtree_store_range(&tree, first, border[g] - 1, lower[g], GFP_KERNEL));
		check(mtree_store_range(&tree, border[g], last, upper[g], GFP_KERNEL));
	}
	for (uintptr_t i = 0; i < READERS; i++)
		pthread_create(&threads[i], NULL, read_on, (void *)(i + 1));
	pthread_create(&threads[READERS], NULL, write_on, NULL);
	for (unsigned int i = 0; i <= READERS; i++)
		pthread_join(threads[i], NULL);
	EXPECT(mt_validate(&tree) == 0);
	mtree_destroy(&tree);
	printf("%lu stores, %lu looks, %u faults\n", stores, atomic_load(&looked),
	       atomic_load(&faults));
	rcu_unregister_thread();
	return atomic_load(&faults) != 0;
}
