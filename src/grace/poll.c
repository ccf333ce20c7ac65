/* SPDX-License-Identifier: MIT */
/*
 * Providers that can be asked whether a grace period has passed since a moment: one moment at a
 * time is noted, that of a batch's start. The thread that takes poll_taken may note or ask.
 */
#include "grace/grace.h"
#include "os/enter_program.h"
#include "os/machine.h"

/* With poll_taken held: note this moment, which is after the start of this batch. */
static void note_moment(struct grace *grace, uint64_t number)
{
	struct os_program call = os_enter_program();

	grace->ops.start_poll(&grace->poll);
	os_leave_program(call);
	grace->poll_number = number;
	grace->poll_armed = 1;
}

void grace_arm_poll(struct grace *grace, uint64_t number)
{
	if (!grace->ops.start_poll || os_exchange(&grace->poll_taken, 1))
		return;
	tsan_acquire(&grace->poll);
	if (!grace->poll_armed)
		note_moment(grace, number);
	tsan_release(&grace->poll);
	os_store_release(&grace->poll_taken, 0);
}

/*
 * Batches that were started while a moment was noted have no moment noted: note this one for them.
 */
static void poll_passed(struct grace *grace)
{
	uint64_t started = os_load_acquire(&grace->started);

	grace->poll_armed = 0;
	tsan_release(grace);
	grace_advance(grace, grace->poll_number, os_now());
	if (started == grace->poll_number)
		return;
	/* Pairs with grace_now(): a thread that waits for these numbers has unlinked its object
	 * before. */
	os_fence();
	note_moment(grace, started);
}

static bool poll_says(struct grace *grace)
{
	struct os_program call = os_enter_program();
	bool passed = grace->ops.poll(&grace->poll);

	os_leave_program(call);
	return passed;
}

void grace_poll(struct grace *grace)
{
	if (!grace->ops.poll || os_load_relaxed(&grace->poll_taken) || os_thread_is_own() ||
	    os_exchange(&grace->poll_taken, 1))
		return;
	tsan_acquire(&grace->poll);
	if (grace->poll_armed && poll_says(grace))
		poll_passed(grace);
	tsan_release(&grace->poll);
	os_store_release(&grace->poll_taken, 0);
}
