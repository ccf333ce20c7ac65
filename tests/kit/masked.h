/* SPDX-License-Identifier: MIT */
/*
 * Makes reports comparable from run to run: addresses become PTR; numbers of threads, CPUs,
 * milliseconds and the objects of a slab become N; lines of stacks are left out.
 */
#ifndef SHEAF_TESTS_MASKED_H
#define SHEAF_TESTS_MASKED_H

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "kit/capture.h"

struct masked {
	char text[sizeof(((struct capture *)0)->text)];
};

static inline bool masked_after(const char *start, const char *at, const char *word)
{
	size_t length = strlen(word);

	return (size_t)(at - start) >= length && !memcmp(at - length, word, length);
}

/* A number that differs from run to run? */
static inline bool masked_number(const char *start, const char *at)
{
	size_t digits = strspn(at, "0123456789");

	return masked_after(start, at, "thread ") || masked_after(start, at, "CPU ") ||
	       masked_after(start, at, "objects=") || masked_after(start, at, "used=") ||
	       !strncmp(at + digits, " ms ago", 7);
}

static inline char *masked_line(char *to, const char *line, const char *end)
{
	for (const char *at = line; at < end;) {
		size_t hex = at[0] == '0' && at[1] == 'x' ? strspn(at + 2, "0123456789abcdef") : 0;

		if (hex > 4) {
			memcpy(to, "PTR", 3);
			to += 3;
			at += 2 + hex;
		} else if (isdigit((unsigned char)*at) && masked_number(line, at)) {
			*to++ = 'N';
			at += strspn(at, "0123456789");
		} else {
			*to++ = *at++;
		}
	}
	*to++ = '\n';
	return to;
}

/* A line ends with a colon if a stack follows. */
static inline const char *masked_end(const char *line, const char *end)
{
	static const char none[] = " (no stack)";

	if (!memcmp(line, "libsheaf", 8))
		return end;
	if (memcmp(line, "Allocated", 9) && memcmp(line, "Freed", 5) && memcmp(line, "Found", 5) &&
	    !strstr(line, " allocated "))
		return end;
	if (end[-1] == ':')
		return end - 1;
	if (masked_after(line, end, none))
		return end - sizeof(none) + 1;
	return end;
}

static inline const char *mask(struct masked *masked, const char *text)
{
	char *to = masked->text;
	const char *end;

	for (; (end = strchr(text, '\n')) != NULL; text = end + 1)
		if (strncmp(text, "  ", 2) != 0)
			to = masked_line(to, text, masked_end(text, end));
	*to = '\0';
	return masked->text;
}

#endif
