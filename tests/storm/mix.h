/* SPDX-License-Identifier: MIT */
/*
 * A mix of all calls, for storms in which any of them may fail: threads that allocate, resize,
 * exchange, retire and free stamped objects (kit/objects.h) of caches, groups and memory pools.
 *
 * The program has no other use of the library meanwhile. Where a check fails, the process ends with
 * the seed and the options.
 */
#ifndef SHEAF_TESTS_MIX_H
#define SHEAF_TESTS_MIX_H

#include <sheaf/group.h>
#include <sheaf/mempool.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	MIX_CACHES = 8,
	MIX_GROUPS = 7,
	MIX_HELD = 120,
	MIX_BULK = 40,
	MIX_BOXES = 32,
	MIX_CONSTRUCTED = 3 /* the cache with a constructor */
};

struct mix_worker {
	unsigned int number;
	uint64_t seed, sequence;
	unsigned int n;
	void *held[MIX_HELD + MIX_BULK];
};

struct mix {
	uint64_t seed;
	struct kmem_cache *caches[MIX_CACHES];
	struct kmem_group *groups[MIX_GROUPS];
	mempool_t *pool;
	void *boxes[MIX_BOXES]; /* objects on their way from one thread to another */
	/* What the program sets before the beginning. */
	struct kmem_group_args callbacks; /* of groups */
	void (*in_constructor)(void);	  /* NULL: nothing */
};

extern struct mix mix;

/* Make the caches, groups and pools, if need be in several tries. A provider is registered. */
void mix_begin(void);
/* One operation. */
void mix_step(struct mix_worker *w);
/* Free what the worker has. */
void mix_finish(struct mix_worker *w);
/* No thread works: every object must be free, and every group empty; then all is destroyed. */
void mix_end(void);

/* Give all groups other limits, and other data for their callbacks. */
void mix_change_groups(void);
/* At the beginning of a callback of a group. */
void mix_check_data(const void *data);

/* Prove that each object is in one place, and each charge right. No other thread works. */
void mix_verify(void);

/* Mark an object as owned, and its end. False: it has another owner. */
void mix_stamp(struct mix_worker *w, void *object);
void mix_unstamp(void *object);
/* End with a line. NULL: no single object is wrong. */
void mix_fail(const char *what, const void *object) __attribute__((noreturn));

#endif
