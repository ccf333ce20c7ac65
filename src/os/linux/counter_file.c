/* SPDX-License-Identifier: MIT */
/* The life of the file of counters; see counter_file.h. */
#include "os/linux/counter_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/counters.h"
#include "os/descriptor.h"
#include "os/linux/file.h"
#include "os/report/report.h"

#define PATH	 "/dev/shm/libsheaf-%d"
#define ATTEMPTS 3 /* others may remove a file that is not locked yet */

static struct {
	pid_t owner; /* 0: there is no file */
	struct os_descriptor file;
	uint32_t told;
} ours = {.file.file = -1};

static void path_of(pid_t pid, char *path, size_t size)
{
	snprintf(path, size, PATH, (int)pid);
}

static bool same_file(const struct stat *one, const struct stat *other)
{
	return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

static bool is_the_file(const struct stat *one)
{
	return one->st_dev == ours.file.device && one->st_ino == ours.file.inode;
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

/* Unless another process put a different file in its place. A process that has changed its user or
 * its root directory may not remove the name, and gives back the memory. Other threads may still
 * count, so the file stays as long as it was. */
void counter_file_remove(void)
{
	struct stat now;
	char path[64];
	bool gone;

	if (!ours.owner)
		return;
	path_of(ours.owner, path, sizeof(path));
	gone = lstat(path, &now) == 0 && (!is_the_file(&now) || unlink(path) == 0);
	if (!gone && os_descriptor_is_ours(&ours.file) && fstat(ours.file.file, &now) == 0)
		syscall(SYS_fallocate, ours.file.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			(off_t)0, now.st_size);
	os_descriptor_close(&ours.file);
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
	if (fstat(file, &opened) == 0 && S_ISREG(opened.st_mode) &&
	    (opened.st_uid == geteuid() || !geteuid()) && flock(file, LOCK_EX | LOCK_NB) == 0 &&
	    lstat(path, &named) == 0)
		done = !same_file(&named, &opened) || unlink(path) == 0;
	if (!done)
		errno = EBUSY;
	close_file(file);
	return done;
}

/* Create the file and lock it. False with errno. */
static bool make_file(const char *path)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		int file = open_file(path, O_RDWR | O_CREAT | O_EXCL), error;
		struct stat made;

		if (file < 0 && (errno != EEXIST || !remove_left_over(path)))
			return false;
		if (file < 0)
			continue;
		if (flock(file, LOCK_SH | LOCK_NB) == 0 && fstat(file, &made) == 0 &&
		    made.st_nlink > 0) {
			ours.owner = getpid();
			return os_descriptor_keep(&ours.file, file);
		}
		error = errno;
		/* If it is locked, a process that removes it holds the lock. */
		if (error != EWOULDBLOCK)
			unlink(path);
		close_file(file);
		errno = error;
	}
	return false;
}

/* The file that we created, after the program has closed it; -1 with errno. */
static int open_again(const char *path)
{
	int file = open_file(path, O_RDWR | O_NONBLOCK);
	struct stat now;

	if (file >= 0 && fstat(file, &now) == 0 && is_the_file(&now))
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
	if (os_file_longest() < size) {
		errno = EFBIG;
		return false;
	}
	return allocate(file, 0, head) && syscall(SYS_ftruncate, file, size) == 0;
}

int counter_file_extend(size_t size, size_t head, bool exists)
{
	char path[64];
	bool open;

	if (exists && !ours.owner)
		return -1;
	path_of(getpid(), path, sizeof(path));
	open = !ours.owner ? make_file(path)
			   : os_descriptor_is_ours(&ours.file) ||
				     os_descriptor_keep(&ours.file, open_again(path));
	if (open && grow_to(ours.file.file, size, head))
		return ours.file.file;
	os_report_once_later(
		&ours.told, "statistics: %s cannot be %s (%s); other processes cannot read them",
		path, exists ? "extended" : "created",
		errno == EBUSY ? "another process or copy of libsheaf uses it" : strerror(errno));
	counter_file_remove();
	return -1;
}

bool counter_file_fill(size_t offset, size_t size, size_t step, unsigned int n)
{
	bool is_open = os_descriptor_is_ours(&ours.file), done;
	char path[64];
	int file;

	path_of(ours.owner, path, sizeof(path));
	file = is_open ? ours.file.file : open_again(path);
	done = file >= 0;
	for (unsigned int i = 0; done && i < n; i++)
		done = allocate(file, offset + i * step, size);
	if (!done)
		os_report_once_later(
			&ours.told,
			"statistics: %s: %s (%s); other processes will not see all events", path,
			file < 0 ? "the program closed the file, which cannot be opened again"
				 : "there is no memory for more",
			strerror(errno));
	if (!is_open && file >= 0)
		close_file(file);
	return done;
}

void counter_file_forget(void)
{
	os_descriptor_close(&ours.file);
	ours.owner = 0;
}

void os_counters_end(void)
{
	if (ours.owner == getpid())
		counter_file_remove();
}
