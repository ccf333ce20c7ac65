/* SPDX-License-Identifier: MIT */
/*
 * slab_debug: caches that check every allocation and free. Options choose them when the program
 * starts.
 *
 * A debug cache has no sheaves, so each call reaches src/cache/'s slow calls, which call this
 * layer: once when an object has left its slab, once before it returns. The slab layer
 * leaves room around the objects for
 *
 *   | allocated by | freed by | state, size | left red zone | OBJECT | gap | right red zone |
 *   `----------- U -----------'`- always ---'`----- Z -----'         ^     `- Z, 8 or more -'
 *   `------------------------ before ----------------------'         a request of kmalloc() ends
 *
 * The bits outside the slab still decide which objects are free: nothing that the program
 * overwrites can make the library hand out an object twice. The state repeats this for each object,
 * and says more:
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
 *  SLAB_DEBUG-D1. The thread that changes USED or WAITS to BUSY, by compare-exchange, frees the
 *      object; any other free is a double free. So of two racing frees, one is reported and changes
 *      no byte of the object.
 *  SLAB_DEBUG-D2. Only the owner of an object writes around it: the thread that prepares it, takes
 *      it, retires it or made it BUSY, or that takes it out of quarantine (QUARANTINE-Q2).
 *  SLAB_DEBUG-D3. An object that was written to while it was free is never handed out: the writer
 *      may do it again. It is LEAKED until its cache is destroyed. But kmem_cache_verify() and
 *      kmem_cache_validate() only restore an object that is free in its slab.
 *  SLAB_DEBUG-D4. Overwritten bytes are reported once and then restored, so that the program goes
 *      on and the next mistake is found. A free of anything but a used object of the cache is
 *      ignored.
 *  SLAB_DEBUG-D5. Objects with a constructor, and those that readers may still look at
 *      (SLAB_TYPESAFE_BY_RCU), are not written to.
 *  SLAB_DEBUG-D6. An object that waits for a grace period counts as used: it is checked and
 *      poisoned when it is really freed. An object in a prefilled sheaf was allocated by the call
 *      that filled the sheaf.
 *  SLAB_DEBUG-D7. With O, a cache does without letters that would make its slabs larger. Without
 *      it, the bytes of all letters fit: the largest slab is twice as large as the largest object.
 *
 * The layer takes no lock, and allocates nothing once a cache is made, so it works in every context
 * in which the allocator does. Reports have many lines (os/report/record.h).
 *
 * Locks: none. Callers: src/cache/, and src/kmalloc/ for sizes.
 */
#ifndef SHEAF_DEBUG_SLAB_DEBUG_H
#define SHEAF_DEBUG_SLAB_DEBUG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "debug/flags.h"
#include "os/atomic.h"
#include "os/options/options.h"
#include "slab/slab.h"

#define DEBUG_FLAGS                                                                                \
	(SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON | SLAB_STORE_USER | SLAB_TRACE |    \
	 SLAB_FAILSLAB)

/* Letters that may change while the cache is in use. */
#define DEBUG_SWITCHED (SLAB_TRACE | SLAB_FAILSLAB | DEBUG_QUARANTINE)

/* --- parse.c: which letters a cache gets ------------------------------------------------------ */

/* The flag of a letter of slab_debug; 0: it is none. */
slab_flags_t debug_flag_of(char letter);
/* Read blocks of letters and names. False, after deferred reports: not all was understood. */
bool debug_parse(const char *text);
/* The flags of the first block with this name, or else of the last block without names, and the
 * creator's flags. With SLAB_NO_USER_FLAGS, only the latter. */
slab_flags_t debug_flags_of(const char *name, slab_flags_t flags);
/* Switch T, A or Q on or off, for a cache in use. */
void debug_switch(struct slab_cache *cache, slab_flags_t flag, bool on);
/* The letters in force, as flags, and as text without G. */
#define DEBUG_LETTERS sizeof(OS_LETTERS)
slab_flags_t debug_flags_now(const struct slab_cache *cache);
void debug_letters(const struct slab_cache *cache, char letters[DEBUG_LETTERS]);
/* The names in blocks, with their flags. */
extern struct os_names debug_blocks;

/* --- layout.c --------------------------------------------------------------------------------- */

struct debug_cache {
	struct slab_extra extra; /* first: the slab layer has a pointer to it */
	slab_flags_t flags;	 /* those that are in force */
	uint16_t left, right;	 /* bytes of red zones */
	bool stable;		 /* SLAB_TYPESAFE_BY_RCU */
	uint32_t failed;	 /* an injected failure was reported */
	uint32_t switched;	 /* T, A and Q: those in force now */
	uint32_t resting;	 /* objects in quarantine */
};

static inline struct debug_cache *debug_of(const struct slab_cache *cache)
{
	return (struct debug_cache *)cache->extra;
}

/* U: does the cache record who allocated each object? */
static inline bool debug_stores_users(const struct slab_cache *cache)
{
	return cache->extra && debug_of(cache)->flags & SLAB_STORE_USER;
}

/* Lay a cache out with these flags; as slab_cache_init(). */
bool debug_cache_init(struct slab_cache *cache, struct slab_request *request, slab_flags_t flags);
/* As slab_cache_exit(), for debug caches and others. */
void debug_cache_exit(struct slab_cache *cache);

/* --- check.c: the life of an object ----------------------------------------------------------- */

/* An object came out of its slab. False after a report: it must not be used, take another one
 * (SLAB_DEBUG-D3). */
bool debug_take(struct slab_cache *cache, void *object);
/* The owner requested this many bytes of the object, at most as many as before: the others become a
 * red zone. What is one already stays as it is, so that its free finds what was written there. */
void debug_set_size(struct slab_cache *cache, void *object, size_t size);
size_t debug_size(const struct slab_cache *cache, const void *object);

/* Free this pointer. False after a report: ignore it. True: it is free; pass it to debug_give().
 * With `waited`, it was retired and its grace period has passed. */
bool debug_free(struct slab_cache *cache, void *object, bool waited, const char *call);
/* Retire it. False after a report: ignore it. */
bool debug_retire(struct slab_cache *cache, void *object, const char *call);

/* Does the program use this object, or, with `retired`, may readers? For calls that do not free it.
 * False after a report: ignore the call. */
bool debug_is_used(struct slab_cache *cache, void *object, bool retired, const char *call);

/* An object is taken out of quarantine. False after a report: it must not be used
 * (SLAB_DEBUG-D3). */
bool debug_wake(struct slab_cache *cache, void *object);

/* Check an object of a quiet cache; returns the number of faults, which are reported and
 * repaired. In a forked child, threads may have vanished in the middle of a call. */
int debug_verify(struct slab_cache *cache, void *object, bool is_free, bool forked,
		 const char *call);
/* Of a cache that ends: true if the object was kept out of use because it was written to
 * (SLAB_DEBUG-D3). It is free then, and the caller returns it to its slab. */
bool debug_end_leak(struct slab_cache *cache, void *object);

/* --- quarantine.c ----------------------------------------------------------------------------- */

/* The finder, in reports about an object that leaves. */
#define QUARANTINE "quarantine"

/* Set up the quarantine, for the first cache that uses it. Reports are deferred. */
void quarantine_begin(void);
/* os.memory has changed: adjust how much may rest, unless an option says so. */
void quarantine_fit(void);
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
/* Let the cache's objects go, or, with NULL, those of all caches. Returns how many of them were
 * written to; these are reported. O(places). */
int quarantine_drain(struct slab_cache *cache, bool nolock);
/* Drain a cache of which no objects are freed meanwhile; afterwards none rests. */
int quarantine_end(struct slab_cache *cache);
/* In a forked child, by its only thread, with `resting` of all caches zero: count what rests
 * anew. */
void quarantine_after_fork(void);

/* --- pointer.c -------------------------------------------------------------------------------- */

/* Report immediately which object of which cache an address is in or next to; nothing for addresses
 * that are not the library's. For errors that a tool has found: takes no lock. */
void debug_explain(const void *address);
/* The same, because the program asks. False: there is no such object, and no large block. */
bool debug_dump(const void *address);

/* --- sample.c --------------------------------------------------------------------------------- */

/* Shall this allocation fail on purpose? */
bool debug_fails(struct slab_cache *cache, gfp_t flags);

/* --- validate.c ------------------------------------------------------------------------------- */

/* Check a prepared object of a cache in use, in a slab that the caller holds, unless it rests;
 * is_free: its bit is set. Returns the number of faults, which are reported. */
int debug_validate(struct slab_cache *cache, void *object, bool is_free);

/* --- traces.c --------------------------------------------------------------------------------- */

/* Report a cache's objects in use, when it is destroyed or at exit, grouped by the stack that
 * allocated them. Without U, only guarded objects. `when` ends a sentence. */
void debug_report_leaks(struct slab_cache *cache, const char *when);

#endif
