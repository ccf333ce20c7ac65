/* SPDX-License-Identifier: MIT */
/* What sheaf_stats_print() prints, as one text. */
#ifndef SHEAF_TESTS_PRINTED_H
#define SHEAF_TESTS_PRINTED_H

#include <sheaf/stats.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kit/unit.h"

/* The text until the next call. */
static inline char *printed(enum sheaf_stats_format format)
{
	static char text[4 << 20];
	int file = memfd_create("printed", MFD_CLOEXEC);
	ssize_t length;

	assert_int_equal(sheaf_stats_print(file, format), 0);
	length = pread(file, text, sizeof(text) - 1, 0);
	assert_true(length > 0);
	text[length] = '\0';
	close(file);
	return text;
}

#endif
