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
 *                         |--with Q, before it is in its slab--> RESTS --> FREE
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
 *      it again. It is LEAKED until its cache is destroyed. But kmem_cache_verify() and
 *      kmem_cache_validate() only restore an object that is free in its slab.
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

#include "os/atomic.h"
#include "slab/slab.h"

#define DEBUG_FLAGS                                                                                \
	(SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON | SLAB_STORE_USER | SLAB_TRACE |    \
	 SLAB_FAILSLAB)

/* Letters that may change while the cache is in use. */
#define DEBUG_SWITCHED (SLAB_TRACE | SLAB_FAILSLAB | DEBUG_QUARANTINE)

/* --- parse.c: which letters a cache gets ------------------------------------------------------ */

/* In flags that come from letters: O, do without what would make slabs larger. */
#define DEBUG_NOT_LARGER (1u << 31)
/* G: each object between guard pages, as long as there is room for them (guard.h). */
#define DEBUG_GUARD (1u << 30)
/* S: one in slab_sample bytes, of a cache that keeps its sheaves (sample.h). */
#define DEBUG_SAMPLE (1u << 29)
/* Q: freed objects rest (quarantine.c). */
#define DEBUG_QUARANTINE (1u << 28)

/* Read blocks of letters and names; false, after reports that are deferred, if not all was
 * understood. */
bool debug_parse(const char *text);
/* The flags that the first block with this name, or else the last one without names, gives; and
 * those of a creator. SLAB_NO_USER_FLAGS: only the latter. */
slab_flags_t debug_flags_of(const char *name, slab_flags_t flags);
/* T, A or Q, on or off, of a cache in use. */
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
	uint32_t switched;	 /* T, A and Q: those in force now */
	uint32_t resting;	 /* objects in quarantine */
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
/* The object's owner asked for so many bytes of it, at most as many as before: the others become a
 * red zone. What is one already is left as it is, so that its free finds what was written there. */
void debug_set_size(struct slab_cache *cache, void *object, size_t size);
size_t debug_size(const struct slab_cache *cache, const void *object);

/* Somebody frees this pointer. False after a report: ignore it. True: it is free; debug_give() it.
 * With `waited`, it was retired and its grace period has passed. */
bool debug_free(struct slab_cache *cache, void *object, bool waited, const char *call);
/* Somebody retires it; false after a report: ignore it. */
bool debug_retire(struct slab_cache *cache, void *object, const char *call);

/* An object is taken out of quarantine. False after a report: it must not be used (D3). */
bool debug_wake(struct slab_cache *cache, void *object);

/* Check an object of a quiet cache; returns the number of faults, which are reported and
 * repaired. In a forked child, threads may have vanished in the middle of a call. */
int debug_verify(struct slab_cache *cache, void *object, bool is_free, bool forked,
		 const char *call);
/* Of a cache that ends: true if the object was kept out of use because it was written to (D3). It
 * is free then, and the caller returns it to its slab. */
bool debug_end_leak(struct slab_cache *cache, void *object);

/* --- quarantine.c ----------------------------------------------------------------------------- */

/* Who found what is wrong with an object that leaves. */
#define QUARANTINE "quarantine"

/* Make room for objects to rest, when the first cache wants that. Reports are deferred. */
void quarantine_begin(void);
/* Put a free object of a debug cache into its slab, with Q after a rest. With `nolock`, as
 * slab_give_nolock(). */
void debug_give(struct slab_cache *cache, void *object, bool nolock, const char *call);

/* Objects of the cache that rest, or are just leaving. */
static inline uint32_t quarantine_count(const struct slab_cache *cache)
{
	return cache->extra ? os_load_acquire(&debug_of(cache)->resting) : 0;
}

/* Does this object rest? Whatever its state says. O(places). */
bool quarantine_has(const void *object);
/* Bytes of all objects that rest, with what is around them. */
size_t quarantine_bytes(void);
/* Let those of the cache go, or, with NULL, of all caches; returns how many of them were written
 * to, which is reported. O(places). */
int quarantine_drain(struct slab_cache *cache, bool nolock);
/* The same of a cache of which no objects are freed meanwhile; then none rests. */
int quarantine_end(struct slab_cache *cache);
/* In a forked child, alone, with `resting` of all caches zero: what rests is all that there is. */
void quarantine_after_fork(void);

/* --- explain.c -------------------------------------------------------------------------------- */

/* Report which object of which cache an address is in or beside, at once. Nothing about addresses
 * that are not the library's. For errors that somebody else has found: takes no lock. */
void debug_explain(const void *address);

/* --- fail.c ----------------------------------------------------------------------------------- */

/* Shall this allocation fail on purpose? */
bool debug_fails(struct slab_cache *cache, gfp_t flags);

/* --- validate.c ------------------------------------------------------------------------------- */

/* Check a prepared object of a cache in use, in a slab that the caller holds, unless it rests;
 * is_free: its bit is set. Returns the number of faults, which are reported. */
int debug_validate(struct slab_cache *cache, void *object, bool is_free);

/* --- leaks.c ---------------------------------------------------------------------------------- */

/* Report the objects in use of a cache that is destroyed, or at exit, by the stacks that allocated
 * them, if the cache has U; of another cache, those of them that are guarded. `when` ends a
 * sentence. */
void debug_report_leaks(struct slab_cache *cache, const char *when);

#endif
