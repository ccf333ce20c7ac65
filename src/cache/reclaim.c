/* SPDX-License-Identifier: MIT */
/* Reclaims free memory of all caches, and what shrinkers can free; limits. See reclaim.h. */
#include "cache/reclaim.h"

#include <errno.h>
#include <sheaf/limit.h>

#include "cache/cache.h"
#include "cache/list.h"
#include "cache/shrinkers.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/report.h"
#include "page/page.h"
#include "percpu/flow.h"

/* A part of what shrinkers have: 1/8, as they count it. */
#define SOFT_PART 3

static uint32_t soft_at; /* when shrinkers were last asked, in ms */

/* A cache that is being destroyed is emptied by the thread that does that. */
void reclaim_caches(void)
{
	for (struct kmem_cache *s = list_next(NULL); s; s = list_next(s)) {
		if (!os_load_relaxed(&s->nr_names))
			continue;
		sheaf_forget_flow(&s->sheaf);
		cache_see_flow(s);
		cache_give_up_free(s);
	}
}

void reclaim_everything(gfp_t flags)
{
	if (gfpflags_allow_blocking(flags))
		shrinkers_run(flags, 0);
	reclaim_caches();
	page_trim();
}

void reclaim_above_soft(gfp_t flags)
{
	uint32_t now = os_now_ms(), at = os_load_relaxed(&soft_at);

	if (shrinkers_exist() && now - at >= RECLAIM_SOFT_MS && os_cmpxchg(&soft_at, &at, now))
		shrinkers_run(flags, SOFT_PART);
}

static bool is_above(size_t hard)
{
	return hard && os_load_relaxed(&page_limit.held) > hard >> OS_PAGE_SHIFT;
}

SHEAF_PUBLIC int sheaf_set_limits(size_t soft, size_t hard)
{
	int saved = errno;

	if (hard && soft > hard) {
		os_misuse(NULL,
			  "sheaf_set_limits(%zu, %zu): the soft limit is above the hard one; "
			  "nothing was changed. Use 0 for none",
			  soft, hard);
		errno = saved;
		return -EINVAL;
	}
	if (!caches_ready())
		return -ENOMEM;
	page_set_limits(soft, hard);
	if (is_above(hard))
		reclaim_everything(GFP_KERNEL);
	if (is_above(hard))
		os_report("sheaf_set_limits(%zu, %zu): the hard limit is below the %zu bytes that "
			  "are held; allocations that need memory fail until enough is freed",
			  soft, hard, os_load_relaxed(&page_limit.held) << OS_PAGE_SHIFT);
	cache_leave();
	errno = saved;
	return 0;
}
