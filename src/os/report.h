/* SPDX-License-Identifier: MIT */
/*
 * One clear line to standard error: for misuse and for what the machine refuses.
 *
 * Formats into the stack and writes with one system call: allocates nothing, takes no lock, may be
 * called from anywhere. errno is preserved.
 * Callers: every layer.
 */
#ifndef SHEAF_OS_REPORT_H
#define SHEAF_OS_REPORT_H

#include <stdint.h>

void os_report(const char *format, ...) __attribute__((format(printf, 1, 2), cold));
/* The same, and then abort(). */
void os_fatal(const char *format, ...) __attribute__((format(printf, 1, 2), cold, noreturn));
/* os_report(), the first time only for this flag. */
#define os_report_once(flag, ...)                                                                  \
	do {                                                                                       \
		if (!os_exchange((flag), 1))                                                       \
			os_report(__VA_ARGS__);                                                    \
	} while (0)

/* Lines written so far. */
extern uint32_t os_reports;

#endif
