/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that the library keeps. A program may close all that it does not know, and open files
 * of its own under their numbers. So the library remembers which file each of its own refers to, by
 * device and inode, and asks before each use whether it still does. It also moves them to high
 * numbers, because a program may expect the lowest ones.
 *
 * Callers: src/os/; src/stats/ for the descriptor that the options name.
 */
#ifndef SHEAF_OS_DESCRIPTOR_H
#define SHEAF_OS_DESCRIPTOR_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/atomic.h"

#define OS_HIGH 100

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

/* The same for one that the library has opened: it gets a high number, if there is room. */
static inline bool os_descriptor_keep(struct os_descriptor *ours, int low)
{
	int high = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, OS_HIGH);

	if (high >= 0)
		syscall(SYS_close, low);
	return os_descriptor_remember(ours, high < 0 ? low : high);
}

static inline bool os_descriptor_is_ours(const struct os_descriptor *ours)
{
	int file = os_load_acquire(&ours->file);
	struct stat now;

	return file >= 0 && fstat(file, &now) == 0 && now.st_dev == ours->device &&
	       now.st_ino == ours->inode;
}

static inline void os_descriptor_close(struct os_descriptor *ours)
{
	if (os_descriptor_is_ours(ours))
		syscall(SYS_close, ours->file);
	ours->file = -1;
}

#endif
