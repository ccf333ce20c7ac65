/* SPDX-License-Identifier: MIT */
/*
 * Linked to a test, replaces what /sys says of CPUs and nodes by the text of INVENTED_MACHINE, if
 * that is set: KEY=VALUE, separated by semicolons. A file without its key does not exist;
 * `possible` and `present` are then the machine's own.
 *
 *     possible, present, memory   the lists of these CPUs; the list of nodes with memory
 *     nodeN, offlineN, distanceN  a node's list of CPUs; those that are offline; its distances
 *
 * The nodes that have a list are online.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/file.h"

unsigned int invented_reads, invented_misses;

/* Copy the value of the key; returns its length, or -1. */
static int value_of(const char *key, char *text, size_t size)
{
	const char *at = getenv("INVENTED_MACHINE");
	size_t length = strlen(key);

	while (at) {
		if (!strncmp(at, key, length) && at[length] == '=')
			return snprintf(text, size, "%.*s\n", (int)strcspn(at + length + 1, ";"),
					at + length + 1);
		at = strchr(at, ';');
		at += at != NULL;
	}
	return -1;
}

static bool is_in_list(unsigned int number, const char *list)
{
	while (*list >= '0' && *list <= '9') {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (number >= first && number <= last)
			return true;
		list = *end == ',' ? end + 1 : "";
	}
	return false;
}

/* As in /sys, a list of the nodes, here without ranges. */
static int online_nodes(char *text, size_t size)
{
	char key[16], unused[4096];
	int length = 0;

	for (unsigned int node = 0; node < 64; node++) {
		snprintf(key, sizeof(key), "node%u", node);
		if (value_of(key, unused, sizeof(unused)) >= 0)
			length += snprintf(text + length, size - (size_t)length, "%s%u",
					   length ? "," : "", node);
	}
	return length ? length : -1;
}

static int read_real(const char *path, char *text, size_t size)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? -1 : read(file, text, size - 1);

	if (file >= 0)
		close(file);
	if (length >= 0)
		text[length] = '\0';
	return (int)length;
}

/* The key of this path; false: the file is not replaced. */
static bool key_of(const char *path, char *key, size_t size, int *cpu)
{
	static const char cpus[] = "/sys/devices/system/cpu/",
			  nodes[] = "/sys/devices/system/node/";
	char what[16] = "";
	unsigned int node;

	if (!strncmp(path, cpus, strlen(cpus))) {
		snprintf(key, size, "%s", path + strlen(cpus));
		return !strcmp(key, "possible") || !strcmp(key, "present");
	}
	if (strncmp(path, nodes, strlen(nodes)))
		return false;
	path += strlen(nodes);
	if (!strcmp(path, "has_memory"))
		snprintf(key, size, "memory");
	else if (!strcmp(path, "online"))
		snprintf(key, size, "online");
	else if (sscanf(path, "node%u/cpu%d/online", &node, cpu) == 2)
		snprintf(key, size, "offline%u", node);
	else if (sscanf(path, "node%u/%15s", &node, what) == 2)
		snprintf(key, size, "%s%u", strcmp(what, "distance") ? "node" : what, node);
	return true;
}

static int read_invented(const char *path, char *text, size_t size)
{
	char key[64] = "";
	int cpu = -1, length;

	if (!getenv("INVENTED_MACHINE") || !key_of(path, key, sizeof(key), &cpu))
		return read_real(path, text, size);
	if (!strcmp(key, "online"))
		return online_nodes(text, size);
	length = value_of(key, text, size);
	if (length < 0 && *key == 'p')
		return read_real(path, text, size);
	return cpu >= 0 && !(length > 0 && is_in_list((unsigned int)cpu, text)) ? -1 : length;
}

int os_file_read(const char *path, char *text, size_t size)
{
	int length = read_invented(path, text, size);

	/* With some options, and under tools, it also reads the limits of the control group. */
	invented_reads += !strncmp(path, "/sys/devices/", strlen("/sys/devices/"));
	invented_misses += length < 0 && strstr(path, "/node");
	return length;
}
