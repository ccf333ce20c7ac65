/* SPDX-License-Identifier: MIT */
/*
 * Compares what other processes see of sheaves in slots with the sheaves themselves. For a quiet
 * cache they are equal, except for pops from main, which the next push or slow path shows.
 */
#ifndef SHEAF_TESTS_SHOWN_H
#define SHEAF_TESTS_SHOWN_H

#include <stdint.h>

#include "cache/cache.h"
#include "kit/check.h"
#include "os/counters.h"
#include "os/machine.h"
#include "os/section.h"
#include "os/view.h"
#include "percpu/rows.h"
#include "percpu/sheaf.h"

static inline void check_shown_of_row(struct kmem_cache *cache, uint32_t row)
{
	struct slot *slot = slot_of_row((char *)cache, row);
	const uint64_t *words = (const uint64_t *)os_counter(slot, 0);
	struct sheaf_traffic shown, there;
	struct slot_view view;

	/* A closed row: nothing is counted there, and reading it would allocate memory. */
	if (!rows_is_open(slot))
		return;
	CHECK(view_slot(slot, &view));
	shown = sheaf_traffic_of(words[OS_SHOWN_MAIN], (uint32_t)words[OS_SHOWN_BASES]);
	there = sheaf_traffic_of(view.main, view.main_base);
	CHECK(shown.pushes == there.pushes);
	CHECK(shown.pops <= there.pops);
	CHECK(words[OS_SHOWN_SPARE] == view.spare);
	CHECK(words[OS_SHOWN_BASES] == (view.main_base | (uint64_t)view.spare_base << 32));
}

static inline void check_shown(struct kmem_cache *cache)
{
	for (uint32_t row = 0; cache->sheaf.slab.counted && row < os.nr_rows; row++)
		check_shown_of_row(cache, row);
}

#endif
