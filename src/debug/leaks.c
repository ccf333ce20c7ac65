/* SPDX-License-Identifier: MIT */
/* Reports objects that are in use when their cache is destroyed or the program ends, grouped by the
 * stack that allocated them, most objects first. */
#include "debug/traces.h"
#include "os/long_report.h"
#include "os/report.h"

#define MOST_GROUPS 8 /* in a report; the others are only counted */

static void print_group(struct os_long *report, const struct debug_trace *group)
{
	os_long_add(report, "%zu object%s of %llu bytes, such as %p, allocated ", group->count,
		    os_plural(group->count), (unsigned long long)group->bytes, group->object);
	if (group->age_min != group->age_max)
		os_long_add(report, "%u to ", group->age_min);
	os_long_add(report, "%u ms ago by thread %u%s%s\n", group->age_max, group->thread_min,
		    group->thread_min != group->thread_max ? " and others" : "",
		    group->n ? ":" : " (no stack)");
	os_long_stack(report, group->ip, group->n);
}

void debug_report_leaks(struct slab_cache *cache, const char *when)
{
	struct debug_traces traces;
	struct os_long *report;
	size_t objects;

	if (!debug_traces_begin(&traces, cache, DEBUG_ALLOCATED))
		return;
	objects = traces.objects + traces.others;
	report = traces.objects ? os_long_begin(cache->name, __func__) : NULL;
	os_long_add(report,
		    "libsheaf: LEAK %s: %zu %sobject%s of %u bytes in use %s, by the stack that "
		    "allocated them:\n",
		    cache->name, objects, traces.guarded ? "guarded " : "", os_plural(objects),
		    cache->object_size, when);
	for (uint32_t g = 0; g < traces.nr_groups && g < MOST_GROUPS; g++)
		print_group(report, &traces.groups[g]);
	if (traces.nr_groups > MOST_GROUPS)
		os_long_add(report, "%u more place%s\n", traces.nr_groups - MOST_GROUPS,
			    os_plural(traces.nr_groups - MOST_GROUPS));
	os_long_end(report);
	debug_traces_end(&traces);
}
