/* SPDX-License-Identifier: MIT */
/* See map_kept.h. */
#include "page/map_kept.h"

#include "os/atomic.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/options/options.h"
#include "page/range.h"

/* For each node; a search reads those up to the last one in use. A program that frees more blocks
 * at a time maps them anew, which takes as long as its page faults: a millisecond for 2 MiB. */
#define CELLS 256

/* A cell is 0, or a number of 2 MiB, a size in units, and when the block was freed, in ms. The time
 * wraps around after 18 hours: a block that waited half of that is young once more. */
#define TIME_BITS  26
#define SIZE_BITS  11
#define UNIT_SHIFT 17 /* the step between the classes from 1 MiB on */
#define NONE	   CELLS

_Static_assert(MAP_KEPT_MOST >> UNIT_SHIFT < 1 << SIZE_BITS, "a cell has room for the size");

static struct {
	uint64_t cells[OS_MAX_NODES][CELLS] __attribute__((aligned(64)));
	/* No block is in a cell from here on; if one is, after a race, until the next round. */
	uint64_t end[OS_MAX_NODES];
	size_t returned;
} waiting OS_LARGE;

static uint64_t kept_cell(struct mapping block, uint32_t now)
{
	uint64_t number = (uintptr_t)block.address >> OS_HUGE_SHIFT;

	return (number << SIZE_BITS | block.size >> UNIT_SHIFT) << TIME_BITS |
	       (now & ((1u << TIME_BITS) - 1));
}

static size_t size_in(uint64_t cell)
{
	return (cell >> TIME_BITS & ((1u << SIZE_BITS) - 1)) << UNIT_SHIFT;
}

static struct mapping block_in(uint64_t cell)
{
	uint64_t number = cell >> (TIME_BITS + SIZE_BITS);

	return (struct mapping){(char *)(number << OS_HUGE_SHIFT), size_in(cell)};
}

/* Those in which a block may be. */
static unsigned int nr_cells(unsigned int node)
{
	return os_load_relaxed(&ranges[node].mapped) ? CELLS : 0;
}

static size_t bytes_until(unsigned int node, unsigned int end)
{
	size_t bytes = 0;

	for (unsigned int i = 0; i < end; i++)
		bytes += size_in(os_load_relaxed(&waiting.cells[node][i]));
	return bytes;
}

static uint32_t age_of(uint64_t cell, uint32_t now)
{
	uint32_t age = (now - (uint32_t)cell) & ((1u << TIME_BITS) - 1);

	/* It may have been freed after the caller read the clock. */
	return age >> (TIME_BITS - 1) ? 0 : age;
}

struct mapping map_take_kept(size_t size, size_t align, unsigned int node, bool smaller)
{
	uint64_t *cells = waiting.cells[node], cell;
	unsigned int best, end = os_load_relaxed(&waiting.end[node]);

	do {
		size_t least =
			(smaller ? size / 2 : size) + 1; /* bytes between it and the request */

		best = NONE;
		for (unsigned int i = 0; i < end && least; i++) {
			uint64_t now = os_load_relaxed(&cells[i]);
			size_t between = smaller ? size - size_in(now) : size_in(now) - size;

			if (between >= least || (uintptr_t)block_in(now).address & (align - 1))
				continue;
			least = between;
			best = i;
			cell = now;
		}
		if (best == NONE)
			return (struct mapping){NULL, 0};
	} while (!os_cmpxchg(&cells[best], &cell, 0));
	return block_in(cell);
}

static bool may_stay(struct mapping block)
{
	return block.size <= MAP_KEPT_MOST && block.size % (1u << UNIT_SHIFT) == 0 && !os.tools &&
	       !os_options.init_on_free && !os_options.check_double;
}

/* The cell of the block that waits longest, and what is in it; NONE if no block waits. */
static unsigned int find_oldest(unsigned int node, uint32_t now, uint64_t *found)
{
	unsigned int oldest = NONE, end = nr_cells(node);

	for (unsigned int i = 0; i < end; i++) {
		uint64_t cell = os_load_relaxed(&waiting.cells[node][i]);

		if (cell && (oldest == NONE || age_of(cell, now) > age_of(*found, now))) {
			*found = cell;
			oldest = i;
		}
	}
	return oldest;
}

/* Where the block may go: a free cell, or the oldest one if there is none or too much would wait;
 * NONE if that would not help. `before`: what is there now, and must be unmapped first. */
static unsigned int find_place(unsigned int node, struct mapping block, uint32_t now,
			       uint64_t *before)
{
	size_t most = keep_mapped(&ranges[node], block.size);

	*before = 0;
	if (block.size > most)
		return NONE;
	if (most == SIZE_MAX || map_kept_of(node) + block.size <= most)
		for (unsigned int i = 0; i < CELLS; i++)
			if (!os_load_relaxed(&waiting.cells[node][i]))
				return i;
	return find_oldest(node, now, before);
}

/* Unmap the block in this cell, if it was not taken meanwhile. Returns its bytes. */
static size_t unmap_kept(unsigned int node, unsigned int i, uint64_t now)
{
	uint32_t *returning = page_begin_return();
	size_t bytes = 0;

	if (os_cmpxchg(&waiting.cells[node][i], &now, 0)) {
		bytes = size_in(now);
		map_unmap(block_in(now), node);
		os_fetch_add_relaxed(&waiting.returned, bytes);
		show_mapped();
	}
	page_end_return(returning);
	return bytes;
}

bool map_keep(struct mapping block, unsigned int node)
{
	size_t gone = 0;
	uint64_t before;
	uint32_t now;
	unsigned int i;

	if (!may_stay(block))
		return false;
	/* A cell keeps all of its address and size. */
	os_assert(block_in(kept_cell(block, 0)).address == block.address &&
		  block_in(kept_cell(block, 0)).size == block.size); /* MAP_KEPT-J1 */
	now = os_now_ms();
	decay_see_time(now);
	while ((i = find_place(node, block, now, &before)) != NONE) {
		if (before) {
			/* If more must go first, rounds do that, and this block goes at once. */
			if (gone >= PAGE_DISCARD_MAX)
				return false;
			gone += unmap_kept(node, i, before);
			continue;
		}
		if (os_cmpxchg(&waiting.cells[node][i], &before, kept_cell(block, now))) {
			os_raise(&waiting.end[node], i + 1);
			return true;
		}
	}
	return false;
}

bool map_decay(unsigned int node, uint32_t now)
{
	size_t gone = 0;
	uint64_t block;
	uint64_t end = nr_cells(node);
	unsigned int i;

	while (end && !os_load_relaxed(&waiting.cells[node][end - 1]))
		end--;
	if (os_load_relaxed(&waiting.end[node]) != end)
		os_store_relaxed(&waiting.end[node], end);
	while (map_kept_of(node) > keep_mapped(&ranges[node], 0) &&
	       (i = find_oldest(node, now, &block)) != NONE) {
		if (gone && gone + size_in(block) > PAGE_DISCARD_MAX)
			return true;
		gone += unmap_kept(node, i, block);
	}
	return false;
}

size_t map_trim(size_t bytes)
{
	size_t gone = 0;

	for (uint32_t node = 0; node < os.nr_nodes; node++)
		for (unsigned int i = nr_cells(node); i-- > 0 && gone < bytes;) {
			uint64_t before = os_load_relaxed(&waiting.cells[node][i]);

			gone += before ? unmap_kept(node, i, before) : 0;
		}
	return gone;
}

size_t map_returned_bytes(void)
{
	return os_load_relaxed(&waiting.returned);
}

size_t map_kept_of(unsigned int node)
{
	return bytes_until(node, os_load_relaxed(&waiting.end[node]));
}

struct map_usage map_usage(void)
{
	struct map_usage sum = {0, 0};

	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		/* Blocks may be mapped, or enter a cell, between the two. */
		size_t kept = bytes_until(node, nr_cells(node)),
		       all = os_load_relaxed(&ranges[node].mapped);

		sum.used += all - smaller(all, kept);
		sum.waiting += kept;
	}
	return sum;
}
