/* SPDX-License-Identifier: MIT */
/*
 * Reads the statistics of caches while other threads use them. No thread is stopped: a sheaf that
 * moves is seen in one of its places, or in none. The cache is pinned, so that it is not freed; no
 * lock is held, because the call reads every page. Headers of sheaves that are freed meanwhile can
 * still be read, because pools never return memory.
 */
#include <errno.h>
#include <string.h>

#include "cache/block.h"
#include "cache/list.h"
#include "cache/publish.h"
#include "debug/guard.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/options/options.h"
#include "os/report/report.h"
#include "os/view.h"
#include "percpu/barn/barn.h"
#include "percpu/remote.h"
#include "percpu/rows.h"
#include "percpu/sheaf.h"
#include "rcu/rcu_free.h"
#include "stats/stats.h"

static uint64_t objects_of(uint64_t word)
{
	return word & SHEAF_SIZE;
}

/* Add a sheaf in a slot: its objects, and its counts. */
static void read_sheaf(struct kmem_cache_stats *out, uint64_t word, uint32_t base)
{
	struct sheaf_traffic traffic = sheaf_traffic_of(word, base);

	out->objects_in_sheaves += objects_of(word);
	if (!out->counted)
		return;
	out->alloc_fastpath += traffic.pops;
	out->free_fastpath += traffic.pushes;
}

/* In sheaves for other nodes; their counts are in the sums. */
static uint64_t objects_remote(const struct slot *slot, bool retired)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < slot_remotes(); i++) {
		const struct sheaf *sheaf = slot_remote(slot, i, retired);

		n += sheaf ? objects_of(os_load_relaxed(&sheaf->word)) : 0;
	}
	return n;
}

static void read_cell(uintptr_t cell, struct kmem_cache_stats *out)
{
	uint64_t objects;

	if (!cell || (cell & BARN_TRANSIT))
		return;
	objects = objects_of(os_load_relaxed(&barn_sheaf(cell)->word));
	out->objects_in_sheaves += objects;
	out->barn_full += (cell & BARN_FULL) != 0;
	out->barn_partial += !(cell & BARN_FULL) && objects;
	out->barn_empty += !(cell & BARN_FULL) && !objects;
}

static void read_sheaves(struct sheaf_cache *cache, struct kmem_cache_stats *out)
{
	uint64_t waiting, passed;

	if (!cache->barns)
		return;
	rows_for_each (cache->at.handle, row) {
		struct slot *slot = slot_of_row(cache->at.handle, row);
		struct slot_view view;

		while (!view_slot(slot, &view))
			;
		read_sheaf(out, view.main, view.main_base);
		read_sheaf(out, view.spare, view.spare_base);
		out->rcu_pending_objects +=
			objects_of(os_load_relaxed(&os_load_acquire(&slot->rcu_free)->word)) +
			objects_remote(slot, true);
		out->objects_in_sheaves += objects_remote(slot, false);
	}
	barn_for_each_cell (cache, cell)
		read_cell(os_load_relaxed(cell), out);
	sheaf_rcu_count(cache, &waiting, &passed);
	out->rcu_pending_objects += waiting;
	out->objects_in_sheaves += passed;
}

/* The sum of an event's words. */
static uint64_t sum(const uint64_t *counts, uint64_t words)
{
	uint64_t total = 0;

	for (; words; words &= words - 1)
		total += os_load_relaxed(&counts[__builtin_ctzll(words)]);
	return total;
}

#define SUM(name, words, help) out->name += sum(counts, words);

static void add_counts(const uint64_t counts[OS_WORDS], struct kmem_cache_stats *out)
{
	out->peak_slab_bytes = os_load_relaxed(&counts[STAT_peak_slab_bytes]);
	STAT_EVENTS(SUM)
}

#define COPY(name, help) out->name = now.name;

static void read_settings(struct kmem_cache *s, struct kmem_cache_stats *out)
{
	const struct slab_rest *rest = slab_rest(&s->sheaf.slab);
	struct publish_settings now;

	publish_read(&now, s);
	STAT_SETTINGS(COPY)
	strncpy(out->name, s->name, sizeof(out->name) - 1);
	out->id = s->id;
	out->limit_bytes = os_load_relaxed(&rest->limit);
	out->limit_failures = os_load_relaxed(&rest->failures);
}

/* Everything but its slabs, which are added later. The cache is pinned. */
static struct stats_slabs begin_stats(struct kmem_cache *s, struct kmem_cache_stats *out)
{
	struct slab_cache *slab = &s->sheaf.slab;
	uint64_t counts[OS_WORDS];

	memset(out, 0, sizeof(*out));
	os_lock(&caches.lock);
	read_settings(s, out);
	os_unlock(&caches.lock);
	out->counted = slab->counted != NULL;
	out->objects = out->total_objects = guard_live(slab, NULL, 0);
	read_sheaves(&s->sheaf, out);
	if (out->counted) {
		cache_read_counts(s, counts);
		add_counts(counts, out);
	}
	return (struct stats_slabs){slab, slab->oo, slab->min, quarantine_count(slab), out};
}

static void end_cache(const struct stats_slabs *of)
{
	struct kmem_cache_stats *out = of->out;
	uint64_t elsewhere = out->objects_in_sheaves + out->rcu_pending_objects, used;

	out->objects -= of->resting < out->objects ? of->resting : out->objects;
	out->objects_in_use = out->objects > elsewhere ? out->objects - elsewhere : 0;
	out->rcu_pending_bytes = out->rcu_pending_objects * out->slab_size;
	used = out->total_objects * out->object_size;
	out->waste_bytes = out->slab_bytes > used ? out->slab_bytes - used : 0;
	/* A forked child did not see all slabs being allocated. */
	if (out->counted && out->peak_slab_bytes < out->slab_bytes)
		out->peak_slab_bytes = out->slab_bytes;
}

void stats_read_cache(struct kmem_cache *s, struct kmem_cache_stats *out)
{
	struct stats_slabs slabs = begin_stats(s, out);

	stats_add_slabs(&slabs, 1);
	end_cache(&slabs);
}

uint64_t stats_read_destroyed(const struct destroyed_stats *entry, struct kmem_cache_stats *out)
{
	memset(out, 0, sizeof(*out));
	strncpy(out->name, entry->name, sizeof(out->name) - 1);
	out->object_size = os_load_relaxed(&entry->object_size);
	out->slab_size = os_load_relaxed(&entry->slab_size);
	out->objs_per_slab = os_load_relaxed(&entry->objs_per_slab);
	out->sheaf_capacity = os_load_relaxed(&entry->sheaf_capacity);
	add_counts(entry->words, out);
	return os_load_relaxed(&entry->times);
}

SHEAF_PUBLIC int __kmem_cache_stats(struct kmem_cache *s, struct kmem_cache_stats *out, size_t size)
{
	struct kmem_cache_stats all;

	memset(out, 0, size);
	if (!list_pin(s, "kmem_cache_stats"))
		return -EINVAL;
	stats_read_cache(s, &all);
	list_unpin(s);
	stats_copy(out, size, &all, sizeof(all));
	return 0;
}

/* For the caches, too, and after them for what is needed to count their slabs. */
static struct stats *make_room(uint64_t nr)
{
	size_t room = sizeof(struct stats) +
		      nr * (sizeof(struct kmem_cache_stats) + sizeof(struct stats_slabs));
	struct stats *stats;

	room = os_round_up(room);
	stats = os_map(room);
	if (stats)
		stats->room = room;
	return stats;
}

/* The list begins with the youngest cache: skip those created meanwhile. */
static void read_caches(struct stats *stats, uint32_t youngest)
{
	uint64_t nr = stats->process.caches, i = nr;
	struct stats_slabs *slabs = (struct stats_slabs *)(stats->caches + nr);

	for (struct kmem_cache *s = list_next(NULL); s; s = list_next(s))
		if ((int32_t)(s->id - youngest) <= 0) {
			i--;
			slabs[i] = begin_stats(s, &stats->caches[i]);
		}
	stats_add_slabs(slabs + i, nr - i);
	for (uint64_t k = i; k < nr; k++)
		end_cache(&slabs[k]);
	if (!i)
		return;
	/* Some caches were destroyed meanwhile. */
	stats->process.caches = nr - i;
	memmove(stats->caches, stats->caches + i, (nr - i) * sizeof(*stats->caches));
}

struct stats *stats_read(void)
{
	uint32_t youngest;
	struct stats *stats;
	uint64_t nr;

	os_lock(&caches.lock);
	nr = caches.nr;
	youngest = caches.nr_made;
	os_unlock(&caches.lock);
	stats = make_room(nr);
	if (!stats)
		return NULL;
	stats_read_process(&stats->process);
	stats->process.caches = nr;
	if (!groups_read(&stats->groups)) {
		stats_release(stats);
		return NULL;
	}
	read_caches(stats, youngest);
	stats->backend = publish_backend();
	stats->index = publish_index();
	os_options_text(stats->options, sizeof(stats->options));
	return stats;
}

void stats_release(struct stats *stats)
{
	groups_release(&stats->groups);
	os_unreserve(stats, stats->room);
}
