/* SPDX-License-Identifier: MIT */
/*
 * What is around an object of a debug cache, and the records of who allocated and freed it.
 *
 *   | debug_track: allocated | debug_track: freed | debug_head | left red zone | OBJECT ...
 *     with U                   with U               always       with Z
 *
 * slab_debug.h has the whole picture, the states and the invariants. The records of a guarded
 * object lie elsewhere (guard_slot.h), and have the same form.
 *
 * Locks: none. Callers: src/debug/ only.
 */
#ifndef SHEAF_DEBUG_OBJECT_H
#define SHEAF_DEBUG_OBJECT_H

#include "debug/slab_debug.h"
#include "os/atomic.h"

#define TRACK_FRAMES 16

/* Bytes of red zones around a used object, and of a fresh one. */
#define DEBUG_ZONE_USED	 0xcc
#define DEBUG_BYTE_FRESH 0x5a

/* X(name, value, its words in reports). The values are unlikely as content, so that an overwritten
 * state is recognised. */
#define DEBUG_STATES(X)                                                                            \
	X(FREE, 0xdeb6f4ee, "free")                                                                \
	X(USED, 0xdeb6a5ed, "in use")                                                              \
	X(WAITS, 0xdeb6c0de, "waits for a grace period")                                           \
	X(BUSY, 0xdeb6b054, "being freed")                                                         \
	X(RESTS, 0xdeb64e57, "free, in quarantine")                                                \
	X(LEAKED, 0xdeb61eac, "kept out of use")
#define DEBUG_STATE(name, value, words) DEBUG_##name = (value),
enum debug_state {
	DEBUG_STATES(DEBUG_STATE)
};

/* An object and the red zones next to it; end: of the requested bytes. */
struct debug_zones {
	uint8_t *open, *object, *end, *closed;
};

/* In front of the left red zone. */
struct debug_head {
	uint32_t state;
	uint32_t size; /* requested bytes */
};

/* Who did something, where and when. */
struct debug_track {
	uintptr_t ip[TRACK_FRAMES];
	uint32_t n;
	uint32_t thread; /* 0: no record yet */
	uint32_t cpu;
	uint32_t when; /* ms */
};

enum debug_deed {
	DEBUG_ALLOCATED,
	DEBUG_FREED,
	NR_DEBUG_DEEDS
};

static inline struct debug_head *debug_head(const struct slab_cache *cache, const void *object)
{
	return (struct debug_head *)((char *)(uintptr_t)object - debug_of(cache)->left) - 1;
}

/* Is the object in use, and with what size? Whoever owns it: it may be freed at the same time, and
 * be prepared for another use, while all of it is closed to memory checkers. */
bool debug_in_use(const struct slab_cache *cache, const void *object, size_t *size);

/* NULL if the cache stores no users. */
static inline struct debug_track *debug_track(const struct slab_cache *cache, const void *object,
					      enum debug_deed deed)
{
	if (!(debug_of(cache)->flags & SLAB_STORE_USER))
		return NULL;
	return (struct debug_track *)debug_head(cache, object) - NR_DEBUG_DEEDS + deed;
}

/* The slab's bit says whether an object is free, whatever the program overwrites. */
static inline bool debug_is_free_in_slab(const struct slab_cache *cache, const void *object)
{
	struct slab *slab = page_slab(object);

	return slab_has(cache, slab, slab_index(cache, slab, object));
}

/* --- check.c ---------------------------------------------------------------------------------- */

/* T: write a line about an allocation or a free. */
void debug_write_trace(const struct slab_cache *cache, const void *object, size_t size,
		       const char *what) OS_COLD;

static inline bool debug_is_traced(const struct slab_cache *cache)
{
	return os_unlikely(os_load_relaxed(&debug_of(cache)->switched) & SLAB_TRACE);
}

/* --- traces.c --------------------------------------------------------------------------------- */

/* Record the calling thread, now. */
void track_now(struct debug_track *track);
/* The same with this stack, of at most TRACK_FRAMES. */
void track_stack(struct debug_track *track, const uintptr_t *ip, uint32_t n);
/* False: the record was overwritten, or never written. */
bool track_is_plausible(const struct debug_track *track);
/* As track_now(), in the object's record, if the cache stores users. */
static inline void track_set(const struct slab_cache *cache, void *object, enum debug_deed deed)
{
	struct debug_track *track = debug_track(cache, object, deed);

	if (track)
		track_now(track);
}
/* Add a line that says what was done, and the stack. */
struct os_record;
void track_print(struct os_record *report, const struct debug_track *track, const char *what);

#endif
