/* SPDX-License-Identifier: MIT */
/*
 * Counters in memory that `sheaf info` and `sheaf top` read: mappings of a file (counter_file.c).
 *
 *   head, ROW_BYTES | area 0 | area 1 | ...
 *
 * The planes of an area follow one another; each has a row for each row of slots. The file is
 * sparse, because most CPUs of a large machine never run the program: only the head and the opened
 * rows (os_open_counters) are allocated. Nothing is counted in a row before that, because a store
 * into a hole that cannot be filled would end the program. If there is no such file, or no memory
 * in it for a row, counters are in private memory, and only the process itself can print them. So
 * are those of areas beyond MAX_AREAS, which the table of the file's rows has no room for.
 *
 * Invariants
 *  SHARED-F1. The file exists only while areas are mapped. Argued: whatever takes the last area,
 *      or maps none, calls end_unless_used().
 *  SHARED-F2. One thread at a time opens a row of an area in the file, and only that thread changes
 *      where its counters are. If it is refused memory, the row is closed again, with nothing
 *      counted; a row that is open stays so.
 *
 * Locks: none; callers hold OS_RANK_CACHES, or are the only thread after fork; os_open_counters()
 * needs neither.
 */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "os/assert.h"
#include "os/atomic.h"
#include "os/counters.h"
#include "os/linux/linux.h"
#include "os/machine.h"
#include "os/report/report.h"
#include "os/should_fail.h"

#define MAX_AREAS  64	     /* of the file */
#define MOST_AREAS (1 << 14) /* of the process: four million caches */

enum state {
	CLOSED,
	OPENING, /* by some thread */
	OPEN
};

struct area {
	char *rows;
	bool in_file;
	uint8_t states[OS_MAX_ROWS + 2];
};

static struct {
	char *head;
	struct area areas[MAX_AREAS];
	char *beyond[MOST_AREAS - MAX_AREAS]; /* the rows of further areas */
	size_t size;			      /* of a plane of an area */
	unsigned int nr_areas;
	uint32_t reported;
} shared OS_LARGE;

static size_t offset_of_area(unsigned int i)
{
	return ROW_BYTES + i * OS_PLANES * shared.size;
}

static bool map_part(char *at, size_t size, int file, size_t offset)
{
	int flags = MAP_FIXED | (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);

	return os_may_fail(ENOMEM, mmap, at, size, PROT_READ | PROT_WRITE, flags, file,
			   (off_t)offset) != MAP_FAILED;
}

/* Map the planes of the area with this first row, from offset in the file. */
static bool map_planes(char *rows, size_t size, int file, size_t offset)
{
	bool done = true;

	for (unsigned int plane = 0; done && plane < OS_PLANES; plane++)
		done = map_part(rows + os_plane(plane), size, file, offset + plane * size);
	return done;
}

static bool map_head(int file)
{
	char *head = os_may_fail(ENOMEM, mmap, NULL, ROW_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (head == MAP_FAILED)
		return false;
	if (!map_part(head, ROW_BYTES, file, 0)) {
		os_may_fail(ENOMEM, munmap, head, ROW_BYTES);
		return false;
	}
	/* Threads that count pages read it without the lock. */
	os_store_release(&shared.head, head);
	return true;
}

/* Without areas there is nothing to show. */
static void end_unless_used(void)
{
	if (shared.nr_areas)
		return;
	counter_file_remove();
	if (shared.head)
		os_may_fail(ENOMEM, munmap, shared.head, ROW_BYTES);
	shared.head = NULL;
}

/* An area for which the file has no room. */
static bool map_beyond(char *rows)
{
	unsigned int n = shared.nr_areas;

	if (n == MOST_AREAS || !map_planes(rows, shared.size, -1, 0))
		return false;
	if (shared.areas[MAX_AREAS - 1].in_file)
		os_report_once_later(&shared.reported,
				     "statistics: other processes see the first %u caches only. "
				     "The program's own statistics have all",
				     MAX_AREAS * SLOTS_PER_ROW);
	shared.beyond[n - MAX_AREAS] = rows;
	os_store_release(&shared.nr_areas, n + 1);
	return true;
}

bool shared_map(char *rows, size_t size)
{
	struct area *area;
	bool done = true;
	size_t offset;
	int file;

	if (shared.nr_areas >= MAX_AREAS)
		return map_beyond(rows);
	area = &shared.areas[shared.nr_areas];
	shared.size = size;
	offset = offset_of_area(shared.nr_areas);
	file = counter_file_extend(offset + OS_PLANES * size, ROW_BYTES, shared.nr_areas != 0);
	if (!shared.head)
		done = map_head(file);
	if (done)
		done = map_planes(rows, size, file, offset);
	if (done) {
		area->rows = rows;
		area->in_file = file >= 0;
		memset(area->states, CLOSED, sizeof(area->states));
		os_store_release(&shared.nr_areas, shared.nr_areas + 1);
	} else {
		end_unless_used();
	}
	return done;
}

void shared_unmap_last(unsigned int n)
{
	shared.nr_areas -= n;
	end_unless_used();
}

static struct area *area_of(const char *row)
{
	unsigned int n = os_counters_areas();

	for (unsigned int i = 0; i < n; i++)
		if (row >= shared.areas[i].rows && row < shared.areas[i].rows + shared.size)
			return &shared.areas[i];
	return NULL;
}

/* Give memory to a row of the file, in each plane. */
static bool fill_row(const struct area *area, size_t at)
{
	size_t offset = offset_of_area((unsigned int)(area - shared.areas)) + at;

	return counter_file_fill(offset, ROW_BYTES, shared.size, OS_PLANES);
}

static bool make_row_private(char *row)
{
	bool done = true;

	for (unsigned int plane = 0; done && plane < OS_PLANES; plane++)
		done = map_part(row + os_plane(plane), ROW_BYTES, -1, 0);
	return done;
}

bool os_open_counters(char *row)
{
	struct area *area = area_of(row);
	size_t at = area ? (size_t)(row - area->rows) & ~(ROW_BYTES - 1) : 0;
	uint8_t *state, closed = CLOSED;
	OS_KEEP_ERRNO;

	if (!area || !area->in_file)
		return true;
	state = &area->states[at / ROW_BYTES];
	if (os_load_acquire(state) == CLOSED && os_cmpxchg(state, &closed, OPENING)) {
		bool done = fill_row(area, at) || make_row_private(area->rows + at);

		os_assert(os_peek(state) == OPENING); /* SHARED-F2 */
		os_store_release(state, done ? OPEN : CLOSED);
	}
	return os_load_acquire(state) == OPEN;
}

void *os_counters_head(void)
{
	return os.counting ? os_load_acquire(&shared.head) : NULL;
}

unsigned int os_counters_areas(void)
{
	unsigned int n = os_load_acquire(&shared.nr_areas);

	return n < MAX_AREAS ? n : MAX_AREAS;
}

static char *rows_of(unsigned int area)
{
	return area < MAX_AREAS ? shared.areas[area].rows : shared.beyond[area - MAX_AREAS];
}

bool shared_after_fork(void)
{
	bool done = true;

	counter_file_forget();
	if (shared.head)
		done = map_part(shared.head, ROW_BYTES, -1, 0);
	for (unsigned int i = 0; done && i < shared.nr_areas; i++) {
		if (i < MAX_AREAS)
			shared.areas[i].in_file = false;
		done = map_planes(rows_of(i), shared.size, -1, 0);
	}
	if (done)
		return true;
	for (unsigned int i = 0; i < shared.nr_areas; i++)
		for (unsigned int plane = 0; plane < OS_PLANES; plane++)
			os_may_fail(ENOMEM, munmap, rows_of(i) + os_plane(plane), shared.size);
	shared.nr_areas = 0;
	end_unless_used();
	return false;
}
