/* SPDX-License-Identifier: MIT */
/*
 * slab_debug: caches whose every allocation and free is checked, chosen while the program starts.
 *
 * A debug cache has no sheaves, so each call reaches src/cache/'s slow calls, which call this
 * layer: once when an object has come out of its slab, once before it goes back. The slab layer
 * leaves room around the objects for
 *
 *   | allocated by | freed by | state, size | left red zone | OBJECT | gap | right red zone |
 *   `----------- U -----------'`- always ---'`----- Z -----'         ^     `- Z, 8 or more -'
 *   `------------------------ before ----------------------'         a request of kmalloc() ends
 *
 * and the bits beside the slab remain the truth about what is free: nothing that the program
 * overwrites can make the library hand an object out twice. The state repeats that for each object,
 * and knows more:
 *
 *   (fresh) --prepare--> FREE --take--> USED --free--> BUSY --> FREE
 *                         |              |--retire--> WAITS --after its grace period--> BUSY
 *                         `--overwritten while free--> LEAKED
 *
 * Bytes, as in the kernel: free objects 6b ... 6b a5; fresh ones, from an allocation to the first
 * write, 5a; red zones cc around used objects, bb around free ones.
 *
 * Invariants
 *  D1. Who changes USED or WAITS to BUSY, by compare-exchange, frees the object; everyone else
 *      has freed it twice. So of two racing frees one is reported, and no byte of the object is
 *      changed by the other one.
 *  D2. Only the owner of an object writes around it: who prepares, takes, or made it BUSY.
 *  D3. An object that was written to while it was free is never handed out: the writer may do
 *      it again. It is LEAKED until its cache is destroyed.
 *  D4. What was overwritten is reported once and then restored, so that the program goes on and
 *      finds the next mistake. A free of what is not a used object of the cache is ignored.
 *  D5. Objects with a constructor, and those that readers may still look at
 *      (SLAB_TYPESAFE_BY_RCU), are not written to.
 *  D6. An object that waits for a grace period is used: it is checked and poisoned when it is
 *      freed for real. One in a prefilled sheaf was allocated by the call that filled the sheaf.
 *  D7. Letters whose bytes do not fit (1 MiB objects with such an alignment, O) are left out of
 *      the cache.
 *
 * The layer takes no lock and allocates nothing after a cache was made, so it works in every
 * context in which the allocator does. Reports are long reports (os/long_report.h).
 *
 * Locks: none. Callers: src/cache/, and src/kmalloc/ for sizes.
 */
#ifndef SHEAF_DEBUG_SLAB_DEBUG_H
#define SHEAF_DEBUG_SLAB_DEBUG_H

#include <sheaf/slab.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "slab/slab.h"

#define DEBUG_FLAGS                                                                                \
	(SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON | SLAB_STORE_USER | SLAB_TRACE |    \
	 SLAB_FAILSLAB)

/* Letters that may change while the cache is in use. */
#define DEBUG_SWITCHED (SLAB_TRACE | SLAB_FAILSLAB)

/* --- parse.c: which letters a cache gets ------------------------------------------------------ */

/* In flags that come from letters: O, do without what would make slabs larger. */
#define DEBUG_NOT_LARGER (1u << 31)
/* G: each object between guard pages, as long as there is room for them (guard.h). */
#define DEBUG_GUARD (1u << 30)
/* S: one in slab_sample bytes, of a cache that keeps its sheaves (sample.h). */
#define DEBUG_SAMPLE (1u << 29)

/* Read blocks of letters and names; false, after reports that are deferred, if not all was
 * understood. */
bool debug_parse(const char *text);
/* The flags that the first block with this name, or else the last one without names, gives; and
 * those of a creator. SLAB_NO_USER_FLAGS: only the latter. */
slab_flags_t debug_flags_of(const char *name, slab_flags_t flags);
/* T or A, on or off, of a cache in use. */
void debug_switch(struct slab_cache *cache, slab_flags_t flag, bool on);
/* The letters in force, as a text, without G. */
#define DEBUG_LETTERS 12
void debug_letters(const struct slab_cache *cache, char letters[DEBUG_LETTERS]);
/* At exit: report names that no cache had. */
void debug_report_unmatched(void);

/* --- layout.c --------------------------------------------------------------------------------- */

struct debug_cache {
	struct slab_extra extra; /* first: the slab layer has a pointer to it */
	slab_flags_t flags;	 /* those that are in force */
	uint16_t left, right;	 /* bytes of red zones */
	bool stable;		 /* SLAB_TYPESAFE_BY_RCU */
	uint32_t failed;	 /* an injected failure was told */
	uint32_t switched;	 /* T and A: those in force now */
};

static inline struct debug_cache *debug_of(const struct slab_cache *cache)
{
	return (struct debug_cache *)cache->extra;
}

/* U: is it known who allocated each object? */
static inline bool debug_stores_users(const struct slab_cache *cache)
{
	return cache->extra && debug_of(cache)->flags & SLAB_STORE_USER;
}

/* Lay a cache out with these flags; as slab_cache_init(). */
bool debug_cache_init(struct slab_cache *cache, struct slab_request *request, slab_flags_t flags);
/* As slab_cache_exit(), of a debug cache or another one. */
void debug_cache_exit(struct slab_cache *cache);

/* --- check.c: the life of an object ----------------------------------------------------------- */

/* An object came out of its slab. False after a report: it must not be used, take another one
 * (D3). */
bool debug_take(struct slab_cache *cache, void *object);
/* The object's owner asked for so many bytes of it: the others become a red zone. */
void debug_set_size(struct slab_cache *cache, void *object, size_t size);
size_t debug_size(const struct slab_cache *cache, const void *object);

/* Somebody frees this pointer. False after a report: ignore it. True: it is free; put it back
 * into its slab. With `waited`, it was retired and its grace period has passed. */
bool debug_free(struct slab_cache *cache, void *object, bool waited, const char *call);
/* Somebody retires it; false after a report: ignore it. */
bool debug_retire(struct slab_cache *cache, void *object, const char *call);

/* Check an object of a quiet cache; returns the number of faults, which are reported and
 * repaired. In a forked child, threads may have vanished in the middle of a call. */
int debug_verify(struct slab_cache *cache, void *object, bool is_free, bool forked,
		 const char *call);
/* Is the object out of use because it was written to (D3)? */
bool debug_is_leaked(const struct slab_cache *cache, const void *object);

/* --- explain.c -------------------------------------------------------------------------------- */

/* Report which object of which cache an address is in or beside, at once. Nothing about addresses
 * that are not the library's. For errors that somebody else has found: takes no lock. */
void debug_explain(const void *address);

/* --- fail.c ----------------------------------------------------------------------------------- */

/* Shall this allocation fail on purpose? */
bool debug_fails(struct slab_cache *cache, gfp_t flags);

/* --- validate.c ------------------------------------------------------------------------------- */

/* Check a prepared object of a cache in use, in a slab that the caller holds; is_free: its bit is
 * set. Returns the number of faults, which are reported. */
int debug_validate(struct slab_cache *cache, void *object, bool is_free);

/* --- leaks.c ---------------------------------------------------------------------------------- */

/* Report the objects in use of a cache that is destroyed, or at exit, by the stacks that allocated
 * them, if the cache has U; of another cache, those of them that are guarded. `when` ends a
 * sentence. */
void debug_report_leaks(struct slab_cache *cache, const char *when);

#endif
