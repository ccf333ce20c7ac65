/* SPDX-License-Identifier: MIT */
/*
 * Files of /proc that tell what a process uses and which limits it has reached, in pieces of any
 * length. The first byte of an input bounds the pieces of what is not read at once.
 *
 * Linked with --wrap=syscall.
 */
#include <stdarg.h>
#include <stdbool.h>

#include "fuzz/files.h"
#include "fuzz/target.h"
#include "os/atomic.h"
#include "os/memory.h"

#define FILE_NUMBER 1000

static char status[4096];
static struct fuzz_bytes pieces;
static size_t longest;

long __wrap_syscall(long number, ...);

static long read_piece(void *to, size_t size)
{
	size_t n = size < longest ? size : longest;

	n = n < pieces.left ? n : pieces.left;
	memcpy(to, pieces.at, n);
	pieces.at += n;
	pieces.left -= n;
	return (long)n;
}

/* The library opens, reads and closes only these files so. */
long __wrap_syscall(long number, ...)
{
	long done = number == SYS_openat ? FILE_NUMBER : 0;
	va_list list;
	void *to;

	FUZZ_CHECK(number == SYS_openat || number == SYS_read || number == SYS_close);
	if (number == SYS_openat)
		pieces = (struct fuzz_bytes){(const uint8_t *)status, strlen(status)};
	if (number == SYS_read) {
		va_start(list, number);
		FUZZ_CHECK(va_arg(list, int) == FILE_NUMBER);
		to = va_arg(list, void *);
		done = read_piece(to, va_arg(list, size_t));
		va_end(list);
	}
	return done;
}

/* The size in the only line that begins with this; false: none, more, or a line that the kernel
 * would not write. */
static bool size_of(const char *key, size_t *size)
{
	const char *found = strstr(status, key);
	size_t blank = found ? strspn(found + strlen(key), "\t ") : 0;

	if (!found || strstr(found + 1, key) ||
	    strspn(found + strlen(key) + blank, "0123456789") - 1 > 20 || blank > 20)
		return false;
	*size = (size_t)strtoull(found + strlen(key), NULL, 10) << 10;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes in = {data, size};
	size_t now, peak, wanted;
	char text[512];

	longest = 1 + 4 * (size_t)fuzz_byte(&in);
	fuzz_text(&in, '\0', status, sizeof(status));
	fuzz_files = in;
	os.page_size = 4096;
	os_resident(&now, &peak);
	if (size_of("\nVmRSS:", &wanted))
		FUZZ_CHECK(now == wanted);
	if (size_of("\nVmHWM:", &wanted))
		FUZZ_CHECK(peak == wanted);
	os_locks_memory();
	for (int writable = 0; writable < 2; writable++) {
		errno = ENOMEM;
		map_refused(OS_PAGE, writable);
		os_refusal(text, sizeof(text));
		FUZZ_CHECK(*text && strlen(text) < sizeof(text) - 1);
	}
	return 0;
}
