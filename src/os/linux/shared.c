/* SPDX-License-Identifier: MIT */
/*
 * The file in memory that `sheaf info` and `sheaf top` map: /dev/shm/libsheaf-PID, for its owner only.
 *
 *   head, ROW_BYTES | area 0 | area 1 | ...
 *
 * An area has its planes one behind the other, each with a row for each row of slots. All of the file is allocated before it is mapped: a store
 * into a hole that cannot be filled would end the program. Where there is no such file, counters are in
 * private memory, and only the process itself can print them. The file goes at exit; one that a killed
 * process left is removed by the next process of its number, or by `sheaf info`.
 *
 * Locks: none; callers hold OS_RANK_CACHES, or are alone after fork.
 */
#include "os/linux/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/atomic.h"
#include "os/machine.h"
#include "os/report.h"
#include "os/section.h"

#define ROW_BYTES ((size_t)1 << ROW_SHIFT)
#define MAX_AREAS 64
#define PATH	  "/dev/shm/libsheaf-%d"

static struct {
	char *head;
	char *areas[MAX_AREAS]; /* first rows */
	size_t size;		/* of a plane of an area */
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

/* The file we made, and not one that somebody put in its place. */
static bool is_ours(int file)
{
	struct stat now;

	if (fstat(file, &now) || !S_ISREG(now.st_mode) || now.st_uid != geteuid())
		return false;
	if (!shared.owner) {
		shared.device = now.st_dev;
		shared.inode = now.st_ino;
	}
	return now.st_dev == shared.device && now.st_ino == shared.inode;
}

static bool may_grow_to(size_t size)
{
	struct rlimit limit;

	/* Growing beyond ulimit -f raises SIGXFSZ, also in memory. */
	return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
	       (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= size);
}

/* The file, long enough, or -1 after a report. By system calls: these functions are points of
 * cancellation, and a lock is held. */
static int grow_file(size_t size)
{
	char path[64];
	int file, flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;

	if (shared.nr_areas && !shared.owner)
		return -1;
	path_of(getpid(), path, sizeof(path));
	if (!shared.owner) {
		unlink(path);
		flags |= O_CREAT | O_EXCL;
	}
	file = (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
	if (file >= 0 && is_ours(file) && may_grow_to(size) &&
	    syscall(SYS_fallocate, file, 0, 0L, size) == 0) {
		shared.owner = getpid();
		return file;
	}
	os_report_once(&shared.told,
		       "statistics: %s cannot be made (%s); other processes will not see them",
		       path, strerror(errno));
	if (file >= 0) {
		if (is_ours(file))
			unlink(path);
		syscall(SYS_close, file);
		shared.owner = 0;
	}
	return -1;
}

static bool map_part(char *at, size_t size, int file, size_t offset)
{
	int flags = MAP_FIXED | (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);

	return mmap(at, size, PROT_READ | PROT_WRITE, flags, file, (off_t)offset) != MAP_FAILED;
}

/* The planes of the area whose first row that is, from offset in the file. */
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
		mmap(NULL, ROW_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (head == MAP_FAILED)
		return false;
	shared.head = head;
	return map_part(head, ROW_BYTES, file, 0);
}

bool shared_map(char *rows, size_t size)
{
	size_t offset = ROW_BYTES + shared.nr_areas * OS_PLANES * size;
	bool done = true;
	int file;

	if (shared.nr_areas == MAX_AREAS)
		return false;
	file = grow_file(offset + OS_PLANES * size);
	if (!shared.head)
		done = map_head(file);
	if (done)
		done = map_planes(rows, size, file, offset);
	if (file >= 0)
		syscall(SYS_close, file);
	if (done) {
		shared.size = size;
		shared.areas[shared.nr_areas++] = rows;
	}
	return done;
}

void *os_counters_head(void)
{
	return shared.head;
}

unsigned int os_counters_areas(void)
{
	return shared.nr_areas;
}

void shared_after_fork(void)
{
	shared.owner = 0;
	if (shared.head)
		map_part(shared.head, ROW_BYTES, -1, 0);
	for (unsigned int i = 0; i < shared.nr_areas; i++)
		map_planes(shared.areas[i], shared.size, -1, 0);
}

static __attribute__((destructor)) void remove_file(void)
{
	char path[64];

	if (shared.owner != getpid())
		return;
	path_of(shared.owner, path, sizeof(path));
	unlink(path);
}
