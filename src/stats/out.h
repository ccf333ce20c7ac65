/* SPDX-License-Identifier: MIT */
/* Text to a file descriptor, in few writes and without the C library's streams. Callers: src/stats/. */
#ifndef SHEAF_STATS_OUT_H
#define SHEAF_STATS_OUT_H

#include <stddef.h>

struct out {
	int fd;
	int error; /* an error number; then nothing more is written */
	size_t used;
	char text[4096];
};

/* Shorter than the text has room for. */
void out_print(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As a string between quotes, of JSON and of Prometheus' labels: what is no UTF-8 is replaced. */
void out_quoted(struct out *out, const char *text);
void out_flush(struct out *out);

#endif
