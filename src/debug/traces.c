/* SPDX-License-Identifier: MIT */
/*
 * Who allocated and who freed: the record of an object (object.h), objects in use grouped by these
 * records (traces.h), and the report of a cache's objects when it is destroyed or the program ends.
 */
#include "debug/traces.h"

#include <string.h>

#include "debug/guard_slot.h"
#include "os/assert.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/memory_tools.h"
#include "os/report/record.h"
#include "os/report/report.h"
#include "os/sort.h"
#include "os/unwind/stack.h"
#include "page/decay.h"

/* --- records ---------------------------------------------------------------------------------- */

void track_now(struct debug_track *track)
{
	uintptr_t ip[TRACK_FRAMES];

	track_stack(track, ip, os_stack_walk(ip, TRACK_FRAMES));
}

void track_stack(struct debug_track *track, const uintptr_t *ip, uint32_t n)
{
	memcpy(track->ip, ip, n * sizeof(*ip));
	track->n = n;
	track->thread = os_thread();
	track->cpu = os_cpu();
	track->when = os_now_ms();
	decay_see_time(track->when);
}

bool track_is_plausible(const struct debug_track *track)
{
	return track->thread && track->n <= TRACK_FRAMES && track->cpu < OS_MAX_ROWS;
}

void track_print(struct os_record *report, const struct debug_track *track, const char *what)
{
	if (!track || !track_is_plausible(track))
		return;
	os_record_add(report, "%s %u ms ago by thread %u on CPU %u%s\n", what,
		      os_now_ms() - track->when, track->thread, track->cpu,
		      track->n ? ":" : " (no stack)");
	os_record_stack(report, track->ip, track->n);
}

/* --- groups ----------------------------------------------------------------------------------- */

/* The memory of the groups and the buckets. */
#define GROUP_BYTES (DEBUG_TRACES * sizeof(struct debug_trace))
#define ALL_BYTES   ((GROUP_BYTES + DEBUG_BUCKETS * sizeof(uint32_t) + OS_PAGE - 1) & ~(OS_PAGE - 1))

struct collection {
	struct debug_traces *traces;
	struct slab_cache *cache;
	enum debug_deed deed;
	uint32_t now;
};

static uint32_t bucket_of(const struct debug_track *track)
{
	uint64_t hash = track->n;

	for (uint32_t i = 0; i < track->n; i++)
		hash = (hash ^ track->ip[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(hash >> 32) % DEBUG_BUCKETS;
}

static bool is_same_stack(const struct debug_trace *group, const struct debug_track *track)
{
	return group->n == track->n &&
	       !memcmp(group->ip, track->ip, track->n * sizeof(track->ip[0]));
}

/* NULL: there are too many. */
static struct debug_trace *group_of(struct debug_traces *traces, const struct debug_track *track)
{
	uint32_t *bucket = &traces->buckets[bucket_of(track)];
	struct debug_trace *group;

	for (uint32_t i = *bucket; i; i = group->next) {
		group = &traces->groups[i - 1];
		if (is_same_stack(group, track))
			return group;
	}
	if (traces->nr_groups == DEBUG_TRACES)
		return NULL;
	group = &traces->groups[traces->nr_groups++];
	group->n = track->n;
	memcpy(group->ip, track->ip, track->n * sizeof(track->ip[0]));
	group->next = *bucket;
	*bucket = traces->nr_groups;
	return group;
}

static void widen(uint32_t *least, uint32_t *most, uint32_t value, bool first)
{
	if (first || value < *least)
		*least = value;
	if (first || value > *most)
		*most = value;
}

static void add_object_of(struct collection *to, void *object, size_t size,
			  const struct debug_track *track)
{
	struct debug_trace *group;
	/* Another CPU's clock may be a little ahead. */
	int32_t age = (int32_t)(to->now - track->when);
	uint32_t ms = age > 0 ? (uint32_t)age : 0;
	bool first;

	if (!track_is_plausible(track)) {
		to->traces->unknown++;
		return;
	}
	group = group_of(to->traces, track);
	os_assert(to->traces->nr_groups <= DEBUG_TRACES); /* TRACES-R3 */
	if (!group) {
		to->traces->others++;
		return;
	}
	first = group->count == 0;
	if (first)
		group->object = object;
	widen(&group->age_min, &group->age_max, ms, first);
	widen(&group->thread_min, &group->thread_max, track->thread, first);
	widen(&group->cpu_min, &group->cpu_max, track->cpu, first);
	group->count++;
	group->bytes += size;
	group->ages += ms;
	to->traces->objects++;
}

/* The owner may free the object meanwhile, and write a new record: then the copy is discarded. */
static OS_NO_TSAN TOOLS_LOOK void copy_track(struct debug_track *to, const struct debug_track *from)
{
	const volatile uint32_t *words = (const volatile uint32_t *)from;

	for (size_t i = 0; i < sizeof(*to) / sizeof(*words); i++)
		((uint32_t *)to)[i] = words[i];
}

/* A free object has its bit set; an object that is just being taken or freed is not USED. */
static void look_at_slab(void *data, struct slab *slab)
{
	struct collection *to = data;
	struct slab_cache *cache = to->cache;
	unsigned int objects = slab_order_of(cache, os_load_relaxed(&slab->state)).objects;
	const uint64_t *words = slab_words(cache, slab);

	for (unsigned int i = 0; i < objects; i++) {
		void *object = slab_object(cache, slab, i);
		struct debug_track track;
		size_t size;

		if (os_load_acquire(&words[i / 64]) >> i % 64 & 1 ||
		    !slab_is_prepared(cache, slab, i) || !debug_in_use(cache, object, &size))
			continue;
		copy_track(&track, debug_track(cache, object, to->deed));
		os_fence();
		if (debug_in_use(cache, object, &size))
			add_object_of(to, object, size, &track);
	}
}

/* A guarded object may be freed, and its slot used again, at the same time: then two copies of
 * the record differ. */
static void look_at_slot(struct collection *to, const struct guard_slot *slot)
{
	const struct debug_track *from = &guard_notes_of(slot)->tracks[to->deed];
	struct debug_track track, again;

	copy_track(&track, from);
	os_fence();
	if (os_load_acquire(&slot->state) != DEBUG_USED ||
	    os_load_relaxed(&slot->cache) != to->cache)
		return;
	copy_track(&again, from);
	if (!memcmp(&track, &again, sizeof(track)))
		add_object_of(to, slot->object, os_load_relaxed(&slot->size), &track);
}

static int most_first(const void *a, const void *b)
{
	size_t x = ((const struct debug_trace *)a)->count;
	size_t y = ((const struct debug_trace *)b)->count;

	return x > y ? -1 : x < y;
}

bool debug_traces_begin(struct debug_traces *traces)
{
	char *memory = os_map(ALL_BYTES);

	if (!memory)
		return false;
	*traces = (struct debug_traces){.groups = (struct debug_trace *)memory,
					.buckets = (uint32_t *)(memory + GROUP_BYTES)};
	return true;
}

void debug_traces_find(struct debug_traces *traces, struct slab_cache *cache, enum debug_deed deed)
{
	struct collection to = {traces, cache, deed, os_now_ms()};

	/* The memory may have those of another cache. */
	memset(traces->groups, 0, traces->nr_groups * sizeof(*traces->groups));
	memset(traces->buckets, 0, DEBUG_BUCKETS * sizeof(*traces->buckets));
	*traces = (struct debug_traces){.groups = traces->groups, .buckets = traces->buckets};
	traces->guarded = !debug_stores_users(cache);
	if (!traces->guarded)
		traces->missed = slab_for_each_held(cache, look_at_slab, &to);
	guard_for_each (slot)
		look_at_slot(&to, slot);
	os_sort(traces->groups, traces->nr_groups, sizeof(*traces->groups), most_first);
}

void debug_traces_end(struct debug_traces *traces)
{
	os_unreserve(traces->groups, ALL_BYTES);
}

/* --- leaks ------------------------------------------------------------------------------------ */

#define MOST_GROUPS 8 /* in a report; the others are only counted */

static void tell_group(struct os_record *report, const struct debug_trace *group)
{
	os_record_add(report, "%zu object%s of %llu bytes, such as %p, allocated ", group->count,
		      os_plural(group->count), (unsigned long long)group->bytes, group->object);
	if (group->age_min != group->age_max)
		os_record_add(report, "%u to ", group->age_min);
	os_record_add(report, "%u ms ago by thread %u%s%s\n", group->age_max, group->thread_min,
		      group->thread_min != group->thread_max ? " and others" : "",
		      group->n ? ":" : " (no stack)");
	os_record_stack(report, group->ip, group->n);
}

void debug_report_leaks(struct slab_cache *cache, const char *when)
{
	struct debug_traces traces;
	struct os_record *report;
	size_t objects;

	if (!debug_traces_begin(&traces))
		return;
	debug_traces_find(&traces, cache, DEBUG_ALLOCATED);
	objects = traces.objects + traces.others;
	report = traces.objects ? os_record_begin(cache->name, __func__) : NULL;
	os_record_add(report,
		      "libsheaf: LEAK %s: %zu %sobject%s of %u bytes in use %s, by the stack that "
		      "allocated them:\n",
		      cache->name, objects, traces.guarded ? "guarded " : "", os_plural(objects),
		      cache->object_size, when);
	for (uint32_t g = 0; g < traces.nr_groups && g < MOST_GROUPS; g++)
		tell_group(report, &traces.groups[g]);
	if (traces.nr_groups > MOST_GROUPS)
		os_record_add(report, "%u more place%s\n", traces.nr_groups - MOST_GROUPS,
			      os_plural(traces.nr_groups - MOST_GROUPS));
	os_record_end(report, false);
	debug_traces_end(&traces);
}
