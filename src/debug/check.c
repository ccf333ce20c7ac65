/* SPDX-License-Identifier: MIT */
/* The life of an object of a debug cache; see slab_debug.h for its states and invariants. */
#include "debug/guard.h"
#include "debug/report.h"
#include "debug/zones.h"
#include "os/assert.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/memory_tools.h"
#include "os/report/report.h"
#include "os/unwind/stack.h"

/* --- the state -------------------------------------------------------------------------------- */

static bool is_state(uint32_t state)
{
#define IS_STATE(name, value, words) || state == DEBUG_##name
	return 0 DEBUG_STATES(IS_STATE);
}

size_t debug_size(const struct slab_cache *cache, const void *object)
{
	size_t size;

	debug_in_use(cache, object, &size);
	return size;
}

TOOLS_LOOK bool debug_in_use(const struct slab_cache *cache, const void *object, size_t *size)
{
	const struct debug_head *head = debug_head(cache, object);
	uint32_t state = os_load_acquire(&head->state), requested = os_load_relaxed(&head->size);

	*size = requested < cache->object_size ? requested : cache->object_size;
	return state == DEBUG_USED;
}

static void report_overwritten(const struct slab_cache *cache, const void *object, const char *call)
{
	struct debug_fault fault = debug_fault_of(cache, object, call);

	fault.fix = "the metadata was restored from data outside the slab";
	debug_report(&fault, "Object metadata overwritten",
		     "something wrote far in front of this object, or far past the end of the one "
		     "before it");
}

static void report_not_used(const struct slab_cache *cache, const void *object, uint32_t state,
			    const char *advice, const char *call)
{
	struct debug_fault fault = debug_fault_of(cache, object, call);

	debug_report_state(&fault, state, advice);
}

/* --- the life of an object -------------------------------------------------------------------- */

void debug_write_trace(const struct slab_cache *cache, const void *object, size_t size,
		       const char *what)
{
	char stack[300];

	if (!os_stack(stack, sizeof(stack)))
		stack[0] = '\0';
	os_report_later("TRACE %s %s %p, %zu bytes, thread %u, CPU %u%s%s", cache->name, what,
			object, size, os_thread(), os_cpu(), *stack ? "; called from" : "", stack);
}

static inline void trace(const struct slab_cache *cache, const void *object, const char *what)
{
	if (debug_is_traced(cache))
		debug_write_trace(cache, object, debug_size(cache, object), what);
}

/* Check that nobody wrote to this free object, which the caller owns. True: it is open. False after
 * a report: it is LEAKED. */
static bool is_untouched(struct slab_cache *cache, void *object, uint32_t state, const char *call)
{
	struct debug_head *head = debug_head(cache, object);
	int faults = 0;

	if (os_load_relaxed(&head->state) != state) {
		report_overwritten(cache, object, call);
		faults++;
	}
	os_store_relaxed(&head->size, cache->object_size);
	debug_open(cache, object);
	faults += zones_check_free(cache, object, call);
	if (!faults)
		return true;
	debug_close(cache, object);
	os_store_relaxed(&head->state, DEBUG_LEAKED);
	return false;
}

bool debug_take(struct slab_cache *cache, void *object)
{
	if (!is_untouched(cache, object, DEBUG_FREE, "kmem_cache_alloc"))
		return false;
	if (debug_of(cache)->flags & SLAB_POISON)
		bytes_fill(object, cache->object_size, DEBUG_BYTE_FRESH);
	zones_fill(cache, object, cache->object_size, DEBUG_ZONE_USED);
	track_set(cache, object, DEBUG_ALLOCATED);
	trace(cache, object, "alloc");
	/* Tools do not know stable objects as blocks. */
	zones_close(cache, object, cache->object_size);
	if (!debug_of(cache)->stable)
		tools_taken(object, cache->object_size, cache->ctor);
	/* SLAB_DEBUG-D2, SLAB_DEBUG-D3 */
	os_assert(os_peek(&debug_head(cache, object)->state) == DEBUG_FREE);
	os_store_release(&debug_head(cache, object)->state, DEBUG_USED);
	return true;
}

bool debug_wake(struct slab_cache *cache, void *object)
{
	if (!is_untouched(cache, object, DEBUG_RESTS, QUARANTINE))
		return false;
	debug_close(cache, object);
	os_store_release(&debug_head(cache, object)->state, DEBUG_FREE);
	return true;
}

void debug_set_size(struct slab_cache *cache, void *object, size_t size)
{
	struct debug_head *head;
	size_t old;

	if (guard_is_ours(object)) {
		guard_set_size(object, size);
		return;
	}
	head = debug_head(cache, object);
	old = debug_size(cache, object);
	if (size > old)
		return;
	zones_open(cache, object, old);
	/* In this order: a forked child may look in between. */
	if (debug_of(cache)->flags & SLAB_RED_ZONE)
		bytes_fill((uint8_t *)object + size, old - size, DEBUG_ZONE_USED);
	os_store_release(&head->size, (uint32_t)size);
	tools_resized(object, old, size);
	zones_close(cache, object, size);
}

/*
 * The object that the caller frees or retires is not in the expected state. True: the caller may go
 * on; the state is `next` now.
 */
static bool settle(struct slab_cache *cache, void *object, uint32_t state, uint32_t next,
		   const char *call)
{
	struct debug_head *head = debug_head(cache, object);
	uint32_t found;

	/* A provider that frees immediately: the object was never marked as waiting. */
	if (state == DEBUG_USED && os_cmpxchg(&head->state, &state, next))
		return true;
	if (is_state(state)) {
		report_not_used(cache, object, state, NULL, call);
		return false;
	}
	report_overwritten(cache, object, call);
	found = debug_is_free_in_slab(cache, object) ? DEBUG_FREE
		: quarantine_has(object)	     ? DEBUG_RESTS
						     : next;
	/* If another thread changes the state just now, its state is right. */
	if (!os_cmpxchg(&head->state, &state, found) || found != next)
		return false;
	os_store_relaxed(&head->size, cache->object_size);
	return true;
}

/* SLAB_DEBUG-D1: from now on only the caller frees or retires the object. False after a report. */
static bool change_state(struct slab_cache *cache, void *object, uint32_t from, uint32_t to,
			 const char *call)
{
	uint32_t state = from;

	return os_likely(os_cmpxchg(&debug_head(cache, object)->state, &state, to)) ||
	       settle(cache, object, state, to, call);
}

bool debug_free(struct slab_cache *cache, void *object, bool waited, const char *call)
{
	struct debug_head *head;

	if (!debug_is_object(cache, object, call) ||
	    !change_state(cache, object, waited ? DEBUG_WAITS : DEBUG_USED, DEBUG_BUSY, call))
		return false;
	head = debug_head(cache, object);
	zones_open(cache, object, debug_size(cache, object));
	zones_check_used(cache, object, call);
	if (!waited)
		track_set(cache, object, DEBUG_FREED);
	trace(cache, object, "free");
	os_store_relaxed(&head->size, cache->object_size);
	debug_fill_free(cache, object);
	if (!debug_of(cache)->stable)
		tools_freed(object, cache->object_size);
	debug_close(cache, object);
	os_assert(os_peek(&head->state) == DEBUG_BUSY); /* SLAB_DEBUG-D1 */
	os_store_release(&head->state, DEBUG_FREE);
	return true;
}

bool debug_retire(struct slab_cache *cache, void *object, const char *call)
{
	if (!debug_is_object(cache, object, call) ||
	    !change_state(cache, object, DEBUG_USED, DEBUG_WAITS, call))
		return false;
	track_set(cache, object, DEBUG_FREED);
	trace(cache, object, "retire");
	return true;
}

bool debug_end_leak(struct slab_cache *cache, void *object)
{
	uint32_t *at = &debug_head(cache, object)->state, state = DEBUG_LEAKED;

	/* Even a failed exchange would touch the pages of a slab that was returned meanwhile. */
	return os_load_relaxed(at) == DEBUG_LEAKED && os_cmpxchg(at, &state, DEBUG_FREE);
}

bool debug_is_used(struct slab_cache *cache, void *object, bool retired, const char *call)
{
	uint32_t state;

	if (!debug_is_object(cache, object, call))
		return false;
	state = os_load_acquire(&debug_head(cache, object)->state);
	if (state == DEBUG_USED || (retired && state == DEBUG_WAITS) ||
	    (!is_state(state) && !debug_is_free_in_slab(cache, object)))
		return true;
	report_not_used(cache, object, state, DEBUG_ADVICE_OF_USE, call);
	return false;
}

/* A thread is taking or freeing it, or was doing so when the process was forked. */
static bool is_on_its_way(uint32_t state)
{
	return state == DEBUG_FREE || state == DEBUG_BUSY || state == DEBUG_LEAKED;
}

int debug_verify(struct slab_cache *cache, void *object, bool is_free, bool forked,
		 const char *call)
{
	struct debug_head *head = debug_head(cache, object);
	bool rests;
	int faults = 0;
	uint32_t state;

	/* A thread that has vanished may have been preparing it: then all of it is still closed. */
	if (forked)
		tools_open((char *)head, sizeof(*head));
	state = os_load_acquire(&head->state);
	rests = state == DEBUG_RESTS;
	if (!is_free && (is_on_its_way(state) || (forked && !is_state(state))))
		return 0;
	if (is_free ? state != DEBUG_FREE : state != DEBUG_USED && state != DEBUG_WAITS && !rests) {
		report_overwritten(cache, object, call);
		os_store_relaxed(&head->state, is_free ? DEBUG_FREE : DEBUG_USED);
		faults++;
	}
	if (is_free || rests) {
		debug_open(cache, object);
		faults += zones_check_free(cache, object, call);
		debug_close(cache, object);
	} else {
		zones_open(cache, object, debug_size(cache, object));
		faults += zones_check_used(cache, object, call);
		zones_close(cache, object, debug_size(cache, object));
	}
	return faults;
}
