/* SPDX-License-Identifier: MIT */
/*
 * Memory by mmap.
 *
 * Rows: a fresh slot must hold the bootstrap sheaf, yet a machine may have hundreds of CPUs and a
 * program hundreds of caches. So each row is a private mapping of one file whose pages are full of
 * template slots: reading costs no memory, the first store copies a page. Where memfd_create() is
 * refused every row is written at once instead.
 */
#include "os/memory.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/atomic.h"
#include "os/machine.h"
#include "os/report.h"
#include "os/section.h"

#define ROW_BYTES      ((size_t)1 << ROW_SHIFT)
#define MPOL_PREFERRED 1

static uint32_t discard_refused; /* told */

static void *map(size_t size, int protection)
{
	void *address =
		mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return address == MAP_FAILED ? NULL : address;
}

void *os_reserve(size_t size)
{
	int saved = errno;
	char *address = map(size + OS_HUGE, PROT_NONE);

	if (address) {
		size_t before = -(uintptr_t)address & (OS_HUGE - 1);

		if (before)
			munmap(address, before);
		munmap(address + before + size, OS_HUGE - before);
		address += before;
	}
	errno = saved;
	return address;
}

size_t os_address_limit(void)
{
	int saved = errno;
	struct rlimit limit;
	size_t bytes = SIZE_MAX;

	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		bytes = (size_t)limit.rlim_cur;
	errno = saved;
	return bytes;
}

void os_unreserve(void *address, size_t size)
{
	int saved = errno;

	munmap(address, size);
	errno = saved;
}

bool os_commit(void *address, size_t size)
{
	int saved = errno;
	bool done = mprotect(address, size, PROT_READ | PROT_WRITE) == 0;

	errno = saved;
	return done;
}

void os_discard(void *address, size_t size)
{
	int saved = errno;

	if (madvise(address, size, MADV_DONTNEED))
		os_report_once(&discard_refused,
			       "the system does not take memory back (madvise: %s; is it "
			       "locked?): what is freed stays resident",
			       strerror(errno));
	errno = saved;
}

void os_advise_huge(void *address, size_t size, bool huge)
{
	int saved = errno;

	madvise(address, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	errno = saved;
}

void os_prefer_node(void *address, size_t size, unsigned int node)
{
	int saved = errno;
	unsigned long mask = 1ul << node;

	/* An invented or absent node is refused: the addresses then only serve as a label. */
	syscall(SYS_mbind, address, size, MPOL_PREFERRED, &mask, OS_MAX_NODES + 1, 0);
	errno = saved;
}

static void fill_row(char *row, const struct slot *template)
{
	for (size_t at = 0; at < ROW_BYTES; at += sizeof(*template))
		memcpy(row + at, template, sizeof(*template));
}

/* A file of one template row for each node, or -1. */
static int template_file(char *scratch, const struct slot *template_of_node)
{
	struct rlimit limit;
	int file = -1;

	/* Writing beyond ulimit -f raises SIGXFSZ, also in memory. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
	    (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= os.nr_nodes * ROW_BYTES))
		file = (int)syscall(SYS_memfd_create, "sheaf-slots", 1u /* MFD_CLOEXEC */);
	if (file < 0)
		return -1;
	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		fill_row(scratch, &template_of_node[node]);
		if (syscall(SYS_pwrite64, file, scratch, ROW_BYTES, (off_t)(node * ROW_BYTES)) !=
		    (ssize_t)ROW_BYTES) {
			syscall(SYS_close, file);
			return -1;
		}
	}
	return file;
}

char *os_map_rows(const struct slot *template_of_node)
{
	int saved = errno, file;
	size_t size = (os.nr_rows + 2) * ROW_BYTES;
	char *rows = map(size, PROT_READ | PROT_WRITE);

	if (!rows)
		goto out;
	file = template_file(rows, template_of_node);
	/* The first row, until now scratch, is nobody's, the second one the handles'. */
	for (uint32_t r = 0; r < os.nr_rows + 2; r++) {
		char *row = rows + r * ROW_BYTES;
		uint32_t node = r < 2 ? 0 : os.node_of_row[r - 2];

		if (r == 1)
			continue;
		if (file < 0) {
			fill_row(row, &template_of_node[node]);
		} else if (mmap(row, ROW_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
				file, (off_t)(node * ROW_BYTES)) == MAP_FAILED) {
			munmap(rows, size);
			rows = NULL;
			break;
		}
	}
	if (file >= 0)
		syscall(SYS_close, file);
out:
	errno = saved;
	return rows ? rows + ROW_BYTES : NULL;
}
