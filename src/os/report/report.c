/* SPDX-License-Identifier: MIT */
/* Reports of one line; see report.h. */
#include "os/report/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/assert.h"
#include "os/lock.h"
#include "os/options/options.h"
#include "os/report/callback.h"
#include "os/report/record.h"
#include "os/report/sink.h"

#if OS_TSAN
unsigned int os_fence_word;
#endif

void os_print(const char *text)
{
	OS_KEEP_ERRNO;

	os_assert(os_holds_nothing("reports")); /* REPORT-T1 */
	os_write_quietly(STDERR_FILENO, text, strlen(text));
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

static void keep_line(bool last, const char *format, va_list arguments)
{
	OS_KEEP_ERRNO;
	struct os_record *record = os_record_claim(last);

	os_record_line(record, format, arguments);
	os_record_end(record, true);
}

/* Kept reports are written first, which frees their places. */
void os_report(const char *format, ...)
{
	va_list arguments;

	os_report_kept();
	va_start(arguments, format);
	keep_line(false, format, arguments);
	va_end(arguments);
	os_write_kept();
}

void os_report_later(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	keep_line(false, format, arguments);
	va_end(arguments);
}

void os_reports_after_fork(void)
{
	os_options_after_fork();
	os_misuse_forget();
	os_sink_after_fork();
	os_callback_after_fork();
	os_records_after_fork();
}

/* The thread may hold locks of the library, so the callback does not run. */
void os_fatal(const char *format, ...)
{
	va_list arguments;

	os_write_kept_at_fault();
	va_start(arguments, format);
	keep_line(true, format, arguments);
	va_end(arguments);
	os_write_kept_at_fault();
	abort();
}
