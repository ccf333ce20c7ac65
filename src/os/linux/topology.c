/* SPDX-License-Identifier: MIT */
/* CPUs, nodes and last-level caches, as /sys describes them; and numbers of the machine that are
 * read later. At the first use, so by one thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/file.h"
#include "os/linux/linux.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "os/should_fail.h"

#define MAPPINGS_LIMIT 65530 /* if the kernel does not report it */
#define MASK_BITS      (8 * sizeof(long))
#define NOT_LISTED     UINT16_MAX
#define FARTHEST       255 /* of all distances */

/* Read a file of /sys: what it says is not asked again. */
static int read_shown(const char *path, char *text, size_t size)
{
	int length = os_file_read(path, text, size);

	os.unread |= length < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM);
	return length;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The number that the text begins with, or one beyond the tables; moves behind it. As strtoul(),
 * whose pages of the C library a start need not touch. */
static unsigned long number_at(const char **text)
{
	unsigned long number = 0;

	for (; is_digit(**text); (*text)++)
		if (number <= UINT16_MAX)
			number = number * 10 + (unsigned long)(**text - '0');
	return number;
}

/* Call set(cpu, value) for each number of a list such as "0-3,8". */
static void for_each_in_list(const char *list, void (*set)(unsigned int, unsigned int),
			     unsigned int value)
{
	while (is_digit(*list)) {
		unsigned long first = number_at(&list), last = first;

		if (*list == '-' && *++list)
			last = number_at(&list);
		for (; first <= last && first < OS_MAX_ROWS; first++)
			set((unsigned int)first, value);
		list += *list == ',';
	}
}

/* Texts of files: not on the stack, which may be small. */
static char present[4096] OS_LARGE, list_now[4096] OS_LARGE;

/* As for_each_in_list(), for the list in this file; false: there is none. */
static bool for_each_in_file(const char *path, void (*set)(unsigned int, unsigned int),
			     unsigned int value)
{
	bool found = read_shown(path, list_now, sizeof(list_now)) > 0;

	if (found)
		for_each_in_list(list_now, set, value);
	return found;
}

/* The number after the last one of an ascending list; 0 if it is empty. */
static unsigned long end_of_list(const char *list)
{
	unsigned long end = 0;

	while (is_digit(*list) || *list == ',' || *list == '-')
		if (is_digit(*list))
			end = number_at(&list) + 1;
		else
			list++;
	return end;
}

/* Its text becomes empty, if there is no such file. Returns end_of_list(). */
static unsigned long read_list(const char *path, char *text, size_t size)
{
	if (read_shown(path, text, size) <= 0)
		*text = '\0';
	return end_of_list(text);
}

static void set_node(unsigned int cpu, unsigned int node)
{
	os.node_of_row[cpu] = (uint16_t)node;
	if (node >= os.nr_nodes)
		os.nr_nodes = node + 1;
}

static void set_llc(unsigned int cpu, unsigned int number)
{
	os.place_of[cpu].cache = (uint16_t)number;
}

static unsigned long end_of_mask(const unsigned long *mask, size_t words)
{
	while (words && !mask[words - 1])
		words--;
	return words ? words * MASK_BITS - (unsigned long)__builtin_clzl(mask[words - 1]) : 0;
}

/*
 * MACHINE-M2 depends on this: neither the CPUs on which we may run nor those online bound what a
 * section reads. If any of these is beyond the possible ones, what /sys says is not about this
 * system. Returns false if the bound is unknown. The kernel copies as many bytes of its mask as
 * there are possible CPUs, and refuses if the buffer is too small.
 */
static bool find_rows(void)
{
	unsigned long mask[OS_MAX_ROWS / MASK_BITS], possible, seen, end = 0;
	char text[512];
	long bytes = os_syscall_may_fail(EPERM, sched_getaffinity, 0, sizeof(mask), mask);

	possible = read_list("/sys/devices/system/cpu/possible", text, sizeof(text));
	if (possible > 2 || !possible)
		end = read_list("/sys/devices/system/cpu/present", present, sizeof(present));
	seen = bytes > 0 ? end_of_mask(mask, (size_t)bytes / sizeof(long)) : 0;
	seen = seen > end ? seen : end;
	if (possible == 0)
		possible = bytes > 0 ? (unsigned long)bytes * 8 : seen ? seen : 1;
	os.nr_cpus = possible < OS_MAX_ROWS ? (uint32_t)possible : OS_MAX_ROWS;
	end = possible > seen ? possible : seen;
	os.cpu_beyond = end > os.nr_cpus ? (uint32_t)end - 1 : 0;
	for (uint32_t cpu = 0; cpu < os.nr_cpus; cpu++)
		os.place_of[cpu].allowed =
			bytes <= 0 ||
			(cpu < (size_t)bytes * 8 && (mask[cpu / MASK_BITS] >> cpu % MASK_BITS & 1));
	return bytes > 0;
}

/* Of two possible CPUs both count, present or not: see find_present(). */
static void for_each_present(void (*set)(unsigned int, unsigned int))
{
	if (os.nr_cpus > 2)
		for_each_in_list(present, set, 0);
	else
		for (unsigned int cpu = 0; cpu < os.nr_cpus; cpu++)
			set(cpu, 0);
}

static unsigned int nr_present;

static void count_present(unsigned int cpu, unsigned int unused)
{
	(void)cpu, (void)unused;
	nr_present++;
}

/* Counted as the kernel does for its slab orders: present CPUs, or possible ones if only one is
 * present. */
static void find_present(void)
{
	nr_present = 0;
	for_each_present(count_present);
	if (nr_present <= 1)
		nr_present = os.nr_cpus;
}

static void invent_nodes(void)
{
	uint32_t nodes = os_options.numa_fake < os.nr_cpus ? os_options.numa_fake : os.nr_cpus;

	for (uint32_t row = 0; row < os.nr_cpus; row++)
		set_node(row, row * nodes / os.nr_cpus);
}

/* Nodes that the kernel shows. An offline CPU is in no list, but in a folder of its node. */
static uint64_t nodes_shown;

static void find_node_of_offline(unsigned int cpu, unsigned int unused)
{
	char path[80], text[16];

	(void)unused;
	for (unsigned int node = 0; node < OS_MAX_NODES && os.node_of_row[cpu] == NOT_LISTED;
	     node++) {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/cpu%u/online", node,
			 cpu);
		if ((nodes_shown >> node & 1) && read_shown(path, text, sizeof(text)) > 0)
			set_node(cpu, node);
	}
}

static void find_cpus_of_node(unsigned int node, unsigned int unused)
{
	char path[64];

	(void)unused;
	if (node >= OS_MAX_NODES)
		return;
	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/cpulist", node);
	if (for_each_in_file(path, set_node, node))
		nodes_shown |= UINT64_C(1) << node;
}

static void find_nodes_of_cpus(const char *nodes)
{
	nodes_shown = 0;
	for (uint32_t cpu = 0; cpu < os.nr_cpus; cpu++)
		os.node_of_row[cpu] = NOT_LISTED;
	for_each_in_list(nodes, find_cpus_of_node, 0);
	if (nodes_shown & (nodes_shown - 1))
		for_each_present(find_node_of_offline);
	for (uint32_t cpu = 0; cpu < os.nr_cpus; cpu++)
		if (os.node_of_row[cpu] == NOT_LISTED)
			os.node_of_row[cpu] = 0;
}

static void set_memory(unsigned int node, unsigned int unused)
{
	(void)unused;
	if (node >= OS_MAX_NODES)
		return;
	os.memory_of_node[node] = (int16_t)node;
	if (node >= os.nr_nodes)
		os.nr_nodes = node + 1;
}

/* A line of distances has a number for each node that is shown. */
static void read_distances(unsigned int from, uint8_t *distance)
{
	char path[64], text[512], *at = text;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/distance", from);
	if (read_shown(path, text, sizeof(text)) <= 0)
		return;
	for (unsigned int node = 0; node < os.nr_nodes && *at; node++)
		if (nodes_shown >> node & 1)
			distance[node] = (uint8_t)strtoul(at, &at, 10);
}

static void order_nodes(void)
{
	for (unsigned int from = 0; from < os.nr_nodes && os.nr_nodes > 1; from++) {
		memset(os.near[from], FARTHEST, sizeof(os.near[from]));
		if (nodes_shown >> from & 1)
			read_distances(from, os.near[from]);
	}
	os_order_nodes(true);
}

static int16_t nearest_memory(unsigned int from)
{
	for (unsigned int i = 0; i < os.nr_nodes; i++)
		if (os.memory_of_node[os_near(from, i)] == (int16_t)os_near(from, i))
			return (int16_t)os_near(from, i);
	return OS_NO_NODE;
}

static void find_memory(bool several)
{
	bool known =
		several && for_each_in_file("/sys/devices/system/node/has_memory", set_memory, 0);

	order_nodes();
	for (unsigned int node = 0; node < os.nr_nodes; node++)
		if (!known)
			set_memory(node, 0);
		else if (os.memory_of_node[node] == OS_NO_NODE)
			os.memory_of_node[node] = nearest_memory(node);
}

static void find_nodes(void)
{
	char nodes[512];
	bool several = read_list("/sys/devices/system/node/online", nodes, sizeof(nodes)) > 1;

	os.nr_nodes = 1;
	for (unsigned int node = 0; node < OS_MAX_NODES; node++)
		os.memory_of_node[node] = OS_NO_NODE;
	if (os_options.numa_fake) {
		invent_nodes();
		os_order_nodes(false);
		return;
	}
	/* Of one node, all that more files could say is known. */
	find_nodes_of_cpus(several ? nodes : "");
	find_memory(several);
}

/* For one CPU, unless another CPU with the same hardware cache has already listed it. 0 for CPUs
 * without this file. */
static void find_llc(unsigned int cpu, unsigned int unused)
{
	char path[80];

	(void)unused;
	if (os.place_of[cpu].cache)
		return;
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/cache/index3/shared_cpu_list",
		 cpu);
	for_each_in_file(path, set_llc, cpu + 1);
}

bool topology_find(void)
{
	bool known = find_rows();

	find_present();
	find_nodes();
	/* The order of others needs more than one. */
	if (os.nr_cpus > 2)
		for_each_present(find_llc);
	return known;
}

unsigned int os_nr_cpus(void)
{
	return nr_present;
}

size_t os_mappings_limit(void)
{
	OS_KEEP_ERRNO;
	char text[32];
	size_t limit = 0;

	if (os_file_read("/proc/sys/vm/max_map_count", text, sizeof(text)) > 0)
		limit = strtoul(text, NULL, 10);
	return limit ? limit : MAPPINGS_LIMIT;
}
