/* SPDX-License-Identifier: MIT */
/*
 * Files that the library opens. It does so with system calls: the C library's functions are
 * cancellation points, and a thread that is cancelled there would leave the library's locks held.
 *
 * A program may close all descriptors that it does not know, and open files of its own under their
 * numbers. So the library remembers which file each descriptor that it keeps refers to, by device
 * and inode, and checks that before each use. It also moves them to high numbers, because a program
 * may expect the lowest ones.
 *
 * Callers: src/os/; src/stats/ for the descriptor that the options name.
 */
#ifndef SHEAF_OS_FILE_H
#define SHEAF_OS_FILE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "os/atomic.h"
#include "os/should_fail.h"

#define OS_HIGH 100

/* -1 with errno. */
static inline int os_file_open(const char *path, int flags)
{
	return (int)os_syscall_may_fail(EMFILE, openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600);
}

static inline void os_file_close(int file)
{
	syscall(SYS_close, file);
}

/* In linux/file.c. Read a small file; returns the length, or -1. errno may change. */
int os_file_read(const char *path, char *text, size_t size);

/* How long a file may get (ulimit -f): a write beyond that raises SIGXFSZ, even in a file in
 * memory. */
static inline size_t os_file_longest(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit))
		return 0;
	return limit.rlim_cur == RLIM_INFINITY ? SIZE_MAX : (size_t)limit.rlim_cur;
}

struct os_descriptor {
	int file; /* -1: none */
	dev_t device;
	ino_t inode;
};

/* Remember which file this is. False with errno: the descriptor is not open. */
static inline bool os_descriptor_remember(struct os_descriptor *ours, int file)
{
	struct stat now;

	if (file < 0 || fstat(file, &now))
		return false;
	ours->device = now.st_dev;
	ours->inode = now.st_ino;
	os_store_release(&ours->file, file);
	return true;
}

/* Keep a descriptor that the library has opened: it gets a high number, if there is room. */
static inline bool os_descriptor_keep(struct os_descriptor *ours, int low)
{
	int high = low < 0 ? -1 : os_may_fail(EMFILE, fcntl, low, F_DUPFD_CLOEXEC, OS_HIGH);

	if (high >= 0)
		os_file_close(low);
	return os_descriptor_remember(ours, high < 0 ? low : high);
}

static inline bool os_descriptor_is(const struct os_descriptor *ours, const struct stat *file)
{
	return file->st_dev == ours->device && file->st_ino == ours->inode;
}

static inline bool os_descriptor_is_ours(const struct os_descriptor *ours)
{
	int file = os_load_acquire(&ours->file);
	struct stat now;

	return file >= 0 && fstat(file, &now) == 0 && os_descriptor_is(ours, &now);
}

static inline void os_descriptor_close(struct os_descriptor *ours)
{
	if (os_descriptor_is_ours(ours))
		os_file_close(ours->file);
	ours->file = -1;
}

#endif
