/* SPDX-License-Identifier: MIT */
/*
 * Triggers of the kernel's pressure stall information; see os/pressure.h.
 *
 * With system calls: the C library's functions are cancellation points, and a thread that is
 * cancelled in a round of housekeeping would leave it held.
 */
#include "os/pressure.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "os/file.h"
#include "os/linux/linux.h"

static struct os_descriptor trigger = {.file = -1};

static bool open_trigger(const char *path)
{
	char text[64];
	int length = snprintf(text, sizeof(text), "some %d %d", OS_PRESSURE_STALL_US,
			      OS_PRESSURE_WINDOW_US);
	int file = os_file_open(path, O_RDWR | O_NONBLOCK);

	if (os_descriptor_keep(&trigger, file) &&
	    syscall(SYS_write, trigger.file, text, (size_t)length + 1) >= 0)
		return true;
	os_descriptor_close(&trigger);
	return false;
}

/* The group of the unified hierarchy. */
static bool open_trigger_of_group(void)
{
	const char *groups = cgroup_list(), *group;
	char path[CGROUP_LONGEST];
	int length;

	group = !strncmp(groups, "0::/", 4) ? groups : strstr(groups, "\n0::/");
	if (!group)
		return false;
	group = strchr(group, '/');
	length = snprintf(path, sizeof(path), CGROUP_ROOT "%.*s/memory.pressure",
			  (int)strcspn(group, "\n"), group);
	return length > 0 && (size_t)length < sizeof(path) && open_trigger(path);
}

bool os_pressure_begin(void)
{
	OS_KEEP_ERRNO;

	return os_descriptor_is_ours(&trigger) || open_trigger_of_group() ||
	       open_trigger("/proc/pressure/memory");
}

bool os_pressure_seen(void)
{
	struct pollfd look = {.fd = trigger.file, .events = POLLPRI};
	const struct timespec now = {0};
	OS_KEEP_ERRNO;
	bool seen =
		os_descriptor_is_ours(&trigger) && syscall(SYS_ppoll, &look, 1, &now, NULL, 0) == 1;

	/* The group of this process was removed. */
	if (seen && look.revents & (POLLERR | POLLNVAL)) {
		os_descriptor_close(&trigger);
		seen = false;
	}
	return seen && look.revents & POLLPRI;
}

void os_pressure_in_child(void)
{
	OS_KEEP_ERRNO;

	os_descriptor_close(&trigger);
}
