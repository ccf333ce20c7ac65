/* SPDX-License-Identifier: MIT */
/*
 * Finding bugs in a running program: where reports go.
 *
 *     static void to_log(void *data, const char *text, size_t length)
 *     {
 *         log_write(data, LOG_ERROR, text, length);
 *     }
 *     ...
 *     sheaf_set_report(to_log, log);
 *
 * What is reported, and how a program is run so that more is found, docs/debugging.md and
 * libsheaf(7) describe.
 */
#ifndef SHEAF_DEBUG_H
#define SHEAF_DEBUG_H

#include <sheaf/slab.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Call report(data, text, length) for each report, instead of writing it to standard error or the
 * file of SHEAF_OPTIONS=report=PATH; NULL: do that again. The text is one report, or several lines,
 * ends with a line feed, and is not terminated by a zero byte.
 *
 * The callback runs in the thread that reports, before its call of the library returns, and in
 * several threads at once. No lock of the library is held. It may use the library, except this
 * function; what these calls report is written as if there were no callback. So are reports of calls
 * that never wait (those whose names end in _nolock), of a forked child before fork() has returned,
 * before abort() and at exit, because no callback may run there.
 *
 * Waits until the former callback has returned in all threads: afterwards it and its data may go
 * away. Returns 0, or -EBUSY in a callback. Not for signal handlers. O(1).
 */
int sheaf_set_report(void (*report)(void *data, const char *text, size_t length), void *data)
	SHEAF_SYMBOL(sheaf_set_report);

#ifdef __cplusplus
}
#endif

#endif
