/* SPDX-License-Identifier: MIT */
/*
 * A fuzz target: one file, NAME.c, that defines LLVMFuzzerTestOneInput(). The compiler's fuzzer
 * calls it (meson -Dfuzz=true), or driver.c does. A target ends the program by abort() if the
 * library breaks a promise. `tests/fuzz/run --help` tells how to run one.
 */
#ifndef SHEAF_TESTS_FUZZ_TARGET_H
#define SHEAF_TESTS_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_LONGEST 65536 /* bytes of an input from a file; the rest is ignored */

/* With any bytes. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Before the first input, if the target defines it. Returns 0. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define FUZZ_CHECK(condition)                                                                      \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* --- an input as values: zeros follow its end ------------------------------------------------- */

struct fuzz_bytes {
	const uint8_t *at;
	size_t left;
};

static inline uint8_t fuzz_byte(struct fuzz_bytes *in)
{
	uint8_t value = in->left ? *in->at : 0;

	in->at += in->left != 0;
	in->left -= in->left != 0;
	return value;
}

/* Copy what is in front of the next `end`, as text; all, if there is none. What does not fit into
 * `size` is left out. */
static inline void fuzz_text(struct fuzz_bytes *in, char end, char *text, size_t size)
{
	const uint8_t *found = in->left ? memchr(in->at, end, in->left) : NULL;
	size_t length = found ? (size_t)(found - in->at) : in->left,
	       used = length < size ? length : size - 1, gone = length + (found != NULL);

	if (used)
		memcpy(text, in->at, used);
	text[used] = '\0';
	in->at += gone;
	in->left -= gone;
}

#endif
