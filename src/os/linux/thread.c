/* SPDX-License-Identifier: MIT */
/* The library's thread, and cancellation; see os/thread.h. */
#include "os/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "os/atomic.h"
#include "os/machine.h"

/* More than its calls need, and than the thread-local storage of usual programs, which is part of
 * it. */
#define STACK_BYTES ((size_t)256 << 10)

static uintptr_t own_thread;

bool os_thread_is_own(void)
{
	return os_load_relaxed(&own_thread) == os_self();
}

void os_thread_forget(void)
{
	own_thread = 0;
}

static void *run(void *body)
{
	os_store_relaxed(&own_thread, os_self());
	pthread_setname_np(pthread_self(), "sheaf");
	((void (*)(void))body)();
	return NULL;
}

/* The default size, if this one is too small for the program's thread-local storage. */
static bool start(void (*body)(void), size_t stack)
{
	pthread_attr_t attributes;
	pthread_t thread;
	bool started;

	if (pthread_attr_init(&attributes))
		return false;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	if (stack)
		pthread_attr_setstacksize(&attributes, stack);
	started = !pthread_create(&thread, &attributes, run, (void *)body);
	pthread_attr_destroy(&attributes);
	return started;
}

bool os_thread_start(void (*body)(void))
{
	sigset_t all, before;
	OS_KEEP_ERRNO;
	bool started;

	/* The new thread inherits the mask. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = start(body, STACK_BYTES) || start(body, 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

int os_cancel_off(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

void os_cancel_restore(int before)
{
	pthread_setcancelstate(before, NULL);
}

bool os_on_signal_stack(void)
{
	stack_t own;

	return sigaltstack(NULL, &own) == 0 && own.ss_flags & SS_ONSTACK;
}
