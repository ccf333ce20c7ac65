/* SPDX-License-Identifier: MIT */
/*
 * Groups: a tree of counters of bytes, with limits.
 *
 *   root <-- query 7 <-- sort            each charge is added to a group and all above it, but
 *              ^                         not to the root, which all threads would share
 *   stocks:  | CPU 0: {query 7, 31 KiB} {sort, 120} ... |      charged in advance
 *            | CPU 1: ...                               |      (stock.h)
 *
 * Groups lie in chunks, which are never freed. The place of a group and how often the place was
 * used before make its number, which the owner arrays of slabs (slab/owner.h), stocks and threads
 * store.
 *
 * Invariants
 *  GROUP-G1. usage of a group = bytes of objects that it or a group below owns, plus those in
 *      stocks with its number or one below, plus those that threads are about to use or give back.
 *      So in a quiet process whose stocks have been drained, it is the sum of the objects, to the
 *      byte. The root's usage is the sum of those of the groups right below it, added up when it is
 *      read.
 *  GROUP-G2. A group whose last reference is gone is over: it has no limits and no callbacks, and
 *      no child that is not over. It stays in the tree while its usage is not zero, and its objects
 *      count as those of the nearest group above that is not over.
 *  GROUP-G3. A place is used again only if its group is over, its usage is zero and no group in the
 *      chunks has it as its parent. A thread that gives bytes back reads the parent before it
 *      subtracts them, and the parent's usage includes them. So no such thread sees another group.
 *  GROUP-G4. Charging and giving back take no lock. The tree, the names and the callbacks change
 *      under the lock.
 *  GROUP-G5. Callbacks run with no lock held, at the end of calls (group_leave()), and one at a
 *      time for each group, which has a caller meanwhile. The callback has a reference.
 *  GROUP-G6. When a group has other `data`, or is over, `end` is called once for the data: after
 *      the callback that may use it has returned, by its caller. Only then is the place of the
 *      group used again. If there is no caller, only a group that is over has something in `gone`.
 *
 * Locks: OS_RANK_GROUPS. Callers: src/cache/, src/stats/.
 */
#ifndef SHEAF_GROUP_GROUP_H
#define SHEAF_GROUP_GROUP_H

#include <sheaf/group.h>
#include <stdbool.h>
#include <stdint.h>

#include "os/atomic.h"
#include "os/current.h"
#include "os/enter_program.h"
#include "os/lock.h"

#define GROUP_PLACE_BITS 20
#define GROUP_CHUNK_BITS 8
#define GROUP_CHUNK	 (1u << GROUP_CHUNK_BITS)
#define GROUP_CHUNKS	 (1u << (GROUP_PLACE_BITS - GROUP_CHUNK_BITS))
#define GROUP_NONE	 0u /* the number of the root, which owns nothing */
#define GROUP_NO_LIMIT	 UINT64_MAX
/* In `events` (event.c): the group is on the stack. */
#define GROUP_QUEUED (UINT32_C(1) << 31)
/* The caller has vanished by fork. */
#define GROUP_VANISHED ((uintptr_t)1)

/* Data that no callback uses now, except perhaps the one that runs. end: NULL if none. */
struct group_gone {
	void (*end)(void *data);
	void *data;
};

struct kmem_group {
	_Alignas(128) uint64_t usage; /* GROUP-G1; threads of different groups share no line */
	uint64_t peak;
	uint64_t hard, high, low;  /* GROUP_NO_LIMIT; low: 0 */
	struct kmem_group *parent; /* NULL: the root */
	uint32_t number;
	uint32_t refs;

	uint32_t threads; /* references of threads */
	uint32_t above;	  /* it was reported as high, and not yet as low */
	uint32_t events;  /* to be reported: bits by enum kmem_group_event, GROUP_QUEUED */
	/* These change under the lock. */
	uint32_t turns;		/* counts callbacks that began or ended: odd while one runs */
	uintptr_t caller;	/* the thread whose callback runs; 0: none */
	struct os_program call; /* its callback, */
	void *used;		/* and the data of that */
	struct group_gone gone; /* whose `end` the caller calls */
	struct kmem_group *next_event;
	uint64_t failed, reclaims, forced;
	uint64_t high_events, low_events;

	struct kmem_group_args args; /* callbacks; under the lock */
	struct kmem_group *next;     /* in the list of groups, or of those that are over, or free */
	struct kmem_group *prev;     /* in the list of groups */
	uint64_t id;
	uint64_t found;	   /* bytes of its objects, while groups are checked */
	uint32_t children; /* groups in the chunks whose parent it is */
	uint32_t over;
	char name[KMEM_GROUP_NAME];
};

struct groups {
	struct os_lock lock;
	uint32_t begun; /* a group was created in this process */
	struct kmem_group root;
	uint32_t nr_places;	       /* that were ever used; place 0 is the root's */
	uint32_t nr, nr_over, reap_at; /* groups; groups that are over; look for free places then */
	uint64_t nr_made;
	struct kmem_group *first; /* the youngest */
	struct kmem_group *over;  /* not yet free */
	struct kmem_group *free, **last_free;
	struct kmem_group *events; /* groups with events, the last one first */
	uint32_t reported_left;
};

extern struct groups groups __attribute__((visibility("hidden")));
extern struct kmem_group *group_chunks[GROUP_CHUNKS] __attribute__((visibility("hidden")));

static inline bool groups_exist(void)
{
	return os_unlikely(os_load_relaxed(&groups.begun));
}

/*
 * The lower bits of a number are those of the place, in another order, so that some of them are
 * the distance of the group's stock from the first one (group/stock.h): 3 to 6 and 8 to 10. Those
 * are the lowest bits of the place, so groups that were created together have different stocks.
 */
static inline uint32_t group_number(uint32_t place)
{
	return (place & 0xf) << 3 | (place & 0x70) << 4 | (place >> 7 & 7) | (place >> 3 & 0x80) |
	       (place & 0xff800);
}

static inline uint32_t group_place(uint32_t number)
{
	return (number >> 3 & 0xf) | (number >> 4 & 0x70) | (number & 7) << 7 |
	       (number & 0x80) << 3 | (number & 0xff800);
}

/* For a number that was read while its object was freed, which may be any word. */
static inline bool group_is_number(uint32_t number)
{
	return group_place(number) && group_place(number) < os_load_acquire(&groups.nr_places);
}

/* The group with this number, which has usage, or is GROUP_NONE. */
static inline struct kmem_group *group_of_number(uint32_t number)
{
	uint32_t place = group_place(number);

	if (!place)
		return &groups.root;
	return os_load_acquire(&group_chunks[place >> GROUP_CHUNK_BITS]) + place % GROUP_CHUNK;
}

/* --- tree.c ----------------------------------------------------------------------------------- */

/* Is it a group with references? False after a report. */
bool group_check(struct kmem_group *g, const char *call);
/* A new group with one reference; NULL: no memory, or no number left. */
struct kmem_group *group_create(const char *name, struct kmem_group *parent,
				const struct kmem_group_args *args);
/* Take a reference, if there is one. */
bool group_get(struct kmem_group *g);
void group_put(struct kmem_group *g);
/* At the end of a call: the same, and wait until no callback of a group that ends runs. A function
 * of the program does not wait: two of them could wait for each other. */
void group_put_and_wait(struct kmem_group *g);
/* With the lock held: the last reference is gone, and no callback runs. */
void group_end(struct kmem_group *g);
/* With the lock held. Others read without it whether there is something. */
static inline void group_set_gone(struct kmem_group *g, struct group_gone gone)
{
	g->gone.data = gone.data;
	os_store_release(&g->gone.end, gone.end);
}
/* The nearest group that is not over, from this one upwards, with a reference; NULL: the root. */
struct kmem_group *group_living(struct kmem_group *g);

/* --- current.c -------------------------------------------------------------------------------- */

/* At the first group, with OS_RANK_CACHES held; the caller sets `begun` when caches charge. False:
 * there were groups before, or there is no memory. */
bool groups_begin(void);

/* --- all.c ------------------------------------------------------------------------------------ */

/* Add up the root's usage, and call look() for the root and each group, even those that are
 * over, with the lock held. */
void group_for_each(void (*look)(void *data, struct kmem_group *g), void *data);

/* In a forked child, with the lock held: the other threads' references are gone, and each usage
 * becomes zero, as are the stocks. */
void group_after_fork(void);
/* Then, without the lock. */
void group_end_forgotten(void);

/* --- limits.c --------------------------------------------------------------------------------- */

/* What is wrong with these; NULL: nothing. */
const char *group_wrong(const struct kmem_group_args *args);
/* With the lock held. */
void group_apply(struct kmem_group *g, const struct kmem_group_args *args);
/* Set them; false: the group has more than the hard limit, or a callback put it. */
bool group_set_limits(struct kmem_group *g, const struct kmem_group_args *args);

/* --- charge.c --------------------------------------------------------------------------------- */

/* How much a charge may do. */
enum group_force {
	GROUP_TRY,   /* fail at a limit */
	GROUP_FORCE, /* never fail */
};

/*
 * Charge the group and all above it. Returns NULL; or the group whose limit is reached, and then
 * nothing is charged.
 */
struct kmem_group *group_charge(struct kmem_group *g, uint64_t bytes, enum group_force force);
void group_uncharge(struct kmem_group *g, uint64_t bytes);
/* The first group upwards whose limit would stop this charge, as it seems now; NULL: none. */
struct kmem_group *group_find_full(struct kmem_group *g, uint64_t bytes);
/* An allocation fails by the limit of g. */
void group_fails(struct kmem_group *g);

/* --- event.c ---------------------------------------------------------------------------------- */

void group_add_event(struct kmem_group *g, enum kmem_group_event event);
void group_report_events(void) OS_COLD;
/* End the turn of a caller that will not return: it has vanished, or is this thread, and its
 * callback was left. here: the frame of the call. */
void group_end_left(struct kmem_group *g, uintptr_t here);
/* Visit the group at the end of a call. */
void group_queue(struct kmem_group *g, uint32_t events);
/* Call this `end`, with no lock held. */
void group_call_end(struct group_gone gone, struct os_program *running);
/* Call the reclaim callback, with no lock held; `own`: that of these arguments. False: it freed
 * nothing, or there is none, or a callback of the group runs. */
bool group_reclaim(struct kmem_group *g, uint64_t bytes, const struct kmem_group_args *own);

/* At the end of calls, with no lock held and nothing in hand. */
static inline void group_leave(void)
{
	if (os_unlikely(os_load_relaxed(&groups.events)))
		group_report_events();
}

#endif
