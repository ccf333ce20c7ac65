/* SPDX-License-Identifier: MIT */
/*
 * Rows of slots, and of counters.
 *
 * A fresh slot must hold the bootstrap sheaf, yet a machine may have hundreds of CPUs and a program
 * hundreds of caches. So each row is a private mapping of one file whose pages are full of template
 * slots: reading costs no memory, the first store copies a page. Where memfd_create() is refused every
 * row is written at once instead.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/linux/map.h"
#include "os/linux/shared.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/report.h"
#include "os/section.h"

#define ROW_BYTES ((size_t)1 << ROW_SHIFT)

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

static void fill_row(char *row, const struct slot *template)
{
	for (size_t at = 0; at < ROW_BYTES; at += sizeof(*template))
		memcpy(row + at, template, sizeof(*template));
}

/* With vm.memfd_noexec=2 Linux 6.3 to 6.5 refuses a file unless it is asked for one that cannot be
 * executed; older ones do not know that request. */
static int make_file(void)
{
	int file = (int)syscall(SYS_memfd_create, "sheaf-slots", MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	if (file < 0 && errno == EINVAL)
		file = (int)syscall(SYS_memfd_create, "sheaf-slots", MFD_CLOEXEC);
	return file;
}

/* A file of one template row for each node, or -1. */
static int template_file(char *scratch, const struct slot *template_of_node)
{
	struct rlimit limit;
	int file = -1;

	/* Writing beyond ulimit -f raises SIGXFSZ, also in memory. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
	    (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= os.nr_nodes * ROW_BYTES))
		file = make_file();
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

static size_t with_planes(size_t size)
{
	return size + (size_t)os_plane(OS_PLANES - 1);
}

/* Where rows and, behind them, their counters can be. */
static char *map_counted(size_t size)
{
	char *rows = map_anywhere(with_planes(size), PROT_NONE);

	if (rows && mprotect(rows, size, PROT_READ | PROT_WRITE) == 0 && shared_map(rows, size))
		return rows;
	if (rows)
		munmap(rows, with_planes(size));
	return NULL;
}

static char *map_plain(size_t size)
{
	char *rows = os.counting ? map_counted(size) : NULL;

	if (!rows && os.counting && !os_counters_areas()) {
		os_report_later(
			"SHEAF_OPTIONS: no address space for statistics (ulimit -v?); going on "
			"without");
		os.counting = 0;
	}
	return rows || os.counting ? rows : map_anywhere(size, PROT_READ | PROT_WRITE);
}

static void unmap(char *rows, size_t size)
{
	if (os.counting)
		shared_unmap_last();
	munmap(rows, os.counting ? with_planes(size) : size);
}

static bool map_row(char *row, uint32_t node, int file, const struct slot *template_of_node)
{
	if (file < 0) {
		fill_row(row, &template_of_node[node]);
		return true;
	}
	return mmap(row, ROW_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file,
		    (off_t)(node * ROW_BYTES)) != MAP_FAILED;
}

char *os_map_rows(const struct slot *template_of_node)
{
	int saved = errno, file = -1;
	size_t size = (os.nr_rows + 2) * ROW_BYTES;
	char *rows = map_plain(size);
	bool done = rows;

	if (rows)
		file = template_file(rows, template_of_node);
	/* The first row, until now scratch, is nobody's, the second one the handles'. */
	if (done)
		done = map_row(rows, 0, file, template_of_node);
	for (uint32_t r = 0; done && r < os.nr_rows; r++)
		done = map_row(rows + (r + 2) * ROW_BYTES, os.node_of_row[r], file,
			       template_of_node);
	if (rows && !done)
		unmap(rows, size);
	if (file >= 0)
		syscall(SYS_close, file);
	errno = saved;
	return done ? rows + ROW_BYTES : NULL;
}
