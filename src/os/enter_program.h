/* SPDX-License-Identifier: MIT */
/*
 * Around functions of the program that run inside the library's calls: constructors, shrinkers,
 * callbacks of groups and of reports, and a provider's call().
 *
 * Inside, the thread is as it was before the call: its own current group pays, even if the call
 * names another one. Afterwards, errno is what it was. The thread is not cancelled inside: its call
 * would be left half done. os_program_was_left() finds most functions that a program left
 * without a return.
 *
 * Callers: whoever calls the program, with no lock held.
 */
#ifndef SHEAF_OS_ENTER_PROGRAM_H
#define SHEAF_OS_ENTER_PROGRAM_H

#include <errno.h>

#include "os/assert.h"
#include "os/compiler.h"
#include "os/current.h"
#include "os/lock.h"
#include "os/thread.h"

struct os_program {
	int error;
	bool named; /* the call names a group */
	uint32_t group;
	uint32_t inside;
	int cancel;
	uintptr_t frame; /* of os_enter_watched(): the function's frame has a lower address */
};

static inline struct os_program os_enter_program(void)
{
	struct os_current *current = os_current_group();
	struct os_program call = {.error = errno,
				  .named = current->group != current->own,
				  .group = current->group,
				  .inside = current->inside,
				  .cancel = os_cancel_off()};

	os_assert(os_holds_nothing("calls the program")); /* LOCK-L3, GRACE-G4 */
	current->group = current->own;
	current->inside++;
	return call;
}

/* As os_enter_program(), for os_program_was_left(): in a C function that does it once. The paths
 * to one call of the program differ less in depth than this room, as a rule. */
#define os_enter_watched()                                                                         \
	({                                                                                         \
		struct os_program call_ = os_enter_program();                                      \
                                                                                                   \
		/* In a function, even an inline one, the room would end with it. */               \
		call_.frame = (uintptr_t)__builtin_alloca(1024);                                   \
		call_;                                                                             \
	})

/* The program may have changed its own group. */
static inline void os_leave_program(struct os_program call)
{
	struct os_current *current = os_current_group();

	current->inside = call.inside;
	current->group = call.named ? call.group : current->own;
	os_cancel_restore(call.cancel);
	errno = call.error;
}

/*
 * This thread is about to call a function of the program, from the frame `here` or a deeper one,
 * and `call` seems not to have returned. Was it left by longjmp() or an exception? A call inside it
 * has a deeper frame. Where a new frame is the deeper one by chance, this is not noticed. And it is
 * wrong for a function that switched to a stack at a higher address (a coroutine) and calls the
 * library there: so the caller must survive that `call` returns later.
 */
static inline bool os_program_was_left(const struct os_program *call, uintptr_t here)
{
	return here >= call->frame && !os_on_signal_stack();
}

/* After os_program_was_left(): the function of the program seems to have ended. */
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
