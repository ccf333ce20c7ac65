/* SPDX-License-Identifier: MIT */
/* Reads the figures of the process, while other threads change them. */
#include <string.h>

#include "cache/block.h"
#include "cache/shrinkers.h"
#include "os/atomic.h"
#include "os/counters.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/memory_tools.h"
#include "page/decay.h"
#include "page/limit.h"
#include "page/map.h"
#include "percpu/barn/budget.h"
#include "stats/stats.h"

void stats_copy(void *out, size_t size, const void *all, size_t known)
{
	memset(out, 0, size);
	memcpy(out, all, size < known ? size : known);
	tools_wrote(out, size);
}

/* A forked child did not see all memory being allocated. */
static uint64_t peak_bytes(const struct sheaf_stats *process)
{
	const uint64_t *word = os_process_word(OS_PROCESS_peak_bytes);
	uint64_t now = process->used_bytes + process->mapped_bytes;
	uint64_t peak = word ? os_load_relaxed(word) : 0;

	return process->counted && peak < now ? now : peak;
}

static uint64_t limit_bytes(const size_t *limit)
{
	size_t pages = os_load_relaxed(limit);

	return pages == PAGE_NO_LIMIT ? 0 : (uint64_t)pages << OS_PAGE_SHIFT;
}

void stats_read_process(struct sheaf_stats *out)
{
	struct page_usage usage;
	size_t resident, peak;

	memset(out, 0, sizeof(*out));
	if (!os_load_acquire(&caches.ready))
		return;
	usage = page_usage();
	out->counted = os.counting != 0;
	out->caches = os_load_relaxed(&caches.nr);
	out->cpus = os.nr_cpus;
	out->nodes = os.nr_nodes;
	out->committed_bytes = usage.committed + guard_held();
	out->used_bytes = usage.used + guard_held();
	out->free_bytes = usage.dirty;
	out->returned_bytes = usage.returned;
	out->held_bytes = os_load_relaxed(&page_limit.held) << OS_PAGE_SHIFT;
	out->soft_limit = limit_bytes(&page_limit.target);
	out->hard_limit = limit_bytes(&page_limit.hard);
	out->limit_failures = os_load_relaxed(&page_limit.failures);
	out->shrinker_objects = os_load_relaxed(&shrinkers.freed);
	out->decay_ms = decay_ms();
	out->decay_set_by = os_load_relaxed(&decay_time.set_by);
	out->split_mappings = usage.splits;
	out->split_limit = usage.most_splits;
	out->fork_lost = os_load_relaxed(&caches.fork_lost);
	out->mapped_bytes = map_bytes();
	out->rcu_bytes = grace_bytes();
	out->sheaf_bytes = sheaf_budget_used();
	out->sheaf_budget = (uint64_t)os_load_relaxed(&sheaf_budget.limit);
	os_resident(&resident, &peak);
	out->resident_bytes = resident;
	out->peak_resident_bytes = peak;
	out->peak_bytes = peak_bytes(out);
}

SHEAF_PUBLIC void __sheaf_stats(struct sheaf_stats *out, size_t size)
{
	struct sheaf_stats all;

	stats_read_process(&all);
	stats_copy(out, size, &all, sizeof(all));
}
