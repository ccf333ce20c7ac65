/* SPDX-License-Identifier: MIT */
/*
 * Rows of slots, and of counters.
 *
 * A fresh slot must hold the bootstrap sheaf, but a machine may have hundreds of CPUs and a program
 * thousands of caches: see template.c. A machine with few rows does without a file, as does one
 * where memfd_create() is refused: then slots are written when handles are taken.
 */
#include <sys/mman.h>

#include "os/counters.h"
#include "os/file.h"
#include "os/linux/linux.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/options/options.h"
#include "os/report/report.h"
#include "os/should_fail.h"

/* Without a file, each page of slots costs one of each row: 4 KiB a cache at most. */
#define FEW_ROWS 16

static size_t with_planes(size_t size)
{
	return size + (size_t)os_plane(OS_PLANES - 1);
}

/* Map the counters of each of these areas. */
static bool share(char *rows, unsigned int nr_areas)
{
	size_t size = os_area_bytes();

	for (unsigned int i = 0; i < nr_areas; i++)
		if (!shared_map(rows + i * size, size)) {
			map_refused(size, false);
			shared_unmap_last(i);
			return false;
		}
	return true;
}

/* With slab_guard_pools, the inaccessible bytes on each side. */
static size_t guard_bytes(void)
{
	return os_options.guard_pools ? os.page_size : 0;
}

/* Map this many bytes of addresses, and make the first of them usable. */
static char *map_apart(size_t size, size_t usable)
{
	size_t guard = guard_bytes();
	bool all = !guard && usable == size;
	char *rows = os_map_anywhere(size + 2 * guard, all);

	if (all)
		return rows;
	if (rows && os_commit(rows + guard, usable))
		return rows + guard;
	if (rows)
		os_may_fail(ENOMEM, munmap, rows, size + 2 * guard);
	return NULL;
}

static void unmap_apart(char *rows, size_t size)
{
	os_may_fail(ENOMEM, munmap, rows - guard_bytes(), size + 2 * guard_bytes());
}

/* Map addresses where rows fit and, after them, their counters. */
static char *map_counted(unsigned int nr_areas)
{
	size_t size = nr_areas * os_area_bytes();
	char *rows;

	/* The first plane of counters begins there. */
	if (size > (size_t)OS_COUNTERS)
		return NULL;
	rows = map_apart(with_planes(size), size);
	if (rows && share(rows, nr_areas))
		return rows;
	if (rows)
		unmap_apart(rows, with_planes(size));
	return NULL;
}

static char *map_plain(unsigned int nr_areas)
{
	char *rows = os.counting ? map_counted(nr_areas) : NULL;

	if (!rows && os.counting && !os_counters_areas() && nr_areas == 1) {
		char why[200];

		os_refusal(why, sizeof(why));
		os_report_later("SHEAF_OPTIONS: stats: nothing is counted: %s", why);
		os.counting = 0;
	}
	return rows || os.counting
		       ? rows
		       : map_apart(nr_areas * os_area_bytes(), nr_areas * os_area_bytes());
}

static void unmap(char *rows, unsigned int nr_areas)
{
	size_t size = nr_areas * os_area_bytes();

	if (os.counting)
		shared_unmap_last(nr_areas);
	unmap_apart(rows, os.counting ? with_planes(size) : size);
}

/* Returns false if it is refused. */
static bool copy_template(char *rows, unsigned int nr_areas, const struct slot *slot, bool *copied)
{
	size_t n = nr_areas * os_area_bytes() / ROW_BYTES;
	struct template_file template = {.file = -1};
	bool done = true;

	if (os.nr_rows > FEW_ROWS) {
		template_fill(rows, slot);
		template = template_file(rows, n, nr_areas);
	}
	*copied = template.file >= 0;
	if (*copied) {
		done = template_map(&template, rows, n);
		if (!done)
			map_refused(n * ROW_BYTES, true);
		os_file_close(template.file);
	}
	return done;
}

char *os_map_rows(unsigned int nr_areas, const struct slot *template, bool *copied)
{
	OS_KEEP_ERRNO;
	char *rows = map_plain(nr_areas);
	bool done = rows && copy_template(rows, nr_areas, template, copied);

	if (rows && !done)
		unmap(rows, nr_areas);
	return done ? rows + ROW_BYTES : NULL;
}
