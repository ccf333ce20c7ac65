/* SPDX-License-Identifier: MIT */
/* See range.h. Each range has its own lock, so it adds what changed since it was last shown. */
#include "page/range.h"

#include <string.h>

#include "os/atomic.h"
#include "os/counters.h"
#include "os/memory.h"
#include "page/map.h"

static size_t kept_shown;

static void show_peak(void)
{
	/* A forked child shows only changes, and may be below zero. */
	os_raise(os_process_word(OS_PROCESS_peak_bytes),
		 os_load_relaxed(os_process_word(OS_PROCESS_used_bytes)) +
			 os_load_relaxed(os_process_word(OS_PROCESS_mapped_bytes)));
}

static void show_change(enum os_process_word word, size_t now, size_t *shown)
{
	if (now != *shown)
		os_fetch_add_relaxed(os_process_word(word), (uint64_t)now - *shown);
	*shown = now;
}

void show_range(struct range *range)
{
	os_assert(os_counters_head()); /* before the first page is taken */
	show_change(OS_PROCESS_committed_bytes, (size_t)range->nr_chunks << OS_HUGE_SHIFT,
		    &range->shown.committed);
	show_change(OS_PROCESS_used_bytes, range->used << OS_PAGE_SHIFT, &range->shown.used);
	show_change(OS_PROCESS_free_bytes, range->dirty << OS_PAGE_SHIFT, &range->shown.free);
	show_peak();
}

void show_samples_now(size_t bytes)
{
	os_fetch_add_relaxed(os_process_word(OS_PROCESS_committed_bytes), bytes);
	os_fetch_add_relaxed(os_process_word(OS_PROCESS_used_bytes), bytes);
	show_peak();
}

void show_mapped_now(void)
{
	uint64_t *word = os_process_word(OS_PROCESS_mapped_bytes);
	struct map_usage now, after;
	size_t before;

	os_assert(word); /* as above */
	do {
		now = map_usage();
		os_store_relaxed(word, now.used);
		before = os_exchange(&kept_shown, now.waiting);
		os_fetch_add_relaxed(os_process_word(OS_PROCESS_free_bytes),
				     (uint64_t)now.waiting - before);
		/* Two threads may do this at the same time: pairs with the same fence in the other
		 * thread. */
		os_fence();
		after = map_usage();
	} while (memcmp(&after, &now, sizeof(now)));
	show_peak();
}
