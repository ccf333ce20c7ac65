/* SPDX-License-Identifier: MIT */
/*
 * The life of the file /dev/shm/libsheaf-PID, readable by its owner only: created, extended with
 * holes, removed. shared.c maps it.
 *
 * The file is removed at exit. A file that a killed process left is removed by the next process
 * with its PID, or by `sheaf info`. A PID is not enough to identify the owner: another PID
 * namespace may have the same one. So the process holds a flock() on the file for as long as it
 * uses it, and others must take the lock before they remove the file. The lock belongs to the open
 * file description, and the mapping of the head keeps that alive, whether or not the program closes
 * the descriptor. A forked child keeps the mapping until it has replaced it with its own memory.
 *
 * The descriptor stays open (os/file.h), for a process that changes its user or its root directory
 * later and could not open the file again. Such a process cannot remove the file either: it returns
 * the memory, and the name is removed like that of a killed process.
 *
 * Invariants
 *  COUNTER_FILE-C1. Only the process that created a file, or one that holds its lock exclusively,
 *      unlinks it. Argued: counter_file_remove() compares device and inode with those of the file
 *      that it created; remove_left_over() holds the lock.
 *
 * Locks: none; callers hold OS_RANK_CACHES, or are the only thread after fork;
 * counter_file_fill() needs neither. Callers: src/os/linux/shared.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "os/counters.h"
#include "os/file.h"
#include "os/linux/linux.h"
#include "os/report/report.h"
#include "os/should_fail.h"

#define PATH	 "/dev/shm/libsheaf-%d"
#define ATTEMPTS 3 /* others may remove a file that is not locked yet */

static struct {
	pid_t owner; /* 0: there is no file */
	struct os_descriptor file;
	uint32_t reported;
} ours = {.file.file = -1};

static void path_of(pid_t pid, char *path, size_t size)
{
	snprintf(path, size, PATH, (int)pid);
}

/* Unless another process put a different file in its place. A process that has changed its user or
 * its root directory may not remove the name, and returns the memory. Other threads may still
 * count, so the file keeps its length. */
void counter_file_remove(void)
{
	struct stat now;
	char path[64];
	bool gone;

	if (!ours.owner)
		return;
	path_of(ours.owner, path, sizeof(path));
	gone = lstat(path, &now) == 0 && (!os_descriptor_is(&ours.file, &now) || unlink(path) == 0);
	if (!gone && os_descriptor_is_ours(&ours.file) && fstat(ours.file.file, &now) == 0)
		syscall(SYS_fallocate, ours.file.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			(off_t)0, now.st_size);
	os_descriptor_close(&ours.file);
	ours.owner = 0;
}

/* Remove a file with our PID that no process uses. Returns false if one does. */
static bool remove_left_over(const char *path)
{
	int file = os_file_open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
	struct stat opened, named;
	bool done = false;

	if (file < 0)
		return errno == ENOENT;
	if (fstat(file, &opened) == 0 && S_ISREG(opened.st_mode) &&
	    (opened.st_uid == geteuid() || !geteuid()) && flock(file, LOCK_EX | LOCK_NB) == 0 &&
	    lstat(path, &named) == 0)
		done = named.st_dev != opened.st_dev || named.st_ino != opened.st_ino ||
		       unlink(path) == 0;
	if (!done)
		errno = EBUSY;
	os_file_close(file);
	return done;
}

/* Create the file and lock it. False with errno. */
static bool make_file(const char *path)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		int file = os_file_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW), error;
		struct stat made;

		if (file < 0 && (errno != EEXIST || !remove_left_over(path)))
			return false;
		if (file < 0)
			continue;
		if (os_may_fail(ENOLCK, flock, file, LOCK_SH | LOCK_NB) == 0 &&
		    fstat(file, &made) == 0 && made.st_nlink > 0) {
			ours.owner = getpid();
			return os_descriptor_keep(&ours.file, file);
		}
		error = errno;
		/* If it is locked, a process that removes it holds the lock. */
		if (error != EWOULDBLOCK)
			unlink(path);
		os_file_close(file);
		errno = error;
	}
	return false;
}

/* The file that we created, after the program has closed it; -1 with errno. */
static int open_again(const char *path)
{
	int file = os_file_open(path, O_RDWR | O_NONBLOCK | O_NOFOLLOW);
	struct stat now;

	if (file >= 0 && fstat(file, &now) == 0 && os_descriptor_is(&ours.file, &now))
		return file;
	if (file >= 0) {
		os_file_close(file);
		errno = ESTALE;
	}
	return -1;
}

static bool allocate(int file, size_t offset, size_t size)
{
	return os_syscall_may_fail(ENOSPC, fallocate, file, 0, offset, size) == 0;
}

/* Extends the file with a hole; its first `head` bytes get memory. */
static bool grow_to(int file, size_t size, size_t head)
{
	if (os_file_longest() < size) {
		errno = EFBIG;
		return false;
	}
	return allocate(file, 0, head) && os_syscall_may_fail(ENOSPC, ftruncate, file, size) == 0;
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
	os_report_once_later(&ours.reported,
			     "statistics: %s cannot be %s (%s); other processes cannot read them",
			     path, exists ? "extended" : "created",
			     errno == EBUSY ? "another process or copy of libsheaf uses it"
					    : strerror(errno));
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
			&ours.reported,
			"statistics: %s: %s (%s); other processes will not see all events", path,
			file < 0 ? "the program closed the file, which cannot be opened again"
				 : "there is no memory for more",
			strerror(errno));
	if (!is_open && file >= 0)
		os_file_close(file);
	return done;
}

void counter_file_forget(void)
{
	os_descriptor_close(&ours.file);
	ours.owner = 0;
}

void os_counters_end(void)
{
	if (ours.owner && ours.owner == getpid())
		counter_file_remove();
}
