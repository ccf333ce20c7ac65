/* SPDX-License-Identifier: MIT */
/* Rounds of housekeeping; see housekeeping.h. */
#include "cache/housekeeping.h"

#include <errno.h>

#include "os/atomic.h"
#include "os/machine.h"
#include "page/page.h"

static struct {
	uint32_t running; /* a thread does a round */
	uint32_t node;	  /* whose free pages the next round looks at */
} state;

static void do_round(void)
{
	page_decay(state.node++ % os.nr_nodes);
}

void housekeep(void)
{
	int saved = errno;
	uint32_t idle = 0;

	if (!os_cmpxchg(&state.running, &idle, 1))
		return;
	/* Not before: a thread that sees the last time also sees that nothing is due. */
	os_store_relaxed(&decay_time.last, os_now_ms());
	os_store_relaxed(&decay_time.due, 0);
	do_round();
	os_store_release(&state.running, 0);
	errno = saved;
}

void housekeeping_after_fork(void)
{
	state.running = 0;
}
