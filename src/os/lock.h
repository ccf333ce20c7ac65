/* SPDX-License-Identifier: MIT */
/*
 * The ranked lock: a futex-backed mutex that never spins on a holder that may be preempted.
 *
 * One word: 0 free | 1 held | 2 held, and a thread may be asleep in the kernel.
 *
 * Invariants
 *  LOCK-L1. A thread takes locks only in order of rising rank (debug builds assert it;
 *      docs/design.md, R12).
 *  LOCK-L2. While threads sleep on the word, it is 2, or one of them is being woken, which makes it
 *      2 again. Argued: os_lock() stores 2 itself before each sleep, and the kernel compares.
 *  LOCK-L3. No lock is held while a callback of the program runs (R13).
 *
 * Progress: os_trylock() is wait-free; os_lock() sleeps. errno is preserved by both.
 * Callers: every layer; never a signal handler, except os_trylock().
 */
#ifndef SHEAF_OS_LOCK_H
#define SHEAF_OS_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "os/machine.h"

/*
 * The lowest rank is taken first. This enum is the lock order of the whole library. Locks up to
 * OS_RANK_DRAIN may be held for a long time: calls that promise not to wait take none of them. The
 * others are held briefly.
 */
enum os_rank {
	OS_RANK_NONE,
	OS_RANK_KMALLOC,   /* creation of kmalloc()'s caches, each when it is first needed */
	OS_RANK_CACHES,	   /* the list of caches: create, merge, destroy */
	OS_RANK_GRACE,	   /* waiting for grace periods of one provider */
	OS_RANK_GROUPS,	   /* the tree of groups */
	OS_RANK_STOCKS,	   /* the drain of the stocks of groups */
	OS_RANK_DRAIN,	   /* one drain of every CPU at a time */
	OS_RANK_SHARD,	   /* retired pointers of any kind */
	OS_RANK_QUEUE,	   /* sheaves that wait for a grace period */
	OS_RANK_NODE,	   /* a node's partial list of one cache */
	OS_RANK_OWNERS,	   /* which slabs have an array of owners */
	OS_RANK_POOL,	   /* an internal pool: sheaves, cache structures */
	OS_RANK_PAGES,	   /* page runs of one arena range */
	OS_RANK_MEMPOOL,   /* the reserve of one memory pool; the list of pools */
	OS_RANK_SHRINKERS, /* the list of shrinkers, and which are run */
	OS_RANK_MAX,
};

struct os_lock {
	uint32_t word;
	uint32_t rank;
};

#define OS_LOCK_INIT(r)                                                                            \
	{                                                                                          \
		0, (r)                                                                             \
	}

void os_lock_init(struct os_lock *lock, enum os_rank rank);
void os_lock(struct os_lock *lock);
bool os_trylock(struct os_lock *lock);
void os_unlock(struct os_lock *lock);

/* Take the lock; without `wait`, false if another thread has it. */
static inline bool os_lock_if(struct os_lock *lock, bool wait)
{
	if (!wait)
		return os_trylock(lock);
	os_lock(lock);
	return true;
}

/*
 * Take a lock around fork(), which takes many locks of one rank: by try-lock, so in any order.
 * *taken says whether fork holds this lock: it does not hold one that was created after it took the
 * others.
 */
static inline void os_lock_for_fork(struct os_lock *lock, uint32_t *taken)
{
	while (!os_trylock(lock))
		os_sleep_briefly();
	*taken = 1;
}

static inline void os_unlock_after_fork(struct os_lock *lock, uint32_t *taken)
{
	if (!*taken)
		return;
	*taken = 0;
	os_unlock(lock);
}

/* Either of these, for a layer that calls it for each of its locks. */
typedef void os_fork_act(struct os_lock *lock, uint32_t *taken);

/* True if any thread holds the lock: only a hint, except in a child with one thread. */
bool os_lock_held(struct os_lock *lock);
/* For os_assert(): true. They stop here if this thread holds a lock while it does `what`. */
bool os_holds_nothing(const char *what);

/*
 * Sleeping until a word changes, for any condition. A waiting thread reads the word, tests its
 * condition, and waits with the value that it read. A thread that makes the condition true changes
 * the word, then wakes. A change between read and wait is noticed, so none is lost. No lock may be
 * held. errno is preserved.
 *
 * Sleep while *word is `value`, until woken, or for at most ms milliseconds (0: no limit); may
 * return early.
 */
void os_wait(uint32_t *word, uint32_t value, uint32_t ms);
/* Wake one thread that sleeps on the word. */
void os_wake(uint32_t *word);

#endif
