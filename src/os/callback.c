/* SPDX-License-Identifier: MIT */
/* The program's callback for reports; see callback.h. */
#include "os/callback.h"

#include <stdint.h>

#include "os/atomic.h"
#include "os/machine.h"
#include "os/program.h"

#define CALLS 16 /* threads that may be in the callback at a time */

static struct {
	os_callback *fn;
	void *data;
	uint32_t changing;
	uint32_t forking;    /* this is a child, and fork() has not returned */
	uintptr_t in[CALLS]; /* threads; 0: a free place */
} callback;

static bool is_in_callback(uintptr_t thread)
{
	for (int i = 0; i < CALLS; i++)
		if (os_load_relaxed(&callback.in[i]) == thread)
			return true;
	return false;
}

/* A place for this thread; NULL: it is in the callback already, or there are too many. */
static uintptr_t *enter_callback(void)
{
	uintptr_t self = os_self(), *place = NULL;

	if (is_in_callback(self))
		return NULL;
	for (int i = 0; i < CALLS && !place; i++) {
		uintptr_t nobody = 0;

		if (os_cmpxchg(&callback.in[i], &nobody, self))
			place = &callback.in[i];
	}
	return place;
}

bool os_callback_call(const char *text, size_t length)
{
	struct os_program call;
	uintptr_t *place;
	os_callback *fn;

	if (!os_load_relaxed(&callback.fn))
		return false;
	place = enter_callback();
	if (!place)
		return false;
	/* First the place, then the function: a thread that changes the function does the
	 * opposite. */
	os_fence();
	fn = os_load_acquire(&callback.fn);
	call = os_enter_program();
	if (fn)
		fn(callback.data, text, length);
	os_leave_program(call);
	os_store_release(place, 0);
	return fn != NULL;
}

void os_callback_unset(void)
{
	os_store_relaxed(&callback.fn, NULL);
}

bool os_callback_set(os_callback *fn, void *data, os_callback **old_fn, void **old_data)
{
	if (is_in_callback(os_self()))
		return false;
	while (os_exchange(&callback.changing, 1))
		os_sleep_briefly();
	*old_fn = callback.fn;
	*old_data = callback.data;
	os_callback_unset();
	os_fence();
	for (int i = 0; i < CALLS; i++)
		while (os_load_acquire(&callback.in[i]))
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
		if (callback.in[i] == self)
			callback.forking = 0;
		else
			callback.in[i] = 0;
	if (callback.forking)
		callback.in[0] = self;
	callback.changing = 0;
}

void os_callback_forked(void)
{
	if (callback.forking)
		callback.in[0] = 0;
	callback.forking = 0;
}
