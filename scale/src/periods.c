/* SPDX-License-Identifier: MIT */
/* See periods.h. The task that first sees that functions are due calls them. */
#include "scale/src/periods.h"

#include <sheaf/rcu.h>

#include "os/machine.h"
#include "sim/sim.h"

#define MOST_CALLS 256u

/* In the order in which they are due. */
static struct {
	struct sheaf_rcu_head *head;
	uint64_t due;
} calls[MOST_CALLS];
static unsigned int first, end; /* places modulo MOST_CALLS */

uint64_t periods_end(void)
{
	return (os_now() / PERIOD_NS + 2) * PERIOD_NS;
}

static void call(struct sheaf_rcu_head *head, void (*func)(struct sheaf_rcu_head *head))
{
	if (end - first == MOST_CALLS)
		sim_fail("more than %u functions wait for a grace period", MOST_CALLS);
	head->func = func;
	calls[end % MOST_CALLS].head = head;
	calls[end++ % MOST_CALLS].due = periods_end();
}

void periods_pass(void)
{
	while (first != end && calls[first % MOST_CALLS].due <= os_now()) {
		struct sheaf_rcu_head *head = calls[first++ % MOST_CALLS].head;

		head->func(head);
	}
}

static void barrier(void)
{
	unsigned int until = end;

	while ((int)(until - first) > 0) {
		os_sleep_briefly();
		periods_pass();
	}
}

static void start_poll(struct sheaf_rcu_poll *state)
{
	state->words[0] = periods_end();
}

static int poll(const struct sheaf_rcu_poll *state)
{
	return state->words[0] <= os_now();
}

static const struct sheaf_rcu_ops ops = {
	.size = sizeof(struct sheaf_rcu_ops),
	.name = "scale",
	.call = call,
	.barrier = barrier,
	.start_poll = start_poll,
	.poll = poll,
};

void periods_register(void)
{
	if (sheaf_rcu_register(&ops))
		sim_fail("the provider of grace periods is refused");
}
