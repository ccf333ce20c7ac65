/* SPDX-License-Identifier: MIT */
/* Q: a freed object is kept in quarantine before it returns to its slab, so that it is not reused
 * soon.
 *
 * Each node has a ring of pointers to the objects, of all caches, that were freed on its CPUs, and
 * an equal share of the bytes that may rest. A thread that frees an object first reserves its
 * bytes, and lets the oldest objects go if there are too few:
 *
 *   places | ... | oldest | ... | newest |     | ... |
 *                ^ passed                ^ added
 *
 * An object that rests counts as free, and has the bytes of a free one. But its bit beside the slab
 * is clear, so nobody can take it. Its state is RESTS.
 *
 * Invariants
 *  QUARANTINE-Q1. An object's bytes are reserved before it enters, and released after it has left.
 *      So no more bytes rest than slab_quarantine allows.
 *  QUARANTINE-Q2. Only the thread that exchanges a pointer out of its place lets the object go. If
 *      the object was written to while it rested, it is never used again (SLAB_DEBUG-D3).
 *  QUARANTINE-Q3. `resting` of a cache counts its objects from before they enter until after they
 *      have left. At zero, no thread has one of them in hand, and the cache may be freed.
 *  QUARANTINE-Q4. A late thread stores its pointer into a place that was already passed. Then this
 *      object rests until the ring comes round again, or until it is drained. Argued: both visit
 *      every place, whatever was passed.
 *
 * Guarded objects (guard.h) do not come here: a closed slot takes no memory, and is used again as
 * late as possible anyway.
 *
 * Locks: none, so it works wherever frees do, and in a forked child.
 */
#include "debug/object.h"
#include "os/assert.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/options/options.h"
#include "os/report/report.h"
#include "os/tsan.h"

#define MIB ((size_t)1 << 20)
/* Without slab_quarantine=N: this part of the machine's memory, as with the kernel's KASAN, but at
 * most this many bytes. */
#define USUAL_PART 32
#define USUAL_MOST (64 * MIB)
/* With smaller objects, the ring is full before all bytes are reserved. */
#define BYTES_PER_PLACE 64

struct ring {
	uint64_t added, passed;
	size_t bytes; /* reserved */
	void **places;
} __attribute__((aligned(64)));

static struct {
	size_t bytes;  /* of each ring, at most */
	size_t places; /* of each ring; 0: nothing rests */
	uint32_t begun, reported;
} quarantine;
static struct ring rings[OS_MAX_NODES] OS_LARGE;

static size_t wanted_rest(void)
{
	size_t memory = os_load_relaxed(&os.memory), wanted = os_options.quarantine * MIB;

	if (!wanted) {
		wanted = memory / USUAL_PART;
		return wanted > USUAL_MOST ? USUAL_MOST : wanted;
	}
	if (wanted <= memory)
		return wanted;
	os_report_later("SHEAF_OPTIONS: slab_quarantine=%u is more than the %zu MiB of memory of "
			"this machine; half of these are used",
			os_options.quarantine, memory / MIB);
	return memory / 2;
}

void quarantine_begin(void)
{
	size_t bytes, places, room;
	char *base, why[200];

	if (os_exchange(&quarantine.begun, 1))
		return;
	bytes = wanted_rest() / os.nr_nodes;
	places = bytes / BYTES_PER_PLACE;
	room = os_round_up(places * sizeof(void *));
	base = os_map(os.nr_nodes * room);
	if (!base) {
		os_refusal(why, sizeof(why));
		os_report_once_later(&quarantine.reported,
				     "slab_debug: there is no memory for the quarantine of %zu MiB "
				     "(slab_quarantine=N); freed objects are not kept: %s",
				     os.nr_nodes * bytes / MIB, why);
		/* The next cache tries again. */
		os_store_release(&quarantine.begun, 0);
		return;
	}
	for (uint32_t node = 0; node < os.nr_nodes; node++)
		rings[node].places = (void **)(void *)(base + node * room);
	quarantine.bytes = bytes;
	os_store_release(&quarantine.places, places);
}

void quarantine_fit(void)
{
	size_t most = quarantine.places * BYTES_PER_PLACE, bytes;

	if (!os_load_acquire(&quarantine.places) || os_options.quarantine)
		return;
	bytes = wanted_rest() / os.nr_nodes;
	os_store_relaxed(&quarantine.bytes, bytes < most ? bytes : most);
}

static void **place_at(const struct ring *ring, uint64_t n)
{
	return &ring->places[n % quarantine.places];
}

static void put_into_slab(struct slab_cache *cache, void *object, bool nolock, const char *call)
{
	if (nolock)
		slab_give_nolock(cache, object, call);
	else
		slab_give(cache, &object, 1, call);
}

/* Release an object that was exchanged out of the ring; false after a report. */
static bool let_go_of(struct ring *ring, void *object, bool nolock)
{
	struct slab_cache *cache = page_owner(object);
	size_t bytes = cache->size;
	bool whole;

	os_assert(os_peek(&ring->bytes) >= bytes);     /* QUARANTINE-Q1 */
	os_assert(os_peek(&debug_of(cache)->resting)); /* QUARANTINE-Q3 */
	tsan_acquire(object);
	whole = debug_wake(cache, object);
	tsan_release(object);
	if (whole)
		put_into_slab(cache, object, nolock, QUARANTINE);
	os_fetch_sub(&debug_of(cache)->resting, 1);
	os_fetch_sub(&ring->bytes, bytes);
	return whole;
}

/* Take the oldest object out, or NULL: there is none. */
static void *oldest_of(struct ring *ring)
{
	for (;;) {
		uint64_t passed = os_load_acquire(&ring->passed);
		uint64_t added = os_load_relaxed(&ring->added), oldest = passed;
		void *object;

		if (passed == added)
			return NULL;
		if (added - passed > quarantine.places)
			oldest = added - quarantine.places;
		if (!os_cmpxchg(&ring->passed, &passed, oldest + 1))
			continue;
		object = os_exchange(place_at(ring, oldest), NULL);
		if (object)
			return object;
	}
}

static bool reserve_rest(struct ring *ring, size_t bytes, bool nolock)
{
	while (os_fetch_add(&ring->bytes, bytes) + bytes > os_load_relaxed(&quarantine.bytes)) {
		void *oldest;

		os_fetch_sub(&ring->bytes, bytes);
		oldest = oldest_of(ring);
		if (!oldest) /* Those that came late (QUARANTINE-Q4) hold the bytes. */
			oldest = os_exchange(place_at(ring, os_fetch_add(&ring->added, 1)), NULL);
		if (!oldest)
			return false;
		let_go_of(ring, oldest, nolock);
	}
	return true;
}

static bool begin_rest(struct slab_cache *cache, void *object, bool nolock)
{
	struct ring *ring = &rings[os_node()];
	void *before;

	if (!os_load_acquire(&quarantine.places) ||
	    cache->size > os_load_relaxed(&quarantine.bytes) ||
	    !reserve_rest(ring, cache->size, nolock))
		return false;
	os_fetch_add(&debug_of(cache)->resting, 1);
	os_assert(os_peek(&debug_head(cache, object)->state) == DEBUG_FREE); /* SLAB_DEBUG-D1 */
	os_store_release(&debug_head(cache, object)->state, DEBUG_RESTS);
	before = os_exchange(place_at(ring, os_fetch_add(&ring->added, 1)), object);
	if (before)
		let_go_of(ring, before, nolock);
	return true;
}

void debug_give(struct slab_cache *cache, void *object, bool nolock, const char *call)
{
	if (!(os_load_relaxed(&debug_of(cache)->switched) & DEBUG_QUARANTINE) ||
	    !begin_rest(cache, object, nolock))
		put_into_slab(cache, object, nolock, call);
}

/* --- all that rest ---------------------------------------------------------------------------- */

static uint64_t used_places(const struct ring *ring)
{
	uint64_t added = os_load_acquire(&ring->added);

	return added < quarantine.places ? added : quarantine.places;
}

#define rings_for_each(ring)	 for (struct ring *ring = rings; ring < rings + os.nr_nodes; ring++)
#define places_for_each(ring, i) for (uint64_t i = 0; i < used_places(ring); i++)

bool quarantine_has(const void *object)
{
	rings_for_each (ring)
		places_for_each (ring, i)
			if (os_load_acquire(&ring->places[i]) == object)
				return true;
	return false;
}

int quarantine_drain(struct slab_cache *cache, bool nolock)
{
	int faults = 0;

	rings_for_each (ring)
		places_for_each (ring, i) {
			void *object = os_load_acquire(&ring->places[i]);

			if (cache && !quarantine_count(cache))
				return faults;
			if (object && (!cache || page_owner(object) == cache) &&
			    os_cmpxchg(&ring->places[i], &object, NULL))
				faults += !let_go_of(ring, object, nolock);
		}
	return faults;
}

int quarantine_end(struct slab_cache *cache)
{
	int faults = 0;

	while (quarantine_count(cache)) {
		faults += quarantine_drain(cache, false);
		if (quarantine_count(cache))
			os_sleep_briefly();
	}
	return faults;
}

size_t quarantine_bytes(void)
{
	size_t bytes = 0;

	/* Most programs never use the rings: not even their pages are read. */
	for (uint32_t node = 0; node < os.nr_nodes && os_load_relaxed(&quarantine.begun); node++)
		bytes += os_load_relaxed(&rings[node].bytes);
	return bytes;
}

void quarantine_after_fork(void)
{
	rings_for_each (ring) {
		ring->bytes = 0;
		places_for_each (ring, i)
			if (ring->places[i]) {
				struct slab_cache *cache = page_owner(ring->places[i]);

				ring->bytes += cache->size;
				debug_of(cache)->resting++;
			}
	}
}
