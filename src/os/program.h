/* SPDX-License-Identifier: MIT */
/*
 * Around functions of the program that run inside the library's calls: constructors, shrinkers,
 * callbacks of groups and of reports, and a provider's call().
 *
 * Inside, the thread is as it was before the call: its own current group pays, also if the call
 * names another one. Afterwards, errno is what it was.
 *
 * Callers: whoever calls the program, with no lock held.
 */
#ifndef SHEAF_OS_PROGRAM_H
#define SHEAF_OS_PROGRAM_H

#include <errno.h>

#include "os/current.h"

struct os_program {
	int error;
	bool named; /* the call names a group */
	uint32_t group;
};

static inline struct os_program os_enter_program(void)
{
	struct os_current *current = os_current_group();
	struct os_program call = {errno, current->group != current->own, current->group};

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
	errno = call.error;
}

/* Does a function of the program run in this thread? It must not wait for another one, which may
 * wait for it. */
static inline bool os_in_program(void)
{
	return os_current_group()->inside;
}

#endif
