/* SPDX-License-Identifier: MIT */
/* Lines of reports; see line.h. */
#include "os/line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/atomic.h"
#include "os/callback.h"
#include "os/options.h"
#include "os/report.h"
#include "os/sink.h"

uint32_t os_reports;

void os_line_make(struct os_line *line, const char *format, va_list arguments)
{
	const size_t room = OS_LINE_TEXT - sizeof(OS_LINE_PREFIX) - 1;
	int length = vsnprintf(line->text + sizeof(OS_LINE_PREFIX) - 1, room, format, arguments);

	os_options_need();
	memcpy(line->text, OS_LINE_PREFIX, sizeof(OS_LINE_PREFIX) - 1);
	line->length = length < 0 ? 0 : (size_t)length < room ? (size_t)length : room - 1;
	/* One line, whatever is in the names, options and paths that it tells. */
	os_make_plain(line->text + sizeof(OS_LINE_PREFIX) - 1, line->length);
	line->length += sizeof(OS_LINE_PREFIX) - 1;
	line->text[line->length++] = '\n';
	line->last = false;
	os_fetch_add_relaxed(&os_reports, 1);
}

void os_line_extend(struct os_line *line, const char *format, ...)
{
	size_t room = OS_LINE_MAX - line->length;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line->text + line->length - 1, room, format, arguments);
	va_end(arguments);
	if (length > 0) {
		size_t more = (size_t)length < room ? (size_t)length : room - 1;

		os_make_plain(line->text + line->length - 1, more);
		line->length += more;
	}
	line->text[line->length - 1] = '\n';
}

bool os_line_write(const struct os_line *line, bool may_call)
{
	bool done = may_call && os_callback_call(line->text, line->length);

	if (!done && line->last)
		os_sink_write_last(line->text, line->length);
	else if (!done)
		done = os_sink_write(line->text, line->length) != 0;
	if (line->last)
		abort();
	return done;
}
