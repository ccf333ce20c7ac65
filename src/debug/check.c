/* SPDX-License-Identifier: MIT */
/* The checks of each allocation and free; see slab_debug.h for states, bytes and invariants. */
#include <string.h>

#include "debug/bytes.h"
#include "debug/guard.h"
#include "debug/report.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/report.h"
#include "os/stack.h"
#include "os/tools.h"

#define BYTE_FREE 0x6b
#define BYTE_END  0xa5
#define ZONE_FREE 0xbb

/* --- bytes ------------------------------------------------------------------------------------ */

static void fill_zones(const struct slab_cache *cache, uint8_t *object, size_t size, uint8_t byte)
{
	const struct debug_cache *debug = debug_of(cache);

	if (!(debug->flags & SLAB_RED_ZONE))
		return;
	bytes_fill(object - debug->left, debug->left, byte);
	bytes_fill(object + size, cache->object_size - size + debug->right, byte);
}

void debug_fill_free(const struct slab_cache *cache, void *object)
{
	if (debug_of(cache)->flags & SLAB_POISON) {
		bytes_fill(object, cache->object_size - 1, BYTE_FREE);
		((uint8_t *)object)[cache->object_size - 1] = BYTE_END;
	}
	fill_zones(cache, object, cache->object_size, ZONE_FREE);
}

/* Report and restore bytes that do not have the expected value. Returns whether there were any. */
static bool is_overwritten(struct debug_fault fault, uint8_t *from, size_t length, uint8_t expected)
{
	if (__builtin_expect(bytes_are(from, length, expected), 1))
		return false;
	fault.from = from;
	fault.length = length;
	fault.expected = expected;
	debug_report(&fault);
	memset(from, expected, length);
	return true;
}

static __attribute__((cold, noinline)) int report_zones(struct slab_cache *cache, void *object,
							size_t size, uint8_t byte, const char *call)
{
	struct debug_cache *debug = debug_of(cache);
	struct debug_fault fault = debug_fault_of(cache, object, call);
	uint8_t *end = (uint8_t *)object + cache->object_size;
	int faults = 0;

	fault.what = "Left Redzone overwritten";
	fault.fix = "the red zone was restored";
	fault.advice = "something wrote in front of this object, or past the end of the one "
		       "before it: look for a negative index, or a pointer moved back too far";
	faults += is_overwritten(fault, (uint8_t *)object - debug->left, debug->left, byte);
	fault.what = "kmalloc Redzone overwritten";
	fault.advice = "something wrote past the bytes that were requested: look for a length that "
		       "is larger than the one given to kmalloc()";
	faults += is_overwritten(fault, (uint8_t *)object + size, cache->object_size - size, byte);
	fault.what = "Right Redzone overwritten";
	fault.advice = "something wrote past the end of this object: look for an index or a length "
		       "that is too large";
	faults += is_overwritten(fault, end, debug->right, byte);
	return faults;
}

/* Both red zones; the right one begins `size` bytes into the object. */
static int check_zones(struct slab_cache *cache, void *object, size_t size, uint8_t byte,
		       const char *call)
{
	const struct debug_cache *debug = debug_of(cache);
	const uint8_t *bytes = object;

	if (!(debug->flags & SLAB_RED_ZONE) ||
	    (bytes_are(bytes - debug->left, debug->left, byte) &&
	     bytes_are(bytes + size, cache->object_size - size + debug->right, byte)))
		return 0;
	return report_zones(cache, object, size, byte, call);
}

/* The slab's bit says whether an object is free, whatever the program overwrites. */
static bool is_free_in_slab(const struct slab_cache *cache, const void *object)
{
	struct slab *slab = page_slab(object);
	unsigned int index = slab_index(cache, slab, object);

	return os_load_acquire(slab_words(cache, slab) + index / 64) >> index % 64 & 1;
}

static __attribute__((cold, noinline)) int report_poison(struct slab_cache *cache, void *object,
							 const char *call)
{
	struct debug_fault fault = debug_fault_of(cache, object, call);
	uint8_t *bytes = object;
	int faults;

	fault.what = "Poison overwritten";
	fault.fix = is_free_in_slab(cache, object)
			    ? "the poison was restored, and the object stays free"
			    : "the poison was restored, and the object will not be used again: the "
			      "code that wrote to it may do so again";
	fault.advice = "something wrote to the object after it was freed: look for a pointer to it "
		       "that is used after the free";
	faults = is_overwritten(fault, bytes, cache->object_size - 1, BYTE_FREE);
	fault.what = "End Poison overwritten";
	return faults + is_overwritten(fault, bytes + cache->object_size - 1, 1, BYTE_END);
}

static int check_poison(struct slab_cache *cache, void *object, const char *call)
{
	const uint8_t *bytes = object;

	if (!(debug_of(cache)->flags & SLAB_POISON) ||
	    (bytes_are(bytes, cache->object_size - 1, BYTE_FREE) &&
	     bytes[cache->object_size - 1] == BYTE_END))
		return 0;
	return report_poison(cache, object, call);
}

static int check_free(struct slab_cache *cache, void *object, const char *call)
{
	return check_zones(cache, object, cache->object_size, ZONE_FREE, call) +
	       check_poison(cache, object, call);
}

static int check_used(struct slab_cache *cache, void *object, const char *call)
{
	return check_zones(cache, object, debug_size(cache, object), DEBUG_ZONE_USED, call);
}

/* --- what tools may see ----------------------------------------------------------------------- */

/* The library may access the red zones of an object of this size during a check, and nobody may
 * access them after it. */
static void open_zones(const struct slab_cache *cache, void *object, size_t size)
{
	const struct debug_cache *debug = debug_of(cache);

	tools_open((char *)object - debug->left, debug->left);
	tools_open((char *)object + size, cache->object_size - size + debug->right);
}

static void close_zones(const struct slab_cache *cache, void *object, size_t size)
{
	const struct debug_cache *debug = debug_of(cache);

	tools_close((char *)object - debug->left, debug->left);
	tools_close((char *)object + size, cache->object_size - size + debug->right);
}

void debug_open(const struct slab_cache *cache, void *object)
{
	const struct debug_cache *debug = debug_of(cache);

	tools_open((char *)object - debug->left,
		   (size_t)debug->left + cache->object_size + debug->right);
}

void debug_close(const struct slab_cache *cache, void *object)
{
	if (!debug_of(cache)->stable)
		tools_close(object, cache->object_size);
	close_zones(cache, object, cache->object_size);
}

/* The program gets the object: as its constructor left it, or without a value. */
static void tell_taken(const struct slab_cache *cache, void *object)
{
	close_zones(cache, object, cache->object_size);
	if (!debug_of(cache)->stable)
		tools_taken(object, cache->object_size, cache->ctor);
}

/* The program has freed the object. Tools do not know stable objects as blocks. */
static void tell_freed(const struct slab_cache *cache, void *object)
{
	if (!debug_of(cache)->stable)
		tools_freed(object, cache->object_size);
	debug_close(cache, object);
}

/* --- the state -------------------------------------------------------------------------------- */

static bool is_state(uint32_t state)
{
	return state == DEBUG_FREE || state == DEBUG_USED || state == DEBUG_WAITS ||
	       state == DEBUG_BUSY || state == DEBUG_RESTS || state == DEBUG_LEAKED;
}

size_t debug_size(const struct slab_cache *cache, const void *object)
{
	uint32_t size = os_load_relaxed(&debug_head(cache, object)->size);

	return size < cache->object_size ? size : cache->object_size;
}

static void report_state(struct slab_cache *cache, void *object, const char *call)
{
	struct debug_fault fault = debug_fault_of(cache, object, call);

	fault.what = "Object metadata overwritten";
	fault.fix = "the metadata was restored from data outside the slab";
	fault.advice =
		"something wrote far in front of this object, or far past the end of the one "
		"before it";
	debug_report(&fault);
}

static void report_double(struct slab_cache *cache, void *object, uint32_t state, const char *call)
{
	struct debug_fault fault = debug_fault_of(cache, object, call);

	fault.what = debug_what_of_double(state);
	fault.fix = "this free was ignored";
	fault.advice = debug_advice_of_double(state);
	debug_report(&fault);
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
		report_state(cache, object, call);
		faults++;
	}
	os_store_relaxed(&head->size, cache->object_size);
	debug_open(cache, object);
	faults += check_free(cache, object, call);
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
	fill_zones(cache, object, cache->object_size, DEBUG_ZONE_USED);
	track_set(cache, object, DEBUG_ALLOCATED);
	trace(cache, object, "alloc");
	tell_taken(cache, object);
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
	open_zones(cache, object, old);
	/* In this order: a forked child may look in between. */
	if (debug_of(cache)->flags & SLAB_RED_ZONE)
		bytes_fill((uint8_t *)object + size, old - size, DEBUG_ZONE_USED);
	os_store_release(&head->size, (uint32_t)size);
	tools_resized(object, old, size);
	close_zones(cache, object, size);
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

	/* A provider that frees at once: the object was never marked as waiting. */
	if (state == DEBUG_USED && os_cmpxchg(&head->state, &state, next))
		return true;
	if (is_state(state)) {
		report_double(cache, object, state, call);
		return false;
	}
	report_state(cache, object, call);
	found = is_free_in_slab(cache, object) ? DEBUG_FREE
		: quarantine_has(object)       ? DEBUG_RESTS
					       : next;
	/* Another thread may take, free or let it go just now: its state is right then. */
	if (!os_cmpxchg(&head->state, &state, found) || found != next)
		return false;
	os_store_relaxed(&head->size, cache->object_size);
	return true;
}

/* D1: from now on only the caller frees or retires the object. False after a report. */
static bool change_state(struct slab_cache *cache, void *object, uint32_t from, uint32_t to,
			 const char *call)
{
	uint32_t state = from;

	return __builtin_expect(os_cmpxchg(&debug_head(cache, object)->state, &state, to), 1) ||
	       settle(cache, object, state, to, call);
}

bool debug_free(struct slab_cache *cache, void *object, bool waited, const char *call)
{
	struct debug_head *head;

	if (!debug_is_object(cache, object, call) ||
	    !change_state(cache, object, waited ? DEBUG_WAITS : DEBUG_USED, DEBUG_BUSY, call))
		return false;
	head = debug_head(cache, object);
	open_zones(cache, object, debug_size(cache, object));
	check_used(cache, object, call);
	if (!waited)
		track_set(cache, object, DEBUG_FREED);
	trace(cache, object, "free");
	os_store_relaxed(&head->size, cache->object_size);
	debug_fill_free(cache, object);
	tell_freed(cache, object);
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
	uint32_t state = DEBUG_LEAKED;

	return os_cmpxchg(&debug_head(cache, object)->state, &state, DEBUG_FREE);
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
	uint32_t state = os_load_acquire(&head->state);
	bool rests = state == DEBUG_RESTS;
	int faults = 0;

	/* A thread that has vanished may have been preparing it. */
	if (!is_free && (is_on_its_way(state) || (forked && !is_state(state))))
		return 0;
	if (is_free ? state != DEBUG_FREE : state != DEBUG_USED && state != DEBUG_WAITS && !rests) {
		report_state(cache, object, call);
		os_store_relaxed(&head->state, is_free ? DEBUG_FREE : DEBUG_USED);
		faults++;
	}
	if (is_free || rests) {
		debug_open(cache, object);
		faults += check_free(cache, object, call);
		debug_close(cache, object);
	} else {
		open_zones(cache, object, debug_size(cache, object));
		faults += check_used(cache, object, call);
		close_zones(cache, object, debug_size(cache, object));
	}
	return faults;
}
