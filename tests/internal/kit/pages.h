/* SPDX-License-Identifier: MIT */
/* Puts pages and rows into a state that a test needs. */
#ifndef SHEAF_TESTS_PAGES_H
#define SHEAF_TESTS_PAGES_H

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kit/clock.h"
#include "kit/process.h"
#include "os/counters.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "os/section.h"
#include "page/decay.h"
#include "page/page.h"

/* Leave the node only runs of one page, so that larger slabs cannot be allocated. */
static inline void leave_single_pages(unsigned int node)
{
	struct slab *runs[PAGE_MAX_ORDER + 1] = {NULL}, *slab;

	no_more_memory();
	for (unsigned int order = PAGE_MAX_ORDER; order <= PAGE_MAX_ORDER; order--)
		while ((slab = page_alloc(node, order)) != NULL) {
			slab->bits = (uintptr_t)runs[order];
			runs[order] = slab;
		}
	for (unsigned int order = 0; order <= PAGE_MAX_ORDER; order++)
		for (slab = runs[order]; slab; slab = runs[order]) {
			runs[order] = (struct slab *)(uintptr_t)slab->bits;
			for (unsigned int i = 0; i < 1u << order; i++)
				if ((slab + i - pages.slabs) % 2 == 0)
					page_free(slab + i, 0);
		}
}

/* A handle whose rows all share the same memory: every row that a section uses is this one. So do
 * their counters, if events are counted. */
static inline char *map_one_row(void)
{
	size_t bytes = (size_t)1 << ROW_SHIFT;
	unsigned int planes = os.counting ? OS_PLANES : 0;
	int file = memfd_create("row", MFD_CLOEXEC);
	char *rows = mmap(NULL, (os.nr_rows + 1) * bytes + planes * (size_t)OS_COUNTERS, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (rows == MAP_FAILED || ftruncate(file, (off_t)((planes + 1) * bytes)))
		return NULL;
	for (unsigned int plane = 0; plane <= planes; plane++)
		for (uint32_t row = 0; row <= os.nr_rows; row++)
			if (mmap(rows + plane * OS_COUNTERS + row * bytes, bytes,
				 PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
				 (off_t)(plane * bytes)) == MAP_FAILED)
				return NULL;
	close(file);
	return rows;
}

/* Make all that was freed until now count as freed long ago. */
static inline void pages_let_time_pass(void)
{
	clock_pass_ms(16 * os_options.decay);
}

/* Nor used recently: all that may be returned over time is returned. Ends as soon as nothing is
 * left to do. */
static inline void pages_decay(void)
{
	pages_let_time_pass();
	for (bool more = true; more;) {
		clock_pass_ms(DECAY_TICK_MS);
		more = false;
		for (uint32_t node = 0; node < os.nr_nodes; node++)
			more |= page_decay(node);
	}
}

/* Make this many calls, each of which returns at most PAGE_DISCARD_MAX, with time between them. */
static inline void pages_free_some(unsigned int calls)
{
	for (unsigned int i = 0; i < calls; i++) {
		clock_pass_ms(DECAY_TICK_MS);
		for (uint32_t node = 0; node < os.nr_nodes; node++)
			page_free(page_alloc(node, 0), 0);
	}
}

#endif
