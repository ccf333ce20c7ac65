/* SPDX-License-Identifier: MIT */
/* The printing call: read the statistics, then format them. */
#include <errno.h>

#include "stats/stats.h"

SHEAF_PUBLIC int sheaf_stats_print(int fd, enum sheaf_stats_format format)
{
	struct out out = {.fd = fd};
	struct stats stats;
	int saved = errno;

	if (format != SHEAF_STATS_TEXT && format != SHEAF_STATS_JSON &&
	    format != SHEAF_STATS_PROMETHEUS)
		return -EINVAL;
	if (!stats_read(&stats))
		return -ENOMEM;
	if (format == SHEAF_STATS_TEXT)
		stats_print_text(&out, &stats);
	else if (format == SHEAF_STATS_JSON)
		stats_print_json(&out, &stats);
	else
		stats_print_prometheus(&out, &stats);
	out_flush(&out);
	stats_release(&stats);
	errno = saved;
	return -out.error;
}
