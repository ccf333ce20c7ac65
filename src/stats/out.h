/* SPDX-License-Identifier: MIT */
/* Writes text to a file descriptor, in few writes and without the C library's streams. Callers:
 * src/stats/, src/control/. */
#ifndef SHEAF_STATS_OUT_H
#define SHEAF_STATS_OUT_H

#include <stddef.h>

struct out {
	int fd;
	int error; /* an error number; after an error, nothing is written */
	size_t used;
	char text[4096];
};

/* The result must fit into the text. */
void out_print(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Print it as a quoted string, for JSON and for labels in Prometheus; bytes that are not UTF-8 are
 * replaced. */
void out_quoted(struct out *out, const char *text);
void out_flush(struct out *out);

#endif
