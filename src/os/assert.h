/* SPDX-License-Identifier: MIT */
/*
 * Assertions of the invariants that headers number: in debug builds, in builds with sanitizers and
 * in the simulator's tests. One that does not hold ends the process with one line on stderr, and
 * without a report, as locks may be held (R13).
 *
 * A condition reads what its thread owns at that place: plain fields under their lock, and shared
 * words with os_peek(). That is no step for the simulator, so a seed gives the same run with and
 * without assertions; a step in a condition ends the simulation.
 *
 * Callers: every layer.
 */
#ifndef SHEAF_OS_ASSERT_H
#define SHEAF_OS_ASSERT_H

#include <stdbool.h>

#include "os/compiler.h"

#define os_peek(p) __atomic_load_n((p), __ATOMIC_RELAXED)

/* The simulator can leave them out of a run, to show that they do not change it. */
#ifdef SHEAF_SIM
extern bool os_assert_off;
/* Conditions that are being read. */
extern unsigned int os_asserting;
#define os_assert_holds(condition) (os_asserting++, os_assert_end(condition))

static inline bool os_assert_end(bool holds)
{
	os_asserting--;
	return holds;
}
#else
#define os_assert_off		   false
#define os_assert_holds(condition) (condition)
#endif

#ifdef SHEAF_DEBUG
/* In linux/lock.c. */
void os_assert_failed(const char *what) __attribute__((cold, noreturn));

#define OS_ASSERT_TEXT(line) #line
#define OS_ASSERT_LINE(line) OS_ASSERT_TEXT(line)
#define os_assert(condition)                                                                       \
	(os_likely(os_assert_off || os_assert_holds(condition))                                    \
		 ? (void)0                                                                         \
		 : os_assert_failed(__FILE__ ":" OS_ASSERT_LINE(__LINE__) ": " #condition "\n"))
#else
#define os_assert(condition) ((void)sizeof(!!(condition)))
#endif

#endif
