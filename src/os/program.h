/* SPDX-License-Identifier: MIT */
/*
 * Around functions of the program that run inside the library's calls: constructors, shrinkers,
 * callbacks of groups and of reports, and a provider's call().
 *
 * Inside, the thread is as it was before the call: its own current group pays, also if the call
 * names another one. Afterwards, errno is what it was. The thread is not cancelled inside: it would
 * leave what its call has begun. os_program_was_left() finds some of the functions that a program
 * left without a return.
 *
 * Callers: whoever calls the program, with no lock held.
 */
#ifndef SHEAF_OS_PROGRAM_H
#define SHEAF_OS_PROGRAM_H

#include <errno.h>

#include "os/current.h"
#include "os/thread.h"

struct os_program {
	int error;
	bool named; /* the call names a group */
	uint32_t group;
	int cancel;
};

static inline struct os_program os_enter_program(void)
{
	struct os_current *current = os_current_group();
	struct os_program call = {errno, current->group != current->own, current->group,
				  os_cancel_off()};

	current->group = current->own;
	current->inside++;
	return call;
}

/* The program may have changed its own group. */
static inline void os_leave_program(struct os_program call)
{
	struct os_current *current = os_current_group();

	current->inside--;
	current->group = call.named ? call.group : current->own;
	os_cancel_restore(call.cancel);
	errno = call.error;
}

/*
 * This thread calls functions of the program from the frame `here`, and did so from `before`, which
 * seems not to have returned. Was it left by longjmp() or an exception? A call inside it has a
 * deeper frame, unless it is on another stack. Where a new frame is the deeper one by chance, this
 * is not noticed.
 */
static inline bool os_program_was_left(uintptr_t before, uintptr_t here)
{
	return here >= before && !os_on_signal_stack();
}

/* Such a function is over, after all. */
static inline void os_leave_left_program(struct os_program call)
{
	call.error = errno;
	os_leave_program(call);
}

/* Does a function of the program run in this thread? It must not wait for another one, which may
 * wait for it. */
static inline bool os_in_program(void)
{
	return os_current_group()->inside;
}

#endif
