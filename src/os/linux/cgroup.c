/* SPDX-License-Identifier: MIT */
/*
 * What the process's control group grants: memory, and CPU time, as a number of CPUs. A group never
 * gets more than the groups that contain it, up to the root of the hierarchy that this process
 * sees. Memory limits are read from both versions of control groups, CPU limits from version 2
 * only.
 *
 *   /proc/self/cgroup:  0::/a/b       memory.max, memory.high, cpu.max in ROOT/a/b, ROOT/a, ROOT
 *                       4:memory:/c   memory.limit_in_bytes in ROOT/memory/c, ROOT/memory
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/file.h"
#include "os/linux/linux.h"

#define FILE_NAME 32 /* bytes of the longest one, with a slash */

/* Not on the stack, which may be small. */
static char cgroup_text[4096] OS_LARGE;

/* The number at the beginning of a group's file; SIZE_MAX if there is none: no file, "max", -1.
 * Behind the group's path is room for FILE_NAME bytes. */
static size_t number_in(char *group, const char *file, size_t *second)
{
	char text[64], *end = group + strlen(group);
	size_t first;
	int length;

	snprintf(end, FILE_NAME, "/%s", file);
	length = os_file_read(group, text, sizeof(text));
	*end = '\0';
	if (length <= 0 || *text < '0' || *text > '9')
		return SIZE_MAX;
	first = strtoull(text, &end, 10);
	if (second)
		*second = strtoull(end, NULL, 10);
	return first;
}

/* Above memory.high the kernel slows the group down, so it is not memory to be counted on. */
static size_t memory_in(char *group, bool unified)
{
	size_t most = number_in(group, unified ? "memory.max" : "memory.limit_in_bytes", NULL),
	       high = unified ? number_in(group, "memory.high", NULL) : SIZE_MAX;

	return most < high ? most : high;
}

static size_t cpus_in(char *group, bool unified)
{
	size_t period = 0, quota = unified ? number_in(group, "cpu.max", &period) : SIZE_MAX;

	if (quota == SIZE_MAX || !period)
		return SIZE_MAX;
	return quota / period + (quota % period != 0);
}

/* In the group with this path, and in those around it, up to the first `root_length` characters. */
static size_t least_above(char *path, size_t root_length, bool unified,
			  size_t (*read)(char *group, bool unified))
{
	size_t least = SIZE_MAX, length = strlen(path), now;

	for (;;) {
		now = read(path, unified);
		least = now < least ? now : least;
		if (length <= root_length)
			return least;
		do
			length--;
		while (length > root_length && path[length] != '/');
		path[length] = '\0';
	}
}

/* Is memory in this list of controllers, which ends with a colon? */
static bool has_memory(const char *list)
{
	size_t length = strlen("memory");

	for (; *list && *list != ':'; list += strcspn(list, ",:"), list += *list == ',')
		if (!strncmp(list, "memory", length) && strchr(",:", list[length]))
			return true;
	return false;
}

static size_t least_of(const char *root, const char *groups,
		       size_t (*read)(char *group, bool unified))
{
	size_t least = SIZE_MAX;

	for (; *groups; groups += strcspn(groups, "\n"), groups += *groups == '\n') {
		const char *list = groups + strcspn(groups, ":\n"), *group;
		bool unified = !strncmp(list, "::", 2);
		char path[CGROUP_LONGEST + FILE_NAME];
		size_t now, length;
		int written;

		if (*list != ':' || !(unified || has_memory(list + 1)))
			continue;
		group = list + 1 + strcspn(list + 1, ":\n");
		if (*group != ':')
			continue;
		length = strlen(root) + (unified ? 0 : strlen("/memory"));
		written = snprintf(path, CGROUP_LONGEST, "%s%s%.*s", root, unified ? "" : "/memory",
				   (int)strcspn(group + 1, "\n"), group + 1);
		if (written < 0 || written >= CGROUP_LONGEST)
			continue;
		now = least_above(path, length, unified, read);
		least = now < least ? now : least;
	}
	return least;
}

size_t cgroup_memory_of(const char *root, const char *groups)
{
	return least_of(root, groups, memory_in);
}

size_t cgroup_cpus_of(const char *root, const char *groups)
{
	return least_of(root, groups, cpus_in);
}

const char *cgroup_list(void)
{
	int length = os_file_read("/proc/self/cgroup", cgroup_text, sizeof(cgroup_text));

	return length > 0 ? cgroup_text : "";
}
