/* SPDX-License-Identifier: MIT */
/* The life of a guarded object; see guard.h. */
#include <stdio.h>
#include <string.h>

#include "debug/guard_slot.h"
#include "debug/report.h"
#include "os/assert.h"
#include "os/atomic.h"
#include "os/enter_program.h"
#include "os/memory.h"
#include "os/tsan.h"
#include "os/unwind/stack.h"

struct debug_zones guard_zones_of(const struct guard_slot *slot)
{
	uint8_t *object = (uint8_t *)slot->object;
	uint32_t size = os_load_relaxed(&slot->size);

	if (guard_is_packed(slot)) /* without any */
		return (struct debug_zones){object, object, object + slot->object_size,
					    object + slot->object_size};
	return (struct debug_zones){
		.open = (uint8_t *)os_round_down((uintptr_t)object),
		.object = object,
		.end = object + (size < slot->object_size ? size : slot->object_size),
		.closed = (uint8_t *)os_round_up((uintptr_t)object + slot->object_size),
	};
}

static void fill_guarded_zones(const struct guard_slot *slot)
{
	struct debug_zones zones = guard_zones_of(slot);

	memset(zones.open, DEBUG_ZONE_USED, (size_t)(zones.object - zones.open));
	memset(zones.end, DEBUG_ZONE_USED, (size_t)(zones.closed - zones.end));
}

static struct debug_fault fault_in(const struct guard_slot *slot, const struct slab_cache *cache,
				   const void *pointer, const char *call)
{
	struct debug_fault fault = debug_fault_of(cache, pointer, call);

	fault.slot = slot;
	fault.object = slot ? slot->object : NULL;
	fault.holder = slot ? os_load_relaxed(&slot->cache) : NULL;
	return fault;
}

/* Find writes next to the object that were too near to fault. Returns the number of faults. */
static int check_guarded_zones(const struct guard_slot *slot, const char *call)
{
	struct debug_zones zones = guard_zones_of(slot);
	struct debug_fault fault =
		fault_in(slot, os_load_relaxed(&slot->cache), slot->object, call);

	fault.fix = "the red zone was restored";
	fault.expected = DEBUG_ZONE_USED;
	return debug_restore(&fault, zones.open, (size_t)(zones.object - zones.open),
			     DEBUG_LEFT_ZONE_GUARDED) +
	       debug_restore(&fault, zones.end, (size_t)(zones.closed - zones.end),
			     DEBUG_RIGHT_ZONE);
}

/* T: only in caches whose objects are all checked; samples of other caches are not traced. */
static void trace_guarded(const struct guard_slot *slot, const char *what)
{
	const struct slab_cache *cache = os_load_relaxed(&slot->cache);

	if (cache && cache->extra && debug_is_traced(cache))
		debug_write_trace(cache, slot->object, os_load_relaxed(&slot->size), what);
}

/* --- the heap profile ------------------------------------------------------------------------- */

static OS_NOINLINE void note_sample(const struct guard_slot *slot, const char *name,
				    const char *group, size_t class, size_t asked)
{
	struct guard_notes *notes = guard_notes_of(slot);
	struct debug_track *track = &notes->tracks[DEBUG_ALLOCATED];
	uintptr_t ip[PROFILE_DEPTH];
	uint32_t n = os_stack_walk(ip, PROFILE_DEPTH);

	track_stack(track, ip, n < TRACK_FRAMES ? n : TRACK_FRAMES);
	notes->tracks[DEBUG_FREED].thread = 0;
	notes->asked = asked;
	notes->row = profile_allocated(slot->object, name, group, class, asked, ip, n);
}

static void set_asked(struct guard_slot *slot, size_t size)
{
	struct guard_notes *notes = guard_notes_of(slot);

	if (notes->row)
		profile_resized(notes->row, notes->asked, size);
	notes->asked = size;
}

void guard_tell_asked(void *object, size_t size)
{
	struct guard_slot *slot = guard_place_of(object).in;

	if (slot && slot->object == object)
		set_asked(slot, size);
}

static void end_sample(const struct guard_slot *slot)
{
	struct guard_notes *notes = guard_notes_of(slot);
	const struct debug_track *from = &notes->tracks[DEBUG_ALLOCATED],
				 *to = &notes->tracks[DEBUG_FREED];
	bool retired = to->thread;

	if (notes->row)
		profile_freed(notes->row, slot->object, notes->asked,
			      from->cpu != (retired ? to->cpu : os_cpu()),
			      (retired ? to->when : os_now_ms()) - from->when);
	notes->row = NULL;
}

uint32_t guard_record(struct slab_cache *cache, const char *group, void *block, size_t class,
		      size_t asked)
{
	struct guard_slot *slot = guard_claim_record();

	if (!slot) {
		profile_leave_out();
		return 0;
	}
	slot->object = block;
	slot->object_size = 0; /* no pointer is inside */
	os_store_relaxed(&slot->cache, cache);
	note_sample(slot, cache->name, group, class, asked);
	os_store_release(&slot->state, DEBUG_USED);
	return guard_number_of(slot);
}

void guard_record_asked(uint32_t number, size_t asked)
{
	set_asked(guard_slot_of(number), asked);
}

void guard_record_retired(uint32_t number)
{
	track_now(&guard_notes_of(guard_slot_of(number))->tracks[DEBUG_FREED]);
}

void guard_record_end(uint32_t number)
{
	struct guard_slot *slot = guard_slot_of(number);

	end_sample(slot);
	os_store_relaxed(&slot->state, DEBUG_BUSY);
	guard_give(slot);
}

/* --- allocating ------------------------------------------------------------------------------- */

void *guard_alloc(struct slab_cache *cache, const char *group)
{
	bool packed = group && !os_options_debug_has('S');
	struct guard_slot *slot = guard_claim(cache->object_size, cache->align, packed);
	struct guard_notes *notes;

	if (!slot && group)
		profile_leave_out();
	if (!slot)
		return NULL;
	os_assert(!cache->late); /* GUARD-G5 */
	notes = guard_notes_of(slot);
	os_store_relaxed(&slot->cache, cache);
	os_store_relaxed(&slot->owner, 0);
	os_store_relaxed(&slot->size, cache->object_size);
	tsan_acquire(cache->name);
	snprintf(notes->name, sizeof(notes->name), "%s", cache->name);
	fill_guarded_zones(slot);
	if (cache->extra && debug_of(cache)->flags & SLAB_POISON)
		memset(slot->object, DEBUG_BYTE_FRESH, cache->object_size);
	if (cache->ctor) {
		struct os_program call = os_enter_program();

		cache->ctor(slot->object);
		os_leave_program(call);
	}
	notes->tracks[DEBUG_FREED] = (struct debug_track){.thread = 0};
	notes->row = NULL;
	if (group)
		note_sample(slot, cache->name, group, cache->object_size, cache->object_size);
	else
		track_now(&notes->tracks[DEBUG_ALLOCATED]);
	trace_guarded(slot, "alloc");
	os_assert(os_peek(&slot->state) == DEBUG_BUSY &&
		  os_peek(&slot->cache) == cache); /* GUARD-G4 */
	os_store_release(&slot->state, DEBUG_USED);
	return slot->object;
}

void guard_set_size(void *object, size_t size)
{
	struct guard_slot *slot = guard_place_of(object).in;
	struct debug_zones zones;

	if (!slot || slot->object != object || size > os_load_relaxed(&slot->size))
		return;
	zones = guard_zones_of(slot);
	/* In this order: a forked child may look in between. */
	memset(zones.object + size, DEBUG_ZONE_USED, (size_t)(zones.end - zones.object) - size);
	os_store_release(&slot->size, (uint32_t)size);
	set_asked(slot, size);
}

/* --- freeing ---------------------------------------------------------------------------------- */

/* The slot of a pointer. NULL after a report: it belongs to no object, or to another cache. */
static struct guard_slot *slot_of_call(struct slab_cache *cache, void *pointer, const char *call)
{
	struct guard_slot *slot = guard_place_of(pointer).in;
	struct debug_fault fault;

	if (slot && !guard_is_inside(slot, pointer))
		slot = NULL;
	fault = fault_in(slot, cache, pointer, call);
	if (pointer != fault.object)
		debug_report(&fault, "Invalid object pointer",
			     "pass the address that was allocated");
	else if (cache && fault.holder && fault.holder != cache)
		debug_report(&fault, "Wrong slab cache",
			     "free it to the cache that it came from, or with kfree()");
	else
		return slot;
	return NULL;
}

/* Change the state of an object that is freed or retired; false after a report. */
static bool begin_free(struct guard_slot *slot, struct slab_cache *cache, uint32_t from,
		       uint32_t next, const char *call)
{
	struct debug_fault fault = fault_in(slot, cache, slot->object, call);
	uint32_t state = from;

	/* A provider that frees immediately frees objects that are still in use. */
	if (os_cmpxchg(&slot->state, &state, next) ||
	    (state == DEBUG_USED && os_cmpxchg(&slot->state, &state, next)))
		return true;
	debug_report_state(&fault, state, NULL);
	return false;
}

bool guard_free(struct slab_cache *cache, void *object, bool waited, bool clears, const char *call)
{
	struct guard_slot *slot = slot_of_call(cache, object, call);
	struct debug_zones zones;

	if (!slot || !begin_free(slot, cache, waited ? DEBUG_WAITS : DEBUG_USED, DEBUG_BUSY, call))
		return false;
	check_guarded_zones(slot, call);
	zones = guard_zones_of(slot);
	if (clears)
		memset(zones.object, 0, (size_t)(zones.end - zones.object));
	end_sample(slot);
	if (!waited && !guard_is_packed(slot))
		track_now(&guard_notes_of(slot)->tracks[DEBUG_FREED]);
	trace_guarded(slot, "free");
	os_assert(!cache || os_peek(&slot->cache) == cache); /* GUARD-G4 */
	guard_give(slot);
	return true;
}

bool guard_retire(struct slab_cache *cache, void *object, const char *call)
{
	struct guard_slot *slot = slot_of_call(cache, object, call);

	if (!slot || !begin_free(slot, cache, DEBUG_USED, DEBUG_WAITS, call))
		return false;
	track_now(&guard_notes_of(slot)->tracks[DEBUG_FREED]);
	trace_guarded(slot, "retire");
	return true;
}

bool guard_is_used(void *object, bool retired, const char *call)
{
	struct guard_slot *slot = slot_of_call(NULL, object, call);
	uint32_t state = slot ? os_load_acquire(&slot->state) : DEBUG_FREE;
	struct debug_fault fault = fault_in(slot, NULL, object, call);

	if (state == DEBUG_USED || (retired && state == DEBUG_WAITS))
		return true;
	if (slot)
		debug_report_state(&fault, state, DEBUG_ADVICE_OF_USE);
	return false;
}

/* --- all objects of a cache ------------------------------------------------------------------- */

void *guard_find(const void *pointer, struct slab_cache **cache, size_t *size)
{
	struct guard_slot *slot = guard_place_of(pointer).in;

	if (!slot || !guard_is_live(slot) || !guard_is_inside(slot, pointer))
		return NULL;
	*cache = os_load_relaxed(&slot->cache);
	*size = os_load_relaxed(&slot->size);
	return slot->object;
}

uint32_t *guard_owner(const void *object)
{
	struct guard_slot *slot = guard_place_of(object).in;

	return slot && slot->object == object && guard_is_live(slot) ? &slot->owner : NULL;
}

void guard_for_each_owned(owner_look *look, void *data)
{
	guard_for_each (slot) {
		uint32_t number = os_load_relaxed(&slot->owner);

		if (number && guard_is_live(slot))
			look(data, os_load_relaxed(&slot->cache), number);
	}
}

static bool is_live_in(const struct guard_slot *slot, const struct slab_cache *cache)
{
	return guard_is_live(slot) && os_load_relaxed(&slot->cache) == cache;
}

size_t guard_live(const struct slab_cache *cache, void **objects, size_t room)
{
	size_t n = 0;

	guard_for_each (slot) {
		if (!is_live_in(slot, cache))
			continue;
		if (n < room)
			objects[n] = slot->object;
		n++;
	}
	return n;
}

int guard_verify(struct slab_cache *cache)
{
	int faults = 0;

	guard_for_each (slot)
		if (is_live_in(slot, cache))
			faults += check_guarded_zones(slot, "kmem_cache_verify");
	return faults;
}

void guard_forget(const struct slab_cache *cache)
{
	guard_for_each (slot) {
		struct slab_cache *holder = os_load_relaxed(&slot->cache);

		/* Another thread may claim it for its own cache just now. */
		if (holder == cache)
			os_cmpxchg(&slot->cache, &holder, NULL);
	}
}
