/* SPDX-License-Identifier: MIT */
/* How much memory the system has given the process; see os/memory.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/memory.h"

static size_t status_bytes(const char *text, const char *key)
{
	const char *found = strstr(text, key);

	return found ? (size_t)strtoull(found + strlen(key), NULL, 10) << 10 : 0;
}

/* With system calls: the C library's functions are cancellation points. */
static ssize_t read_status(char *text, size_t size)
{
	int file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? 0 : syscall(SYS_read, file, text, size);

	if (file >= 0)
		syscall(SYS_close, file);
	return length < 0 ? 0 : length;
}

void os_resident(size_t *now, size_t *peak)
{
	char text[4096];
	int saved = errno;

	text[read_status(text, sizeof(text) - 1)] = '\0';
	*now = status_bytes(text, "\nVmRSS:");
	*peak = status_bytes(text, "\nVmHWM:");
	errno = saved;
}
