/* SPDX-License-Identifier: MIT */
/* SHEAF_OPTIONS=stats and stats=json: printing at exit. Nothing is torn down, because other threads
 * may still run. */
#include <string.h>

#include "os/machine.h"
#include "os/options.h"
#include "os/report.h"
#include "stats/stats.h"

#define TRIES 1000

/* exit() in a signal handler may have interrupted the thread that holds the lock, which is then
 * never released. */
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

void stats_at_exit(void)
{
	enum sheaf_stats_format format =
		os_options.stats_json ? SHEAF_STATS_JSON : SHEAF_STATS_TEXT;
	int error = lock_can_be_had() ? sheaf_stats_print((int)os_options.stats_fd, format) : 0;

	if (error)
		os_report("cannot print statistics: %s", strerror(-error));
}
