/* SPDX-License-Identifier: MIT */
/* See kinds.h. */
#include "scale/src/kinds.h"

#include "os/section.h"
#include "page/page.h"
#include "sim/sim.h"

#define FIRST_CPU_ROW 2u

/* A slot's first lines are the shard of the CPU with its number. */
static enum tally_kind kind_in_row(uintptr_t address, unsigned int row, uintptr_t begin)
{
	uintptr_t in_slot = (address - begin) % sizeof(struct slot);

	if (row < FIRST_CPU_ROW)
		return TALLY_handle;
	return in_slot < offsetof(struct slot, main) ? TALLY_cell : TALLY_slot;
}

/* The number of pages that have descriptors. */
static size_t described(void)
{
	return pages.size >> OS_PAGE_SHIFT;
}

enum tally_kind kind_of(uintptr_t address)
{
	uintptr_t begin, in_slabs = address - (uintptr_t)pages.slabs;
	uintptr_t in_words = address - (uintptr_t)pages.words;
	unsigned int row;

	if (sim_row(address, &row, &begin))
		return kind_in_row(address, row, begin);
	if (address - (uintptr_t)pages.base < pages.size)
		return page_owner((void *)address) ? TALLY_object : TALLY_pool;
	if (in_slabs < described() * sizeof(struct slab) ||
	    in_words < described() * PAGE_WORDS * sizeof(uint64_t))
		return TALLY_slab;
	return TALLY_other;
}
