/* SPDX-License-Identifier: MIT */
/*
 * Free memory goes back at once: sheaf_trim().
 *
 * Locks: those of kmem_cache_shrink(), cache by cache: each cache is pinned meanwhile, so that it
 * is not destroyed. Callers: programs.
 */
#include <sheaf/trim.h>

#include "cache/cache.h"
#include "cache/reclaim.h"
#include "cache/shrinkers.h"
#include "os/atomic.h"
#include "page/page.h"

SHEAF_PUBLIC size_t sheaf_trim(size_t keep)
{
	OS_KEEP_ERRNO;
	size_t before;

	if (!os_load_acquire(&caches.ready))
		return 0;
	before = page_usage().returned;
	shrinkers_run(GFP_KERNEL, 0);
	reclaim_caches();
	page_trim_to(keep);
	cache_leave();
	return page_usage().returned - before;
}
