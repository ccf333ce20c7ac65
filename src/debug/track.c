/* SPDX-License-Identifier: MIT */
/* Who allocated and who freed: stacks, threads, CPUs, times; see object.h. */
#include "debug/object.h"

#include <stdio.h>
#include <string.h>

#include "os/long_report.h"
#include "os/machine.h"
#include "os/stack.h"

void track_now(struct debug_track *track)
{
	track->n = os_stack_walk(track->ip, TRACK_FRAMES);
	track->thread = os_thread();
	track->cpu = os_cpu();
	track->when = os_now_ms();
}

bool track_is_plausible(const struct debug_track *track)
{
	return track->thread && track->n <= TRACK_FRAMES && track->cpu < OS_MAX_ROWS;
}

void track_print(struct os_long *report, const struct debug_track *track, const char *what)
{
	if (!track || !track_is_plausible(track))
		return;
	os_long_add(report, "%s %u ms ago by thread %u on CPU %u%s\n", what,
		    os_now_ms() - track->when, track->thread, track->cpu,
		    track->n ? ":" : " (no stack)");
	os_long_stack(report, track->ip, track->n);
}
