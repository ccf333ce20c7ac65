/* SPDX-License-Identifier: MIT */
/*
 * Triggers of the kernel's pressure stall information; see os/pressure.h.
 *
 * With system calls: the C library's functions are cancellation points, and a thread that is
 * cancelled in a round of housekeeping would leave it held.
 */
#include "os/pressure.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/linux/cgroup.h"
#include "os/linux/file.h"

#define LEAST_FILE 100 /* a number that few programs use */

/* A program may close every file that it does not know, and open others under their numbers. */
static struct {
	int file;
	dev_t device;
	ino_t inode;
} trigger = {.file = -1};

static bool trigger_is_ours(void)
{
	struct stat now;

	return trigger.file >= 0 && fstat(trigger.file, &now) == 0 &&
	       now.st_dev == trigger.device && now.st_ino == trigger.inode;
}

static bool set_trigger(int file)
{
	char text[64];
	struct stat now;
	int length = snprintf(text, sizeof(text), "some %d %d", OS_PRESSURE_STALL_US,
			      OS_PRESSURE_WINDOW_US);

	if (fstat(file, &now) || syscall(SYS_write, file, text, (size_t)length + 1) < 0)
		return false;
	trigger.file = file;
	trigger.device = now.st_dev;
	trigger.inode = now.st_ino;
	return true;
}

static bool open_trigger(const char *path)
{
	long file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_NONBLOCK | O_CLOEXEC),
	     high = file < 0 ? -1 : syscall(SYS_fcntl, file, F_DUPFD_CLOEXEC, LEAST_FILE);

	if (file >= 0 && high >= 0) {
		syscall(SYS_close, file);
		file = high;
	}
	if (file < 0 || set_trigger((int)file))
		return file >= 0;
	syscall(SYS_close, file);
	return false;
}

/* The group of the unified hierarchy. */
static bool open_trigger_of_group(void)
{
	char groups[4096], path[sizeof(groups) + 64], *group;

	if (os_file_read("/proc/self/cgroup", groups, sizeof(groups)) <= 0)
		return false;
	group = !strncmp(groups, "0::/", 4) ? groups : strstr(groups, "\n0::/");
	if (!group)
		return false;
	group = strchr(group, '/');
	group[strcspn(group, "\n")] = '\0';
	snprintf(path, sizeof(path), CGROUP_ROOT "%s/memory.pressure", group);
	return open_trigger(path);
}

bool os_pressure_begin(void)
{
	int saved = errno;
	bool begun = trigger_is_ours() || open_trigger_of_group() ||
		     open_trigger("/proc/pressure/memory");

	errno = saved;
	return begun;
}

static void close_trigger(void)
{
	if (trigger_is_ours())
		syscall(SYS_close, trigger.file);
	trigger.file = -1;
}

bool os_pressure_seen(void)
{
	struct pollfd look = {.fd = trigger.file, .events = POLLPRI};
	const struct timespec now = {0};
	int saved = errno;
	bool seen = trigger_is_ours() && syscall(SYS_ppoll, &look, 1, &now, NULL, 0) == 1;

	/* The group of this process was removed. */
	if (seen && look.revents & (POLLERR | POLLNVAL)) {
		close_trigger();
		seen = false;
	}
	errno = saved;
	return seen && look.revents & POLLPRI;
}

void os_pressure_in_child(void)
{
	int saved = errno;

	close_trigger();
	errno = saved;
}
