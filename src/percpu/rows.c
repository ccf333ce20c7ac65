/* SPDX-License-Identifier: MIT */
/* Areas of slots; see rows.h. */
#include "percpu/rows.h"

#include <string.h>

#include "os/assert.h"
#include "os/counters.h"
#include "os/memory.h"
#include "page/page.h"

/* Above all addresses: the distance from it to any address is larger than any range. */
#define NOWHERE ((uintptr_t)1 << (8 * sizeof(uintptr_t) - 1))
/*
 * Areas in a block. A block has as many as there are already, so that mappings grow with the
 * logarithm of their number. A block of 64 has room for 16,384 caches; a larger one would only
 * reserve addresses that are not used.
 */
#define MOST_AREAS 64

struct sheaf sheaf_bootstrap;

static const struct slot closed_slot = {.main = &sheaf_bootstrap,
					.pair = (uintptr_t)&sheaf_bootstrap,
					.rcu_free = &sheaf_bootstrap,
					.home = NOWHERE};

/* Handles without an owner. */
static struct {
	struct slot *given; /* returned handles, linked by `pair`: the last one is taken first */
	char *block;	    /* the last block; its handles from `next` on are unused */
	unsigned int next, nr;
	bool zero;	       /* the slots of unused handles are not closed, but zero */
	unsigned int nr_areas; /* of all blocks */
} handles;

#define ROWS_BITS (SLOT_CELLS * 64u)

_Static_assert(sizeof(uintptr_t) == sizeof(uint64_t) && ROWS_BITS << 2 >= OS_MAX_ROWS,
	       "the cells of nobody's slot have bits for all rows");

static uint64_t *rows_bits(char *handle)
{
	return (uint64_t *)slot_of_nobody(handle)->cells;
}

static unsigned int rows_shift(void)
{
	return os.nr_rows <= ROWS_BITS ? 0 : os.nr_rows <= ROWS_BITS << 1 ? 1 : 2;
}

void rows_use(char *handle, unsigned int row)
{
	unsigned int at = row >> rows_shift();
	uint64_t *bits = &rows_bits(handle)[at / 64], bit = UINT64_C(1) << at % 64;

	if (!(os_load_acquire(bits) & bit))
		os_fetch_or(bits, bit);
}

unsigned int rows_from(char *handle, unsigned int row)
{
	unsigned int shift = rows_shift();

	while (row < os.nr_rows) {
		unsigned int at = row >> shift;
		uint64_t rest = os_load_acquire(&rows_bits(handle)[at / 64]) >> at % 64;

		if (rest & 1)
			return row;
		if (rest)
			return (at + (unsigned int)__builtin_ctzll(rest)) << shift;
		row = (at / 64 + 1) * 64 << shift;
	}
	return os.nr_rows;
}

/* Map as many areas as possible. */
static bool map_block(void)
{
	unsigned int n = handles.nr_areas < MOST_AREAS ? handles.nr_areas : MOST_AREAS;
	char *block = NULL;
	bool copied;

	for (n = n ? n : 1; !block && n; n /= 2) {
		block = os_map_rows(n, &closed_slot, &copied);
		if (!block)
			continue;
		handles.block = block;
		handles.zero = !copied;
		handles.next = 0;
		handles.nr = n * SLOTS_PER_ROW;
		handles.nr_areas += n;
	}
	return block;
}

bool rows_init(void)
{
	return handles.nr_areas || map_block();
}

/* Open the slot of this row: let objects be pushed there and events be counted. Returns false if
 * there is no memory for the counters; the slot then stays closed. */
static bool open_row(char *handle, unsigned int row)
{
	struct slot *slot = slot_of_row(handle, row);

	if (rows_is_open(slot))
		return true;
	if (os.counting && !os_open_counters((char *)slot))
		return false;
	rows_use(handle, row);
	os_store_relaxed(&slot->home, (uintptr_t)pages.base + ((uintptr_t)os.node_of_row[row]
							       << pages.range_shift));
	os_store_release(&slot->home_size, (uintptr_t)1 << pages.range_shift);
	return true;
}

/* On the trylock backend: open the first stand-in that is not locked. */
static bool open_stand_in(char *handle, unsigned int node)
{
	for (unsigned int i = 0; i < os.nr_stand_ins; i++) {
		unsigned int row = os_stand_in(node, i);

		if (!os_load_relaxed(&slot_of_row(handle, row)->lock))
			return open_row(handle, row);
	}
	return false;
}

bool rows_open_here(char *handle)
{
	unsigned int row = os_row();

	if (!open_row(handle, row))
		return false;
	return os.backend == OS_BACKEND_RSEQ || !os_load_relaxed(&slot_of_row(handle, row)->lock) ||
	       open_stand_in(handle, os.node_of_row[row]);
}

static uint64_t word_of(void *row, unsigned int word)
{
	return os_load_relaxed((uint64_t *)os_counter(row, word));
}

uint64_t rows_counted(char *handle, unsigned int word)
{
	uint64_t total = word_of(handle, word);

	rows_for_each (handle, row) {
		struct slot *slot = slot_of_row(handle, row);

		if (rows_is_open(slot))
			total += word_of(slot, word);
	}
	return total;
}

static void clear_row(struct slot *slot)
{
	for (unsigned int i = 0; i < OS_WORDS; i += OS_PLANE_WORDS)
		memset(os_counter(slot, i), 0, OS_PLANE_WORDS * sizeof(uint64_t));
}

/* Clear the counts of the handle's previous cache. */
static void clear_counters(struct slot *handle)
{
	clear_row(handle);
	rows_for_each ((char *)handle, row) {
		struct slot *slot = slot_of_row((char *)handle, row);

		if (rows_is_open(slot))
			clear_row(slot);
	}
}

static void *nobodys_slot(struct slot *handle)
{
	if (os.counting)
		clear_counters(handle);
	memset(handle, 0, sizeof(*handle));
	return handle;
}

/* Close the slots of this handle, and of those whose slots are in the same pages. */
static void close_slots(char *handle)
{
	for (size_t end = OS_PAGE / sizeof(closed_slot), i = 0; i < end; i++) {
		slot_of_nobody(handle)[i] = closed_slot;
		for (unsigned int row = 0; row < os.nr_rows; row++)
			slot_of_row(handle, row)[i] = closed_slot;
	}
}

static struct slot *fresh_handle(void)
{
	char *row;

	if (handles.next == handles.nr && !map_block())
		return NULL;
	row = handles.block + handles.next / SLOTS_PER_ROW * os_area_bytes();
	/* Descriptions are in nobody's row; events without a row are counted in the row of
	 * handles. */
	if (os.counting &&
	    !(os_open_counters(row - ((size_t)1 << ROW_SHIFT)) && os_open_counters(row)))
		return NULL;
	row += (size_t)(handles.next % SLOTS_PER_ROW) << SLOT_SHIFT;
	if (handles.zero && (uintptr_t)row % OS_PAGE == 0)
		close_slots(row);
	handles.next++;
	return nobodys_slot((struct slot *)row);
}

void *rows_take(void)
{
	struct slot *handle = handles.given;

	if (!handle)
		return fresh_handle();
	handles.given = (struct slot *)handle->pair;
	return nobodys_slot(handle);
}

void *rows_take_many(unsigned int n)
{
	struct slot *first;

	/* All of them in one area: the last ones of this area, which is in use, are for others. */
	while (handles.next % SLOTS_PER_ROW > SLOTS_PER_ROW - n)
		rows_give(fresh_handle());
	first = fresh_handle();
	/* The first one has made room for the others. */
	for (unsigned int i = 1; first && i < n; i++)
		fresh_handle();
	return first;
}

/* ROWS-W2, SECTION-S1: each slot in use holds the bootstrap sheaf, no counts and no lock; BARN-N1:
 * no shard that the barn did not know has a sheaf. */
static __attribute__((unused)) bool slots_are_bare(char *handle)
{
	for (unsigned int row = 0; row < os.nr_rows; row++) {
		unsigned int at = row >> rows_shift();
		const struct slot *slot = slot_of_row(handle, row);

		if (!(os_peek(&rows_bits(handle)[at / 64]) >> at % 64 & 1))
			continue;
		if (os_peek(&slot->main) != &sheaf_bootstrap ||
		    os_peek(&slot->pair) != (uintptr_t)&sheaf_bootstrap ||
		    os_peek(&slot->rcu_free) != &sheaf_bootstrap || os_peek(&slot->lock) ||
		    os_peek(&slot->in_hand[0]) || os_peek(&slot->in_hand[1]) ||
		    os_peek(&slot->rcu_in_hand[0]) || os_peek(&slot->rcu_in_hand[1]))
			return false;
		for (unsigned int i = 0; i < SLOT_CELLS; i++)
			if (os_peek(&slot->cells[i]))
				return false;
	}
	return true;
}

/* All except `pair` stays unchanged: a destroyed cache is recognised as long as its handle has no
 * owner. */
void rows_give(void *given)
{
	struct slot *handle = given;

	/* ROWS-W2, SECTION-S1, BARN-N1 */
	os_assert(slots_are_bare(given));
	handle->pair = (uintptr_t)handles.given;
	handles.given = handle;
}
