/* SPDX-License-Identifier: MIT */
/*
 * Points where the machine, or the library's own memory, may refuse something: a system call, a
 * block of the pool, a run of pages, a page below the hard limit, a charge of a group.
 * SHEAF_OPTIONS=fail_nth=N makes the N-th point of the process fail; fail_nth=0 counts them. Tests
 * put a function of their own in its place.
 *
 * No fast path has a point: a point costs a load and a branch, and everything behind one is slower.
 *
 * Locks: none; the function may be called from any context. Callers: src/os/linux/ by the macros;
 * src/page/ and src/group/ for the library's own points; src/cache/ at exit.
 */
#ifndef SHEAF_OS_SHOULD_FAIL_H
#define SHEAF_OS_SHOULD_FAIL_H

#include <errno.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/atomic.h"

/* Must this point fail? */
typedef bool os_fail_function(const char *point);
/* NULL: none fails. */
extern os_fail_function *os_fail_by __attribute__((visibility("hidden")));

static inline bool os_should_fail(const char *point)
{
	os_fail_function *by = os_load_relaxed(&os_fail_by);

	return os_unlikely(by) && by(point);
}

static inline bool os_should_fail_with(const char *point, int error)
{
	bool fails = os_should_fail(point);

	if (fails)
		errno = error;
	return fails;
}

/* function(...), which may fail with this error: then it returns -1, or MAP_FAILED. */
#define os_may_fail(error, function, ...)                                                          \
	({                                                                                         \
		os_should_fail_with(#function, error) ? (__typeof__(function(__VA_ARGS__)))-1L     \
						      : function(__VA_ARGS__);                     \
	})
/* The same for the system call with this name. */
#define os_syscall_may_fail(error, name, ...)                                                      \
	({ os_should_fail_with(#name, error) ? -1L : syscall(SYS_##name, __VA_ARGS__); })

/* At the first use, when the options are known. */
void os_should_fail_begin(void);
/* With fail_nth=0, at exit: report how many points there were. */
void os_should_fail_end(void) OS_COLD;

#endif
