/* SPDX-License-Identifier: MIT */
/* A provider of grace periods; see readers.h. The simulator makes no step while its tables
 * change. */
#include "sim/kit/readers.h"

#include "os/machine.h"
#include "sim/kit/model.h"
#include "sim/sim.h"
#include <sheaf/rcu.h>

enum {
	MOST_CALLS = 64
};

struct call {
	struct sheaf_rcu_head *head; /* NULL: not in use */
	uint64_t waits_for, number;
	bool runs;
};

static struct call calls[MOST_CALLS];
static uint64_t inside, last_number;

uint64_t readers_now(void)
{
	return inside;
}

void readers_enter(unsigned int fibre)
{
	inside |= UINT64_C(1) << fibre;
}

void readers_leave(unsigned int fibre)
{
	uint64_t bit = UINT64_C(1) << fibre;

	model_reader_leaves(bit);
	for (int i = 0; i < MOST_CALLS; i++)
		calls[i].waits_for &= ~bit;
	inside &= ~bit;
}

static void call(struct sheaf_rcu_head *head, void (*func)(struct sheaf_rcu_head *head))
{
	if (sim_holds_locks())
		sim_fail("the provider is called with a lock held");
	head->func = func;
	for (int i = 0; i < MOST_CALLS; i++)
		if (!calls[i].head) {
			calls[i] = (struct call){head, inside, ++last_number, false};
			return;
		}
	sim_fail("more than %d grace periods are requested", MOST_CALLS);
}

/* Call one function whose number is at most this; returns false if none has passed. */
static bool pass_one(uint64_t number)
{
	for (int i = 0; i < MOST_CALLS; i++) {
		struct call *of = &calls[i];

		if (!of->head || of->runs || of->waits_for || of->number > number)
			continue;
		of->runs = true;
		of->head->func(of->head);
		of->head = NULL;
		return true;
	}
	return false;
}

void readers_pass(void)
{
	uint64_t number = last_number;

	while (pass_one(number))
		;
}

static bool is_asked(uint64_t number)
{
	for (int i = 0; i < MOST_CALLS; i++)
		if (calls[i].head && calls[i].number <= number)
			return true;
	return false;
}

bool readers_asked(void)
{
	return is_asked(last_number);
}

static void barrier(void)
{
	uint64_t number = last_number;

	if (sim_holds_locks())
		sim_fail("the provider's barrier is called with a lock held");
	while (is_asked(number))
		if (!pass_one(number))
			os_sleep_briefly();
}

static const struct sheaf_rcu_ops ops = {
	.size = sizeof(struct sheaf_rcu_ops), .name = "fibres", .call = call, .barrier = barrier};

void readers_register(void)
{
	if (sheaf_rcu_register(&ops))
		sim_fail("the provider is refused");
}
