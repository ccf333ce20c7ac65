/* SPDX-License-Identifier: MIT */
/* SHEAF_OPTIONS=stats, stats=json and leaks: printing at exit. Nothing is torn down, because
 * other threads may still run. */
#include <string.h>

#include "cache/list.h"
#include "debug/slab_debug.h"
#include "os/machine.h"
#include "os/options.h"
#include "os/report.h"
#include "stats/stats.h"

#define TRIES 1000

/* If exit() was called in a signal handler, it may have interrupted the thread that holds the lock,
 * which is then never released. */
static bool lock_can_be_had(void)
{
	for (int tries = 0; tries < TRIES; tries++) {
		if (os_trylock(&caches.lock)) {
			os_unlock(&caches.lock);
			return true;
		}
		os_sleep_briefly();
	}
	return false;
}

static void report_leak(struct kmem_cache *s)
{
	struct kmem_cache_stats stats;

	stats_read_cache(s, &stats);
	if (cache_knows_users(s))
		debug_report_leaks(&s->sheaf.slab, "at exit");
	if (stats.objects_in_use && !debug_stores_users(&s->sheaf.slab))
		os_report("LEAK %s: %llu object%s of %llu bytes in use at exit; slab_debug=U "
			  "shows who allocated them",
			  stats.name, (unsigned long long)stats.objects_in_use,
			  os_plural(stats.objects_in_use), (unsigned long long)stats.object_size);
}

void leaks_at_exit(void)
{
	if (!lock_can_be_had())
		return;
	for (struct kmem_cache *s = list_next(NULL); s; s = list_next(s)) {
		report_leak(s);
		os_report_kept();
	}
}

void stats_at_exit(void)
{
	enum sheaf_stats_format format =
		os_options.stats_json ? SHEAF_STATS_JSON : SHEAF_STATS_TEXT;
	int error = lock_can_be_had() ? sheaf_stats_print((int)os_options.stats_fd, format) : 0;

	if (error)
		os_report("cannot print statistics: %s", strerror(-error));
}
