/* SPDX-License-Identifier: MIT */
/* See file.h. */
#include "os/file.h"

int os_file_read(const char *path, char *text, size_t size)
{
	int file = os_file_open(path, O_RDONLY);
	ssize_t length;

	if (file < 0)
		return -1;
	length = syscall(SYS_read, file, text, size - 1);
	os_file_close(file);
	if (length < 0)
		return -1;
	text[length] = '\0';
	return (int)length;
}
