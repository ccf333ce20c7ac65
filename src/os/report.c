/* SPDX-License-Identifier: MIT */
/* Lines for people; see report.h. */
#include "os/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/atomic.h"

uint32_t os_reports;

#ifdef __SANITIZE_THREAD__
unsigned int os_fence_word;
#endif

static void report(const char *format, va_list arguments)
{
	static const char prefix[] = "libsheaf: ";
	char line[512];
	int saved = errno;
	size_t used = sizeof(prefix) - 1;
	int length;
	ssize_t written;

	memcpy(line, prefix, used);
	length = vsnprintf(line + used, sizeof(line) - used - 1, format, arguments);
	if (length > 0)
		used += (size_t)length;
	if (used > sizeof(line) - 2)
		used = sizeof(line) - 2;
	line[used++] = '\n';
	os_fetch_add_relaxed(&os_reports, 1);
	written = syscall(SYS_write, STDERR_FILENO, line, used);
	(void)written;
	errno = saved;
}

void os_report(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	report(format, arguments);
	va_end(arguments);
}

void os_fatal(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	report(format, arguments);
	va_end(arguments);
	abort();
}
