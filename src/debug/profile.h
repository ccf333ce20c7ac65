/* SPDX-License-Identifier: MIT */
/*
 * The heap profile: what samples say about all objects, by the stack that allocated them.
 *
 *   buckets[]: hash of a stack and a class --> row --> row ...
 *   row:  class of objects | in use, all, at the peak: samples, bytes | freed: how | stack
 *
 * A sample is an object that was drawn by its bytes (sample.h): its class of c bytes is drawn with
 * chance 1 - exp(-c / mean). So a reader estimates a row's objects as its samples by that chance.
 * Sums are of the bytes that the program asked for. If the mean changes, there are other rows.
 *
 * Samples are objects of caches, in slots of guard.h, and large blocks, which have records there. A
 * block that is resized in place is the same sample, of another size. One that is moved, or whose
 * mapping is resized, counts as freed, and what takes its place is drawn anew.
 *
 * Never samples: objects of SLAB_TYPESAFE_BY_RCU caches, since a reader may find them after the
 * free, when only a slab keeps other objects out of their memory; secrets, which must be in locked
 * memory; objects of caches with slab_debug=G; objects that must be on one node; objects with a
 * constructor that _nolock calls allocate; and large blocks that malloc() gives to a signal handler
 * that interrupted it. Objects of caches above 1 MiB have no slots, and are counted as left out.
 *
 * Invariants
 *  PROFILE-J1. A row and its class and stack do not change once it is in a bucket, and it stays.
 *      Argued: nothing frees memory of rows.
 *  PROFILE-J2. A sample that was counted in a row is taken out of the same one. If there is no
 *      memory for a row, it is counted as left out, and has none.
 *  PROFILE-J3. The numbers at the peak are those of a time at which at most 1/32 less was in use
 *      than ever.
 *
 * Locks: none, so a sample may be taken wherever the allocator is called. Callers: src/debug/,
 * src/cache/, src/stats/.
 */
#ifndef SHEAF_DEBUG_PROFILE_H
#define SHEAF_DEBUG_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/atomic.h"
#include "os/options/options.h"

#define PROFILE_DEPTH 128u
#define PROFILE_NAME  32u

struct profile_sum {
	uint64_t samples, bytes;
};

struct profile_row {
	struct profile_row *next; /* in its bucket */
	uint64_t hash;
	struct profile_sum live, all, peak;
	uint64_t freed, elsewhere; /* elsewhere: by another CPU */
	uint64_t lifetimes;	   /* of freed ones, in ms */
	uint64_t weight;	   /* bytes that a sample stands for */
	char name[PROFILE_NAME];   /* of the cache, cut off */
	size_t size;		   /* of its objects */
	uint32_t n;		   /* of the stack */
	uint32_t mean;		   /* one sample in so many bytes */
	uint32_t number;	   /* for who prints the rows; 0: none yet */
	uintptr_t ip[];
};

/* Who switched it on, in os_options.profile; 0: it is off. */
#define PROFILE_WANTED	1u /* the option, or another process */
#define PROFILE_WATCHED 2u /* tracers of its probes, as long as they are there */

static inline bool profile_is_on(void)
{
	return os_load_relaxed(&os_options.profile);
}

/* Samples are taken from now on, one in os_options.sample bytes. */
void profile_begin(void);
/* Since when samples were so frequent, in ms; 0: there are none. */
uint32_t profile_began(void);
/* Do tracers watch otel_memory:alloc or otel_memory:free? They get each sample. */
bool profile_is_watched(void);
/* A sample of this class, `object`, for a request of this many bytes, was allocated by this stack.
 * NULL: there is no memory for another row. */
struct profile_row *profile_allocated(const void *object, const char *name, size_t size,
				      size_t asked, const uintptr_t *ip, uint32_t n);
/* The request of a sample was for so many bytes, instead of as many as were said. */
void profile_resized(struct profile_row *row, size_t before, size_t asked);
void profile_freed(struct profile_row *row, const void *object, size_t asked, bool elsewhere,
		   uint32_t ms);

/* The row after this one; after NULL, the first. */
struct profile_row *profile_next(const struct profile_row *row);
/* A sample could not be made. */
void profile_leave_out(void);
/* Samples without a row, or that could not be made. */
uint64_t profile_left_out(void);

#endif
