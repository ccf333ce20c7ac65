/* SPDX-License-Identifier: MIT */
/* See file.h. */
#include "os/linux/file.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

int os_file_read(const char *path, char *text, size_t size)
{
	int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (file < 0)
		return -1;
	length = syscall(SYS_read, file, text, size - 1);
	syscall(SYS_close, file);
	if (length < 0)
		return -1;
	text[length] = '\0';
	return (int)length;
}
