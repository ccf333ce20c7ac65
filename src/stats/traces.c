/* SPDX-License-Identifier: MIT */
/*
 * The stacks that allocated the objects in use, or freed them before, as text and JSON: what the
 * kernel shows in each cache's files alloc_traces and free_traces, with stacks as functions.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sheaf/debug.h>

#include "cache/list.h"
#include "debug/traces.h"
#include "os/unwind/stack.h"
#include "stats/stats.h"

/* Which traces are printed, and where. */
struct printer {
	struct out *out;
	enum sheaf_traces which;
	enum sheaf_stats_format format;
	traces_filter *filter;
	const void *data;
	int caches; /* so far */
};

/* Words of enum sheaf_traces. */
static const struct {
	enum debug_deed deed;
	const char *by, *unknown;
} kinds[] = {
	[SHEAF_ALLOC_TRACES] = {DEBUG_ALLOCATED, "allocated them", "whose record was overwritten"},
	[SHEAF_FREE_TRACES] = {DEBUG_FREED, "freed them before they were allocated",
			       "never freed before"},
};

static void print_range(struct out *out, const char *name, uint32_t least, uint32_t most)
{
	out_print(out, " %s=%u", name, least);
	if (most != least)
		out_print(out, "-%u", most);
}

static void print_group_text(struct out *out, const struct debug_trace *group)
{
	out_print(out, "%8zu object%s, %llu bytes, age=%u/%llu/%u ms", group->count,
		  os_plural(group->count), (unsigned long long)group->bytes, group->age_min,
		  (unsigned long long)(group->ages / group->count), group->age_max);
	print_range(out, "thread", group->thread_min, group->thread_max);
	print_range(out, "cpu", group->cpu_min, group->cpu_max);
	out_print(out, " such as %p\n", group->object);
	for (uint32_t i = 0; i < group->n; i++) {
		char frame[160];

		os_stack_frame(frame, sizeof(frame), group->ip[i]);
		out_print(out, "         %.*s\n", (int)sizeof(frame), frame);
	}
}

static void print_text(struct printer *to, const char *name, const struct debug_traces *traces)
{
	size_t objects = traces->objects + traces->others + traces->unknown;
	struct out *out = to->out;

	out_print(out, "# %s: %zu %sobject%s in use, by the stack that %s\n", name, objects,
		  traces->guarded ? "guarded " : "", os_plural(objects), kinds[to->which].by);
	for (uint32_t i = 0; i < traces->nr_groups; i++)
		print_group_text(out, &traces->groups[i]);
	if (traces->unknown)
		out_print(out, "%8zu object%s %s\n", traces->unknown, os_plural(traces->unknown),
			  kinds[to->which].unknown);
	if (traces->others)
		out_print(out, "%8zu object%s with other stacks\n", traces->others,
			  os_plural(traces->others));
	if (traces->missed)
		out_print(out, "# left out: %u slab%s from which other threads took objects\n",
			  traces->missed, os_plural(traces->missed));
}

static void print_frame_json(struct out *out, uintptr_t ip, const char *between)
{
	char frame[160];
	size_t offset = 0;
	const char *module = os_stack_module(ip, &offset);

	os_stack_frame(frame, sizeof(frame), ip);
	out_print(out, "%s{\"address\": \"%#zx\", \"module\": ", between, (size_t)ip);
	out_quoted(out, module ? module : "");
	out_print(out, ", \"offset\": \"%#zx\", \"frame\": ", offset);
	out_quoted(out, frame + strspn(frame, " "));
	out_print(out, "}");
}

static void print_group_json(struct out *out, const struct debug_trace *group, const char *between)
{
	out_print(out,
		  "%s{\"objects\": %zu, \"bytes\": %llu, \"age_min_ms\": %u, \"age_avg_ms\": %llu, "
		  "\"age_max_ms\": %u, \"thread_min\": %u, \"thread_max\": %u, \"cpu_min\": %u, "
		  "\"cpu_max\": %u, \"object\": \"%p\", \"stack\": [",
		  between, group->count, (unsigned long long)group->bytes, group->age_min,
		  (unsigned long long)(group->ages / group->count), group->age_max,
		  group->thread_min, group->thread_max, group->cpu_min, group->cpu_max,
		  group->object);
	for (uint32_t i = 0; i < group->n; i++)
		print_frame_json(out, group->ip[i], i ? ", " : "");
	out_print(out, "]}");
}

static void print_json(struct printer *to, const char *name, const struct debug_traces *traces)
{
	struct out *out = to->out;

	out_print(out, "%s{\"cache\": ", to->caches ? ",\n" : "");
	out_quoted(out, name);
	out_print(out,
		  ", \"objects\": %zu, \"unknown\": %zu, \"further\": %zu, \"missed_slabs\": %u, "
		  "\"guarded\": %s, \"traces\": [",
		  traces->objects + traces->others + traces->unknown, traces->unknown,
		  traces->others, traces->missed, traces->guarded ? "true" : "false");
	for (uint32_t i = 0; i < traces->nr_groups; i++)
		print_group_json(out, &traces->groups[i], i ? ",\n " : "\n ");
	out_print(out, "]}");
}

/* Print a pinned cache that knows users. It is unpinned before the output, which may take long. */
static void print_cache_traces(struct printer *to, struct debug_traces *traces,
			       struct kmem_cache *s)
{
	char name[SHEAF_STATS_NAME];

	debug_traces_find(traces, &s->sheaf.slab, kinds[to->which].deed);
	snprintf(name, sizeof(name), "%s", s->name);
	list_unpin(s);
	if (to->format == SHEAF_STATS_JSON)
		print_json(to, name, traces);
	else
		print_text(to, name, traces);
	to->caches++;
}

/* The youngest cache that is older than this number and is to be printed, pinned. */
static struct kmem_cache *next_cache(const struct printer *to, uint32_t id)
{
	struct kmem_cache *s = list_next(NULL);

	while (s &&
	       !(cache_knows_users(s) && s->id < id && (!to->filter || to->filter(to->data, s))))
		s = list_next(s);
	return s;
}

int traces_print(struct out *out, traces_filter *filter, const void *data, enum sheaf_traces which,
		 enum sheaf_stats_format format)
{
	struct printer to = {out, which, format, filter, data, 0};
	struct debug_traces traces;
	uint32_t id = UINT32_MAX;
	struct kmem_cache *s;

	if (!debug_traces_begin(&traces))
		return -ENOMEM;
	if (format == SHEAF_STATS_JSON)
		out_print(out, "[");
	while ((s = next_cache(&to, id)) != NULL) {
		id = s->id;
		print_cache_traces(&to, &traces, s);
	}
	if (format == SHEAF_STATS_JSON)
		out_print(out, "]\n");
	debug_traces_end(&traces);
	return to.caches;
}

static bool is_the_cache(const void *data, const struct kmem_cache *s)
{
	return s == data;
}

static int check_cache(struct kmem_cache *s)
{
	bool knows;

	if (!list_pin(s, "kmem_cache_print_traces"))
		return -EINVAL;
	knows = cache_knows_users(s);
	list_unpin(s);
	return knows ? 0 : -ENOTSUP;
}

SHEAF_PUBLIC int kmem_cache_print_traces(struct kmem_cache *s, int fd, enum sheaf_traces which,
					 enum sheaf_stats_format format)
{
	OS_KEEP_ERRNO;
	int printed, error;
	struct out out;

	if ((format != SHEAF_STATS_TEXT && format != SHEAF_STATS_JSON) ||
	    (which != SHEAF_ALLOC_TRACES && which != SHEAF_FREE_TRACES))
		return -EINVAL;
	if (!caches_ready())
		return -ENOMEM;
	error = s ? check_cache(s) : 0;
	if (error)
		return error;
	if (!out_begin(&out, fd))
		return -ENOMEM;
	printed = traces_print(&out, s ? is_the_cache : NULL, s, which, format);
	error = out_end(&out);
	return printed < 0 ? printed : error;
}
