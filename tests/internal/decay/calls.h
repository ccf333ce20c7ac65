/* SPDX-License-Identifier: MIT */
/* madvise() and munmap() as the tests want them: they replace the system's. */
#ifndef SHEAF_TESTS_CALLS_H
#define SHEAF_TESTS_CALLS_H

#include <stdbool.h>
#include <stddef.h>

/* What each madvise() takes, beyond the test's time. */
extern unsigned int madvise_ms;

/* What another thread does during the next munmap(). */
extern void (*meanwhile)(void);

/* This many bytes are locked, from there on: no test needs the right to lock memory. */
extern const char *locked;
extern size_t locked_bytes;

/* The system does not know MADV_DONTNEED_LOCKED. */
extern bool old_system;

#endif
