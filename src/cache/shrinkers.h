/* SPDX-License-Identifier: MIT */
/*
 * Shrinkers: callbacks of the program that free what it can do without (<sheaf/shrinker.h>).
 *
 *   list: | shrinker | -> | shrinker | -> ...      in the order of registration
 *   runs: | thread, shrinker | ... SHRINKERS_RUNS   a thread that runs a shrinker
 *
 * Invariants
 *  SHRINKERS-S1. A thread runs one shrinker at a time: a reclaim inside a callback runs none. It is
 *      not cancelled in it.
 *  SHRINKERS-S2. A shrinker that is freed is off the list, and its memory is freed when no run
 *      uses it and no reference is held. So a callback may free any shrinker, even its own.
 *  SHRINKERS-S3. No lock is held while a callback runs. Several threads may run one shrinker
 *      concurrently.
 *
 * Locks: OS_RANK_SHRINKERS, for the list and the shrinkers of runs.
 * Callers: src/cache/.
 */
#ifndef SHEAF_CACHE_SHRINKERS_H
#define SHEAF_CACHE_SHRINKERS_H

#include <sheaf/shrinker.h>

#include <stdbool.h>
#include <stdint.h>

#include "os/atomic.h"
#include "os/enter_program.h"
#include "os/lock.h"

/* The most threads that run shrinkers concurrently; others reclaim without them. */
#define SHRINKERS_RUNS 16

struct shrinkers {
	struct os_lock lock;
	uint32_t nr; /* on the list */
	uint32_t reported_left;
	struct registered *first;
	struct registered *ending; /* freed, and still used */
	struct shrinkers_run {
		uintptr_t thread; /* 0: free */
		struct os_program call;
		struct registered *at;
		struct registered *next; /* the one after `at`, if that was freed */
	} runs[SHRINKERS_RUNS];
	uint64_t freed; /* objects, so far */
};
extern struct shrinkers shrinkers;

static inline bool shrinkers_exist(void)
{
	return os_load_relaxed(&shrinkers.nr) != 0;
}

/*
 * Ask each shrinker to free 1 / 2^part of its objects, adjusted by its cost; 0: all. Does nothing
 * in a callback of a shrinker.
 */
void shrinkers_run(gfp_t flags, unsigned int part) OS_COLD;

/* In a forked child, when its locks are free: other threads run no shrinker, and free none. */
void shrinkers_in_child(void);

#endif
