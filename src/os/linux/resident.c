/* SPDX-License-Identifier: MIT */
/* The resident memory of the process; see os/memory.h. */
#include <stdlib.h>
#include <string.h>

#include "os/file.h"
#include "os/memory.h"

#define LINE 48 /* the most bytes of a line with a size */

static void find_size(const char *text, const char *key, size_t *bytes)
{
	const char *found = strstr(text, key);

	if (found)
		*bytes = (size_t)strtoull(found + strlen(key), NULL, 10) << 10;
}

struct sizes {
	size_t resident, peak, locked;
};

/*
 * Piece by piece: the line of the user's groups, which comes first, may be long. The last bytes of
 * a piece are read again with the next one, so that a size that is cut there is read in full. With
 * system calls: the C library's functions are cancellation points.
 */
static struct sizes read_sizes(void)
{
	int file = os_file_open("/proc/self/status", O_RDONLY);
	struct sizes sizes = {0, 0, 0};
	char text[512];
	size_t kept = 0;
	ssize_t n;

	while (file >= 0 &&
	       (n = syscall(SYS_read, file, text + kept, sizeof(text) - 1 - kept)) > 0) {
		size_t length = kept + (size_t)n;

		text[length] = '\0';
		find_size(text, "\nVmRSS:", &sizes.resident);
		find_size(text, "\nVmHWM:", &sizes.peak);
		find_size(text, "\nVmLck:", &sizes.locked);
		kept = length < LINE ? length : LINE;
		memmove(text, text + length - kept, kept);
	}
	if (file >= 0)
		os_file_close(file);
	return sizes;
}

void os_resident(size_t *now, size_t *peak)
{
	OS_KEEP_ERRNO;
	struct sizes sizes = read_sizes();

	*now = sizes.resident;
	*peak = sizes.peak;
}

bool os_locks_memory(void)
{
	OS_KEEP_ERRNO;

	return read_sizes().locked != 0;
}
