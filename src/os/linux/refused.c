/* SPDX-License-Identifier: MIT */
/*
 * Why the system refused addresses or memory. It gives one error number for many reasons, so this
 * compares what the process has with its limits. For a line that is written once: it reads
 * /proc/self/maps, which may be long.
 *
 * Locks: none; with system calls, because the C library's functions are cancellation points.
 * Callers: src/cache/ when the library cannot start; src/os/linux/.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/atomic.h"
#include "os/file.h"
#include "os/machine.h"
#include "os/memory.h"

static struct {
	int error; /* of the last refusal */
	size_t size;
	bool writable;
} refused;

void map_refused(size_t size, bool writable)
{
	os_store_relaxed(&refused.error, errno);
	os_store_relaxed(&refused.size, size);
	os_store_relaxed(&refused.writable, writable);
}

/* Bytes of the n-th number of /proc/self/statm; if it is not known, the limit is to blame. */
static size_t pages_of_process(int n)
{
	char text[128], *at = text;

	if (os_file_read("/proc/self/statm", text, sizeof(text)) < 0)
		return SIZE_MAX / 2;
	while (n-- > 0) {
		at += strcspn(at, " ");
		at += *at == ' ';
	}
	return strtoul(at, NULL, 10) * os.page_size;
}

static bool is_over(int resource, size_t has, size_t *kib)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) || limit.rlim_cur == RLIM_INFINITY ||
	    has + os_load_relaxed(&refused.size) <= limit.rlim_cur)
		return false;
	*kib = (size_t)limit.rlim_cur / 1024;
	return true;
}

/* A line for each mapping. */
static size_t mappings(void)
{
	int file = os_file_open("/proc/self/maps", O_RDONLY);
	char text[1024];
	size_t n = 0;
	ssize_t length;

	while (file >= 0 && (length = syscall(SYS_read, file, text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < length; i++)
			n += text[i] == '\n';
	if (file >= 0)
		os_file_close(file);
	return n;
}

void os_refusal(char *text, size_t size)
{
	OS_KEEP_ERRNO;
	int error = os_load_relaxed(&refused.error);
	bool writable = os_load_relaxed(&refused.writable);
	size_t kib, most = os_mappings_limit();

	if (!os_load_relaxed(&refused.size))
		snprintf(text, size,
			 "memory for its own structures was refused, but not by the system. Remove "
			 "fail_nth= and reserve= from SHEAF_OPTIONS");
	else if (error == EAGAIN)
		snprintf(text, size,
			 "its addresses count as locked memory since mlockall(), and exceed the "
			 "limit of that. Raise it (ulimit -l)");
	else if (error && error != ENOMEM)
		snprintf(text, size,
			 "the system refuses memory (%s). Allow mmap() and mprotect() in the "
			 "sandbox or security policy",
			 strerror(error));
	else if (writable && is_over(RLIMIT_DATA, pages_of_process(5), &kib))
		snprintf(text, size,
			 "the process has reached its limit of data, %zu KiB. Raise it (ulimit -d)",
			 kib);
	else if (!writable && is_over(RLIMIT_AS, pages_of_process(0), &kib))
		snprintf(text, size,
			 "the process has reached its limit of addresses, %zu KiB. Raise it "
			 "(ulimit -v)",
			 kib);
	else if (mappings() + 2 >= most) /* one call may need two more */
		snprintf(text, size,
			 "the process has as many mappings as the system allows, %zu. Raise "
			 "vm.max_map_count (sysctl), or make fewer",
			 most);
	else if (!writable)
		snprintf(text, size,
			 "the process has no free range of %zu KiB of addresses left. Reserve or "
			 "map less",
			 os_load_relaxed(&refused.size) / 1024);
	else
		snprintf(text, size,
			 "the system has no memory for it. Free some, or look at "
			 "vm.overcommit_memory");
}
