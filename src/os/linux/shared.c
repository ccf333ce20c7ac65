/* SPDX-License-Identifier: MIT */
/*
 * The file in memory that `sheaf info` and `sheaf top` map: /dev/shm/libsheaf-PID, readable by its
 * owner only.
 *
 *   head, ROW_SIZE | area 0 | area 1 | ...
 *
 * The planes of an area follow one another; each has a row for each row of slots. The file is
 * sparse, because most CPUs of a large machine never run the program: only the head and the opened
 * rows (os_open_counters) are allocated. Nothing is counted in a row before that, because a store
 * into a hole that cannot be filled would end the program. If there is no such file, or no memory
 * in it for a row, counters are in private memory, and only the process itself can print them.
 *
 * The file is removed at exit. A file that a killed process left is removed by the next process
 * with its PID, or by `sheaf info`. A PID is not enough to identify the owner: another PID
 * namespace may have the same one. So the process holds a flock() on the file for as long as it
 * uses it, and others must take the lock before they remove the file. The lock belongs to the open
 * file description, and the mapping of the head keeps that alive, without a descriptor that the
 * program could close or a child could inherit. A forked child keeps the mapping until it has
 * replaced it with its own memory.
 *
 * Invariants
 *  F1. The file exists only while areas are mapped.
 *  F2. Only the process that created a file, or one that holds its lock exclusively, unlinks it.
 *  F3. A row of an area in the file leaves the state CLOSED once; the thread that opens it does
 *      this, and no other thread changes where its counters are.
 *
 * Locks: none; callers hold OS_RANK_CACHES, or are the only thread after fork; os_open_counters()
 * needs neither.
 */
#include "os/linux/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/atomic.h"
#include "os/machine.h"
#include "os/report.h"
#include "os/section.h"

#define ROW_SIZE  ((size_t)1 << ROW_SHIFT)
#define MAX_AREAS 64
#define PATH	  "/dev/shm/libsheaf-%d"
#define ATTEMPTS  3 /* others may remove a file that is not locked yet */

enum state {
	CLOSED,
	OPENING, /* by some thread */
	OPEN,
	REFUSED
};

struct area {
	char *rows;
	bool in_file;
	uint8_t states[OS_MAX_ROWS + 2];
};

static struct {
	char *head;
	struct area areas[MAX_AREAS];
	size_t size; /* of a plane of an area */
	unsigned int nr_areas;
	pid_t owner; /* of the file; 0: there is none */
	dev_t device;
	ino_t inode;
	uint32_t told;
} shared;

static void path_of(pid_t pid, char *path, size_t size)
{
	snprintf(path, size, PATH, (int)pid);
}

static bool same_file(const struct stat *one, dev_t device, ino_t inode)
{
	return one->st_dev == device && one->st_ino == inode;
}

/* With system calls: the C library's functions are cancellation points, and a lock is held. */
static int open_file(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static void close_file(int file)
{
	syscall(SYS_close, file);
}

/* Remove our file, unless another process put a different one in its place. */
static void remove_ours(void)
{
	struct stat now;
	char path[64];

	path_of(shared.owner, path, sizeof(path));
	if (lstat(path, &now) == 0 && same_file(&now, shared.device, shared.inode))
		unlink(path);
	shared.owner = 0;
}

/* Remove a file with our PID that no process uses. Returns false if one does. */
static bool remove_left_over(const char *path)
{
	int file = open_file(path, O_RDONLY | O_NONBLOCK);
	struct stat opened, named;
	bool done = false;

	if (file < 0)
		return errno == ENOENT;
	if (fstat(file, &opened) == 0 && S_ISREG(opened.st_mode) && opened.st_uid == geteuid() &&
	    flock(file, LOCK_EX | LOCK_NB) == 0 && lstat(path, &named) == 0)
		done = !same_file(&named, opened.st_dev, opened.st_ino) || unlink(path) == 0;
	if (!done)
		errno = EBUSY;
	close_file(file);
	return done;
}

/* Create the file and lock it; -1 with errno. */
static int make_file(const char *path)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		int file = open_file(path, O_RDWR | O_CREAT | O_EXCL), error;
		struct stat made;

		if (file < 0 && (errno != EEXIST || !remove_left_over(path)))
			return -1;
		if (file < 0)
			continue;
		if (flock(file, LOCK_SH | LOCK_NB) == 0 && fstat(file, &made) == 0 &&
		    made.st_nlink > 0) {
			shared.owner = getpid();
			shared.device = made.st_dev;
			shared.inode = made.st_ino;
			return file;
		}
		error = errno;
		/* If it is locked, a process that removes it holds the lock. */
		if (error != EWOULDBLOCK)
			unlink(path);
		close_file(file);
		errno = error;
	}
	return -1;
}

/* Open the file that we created; -1 with errno. */
static int open_again(const char *path)
{
	int file = open_file(path, O_RDWR | O_NONBLOCK);
	struct stat now;

	if (file >= 0 && fstat(file, &now) == 0 && same_file(&now, shared.device, shared.inode))
		return file;
	if (file >= 0) {
		close_file(file);
		errno = ESTALE;
	}
	return -1;
}

static bool allocate(int file, size_t offset, size_t size)
{
	return syscall(SYS_fallocate, file, 0, offset, size) == 0;
}

/* Extends the file with a hole. */
static bool grow_to(int file, size_t size)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit))
		return false;
	/* Growing beyond ulimit -f raises SIGXFSZ, even for a file in memory. */
	if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < size) {
		errno = EFBIG;
		return false;
	}
	return allocate(file, 0, ROW_SIZE) && syscall(SYS_ftruncate, file, size) == 0;
}

static size_t offset_of_area(unsigned int i)
{
	return ROW_SIZE + i * OS_PLANES * shared.size;
}

/* Open the file and make it long enough; -1 after a report. */
static int grow_file(size_t size)
{
	char path[64];
	int file;

	if (shared.nr_areas && !shared.owner)
		return -1;
	path_of(getpid(), path, sizeof(path));
	file = shared.owner ? open_again(path) : make_file(path);
	if (file >= 0 && grow_to(file, size))
		return file;
	os_report_once_later(
		&shared.told, "statistics: %s cannot be %s (%s); other processes cannot read them",
		path, shared.nr_areas ? "extended" : "created",
		errno == EBUSY ? "another process or copy of libsheaf uses it" : strerror(errno));
	if (file >= 0)
		close_file(file);
	if (shared.owner)
		remove_ours();
	return -1;
}

static bool map_part(char *at, size_t size, int file, size_t offset)
{
	int flags = MAP_FIXED | (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);

	return mmap(at, size, PROT_READ | PROT_WRITE, flags, file, (off_t)offset) != MAP_FAILED;
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
	char *head =
		mmap(NULL, ROW_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (head == MAP_FAILED)
		return false;
	if (!map_part(head, ROW_SIZE, file, 0)) {
		munmap(head, ROW_SIZE);
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
	if (shared.owner)
		remove_ours();
	if (shared.head)
		munmap(shared.head, ROW_SIZE);
	shared.head = NULL;
}

bool shared_map(char *rows, size_t size)
{
	struct area *area = &shared.areas[shared.nr_areas];
	bool done = true;
	size_t offset;
	int file;

	if (shared.nr_areas == MAX_AREAS)
		return false;
	shared.size = size;
	offset = offset_of_area(shared.nr_areas);
	file = grow_file(offset + OS_PLANES * size);
	if (!shared.head)
		done = map_head(file);
	if (done)
		done = map_planes(rows, size, file, offset);
	if (file >= 0)
		close_file(file);
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
	unsigned int n = os_load_acquire(&shared.nr_areas);

	for (unsigned int i = 0; i < n; i++)
		if (row >= shared.areas[i].rows && row < shared.areas[i].rows + shared.size)
			return &shared.areas[i];
	return NULL;
}

static bool allocate_row(const struct area *area, size_t at)
{
	size_t offset = offset_of_area((unsigned int)(area - shared.areas)) + at;
	char path[64];
	bool done;
	int file;

	path_of(shared.owner, path, sizeof(path));
	file = open_again(path);
	done = file >= 0;
	for (unsigned int plane = 0; done && plane < OS_PLANES; plane++)
		done = allocate(file, offset + plane * shared.size, ROW_SIZE);
	if (!done)
		os_report_once_later(
			&shared.told,
			"statistics: no memory for %s (%s); other processes will not see all "
			"events",
			path, strerror(errno));
	if (file >= 0)
		close_file(file);
	return done;
}

static bool make_row_private(char *row)
{
	bool done = true;

	for (unsigned int plane = 0; done && plane < OS_PLANES; plane++)
		done = map_part(row + os_plane(plane), ROW_SIZE, -1, 0);
	return done;
}

bool os_open_counters(char *row)
{
	struct area *area = area_of(row);
	size_t at = area ? (size_t)(row - area->rows) & ~(ROW_SIZE - 1) : 0;
	uint8_t *state, closed = CLOSED;
	int saved = errno;

	if (!area || !area->in_file)
		return true;
	state = &area->states[at / ROW_SIZE];
	if (os_load_acquire(state) == CLOSED && os_cmpxchg(state, &closed, OPENING)) {
		bool done = allocate_row(area, at) || make_row_private(area->rows + at);

		os_store_release(state, done ? OPEN : REFUSED);
	}
	errno = saved;
	return os_load_acquire(state) == OPEN;
}

void *os_counters_head(void)
{
	return os_load_acquire(&shared.head);
}

unsigned int os_counters_areas(void)
{
	return shared.nr_areas;
}

bool shared_after_fork(void)
{
	bool done = true;

	/* It belongs to the parent. */
	shared.owner = 0;
	if (shared.head)
		done = map_part(shared.head, ROW_SIZE, -1, 0);
	for (unsigned int i = 0; done && i < shared.nr_areas; i++) {
		shared.areas[i].in_file = false;
		done = map_planes(shared.areas[i].rows, shared.size, -1, 0);
	}
	if (done)
		return true;
	for (unsigned int i = 0; i < shared.nr_areas; i++)
		for (unsigned int plane = 0; plane < OS_PLANES; plane++)
			munmap(shared.areas[i].rows + os_plane(plane), shared.size);
	shared.nr_areas = 0;
	end_unless_used();
	return false;
}

static __attribute__((destructor)) void remove_file(void)
{
	if (shared.owner && shared.owner == getpid())
		remove_ours();
}
