/* SPDX-License-Identifier: MIT */
/*
 * Sets bits that are missing in a cache's word of marks, and counts them; see MARKS-F4.
 *
 * Rare, and out of line: a bit is missing once after a drain. Locks: none; a caller may hold any.
 * Callers: as of drain_marks.h.
 */
#include "slab/drain_marks.h"

struct slab_marked slab_marked;

void slab_mark_missing(struct slab_cache *cache, unsigned int bit)
{
	slab_begin_mark();
	os_fetch_or(&cache->marks, (uint16_t)bit);
	slab_end_mark();
}

bool slab_marked_after_fork(void)
{
	bool any = slab_is_marking(slab_marked.n);

	slab_marked.n = ++slab_marked.begun;
	return any;
}
