/* SPDX-License-Identifier: MIT */
/* Reports of one line; see report.h. */
#include "os/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/assert.h"
#include "os/callback.h"
#include "os/kept.h"
#include "os/line.h"
#include "os/lock.h"
#include "os/long_report.h"
#include "os/misuse.h"
#include "os/options.h"
#include "os/sink.h"

#ifdef __SANITIZE_THREAD__
unsigned int os_fence_word;
#endif

void os_print(const char *text)
{
	int saved = errno;

	os_assert(os_holds_nothing("reports")); /* REPORT-T1 */
	os_write_quietly(STDERR_FILENO, text, strlen(text));
	errno = saved;
}

void os_make_plain(char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			text[i] = '?';
}

void os_clean_name(char *clean, size_t size, const char *name)
{
	size_t length = strnlen(name, size - 1);

	memcpy(clean, name, length);
	memset(clean + length, 0, size - length);
	os_make_plain(clean, length);
}

void os_report(const char *format, ...)
{
	int saved = errno;
	va_list arguments;
	struct os_line line;

	os_assert(os_holds_nothing("reports")); /* REPORT-T1 */
	va_start(arguments, format);
	os_line_make(&line, format, arguments);
	va_end(arguments);
	if (!os_line_write(&line, true))
		os_kept_copy(&line);
	errno = saved;
}

void os_misuse(const char *about, const char *format, ...)
{
	uint32_t n = os_misuse_count(about, format);
	int saved = errno;
	va_list arguments;
	struct os_line line;

	os_assert(os_holds_nothing("reports")); /* REPORT-T1 */
	if (!n)
		return;
	va_start(arguments, format);
	os_misuse_make(&line, n, format, arguments);
	va_end(arguments);
	if (!os_line_write(&line, true))
		os_kept_copy(&line);
	errno = saved;
}

void os_report_later(const char *format, ...)
{
	int saved = errno;
	struct os_kept *place = os_kept_claim();
	va_list arguments;

	if (place) {
		va_start(arguments, format);
		os_line_make(&place->line, format, arguments);
		va_end(arguments);
		os_kept_add_once(place);
	}
	errno = saved;
}

void os_misuse_later(const char *about, const char *format, ...)
{
	int saved = errno;
	uint32_t n = os_misuse_count(about, format);
	struct os_kept *place = n ? os_kept_claim() : NULL;
	va_list arguments;

	if (place) {
		va_start(arguments, format);
		os_misuse_make(&place->line, n, format, arguments);
		va_end(arguments);
		os_kept_add(place);
	}
	errno = saved;
}

void os_reports_after_fork(void)
{
	os_options_after_fork();
	os_misuse_forget();
	os_sink_after_fork();
	os_callback_after_fork();
	os_reports_kept = os_long_after_fork() + os_kept_after_fork();
}

/* The thread may hold locks of the library, so the callback does not run. */
void os_fatal(const char *format, ...)
{
	va_list arguments;
	struct os_line line;

	os_write_kept_at_fault();
	va_start(arguments, format);
	os_line_make(&line, format, arguments);
	va_end(arguments);
	line.last = true;
	os_line_write(&line, false);
	abort();
}
