/* SPDX-License-Identifier: MIT */
/*
 * The range of guarded objects: its chunks and slots, and which slot is claimed next. See guard.h.
 *
 * Chunks are handed out from the lowest address up. A class of slots gets another one when all its
 * slots have been used. A class gets at most half of all chunks, so that small objects leave room
 * for large ones. The slots of a class are numbered across all its chunks.
 */

#include "os/guard.h"
#include "debug/guard_slot.h"
#include "debug/sample.h"
#include "os/assert.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/options/options.h"
#include "os/report/report.h"
#include "os/tsan.h"
#include "page/range.h"

#define MIB ((size_t)1 << 20)
/* First slots of 1 to 256 pages: the largest object in pages of 4 KiB. Then packed ones, of 16
 * bytes to 1 MiB; and those for records alone. */
#define GUARDED	    9u
#define PACKED	    17u
#define RECORDS	    (GUARDED + PACKED)
#define CLASSES	    (RECORDS + 1)
#define LEAST_BYTES 16u
/* Packed slots of so many bytes or more return their memory to the system when they are freed: such
 * samples are rare, and using their memory costs more than the system call. */
#define RETURNED_BYTES ((size_t)64 << 10)
#define MOST_CHUNKS    32768u
/*
 * MiB of addresses, unless slab_guard=N sets another number: 4 GiB hold 261,120 objects of up to a
 * page; samples need less. The profile of a heap of 10 GiB in blocks of 1 MiB, of which most are
 * samples, needs half of its addresses. An object in use costs its pages, a slot that was ever used
 * 400 bytes. A process with a limit on its addresses gets a sixteenth of them.
 */
#define USUAL_MIB   4096u
#define SAMPLES_MIB 256u
#define PROFILE_MIB 32768u
#define LEAST	    (8 * MIB)
#define OF_LIMIT    16u
/* The part of a process's mappings that open slots without light guards may use; each costs two. */
#define MAPPINGS_PART 8u

#define PER_CHUNK (GUARD_SLOTS * (sizeof(struct guard_slot) + sizeof(struct guard_notes)))

struct guard_range guard_range = {.base = (char *)(UINTPTR_MAX / 2 + 1)};

/* The kind of a chunk: 0 before it begins, else its class plus one and its enum os_guard. */
#define KIND(class, guard) ((uint16_t)(((class) + 1u) | (unsigned int)(guard) << 8))
#define KIND_CLASS(kind)   (((kind)&0xffu) - 1)
#define KIND_GUARD(kind)   ((enum os_guard)((kind) >> 8))

static struct {
	struct guard_slot *slots; /* GUARD_SLOTS for each chunk */
	struct guard_notes *notes;
	uint32_t nr_chunks, max_chunks;
	uint32_t frees;
	uint64_t sequence;	/* of random numbers, one for each object */
	size_t open, most_open; /* slots that cost mappings */
	size_t held;		/* pages of packed slots */
	uint32_t reported;
	struct {
		uint32_t fresh;	    /* slots that were ever claimed */
		uint32_t hand;	    /* where the next search for a free slot begins */
		uint32_t nr_chunks; /* that have begun: the first of `chunks` */
		uint64_t free;	    /* packed: the newest free slot, and in the upper half a tag */
		uint16_t chunks[MOST_CHUNKS / 2]; /* their numbers, from 1; 0: none yet */
	} classes[CLASSES];
	uint16_t kinds[MOST_CHUNKS];
} pool OS_LARGE;

static size_t wanted_size(void)
{
	size_t usual = os_options_debug_has('G') ? USUAL_MIB
		       : os_options.profile	 ? PROFILE_MIB
						 : SAMPLES_MIB;
	size_t size = (os_options.guard ? os_options.guard : usual) * MIB;
	size_t most = os_address_limit() / OF_LIMIT;

	if (size > most)
		size = most & ~(OS_HUGE - 1);
	return size < MOST_CHUNKS * OS_HUGE ? size : MOST_CHUNKS * OS_HUGE;
}

static void tell_none(const char *what, const char *advice)
{
	os_report_once_later(
		&pool.reported,
		"slab_debug: %s; further objects are not guarded until some are freed. %s", what,
		advice);
}

static bool closes_pages(void)
{
	return os_options_debug_has('G') || os_options_debug_has('S');
}

static void tell_no_addresses(void)
{
	os_report_once_later(&pool.reported,
			     "%s: there are no addresses for %s. Raise the limit (ulimit -v): they "
			     "get a sixteenth of it, and need %zu MiB",
			     closes_pages() ? "slab_debug" : "profile",
			     closes_pages() ? "guard pages, so no object is guarded"
					    : "samples, so none is taken",
			     LEAST / MIB);
}

/* Of a class of slots. */
static void tell_all_in_use(bool packed)
{
	if (!packed)
		tell_none("all addresses for guard pages are in use",
			  "slab_guard=N sets how many MiB of addresses they get");
	else
		os_report_once_later(
			&pool.reported,
			"profile: all addresses for samples of this size are in use, or there is "
			"no memory for them; further samples are left out until some are freed, "
			"so figures are too low. Set more MiB of addresses than %zu "
			"with slab_guard=N (at most a sixteenth of ulimit -v), or a larger mean "
			"with profile=N",
			guard_range.size / MIB);
}

void guard_begin(void)
{
	size_t size = wanted_size();
	char *base = NULL;

	if (guard_range.size)
		return;
	while (size >= LEAST && !(base = os_reserve(size + size / OS_HUGE * PER_CHUNK)))
		size = size / 2 & ~(OS_HUGE - 1);
	if (!base) {
		tell_no_addresses();
		return;
	}
	pool.max_chunks = (uint32_t)(size / OS_HUGE);
	pool.slots = (struct guard_slot *)(void *)(base + size);
	pool.notes = (struct guard_notes *)(void *)(pool.slots + pool.max_chunks * GUARD_SLOTS);
	if (os_options.profile && !profile_run())
		profile_begin(os_options.profile_mean);
	pool.sequence = os_random();
	sample_seed(pool.sequence);
	pool.most_open = os_mappings_limit() / MAPPINGS_PART;
	os_store_relaxed(&guard_range.base, base);
	os_store_release(&guard_range.size, size);
	if (closes_pages())
		os_fault_watch(guard_explain);
}

/* --- arithmetic ------------------------------------------------------------------------------- */

static bool is_packed(unsigned int class)
{
	return class >= GUARDED;
}

/* Bytes from one slot to the next. */
static size_t stride_of(unsigned int class)
{
	return class == RECORDS	  ? LEAST_BYTES
	       : is_packed(class) ? (size_t)LEAST_BYTES << (class - GUARDED)
				  : (((size_t)1 << class) + 1) * os.page_size;
}

/* Before the first slot: a closed page. */
static size_t margin_of(unsigned int class)
{
	return is_packed(class) ? 0 : os.page_size;
}

static unsigned int slots_per_chunk(unsigned int class)
{
	size_t n = (OS_HUGE - margin_of(class)) / stride_of(class);

	return n < GUARD_SLOTS ? (unsigned int)n : GUARD_SLOTS;
}

static unsigned int chunk_of(const struct guard_slot *slot)
{
	return (unsigned int)(slot - pool.slots) / GUARD_SLOTS;
}

static unsigned int class_of(const struct guard_slot *slot)
{
	return KIND_CLASS(pool.kinds[chunk_of(slot)]);
}

static enum os_guard guard_of(const struct guard_slot *slot)
{
	return KIND_GUARD(pool.kinds[chunk_of(slot)]);
}

/* The first of its bytes. */
static char *bytes_of(const struct guard_slot *slot)
{
	unsigned int class = class_of(slot);
	size_t n = (size_t)(slot - pool.slots) % GUARD_SLOTS;

	return guard_range.base + chunk_of(slot) * OS_HUGE + margin_of(class) +
	       n * stride_of(class);
}

/* In chunks of this class that have begun. */
static uint32_t nr_slots(unsigned int class)
{
	return os_load_acquire(&pool.classes[class].nr_chunks) * slots_per_chunk(class);
}

/* Slot i of them. */
static struct guard_slot *slot_at(unsigned int class, uint32_t i)
{
	uint32_t per_chunk = slots_per_chunk(class);
	uint32_t chunk = os_load_acquire(&pool.classes[class].chunks[i / per_chunk]);

	return &pool.slots[(chunk - 1) * GUARD_SLOTS + i % per_chunk];
}

struct guard_notes *guard_notes_of(const struct guard_slot *slot)
{
	return &pool.notes[slot - pool.slots];
}

static struct guard_slot *used_slot(struct guard_slot *slot)
{
	return os_load_acquire(&slot->state) == GUARD_NEVER_USED ? NULL : slot;
}

struct guard_place guard_place_of(const void *address)
{
	size_t offset = (size_t)((const char *)address - guard_range.base), at = offset % OS_HUGE;
	uint16_t kind = os_load_acquire(&pool.kinds[offset / OS_HUGE]);
	struct guard_slot *first = &pool.slots[offset / OS_HUGE * GUARD_SLOTS];
	struct guard_place place = {NULL, NULL, NULL};
	size_t stride, n;

	if (!kind)
		return place;
	stride = stride_of(KIND_CLASS(kind));
	n = slots_per_chunk(KIND_CLASS(kind));
	if (at % stride >= margin_of(KIND_CLASS(kind)) && at / stride < n) {
		place.in = used_slot(first + at / stride);
		return place;
	}
	if (at / stride > 0 && at / stride <= n)
		place.before = used_slot(first + at / stride - 1);
	if (at / stride < n)
		place.after = used_slot(first + at / stride);
	return place;
}

struct guard_slot *guard_next(const struct guard_slot *slot)
{
	size_t n = (size_t)os_load_acquire(&pool.nr_chunks) * GUARD_SLOTS;

	for (size_t i = slot ? (size_t)(slot - pool.slots) + 1 : 0; i < n; i++)
		if (used_slot(&pool.slots[i]))
			return &pool.slots[i];
	return NULL;
}

/* --- memory of packed slots, which counts for limits (page/limit.h) -------------------------- */

static bool hold(size_t pages)
{
	if (!pages)
		return true;
	if (!page_hold(pages))
		return false;
	os_fetch_add_relaxed(&pool.held, pages);
	show_samples(pages << OS_PAGE_SHIFT);
	return true;
}

static void hold_less(size_t pages)
{
	page_hold_less(pages);
	os_fetch_sub(&pool.held, pages);
	show_samples(-(pages << OS_PAGE_SHIFT));
}

size_t guard_held(void)
{
	return os_load_relaxed(&pool.held) << OS_PAGE_SHIFT;
}

/* Do freed slots return their memory? */
static bool is_returned(unsigned int class)
{
	return is_packed(class) && stride_of(class) >= RETURNED_BYTES;
}

/* Of other packed slots: the pages that begin in slot i, which was never used. They stay. */
static size_t pages_begun(unsigned int class, uint32_t i)
{
	size_t stride = stride_of(class), at = i % slots_per_chunk(class) * stride;

	if (!is_packed(class) || class == RECORDS || is_returned(class))
		return 0;
	if (stride < os.page_size)
		stride = at % os.page_size ? 0 : os.page_size;
	return stride >> OS_PAGE_SHIFT;
}

/* Those of a slot that returns them. */
static size_t pages_returned(const struct guard_slot *slot)
{
	return is_returned(class_of(slot)) ? os_round_up(slot->object_size) >> OS_PAGE_SHIFT : 0;
}

/* --- chunks ----------------------------------------------------------------------------------- */

static bool commit_tables(uint32_t chunk)
{
	return os_commit(&pool.slots[chunk * GUARD_SLOTS],
			 GUARD_SLOTS * sizeof(struct guard_slot)) &&
	       os_commit(&pool.notes[chunk * GUARD_SLOTS],
			 GUARD_SLOTS * sizeof(struct guard_notes));
}

/* One more chunk for this class, unless another thread was faster. Its tables come first, so that
 * without memory for them no chunk is lost. */
static bool grow(unsigned int class)
{
	uint32_t most = pool.max_chunks > 1 ? pool.max_chunks / 2 : 1, place;
	uint32_t chunk = os_load_relaxed(&pool.nr_chunks);
	enum os_guard guard;
	char *base;

	if (os_load_relaxed(&pool.classes[class].fresh) < nr_slots(class))
		return true;
	if (os_load_relaxed(&pool.classes[class].nr_chunks) >= most)
		return false;
	do {
		if (chunk >= pool.max_chunks || !commit_tables(chunk))
			return false;
	} while (!os_cmpxchg(&pool.nr_chunks, &chunk, chunk + 1));
	base = guard_range.base + chunk * OS_HUGE;
	guard = is_packed(class) ? OS_GUARD_NONE : os_guard_begin(base, OS_HUGE);
	if (guard == OS_GUARD_NONE && !os_commit(base, slots_per_chunk(class) * stride_of(class))) {
		/* It is lost only if another thread has taken the next one. */
		os_cmpxchg(&pool.nr_chunks, &(uint32_t){chunk + 1}, chunk);
		return false;
	}
	os_store_release(&pool.kinds[chunk], KIND(class, guard));
	place = os_load_relaxed(&pool.classes[class].nr_chunks);
	while (place < MOST_CHUNKS / 2 && !os_cmpxchg(&pool.classes[class].chunks[place],
						      &(uint16_t){0}, (uint16_t)(chunk + 1)))
		place++;
	if (place == MOST_CHUNKS / 2)
		return false;
	os_fetch_add(&pool.classes[class].nr_chunks, 1);
	return true;
}

/* --- claiming --------------------------------------------------------------------------------- */

static bool claim(struct guard_slot *slot, uint32_t from)
{
	if (os_load_relaxed(&slot->state) != from || !os_cmpxchg(&slot->state, &from, DEBUG_BUSY))
		return false;
	tsan_acquire(slot);
	return true;
}

static struct guard_slot *claim_fresh(unsigned int class)
{
	uint32_t *fresh = &pool.classes[class].fresh, i = os_load_relaxed(fresh);
	struct guard_slot *slot;
	size_t pages;

	for (;;) {
		for (; i >= nr_slots(class); i = os_load_relaxed(fresh))
			if (!grow(class))
				return NULL;
		pages = pages_begun(class, i);
		if (!hold(pages))
			return NULL;
		if (os_cmpxchg(fresh, &i, i + 1))
			break;
		hold_less(pages);
	}
	slot = slot_at(class, i);
	return claim(slot, GUARD_NEVER_USED) ? slot : NULL;
}

/* Of some slots, the one that has been free longest. */
static struct guard_slot *claim_oldest(unsigned int class)
{
	uint32_t n = os_load_relaxed(&pool.classes[class].fresh);
	uint32_t hand = os_fetch_add_relaxed(&pool.classes[class].hand, GUARD_LOOK);
	uint32_t now = os_load_relaxed(&pool.frees), most = 0;
	struct guard_slot *oldest = NULL;

	for (uint32_t i = 0; i < GUARD_LOOK && i < n; i++) {
		struct guard_slot *slot = slot_at(class, (hand + i) % n);
		uint32_t age;

		if (os_load_relaxed(&slot->state) != DEBUG_FREE)
			continue;
		age = now - os_load_relaxed(&slot->freed);
		if (!oldest || age > most) {
			oldest = slot;
			most = age;
		}
	}
	return oldest && claim(oldest, DEBUG_FREE) ? oldest : NULL;
}

/* Packed slots are used again as soon as possible. The tag changes with each one that is taken, so
 * that none is mistaken for an earlier one in the same place. */
static struct guard_slot *claim_newest(unsigned int class)
{
	uint64_t head = os_load_acquire(&pool.classes[class].free), next;
	struct guard_slot *slot;

	do {
		if (!(uint32_t)head)
			return NULL;
		slot = guard_slot_of((uint32_t)head);
		next = ((head >> 32) + 1) << 32 | os_load_relaxed(&slot->next);
	} while (!os_cmpxchg(&pool.classes[class].free, &head, next));
	return claim(slot, DEBUG_FREE) ? slot : NULL;
}

static void give_newest(struct guard_slot *slot)
{
	uint64_t *free = &pool.classes[class_of(slot)].free, head = os_load_relaxed(free);

	do
		os_store_relaxed(&slot->next, (uint32_t)head);
	while (!os_cmpxchg(free, &head, (head >> 32) << 32 | guard_number_of(slot)));
}

#define TRIES 4

static struct guard_slot *claim_any(unsigned int class)
{
	struct guard_slot *slot = is_packed(class) ? claim_newest(class) : NULL;

	if (!slot)
		slot = claim_fresh(class);
	for (int i = 0; i < TRIES && !slot && !is_packed(class); i++)
		slot = claim_oldest(class);
	if (!slot)
		tell_all_in_use(is_packed(class));
	return slot;
}

static bool is_costly(const struct guard_slot *slot)
{
	return guard_of(slot) == OS_GUARD_PROTECTION;
}

static bool open_slot(struct guard_slot *slot)
{
	struct debug_zones zones = guard_zones_of(slot);
	bool costly = is_costly(slot), open;

	if (guard_is_packed(slot))
		return hold(pages_returned(slot));
	open = (!costly || os_fetch_add_relaxed(&pool.open, 1) < pool.most_open) &&
	       os_guard_open(zones.open, (size_t)(zones.closed - zones.open), guard_of(slot));
	if (!open && costly)
		os_fetch_sub(&pool.open, 1);
	return open;
}

bool guard_is_packed(const struct guard_slot *slot)
{
	return is_packed(class_of(slot));
}

/* At the end of its pages, or sometimes at their start. */
static char *place_object(const struct guard_slot *slot, size_t size, size_t align)
{
	char *start = bytes_of(slot), *end = start + (os.page_size << class_of(slot));

	if (guard_is_packed(slot))
		return start;
	if (sample_next(&pool.sequence) % GUARD_LEFT == 0)
		return (char *)(((uintptr_t)start + align - 1) & ~(align - 1));
	return (char *)(((uintptr_t)end - size) & ~(align - 1));
}

/* So many pages hold an aligned object, wherever they lie; of a packed slot, so many bytes. */
static unsigned int class_for(size_t size, size_t align, bool packed)
{
	size_t pages = os_round_up(size) / os.page_size + (align - 1) / os.page_size;
	unsigned int class = packed ? GUARDED : 0;

	while (packed ? class < RECORDS && (stride_of(class) < size || stride_of(class) < align)
		      : (size_t)1 << class < pages)
		class ++;
	return class < (packed ? RECORDS : GUARDED) ? class : CLASSES;
}

struct guard_slot *guard_claim(size_t size, size_t align, bool packed)
{
	unsigned int class = class_for(size, align, packed);
	struct guard_slot *slot;

	if (!os_load_acquire(&guard_range.size) || class >= CLASSES || !slots_per_chunk(class))
		return NULL;
	slot = claim_any(class);
	if (!slot)
		return NULL;
	os_assert(os_peek(&slot->state) == DEBUG_BUSY); /* GUARD-G1 */
	slot->object_size = (uint32_t)size;
	slot->object = place_object(slot, size, align);
	if (open_slot(slot))
		return slot;
	os_store_release(&slot->state, DEBUG_FREE);
	if (packed) {
		tell_all_in_use(true);
		give_newest(slot);
	} else {
		tell_none("the system refuses more guard pages",
			  "Before Linux 6.13, and in locked memory, each costs two mappings: raise "
			  "vm.max_map_count");
	}
	return NULL;
}

struct guard_slot *guard_claim_record(void)
{
	return os_load_acquire(&guard_range.size) ? claim_any(RECORDS) : NULL;
}

uint32_t guard_number_of(const struct guard_slot *slot)
{
	return (uint32_t)(slot - pool.slots) + 1;
}

struct guard_slot *guard_slot_of(uint32_t number)
{
	return &pool.slots[number - 1];
}

void guard_give(struct guard_slot *slot)
{
	struct debug_zones zones = guard_zones_of(slot);
	bool packed = guard_is_packed(slot), costly = is_costly(slot), closed;

	os_assert(os_peek(&slot->state) == DEBUG_BUSY); /* GUARD-G1, GUARD-G2 */
	if (pages_returned(slot)) {
		os_discard(bytes_of(slot), stride_of(class_of(slot)), true);
		hold_less(pages_returned(slot));
	}
	closed = packed ||
		 os_guard_close(zones.open, (size_t)(zones.closed - zones.open), guard_of(slot));

	if (!closed)
		os_report_once_later(&pool.reported,
				     "slab_debug: the system refuses to close guard pages, for "
				     "example because memory was locked later (mlockall); the "
				     "addresses of such objects are not reused");
	else if (costly)
		os_fetch_sub(&pool.open, 1);
	os_store_relaxed(&slot->freed, os_fetch_add_relaxed(&pool.frees, 1));
	tsan_release(slot);
	os_store_release(&slot->state, closed ? DEBUG_FREE : DEBUG_LEAKED);
	if (packed)
		give_newest(slot);
}
