/* SPDX-License-Identifier: MIT */
/* SHEAF_OPTIONS=fail_nth=N; see should_fail.h. */
#include "os/should_fail.h"

#include "os/options/options.h"
#include "os/report/report.h"

os_fail_function *os_fail_by;

static uint32_t points; /* passed so far */

/* The first one is reported. */
static bool fail_nth(const char *point)
{
	uint32_t n = os_fetch_add_relaxed(&points, 1) + 1, nth = os_options.fail_nth;
	bool fails = nth && n >= nth && (!os_options.fail_times || n - nth < os_options.fail_times);

	if (fails && n == nth)
		os_report_later("SHEAF_OPTIONS: fail_nth=%u: %s fails on purpose", n, point);
	return fails;
}

void os_should_fail_begin(void)
{
	if (os_options.fail_nth != OS_FAIL_NONE)
		os_store_relaxed(&os_fail_by, fail_nth);
}

void os_should_fail_end(void)
{
	if (os_options.fail_nth == 0)
		os_report("SHEAF_OPTIONS: fail_nth=0: %u points where something may fail",
			  os_load_relaxed(&points));
}
