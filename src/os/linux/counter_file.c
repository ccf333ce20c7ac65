/* SPDX-License-Identifier: MIT */
/* The life of the file of counters; see counter_file.h. */
#include "os/linux/counter_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/report.h"

#define PATH	 "/dev/shm/libsheaf-%d"
#define ATTEMPTS 3 /* others may remove a file that is not locked yet */

static struct {
	pid_t owner; /* 0: there is no file */
	dev_t device;
	ino_t inode;
	uint32_t told;
} ours;

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

/* Unless another process put a different file in its place. */
void counter_file_remove(void)
{
	struct stat now;
	char path[64];

	if (!ours.owner)
		return;
	path_of(ours.owner, path, sizeof(path));
	if (lstat(path, &now) == 0 && same_file(&now, ours.device, ours.inode))
		unlink(path);
	ours.owner = 0;
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
			ours.owner = getpid();
			ours.device = made.st_dev;
			ours.inode = made.st_ino;
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

	if (file >= 0 && fstat(file, &now) == 0 && same_file(&now, ours.device, ours.inode))
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

/* Extends the file with a hole; its first `head` bytes get memory. */
static bool grow_to(int file, size_t size, size_t head)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit))
		return false;
	/* Growing beyond ulimit -f raises SIGXFSZ, even for a file in memory. */
	if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < size) {
		errno = EFBIG;
		return false;
	}
	return allocate(file, 0, head) && syscall(SYS_ftruncate, file, size) == 0;
}

int counter_file_extend(size_t size, size_t head, bool exists)
{
	char path[64];
	int file;

	if (exists && !ours.owner)
		return -1;
	path_of(getpid(), path, sizeof(path));
	file = ours.owner ? open_again(path) : make_file(path);
	if (file >= 0 && grow_to(file, size, head))
		return file;
	os_report_once_later(
		&ours.told, "statistics: %s cannot be %s (%s); other processes cannot read them",
		path, exists ? "extended" : "created",
		errno == EBUSY ? "another process or copy of libsheaf uses it" : strerror(errno));
	if (file >= 0)
		close_file(file);
	counter_file_remove();
	return -1;
}

void counter_file_close(int file)
{
	if (file >= 0)
		close_file(file);
}

bool counter_file_fill(size_t offset, size_t size, size_t step, unsigned int n)
{
	char path[64];
	bool done;
	int file;

	path_of(ours.owner, path, sizeof(path));
	file = open_again(path);
	done = file >= 0;
	for (unsigned int i = 0; done && i < n; i++)
		done = allocate(file, offset + i * step, size);
	if (!done)
		os_report_once_later(
			&ours.told,
			"statistics: no memory for %s (%s); other processes will not see all "
			"events",
			path, strerror(errno));
	counter_file_close(file);
	return done;
}

void counter_file_forget(void)
{
	ours.owner = 0;
}

static __attribute__((destructor)) void remove_file(void)
{
	if (ours.owner == getpid())
		counter_file_remove();
}
