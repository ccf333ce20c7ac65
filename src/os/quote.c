/* SPDX-License-Identifier: MIT */
/* See quote.h. */
#include "os/quote.h"

#include <string.h>

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

size_t os_quote_next(const char **text, char quoted[OS_QUOTED])
{
	char first = **text;
	size_t length = utf8_length((const unsigned char *)*text);

	if (!first)
		return 0;
	if (first == '"' || first == '\\' || first == '\n') {
		quoted[0] = '\\';
		quoted[1] = first == '\n' ? 'n' : first;
		*text += 1;
		return 2;
	}
	if (!length || (unsigned char)first < ' ' || first == 0x7f) {
		memcpy(quoted, "\xef\xbf\xbd", 3); /* U+FFFD */
		*text += 1;
		return 3;
	}
	memcpy(quoted, *text, length);
	*text += length;
	return length;
}
