/* SPDX-License-Identifier: MIT */
/* Writes text to a file descriptor, in few writes and without the C library's streams. Callers:
 * src/stats/, src/control/. */
#ifndef SHEAF_STATS_OUT_H
#define SHEAF_STATS_OUT_H

#include <stdbool.h>
#include <stddef.h>

#include "os/file.h"

#define OUT_BYTES 4096

struct out {
	int fd;
	const struct os_descriptor *ours; /* written to only while it is; NULL: the program's */
	int error;			  /* an error number; after an error, nothing is written */
	size_t used;
	char *text; /* OUT_BYTES; not on the stack, because a thread may have little */
};

/* With a buffer of its own. False: no memory. */
bool out_begin(struct out *out, int fd);
/* Write what is left, and give the buffer back. Returns 0, or a negative error number. */
int out_end(struct out *out);
void out_flush(struct out *out);

/* The result must fit into the text. Returns its length, as printf(). */
int out_print(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Print it as a quoted string, for JSON and for labels in Prometheus; bytes that are not UTF-8 are
 * replaced. */
void out_quoted(struct out *out, const char *text);

#endif
