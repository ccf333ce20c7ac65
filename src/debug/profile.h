/* SPDX-License-Identifier: MIT */
/*
 * The heap profile: what samples say about all objects, by the stack that allocated them.
 *
 *   buckets[]: hash of a stack and a class --> row --> row ...
 *   row:  class of objects, group | in use, all, at the peak: samples, bytes | freed: how | stack
 *   run:  a mean, since when there are samples with it | in use, at the peak: bytes
 *
 * A sample is an object that was drawn by its bytes (sample.h): its class of c bytes is drawn with
 * chance 1 - exp(-c / mean). So a reader estimates a row's objects as its samples by that chance.
 * Sums are of the bytes that the program asked for. Each mean has a run: rows, sums and a peak of
 * its own. Those of the last one are shown.
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
 *  PROFILE-J3. The numbers at the peak are those of the time at which the samples of the run stood
 *      for most, but for those that threads were counting just then. Each row keeps its own
 *      before it changes for the first time after that.
 *  PROFILE-J4. There is one run for each mean. Argued: who begins one holds the lock of caches.
 *  PROFILE-J5. Rows of groups use at most one half of the memory. If there are more, samples have
 *      rows without a group, and none is left out for that.
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
#define PROFILE_GROUP 64u

struct profile_sum {
	uint64_t samples, bytes;
};

struct profile_run {
	struct profile_run *next;
	uint32_t mean;	     /* one sample in so many bytes */
	uint32_t began;	     /* in ms */
	uint64_t live, peak; /* bytes that the samples in use stand for; the most of them */
};

struct profile_row {
	struct profile_row *next; /* in its bucket */
	struct profile_run *run;
	uint64_t hash;
	struct profile_sum live, all;
	struct profile_sum kept;   /* of `live`, at the peak that was */
	uint64_t kept_at;	   /* so many bytes; see profile_peak() */
	uint64_t freed, elsewhere; /* elsewhere: by another CPU */
	uint64_t lifetimes;	   /* of freed ones, in ms */
	uint64_t weight;	   /* bytes that a sample stands for */
	char name[PROFILE_NAME];   /* of the cache, cut off */
	char group[PROFILE_GROUP]; /* empty: none */
	size_t size;		   /* of its objects */
	uint32_t n;		   /* of the stack */
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

/* Samples are taken from now on, one in `mean` bytes, if the profile is on. The lock of caches is
 * held. False: no memory. */
bool profile_begin(uint32_t mean);
/* The last run; NULL: samples were never taken. */
struct profile_run *profile_run(void);
/* One sample is taken in so many bytes. */
static inline uint32_t profile_mean(void)
{
	const struct profile_run *run = profile_run();

	return run ? run->mean : os_options.profile_mean;
}
/* Do tracers watch otel_memory:alloc or otel_memory:free? They get each sample. */
bool profile_is_watched(void);
/* A sample of this class, `object`, for a request of this many bytes, was allocated by this stack,
 * in a group ("": none). NULL: there is no memory for another row. */
struct profile_row *profile_allocated(const void *object, const char *name, const char *group,
				      size_t size, size_t asked, const uintptr_t *ip, uint32_t n);
/* The request of a sample was for so many bytes, instead of as many as were said. */
void profile_resized(struct profile_row *row, size_t before, size_t asked);
void profile_freed(struct profile_row *row, const void *object, size_t asked, bool elsewhere,
		   uint32_t ms);

/* What was in use at the run's peak. */
const struct profile_sum *profile_peak(const struct profile_row *row);
/* The row after this one; after NULL, the first. */
struct profile_row *profile_next(const struct profile_row *row);
/* A sample could not be made. */
void profile_leave_out(void);
/* Samples without a row, or that could not be made. */
uint64_t profile_left_out(void);

#endif
