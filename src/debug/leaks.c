/* SPDX-License-Identifier: MIT */
/* Objects that are in use when their cache is destroyed: grouped by who allocated them, most
 * first. */
#include <stdio.h>
#include <string.h>

#include "debug/guard.h"
#include "debug/object.h"
#include "os/long_report.h"
#include "os/machine.h"

#define MOST_GROUPS 8 /* in a report; the others are summed up */

/* Objects of one stack. */
struct leak {
	const struct debug_track *track;
	void *object; /* one of them */
	size_t n;
};

static bool is_same(const struct debug_track *a, const struct debug_track *b)
{
	return a->n == b->n && !memcmp(a->ip, b->ip, a->n * sizeof(a->ip[0]));
}

/* One more of a group; larger groups stay in front. */
static void count_leak(struct leak *leaks, size_t g)
{
	leaks[g].n++;
	for (; g && leaks[g - 1].n < leaks[g].n; g--) {
		struct leak smaller = leaks[g - 1];

		leaks[g - 1] = leaks[g];
		leaks[g] = smaller;
	}
}

static const struct debug_track *allocated_by(const struct slab_cache *cache, const void *object)
{
	return guard_is_ours(object) ? guard_allocated_by(object)
				     : debug_track(cache, object, DEBUG_ALLOCATED);
}

static size_t group_leaks(const struct slab_cache *cache, void *const *objects, size_t n,
			  struct leak *leaks)
{
	size_t groups = 0;

	for (size_t i = 0; i < n; i++) {
		const struct debug_track *track = allocated_by(cache, objects[i]);
		size_t g = 0;

		while (g < groups && !is_same(leaks[g].track, track))
			g++;
		if (g == groups)
			leaks[groups++] = (struct leak){track, objects[i], 0};
		count_leak(leaks, g);
	}
	return groups;
}

void debug_report_leaks(struct slab_cache *cache, void *const *objects, size_t n, size_t all)
{
	struct leak leaks[DEBUG_LEAKS];
	struct os_long *report;
	size_t groups;

	if (!(debug_of(cache)->flags & SLAB_STORE_USER))
		return;
	groups = group_leaks(cache, objects, n, leaks);
	report = os_long_begin(cache->name, __func__);
	os_long_add(report, "libsheaf: LEAK %s: %zu objects of %u bytes are in use%s\n",
		    cache->name, all, cache->object_size,
		    all > n ? "; of the first ones, by who allocated them:"
			    : ", by who allocated them:");
	for (size_t g = 0; g < groups && g < MOST_GROUPS; g++) {
		char what[80];

		snprintf(what, sizeof(what), "%zu objects, such as %p, allocated", leaks[g].n,
			 leaks[g].object);
		track_print(report, leaks[g].track, what);
	}
	if (groups > MOST_GROUPS)
		os_long_add(report, "%zu more places\n", groups - MOST_GROUPS);
	os_long_end(report);
}
