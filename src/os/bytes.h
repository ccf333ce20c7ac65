/* SPDX-License-Identifier: MIT */
/*
 * Clear and copy memory on fast paths. memset() and memcpy() of the C library are chosen at run
 * time, and so reached by an indirect branch even in a static program; a few bytes are handled
 * here.
 *
 * Callers: every layer.
 */
#ifndef SHEAF_OS_BYTES_H
#define SHEAF_OS_BYTES_H

#include <stddef.h>
#include <string.h>

#define OS_BYTES_FEW 256

/* Keeps compilers from finding memset() or memcpy() in a loop. */
#define OS_BYTES_STEP(step) __asm__ volatile("" : "+r"(step))

/* Do PART(at, bytes), with constant numbers of bytes, for a few bytes: the last part may overlap
 * the one before. */
#define OS_BYTES_BY_PARTS(PART, n)                                                                 \
	do {                                                                                       \
		size_t at = 0;                                                                     \
                                                                                                   \
		if ((n) >= 16) {                                                                   \
			for (; at + 16 < (n); at += 16) {                                          \
				OS_BYTES_STEP(at);                                                 \
				PART(at, 16);                                                      \
			}                                                                          \
			PART((n)-16, 16);                                                          \
		} else if ((n) >= 8) {                                                             \
			PART(0, 8);                                                                \
			PART((n)-8, 8);                                                            \
		} else {                                                                           \
			for (; at < (n); at++) {                                                   \
				OS_BYTES_STEP(at);                                                 \
				PART(at, 1);                                                       \
			}                                                                          \
		}                                                                                  \
	} while (0)

static inline void os_zero(void *to, size_t n)
{
#define OS_ZERO_PART(at, bytes) __builtin_memset((char *)to + (at), 0, bytes)
	if (n > OS_BYTES_FEW)
		memset(to, 0, n);
	else
		OS_BYTES_BY_PARTS(OS_ZERO_PART, n);
}

/* The two do not overlap. */
static inline void os_copy(void *to, const void *from, size_t n)
{
#define OS_COPY_PART(at, bytes)                                                                    \
	__builtin_memcpy((char *)to + (at), (const char *)from + (at), bytes)
	if (n > OS_BYTES_FEW)
		memcpy(to, from, n);
	else
		OS_BYTES_BY_PARTS(OS_COPY_PART, n);
}

#endif
