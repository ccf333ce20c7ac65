/* SPDX-License-Identifier: MIT */
/*
 * Text from outside, such as names and options, between quotes: as a string of JSON, and as the
 * value of a label for Prometheus. Both understand the escapes that are used here.
 *
 * Callers: src/os/options/, src/debug/, src/cache/publish.c, src/stats/out.c, src/control/.
 */
#ifndef SHEAF_OS_QUOTE_H
#define SHEAF_OS_QUOTE_H

#include <stdbool.h>
#include <stddef.h>

#define OS_QUOTED 4 /* bytes of one character, at most */

/*
 * Write the first character of *text as it is between quotes, and advance *text. Returns the bytes
 * written; 0 at the end. A quote, a backslash and a line feed are escaped. Any other control
 * character, and a byte that is not UTF-8, becomes U+FFFD.
 */
size_t os_quote_next(const char **text, char quoted[OS_QUOTED]);

#endif
