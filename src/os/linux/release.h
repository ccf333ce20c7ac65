/* SPDX-License-Identifier: MIT */
/*
 * What the kernel's version tells that no system call does.
 *
 * On AArch64, Linux 6.19 and 7.0 to 7.0.13 may lose an abort: a thread that was preempted inside a
 * restartable section then goes on in it, on another CPU. 7.1 and 7.0.14 are mended, 6.19 never
 * was. A section cannot find that out, so the version decides. A distribution's kernel often
 * does not tell which 7.0 it is ("7.0.0-14-generic"); it counts as an early one, as do release
 * candidates of 7.1.
 *
 * Callers: src/os/linux/machine.c, tests.
 */
#ifndef SHEAF_OS_LINUX_RELEASE_H
#define SHEAF_OS_LINUX_RELEASE_H

#include <stdbool.h>

/* The release as uname() has it; one that is no version is a good one. */
bool release_loses_aborts(const char *release);

#endif
