/* SPDX-License-Identifier: MIT */
/* The printing call: read the statistics, then format them. */
#include <errno.h>

#include "stats/stats.h"

SHEAF_PUBLIC int sheaf_stats_print(int fd, enum sheaf_stats_format format)
{
	int saved = errno, error;
	struct stats *stats;
	struct out out;

	if (format != SHEAF_STATS_TEXT && format != SHEAF_STATS_JSON &&
	    format != SHEAF_STATS_PROMETHEUS)
		return -EINVAL;
	stats = caches_ready() ? stats_read() : NULL;
	if (!stats)
		return -ENOMEM;
	if (!out_begin(&out, fd)) {
		stats_release(stats);
		return -ENOMEM;
	}
	if (format == SHEAF_STATS_TEXT)
		stats_print_text(&out, stats);
	else if (format == SHEAF_STATS_JSON)
		stats_print_json(&out, stats);
	else
		stats_print_prometheus(&out, stats);
	error = out_end(&out);
	stats_release(stats);
	errno = saved;
	return error;
}
