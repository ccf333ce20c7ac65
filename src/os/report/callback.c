/* SPDX-License-Identifier: MIT */
/* The program's callback for reports; see callback.h. */
#include "os/report/callback.h"

#include "os/assert.h"
#include "os/atomic.h"
#include "os/enter_program.h"
#include "os/lock.h"
#include "os/machine.h"
#include "os/report/report.h"

/* Threads that may be in the callback at a time. Fewer than places of reports (record.h): others
 * get theirs written while these do not return. */
#define CALLS 8

struct place {
	uintptr_t thread; /* 0: nobody's */
	uintptr_t *used;
	struct os_program call;
};

static struct {
	os_callback *fn;
	void *data;
	uint32_t changing;
	uint32_t forking; /* this is a child, and fork() has not returned */
	uint32_t reported_left;
	struct place in[CALLS];
} callback;

static void leave_callback(struct place *place)
{
	if (place->used)
		os_store_release(place->used, 0);
	os_store_release(&place->thread, 0);
}

/* The place of this thread, which is in the callback; NULL: it is not. */
static struct place *my_place(uintptr_t here)
{
	struct place *place = callback.in, *end = place + CALLS;
	uintptr_t self = os_self();

	while (place < end && os_load_relaxed(&place->thread) != self)
		place++;
	if (place == end)
		return NULL;
	if (!os_program_was_left(&place->call, here))
		return place;
	os_report_once_later(&callback.reported_left,
			     "sheaf_set_report: the function that gets reports was left by "
			     "longjmp() or an exception, or switched stacks; it will get "
			     "further ones. It must return");
	os_leave_left_program(place->call);
	leave_callback(place);
	return NULL;
}

/* A place for this thread; NULL: it is in the callback already, or there are too many. */
static struct place *enter_callback(uintptr_t here)
{
	struct place *place = NULL;

	if (my_place(here))
		return NULL;
	for (int i = 0; i < CALLS && !place; i++) {
		uintptr_t nobody = 0;

		if (os_cmpxchg(&callback.in[i].thread, &nobody, os_self()))
			place = &callback.in[i];
	}
	return place;
}

bool os_callback_call(const char *text, size_t length, uintptr_t *used)
{
	struct os_program call;
	struct place *place;
	os_callback *fn;

	if (!os_load_relaxed(&callback.fn))
		return false;
	place = enter_callback((uintptr_t)__builtin_frame_address(0));
	if (!place)
		return false;
	call = place->call = os_enter_watched();
	/* First the place, then the function: a thread that changes the function does the
	 * opposite. */
	os_fence();
	fn = os_load_acquire(&callback.fn);
	os_assert(os_holds_nothing("calls the function for reports")); /* CALLBACK-C1 */
	os_assert(os_peek(&place->thread) == os_self());	       /* CALLBACK-C2 */
	place->used = fn ? used : NULL;
	if (fn)
		fn(callback.data, text, length);
	os_leave_program(call);
	/* Unless it seemed left, and others have the place. */
	if (os_load_relaxed(&place->thread) == os_self() && place->call.frame == call.frame)
		leave_callback(place);
	return fn != NULL;
}

void os_callback_unset(void)
{
	os_store_relaxed(&callback.fn, NULL);
}

bool os_callback_set(os_callback *fn, void *data, os_callback **old_fn, void **old_data)
{
	if (my_place((uintptr_t)__builtin_frame_address(0)))
		return false;
	while (os_exchange(&callback.changing, 1))
		os_sleep_briefly();
	*old_fn = callback.fn;
	*old_data = callback.data;
	os_callback_unset();
	os_fence();
	for (int i = 0; i < CALLS; i++)
		while (os_load_acquire(&callback.in[i].thread))
			os_sleep_briefly();
	callback.data = data;
	os_store_release(&callback.fn, fn);
	os_store_release(&callback.changing, 0);
	return true;
}

/* A thread that forked in the callback is in it in the child, too. */
void os_callback_after_fork(void)
{
	uintptr_t self = os_self();

	callback.forking = 1;
	for (int i = 0; i < CALLS; i++)
		if (callback.in[i].thread == self)
			callback.forking = 0;
		else
			callback.in[i].thread = 0;
	/* A frame that no call can have left. */
	if (callback.forking)
		callback.in[0] = (struct place){.thread = self, .call.frame = UINTPTR_MAX};
	callback.changing = 0;
}

void os_callback_forked(void)
{
	if (callback.forking)
		callback.in[0].thread = 0;
	callback.forking = 0;
}
