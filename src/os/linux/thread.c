/* SPDX-License-Identifier: MIT */
/* Threads: their numbers, current groups and cancellation, and the library's own one; see
 * os/thread.h and os/current.h. */
#include "os/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/atomic.h"
#include "os/current.h"
#include "os/linux/linux.h"
#include "os/machine.h"
#include "os/should_fail.h"

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
	started = !os_should_fail("pthread_create") &&
		  !pthread_create(&thread, &attributes, run, (void *)body);
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

/* --- its numbers ------------------------------------------------------------------------------ */

/* More than the size of a thread's structure. */
#define MOST_THREAD_OFFSET 8192

/*
 * glibc stores each thread's number at a fixed distance from the thread pointer, and asks the
 * kernel to clear it when the thread ends. The kernel reports this address.
 */
void thread_find_number(void)
{
#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
	char *self = __builtin_thread_pointer();
	int *number = NULL;

	if (!prctl(PR_GET_TID_ADDRESS, &number, 0, 0, 0) && number &&
	    labs((char *)number - self) < MOST_THREAD_OFFSET && *number == syscall(SYS_gettid))
		os.thread_offset = (char *)number - self;
#endif
}

uintptr_t os_self(void)
{
	return (uintptr_t)pthread_self();
}

uint32_t os_thread(void)
{
#if defined(__x86_64__) || defined(__aarch64__)
	if (os.thread_offset)
		return *(volatile uint32_t *)((char *)__builtin_thread_pointer() +
					      os.thread_offset);
#endif
	return (uint32_t)syscall(SYS_gettid);
}

/* --- its current group ------------------------------------------------------------------------ */

__thread struct os_current os_group_of_thread;

static struct {
	pthread_key_t key;
	void (*end)(uint32_t group);
} at_end;

/* Other destructors may run later, and make a group current again: then this runs again. */
static void thread_ends(void *unused)
{
	uint32_t group = os_group_of_thread.own;

	(void)unused;
	os_group_of_thread = (struct os_current){.own = 0};
	if (group)
		at_end.end(group);
}

bool os_at_thread_end(void (*end)(uint32_t group))
{
	if (at_end.end)
		return true;
	if (os_should_fail("pthread_key_create") || pthread_key_create(&at_end.key, thread_ends))
		return false;
	os_store_release(&at_end.end, end);
	return true;
}

bool os_has_group(void)
{
	if (!os_load_acquire(&at_end.end))
		return false;
	if (!pthread_getspecific(at_end.key))
		pthread_setspecific(at_end.key, &at_end);
	return true;
}
