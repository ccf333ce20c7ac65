/* SPDX-License-Identifier: MIT */
/*
 * fork() beside threads that allocate and use stdio.
 *
 *   T1: fork()                     T2: fflush(NULL), getline(), ...
 *   handlers: libsheaf's locks     the C library's lock of all streams
 *   the lock of all streams  <-->  a block: libsheaf's locks
 *
 * The C library takes the lock of its list of streams after all handlers, and then waits for T2. So
 * our handler takes that lock, which is recursive, before libsheaf's handler takes any: handlers of
 * prepare run last in, first out, and this one is registered after that one. The lock is never
 * taken by a thread that holds a lock of libsheaf (MALLOC-M4).
 *
 * The C library resets the lock in the child if the parent had several threads, and otherwise
 * leaves it as it is. The child does the same, so that a function that stdio calls under the lock
 * can fork: stdio unlocks it once more. Beside threads that fails without this library, too.
 *
 * Both are registered when malloc() is first called or the library is loaded, before any other
 * handler, if the program does not register one without allocating first; libsheaf may begin later.
 * Two first threads may register ours twice: it then does nothing the second time. A program's
 * handler from before runs while libsheaf is locked: what its thread allocates then and finds in no
 * sheaf comes from the boot heap, and what it frees and fits into no sheaf waits on a list, in the
 * blocks themselves.
 *
 * Invariants
 *  FORK-F1. forker is the thread that runs handlers. It has the lock of all streams, so there is
 *      one at a time. While there is one, malloc_state is not MALLOC_OPEN.
 *  FORK-F2. The forker is the worker (begin.c), or forks within its own step: no other thread is
 *      within one, and the child can take the next.
 *
 * Callers: fork(), begin.c, rest.c.
 */
#include <pthread.h>
#include <sys/single_threaded.h>

#include "cache/process.h"
#include "entry.h"
#include "os/report/report.h"

/* Of glibc, since 2.2.5, for its own fork(). */
extern void _IO_list_lock(void);
extern void _IO_list_unlock(void);
extern void _IO_list_resetlock(void);

static uintptr_t forker;
static bool parent_was_alone; /* the forker's */
static bool works;	      /* the forker's */

struct waiting {
	struct waiting *next;
};
static struct waiting *waiting; /* the forker's */

bool malloc_forks_here(void)
{
	return os_load_relaxed(&forker) == os_self();
}

void malloc_free_later(void *block)
{
	struct waiting *first = block;

	first->next = waiting;
	waiting = first;
}

static void before_fork(void)
{
	if (malloc_forks_here() || os_load_acquire(&malloc_state) == MALLOC_ASIDE)
		return;
	_IO_list_lock();
	parent_was_alone = __libc_single_threaded;
	works = malloc_work();
	os_store_relaxed(&forker, os_self());
	if (os_load_acquire(&malloc_state) == MALLOC_OPEN)
		os_store_release(&malloc_state, MALLOC_FORKS);
}

static void end_fork(void (*release_streams)(void))
{
	struct waiting *first = waiting, *next;

	if (!malloc_forks_here())
		return;
	waiting = NULL;
	os_store_relaxed(&forker, 0);
	if (os_load_acquire(&malloc_state) == MALLOC_FORKS)
		os_store_release(&malloc_state, MALLOC_OPEN);
	if (works)
		malloc_work_done();
	release_streams();
	for (; first; first = next) {
		next = first->next;
		malloc_free_fast(first);
	}
}

static void after_fork(void)
{
	end_fork(_IO_list_unlock);
}

static void after_fork_in_child(void)
{
	end_fork(parent_was_alone ? _IO_list_unlock : _IO_list_resetlock);
}

void malloc_handle_forks(void)
{
	caches_handle_forks();
	if (pthread_atfork(before_fork, after_fork, after_fork_in_child))
		os_report("pthread_atfork() failed: a fork() beside threads that use stdio may "
			  "never return");
}
