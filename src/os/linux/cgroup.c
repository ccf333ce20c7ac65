/* SPDX-License-Identifier: MIT */
/* Limits of control groups; see cgroup.h. */
#include "os/linux/cgroup.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/linux/file.h"

#define LONGEST 1024 /* a path; groups with longer ones are not looked at */

/* The number at the beginning of a group's file; SIZE_MAX if there is none: no file, "max", -1. */
static size_t number_in(const char *group, const char *file, size_t *second)
{
	char path[LONGEST + 32], text[64], *end;
	size_t first;

	snprintf(path, sizeof(path), "%s/%s", group, file);
	if (os_file_read(path, text, sizeof(text)) <= 0 || *text < '0' || *text > '9')
		return SIZE_MAX;
	first = strtoull(text, &end, 10);
	if (second)
		*second = strtoull(end, NULL, 10);
	return first;
}

/* Above memory.high the kernel slows the group down, so it is not memory to be counted on. */
static size_t memory_in(const char *group, bool unified)
{
	size_t most = number_in(group, unified ? "memory.max" : "memory.limit_in_bytes", NULL),
	       high = unified ? number_in(group, "memory.high", NULL) : SIZE_MAX;

	return most < high ? most : high;
}

static size_t cpus_in(const char *group, bool unified)
{
	size_t period = 0, quota = unified ? number_in(group, "cpu.max", &period) : SIZE_MAX;

	if (quota == SIZE_MAX || !period)
		return SIZE_MAX;
	return quota / period + (quota % period != 0);
}

/* In the group with this path, and in those around it, up to the first `root_length` characters. */
static size_t least_above(char *path, size_t root_length, bool unified,
			  size_t (*read)(const char *group, bool unified))
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
		       size_t (*read)(const char *group, bool unified))
{
	size_t least = SIZE_MAX;

	for (; *groups; groups += strcspn(groups, "\n"), groups += *groups == '\n') {
		const char *list = groups + strcspn(groups, ":\n"), *group;
		bool unified = !strncmp(list, "::", 2);
		char path[LONGEST];
		size_t now, length;
		int written;

		if (*list != ':' || !(unified || has_memory(list + 1)))
			continue;
		group = list + 1 + strcspn(list + 1, ":\n");
		if (*group != ':')
			continue;
		length = strlen(root) + (unified ? 0 : strlen("/memory"));
		written = snprintf(path, sizeof(path), "%s%s%.*s", root, unified ? "" : "/memory",
				   (int)strcspn(group + 1, "\n"), group + 1);
		if (written < 0 || (size_t)written >= sizeof(path))
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

static size_t of_this_process(size_t (*of)(const char *root, const char *groups))
{
	char groups[4096];

	if (os_file_read("/proc/self/cgroup", groups, sizeof(groups)) <= 0)
		return SIZE_MAX;
	return of(CGROUP_ROOT, groups);
}

size_t cgroup_memory(void)
{
	return of_this_process(cgroup_memory_of);
}

size_t cgroup_cpus(void)
{
	return of_this_process(cgroup_cpus_of);
}
