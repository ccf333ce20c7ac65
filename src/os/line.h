/* SPDX-License-Identifier: MIT */
/*
 * A line of a report: its text, and where it is written to.
 *
 * Locks: none. Callers: os/report.c, os/kept.c, os/misuse.c.
 */
#ifndef SHEAF_OS_LINE_H
#define SHEAF_OS_LINE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#define OS_LINE_PREFIX "libsheaf: "
#define OS_LINE_TEXT   512  /* of a line, without the stack */
#define OS_LINE_MAX    1024 /* below PIPE_BUF: threads' lines do not mix */

struct os_line {
	size_t length;
	bool last; /* abort the program when it is written */
	char text[OS_LINE_MAX];
};

/* Make a line of this text, with prefix and line feed; text that does not fit is cut off. */
void os_line_make(struct os_line *line, const char *format, va_list arguments)
	__attribute__((format(printf, 2, 0)));
/* Add text to it, in front of the line feed. */
void os_line_extend(struct os_line *line, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Write it to the program's callback, if that may be called, or to the descriptor. False: nothing
 * accepts the line now. */
bool os_line_write(const struct os_line *line, bool may_call);

#endif
