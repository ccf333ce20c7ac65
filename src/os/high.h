/* SPDX-License-Identifier: MIT */
/* Descriptors that the library keeps have high numbers: a program may expect the lowest ones.
 * Callers: src/os/. */
#ifndef SHEAF_OS_HIGH_H
#define SHEAF_OS_HIGH_H

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OS_HIGH 100

/* Move it there, if there is room. */
static inline int os_high(int low)
{
	int high = fcntl(low, F_DUPFD_CLOEXEC, OS_HIGH);

	if (high < 0)
		return low;
	syscall(SYS_close, low);
	return high;
}

#endif
