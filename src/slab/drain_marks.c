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
	slab_begin_mark(cache);
	os_fetch_or(&cache->marks, (uint16_t)bit);
	slab_end_mark();
}

struct slab_cache *slab_marked_cache(uint64_t number, bool *lost)
{
	struct slab_cache *cache = os_load_acquire(&slab_marked.of[number % MARK_LAST]);

	*lost = os_load_relaxed(&slab_marked.begun) - number > MARK_LAST;
	return *lost ? NULL : cache;
}

void slab_forget_marked(struct slab_cache *cache)
{
	for (unsigned int i = 0; i < MARK_LAST; i++) {
		struct slab_cache *expected = cache;

		if (os_load_relaxed(&slab_marked.of[i]) == cache)
			os_cmpxchg(&slab_marked.of[i], &expected, NULL);
	}
}

/* Vanished threads may have stored no cache: as if these were no longer the last ones. */
bool slab_marked_after_fork(void)
{
	bool any = slab_is_marking(slab_marked.n);

	if (any)
		slab_marked.begun += MARK_LAST;
	slab_marked.n = ++slab_marked.begun;
	return any;
}
