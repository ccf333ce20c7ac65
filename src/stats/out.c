/* SPDX-License-Identifier: MIT */
/* See out.h. */
#include "stats/out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/sink.h"

#define LONGEST 1024

void out_flush(struct out *out)
{
	size_t done = 0;

	while (!out->error && done < out->used) {
		ssize_t n = os_write_quietly(out->fd, out->text + done, out->used - done);

		if (n > 0)
			done += (size_t)n;
		else
			out->error = n ? errno : EIO;
	}
	out->used = 0;
}

static void add_text(struct out *out, const char *text, size_t length)
{
	if (length > sizeof(out->text) - out->used)
		out_flush(out);
	memcpy(out->text + out->used, text, length);
	out->used += length;
}

void out_print(struct out *out, const char *format, ...)
{
	char text[LONGEST];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (length > 0)
		add_text(out, text,
			 (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1);
}

/* The length of the UTF-8 character at text; 0 if it is not one. */
static size_t utf8_length(const unsigned char *text)
{
	unsigned char first = text[0], second_least = 0x80, second_most = 0xbf;
	size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;

	if ((first >= 0x80 && first < 0xc2) || first > 0xf4)
		return 0;
	/* No overlong forms, no surrogates, nothing beyond Unicode's end. */
	if (first == 0xe0)
		second_least = 0xa0;
	if (first == 0xed)
		second_most = 0x9f;
	if (first == 0xf0)
		second_least = 0x90;
	if (first == 0xf4)
		second_most = 0x8f;
	for (size_t i = 1; i < length; i++) {
		if (text[i] < second_least || text[i] > second_most)
			return 0;
		second_least = 0x80;
		second_most = 0xbf;
	}
	return length;
}

void out_quoted(struct out *out, const char *text)
{
	add_text(out, "\"", 1);
	while (*text) {
		size_t length = utf8_length((const unsigned char *)text);

		if (*text == '"' || *text == '\\')
			add_text(out, "\\", 1);
		if (length)
			add_text(out, text, length);
		else
			add_text(out, "\xef\xbf\xbd", 3); /* U+FFFD */
		text += length ? length : 1;
	}
	add_text(out, "\"", 1);
}
