/* SPDX-License-Identifier: MIT */
/* See out.h. */
#include "stats/out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "os/assert.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/quote.h"
#include "os/report/sink.h"

#define LONGEST 1024

bool out_begin(struct out *out, int fd)
{
	*out = (struct out){.fd = fd, .text = os_map(OUT_BYTES)};
	return out->text;
}

void out_flush(struct out *out)
{
	size_t done = 0;

	os_assert(os_holds_nothing("writes statistics")); /* STATS-T1 */
	if (out->ours && !os_descriptor_is_ours(out->ours))
		out->error = EBADF;
	while (!out->error && done < out->used) {
		ssize_t n = os_write_quietly(out->fd, out->text + done, out->used - done);

		if (n > 0)
			done += (size_t)n;
		else
			out->error = n ? errno : EIO;
	}
	out->used = 0;
}

int out_end(struct out *out)
{
	out_flush(out);
	os_unreserve(out->text, OUT_BYTES);
	return -out->error;
}

static void add_text(struct out *out, const char *text, size_t length)
{
	if (length > OUT_BYTES - out->used)
		out_flush(out);
	memcpy(out->text + out->used, text, length);
	out->used += length;
}

int out_print(struct out *out, const char *format, ...)
{
	va_list arguments;
	int length;

	if (OUT_BYTES - out->used < LONGEST)
		out_flush(out);
	va_start(arguments, format);
	length = vsnprintf(out->text + out->used, LONGEST, format, arguments);
	va_end(arguments);
	if (length > 0)
		out->used += (size_t)length < LONGEST ? (size_t)length : LONGEST - 1;
	return length;
}

void out_quoted(struct out *out, const char *text)
{
	char quoted[OS_QUOTED];
	size_t length;

	add_text(out, "\"", 1);
	while ((length = os_quote_next(&text, quoted)) != 0)
		add_text(out, quoted, length);
	add_text(out, "\"", 1);
}
