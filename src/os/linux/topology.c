/* SPDX-License-Identifier: MIT */
/* See topology.h. Also numbers of the machine that are read later. */
#include "os/linux/topology.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/linux/file.h"
#include "os/machine.h"
#include "os/options.h"

#define MAPPINGS_LIMIT 65530 /* if the kernel does not report it */
#define MASK_BITS      (8 * sizeof(long))

/* Call set(cpu, value) for each number of a list such as "0-3,8". */
static void for_each_in_list(const char *list, void (*set)(unsigned int, unsigned int),
			     unsigned int value)
{
	while (*list >= '0' && *list <= '9') {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (; first <= last && first < OS_MAX_ROWS; first++)
			set((unsigned int)first, value);
		list = *end == ',' ? end + 1 : "";
	}
}

static void set_row(unsigned int cpu, unsigned int unused)
{
	(void)unused;
	if (cpu >= os.nr_cpus)
		os.nr_cpus = cpu + 1;
}

static void set_node(unsigned int cpu, unsigned int node)
{
	os.node_of_row[cpu] = (uint16_t)node;
	if (node >= os.nr_nodes)
		os.nr_nodes = node + 1;
}

static void set_llc(unsigned int cpu, unsigned int number)
{
	os.llc_of_cpu[cpu] = (uint16_t)number;
}

/*
 * M2 depends on this: neither the CPUs on which we may run nor those online bound what a section
 * reads. Returns false if the bound is unknown. The kernel copies as many bytes of its mask as
 * there are possible CPUs, and refuses if the buffer is too small.
 */
static bool find_rows(void)
{
	unsigned long mask[OS_MAX_ROWS / MASK_BITS];
	long bytes = syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);
	char text[256];

	if (os_file_read("/sys/devices/system/cpu/possible", text, sizeof(text)) > 0)
		for_each_in_list(text, set_row, 0);
	if (os.nr_cpus == 0)
		os.nr_cpus = bytes > 0 ? (uint32_t)bytes * 8 : 1;
	for (uint32_t cpu = 0; cpu < os.nr_cpus; cpu++)
		os.place_of[cpu].allowed =
			bytes <= 0 ||
			(cpu < (size_t)bytes * 8 && (mask[cpu / MASK_BITS] >> cpu % MASK_BITS & 1));
	return bytes > 0;
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
	char text[256];

	nr_present = 0;
	if (os_file_read("/sys/devices/system/cpu/present", text, sizeof(text)) > 0)
		for_each_in_list(text, count_present, 0);
	if (nr_present <= 1)
		nr_present = os.nr_cpus;
}

static void find_nodes(void)
{
	char path[64], text[4096];

	os.nr_nodes = 1;
	if (os_options.numa_fake) {
		uint32_t nodes = os_options.numa_fake;

		if (nodes > os.nr_cpus)
			nodes = os.nr_cpus;
		for (uint32_t row = 0; row < os.nr_cpus; row++)
			set_node(row, row * nodes / os.nr_cpus);
		return;
	}
	for (unsigned int node = 0; node < OS_MAX_NODES; node++) {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/cpulist", node);
		if (os_file_read(path, text, sizeof(text)) > 0)
			for_each_in_list(text, set_node, node);
	}
}

/* For one CPU, unless another CPU behind the same cache has already listed it. */
static void find_llc(unsigned int cpu, unsigned int unused)
{
	char path[80], text[4096];

	(void)unused;
	if (os.llc_of_cpu[cpu])
		return;
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/cache/index3/shared_cpu_list",
		 cpu);
	if (os_file_read(path, text, sizeof(text)) > 0)
		for_each_in_list(text, set_llc, cpu + 1);
}

/* 0 for CPUs without this file. */
static void find_llcs(void)
{
	char text[1024];

	if (os_file_read("/sys/devices/system/cpu/online", text, sizeof(text)) > 0)
		for_each_in_list(text, find_llc, 0);
}

bool topology_find(void)
{
	bool known = find_rows();

	find_present();
	find_nodes();
	find_llcs();
	return known;
}

unsigned int os_nr_cpus(void)
{
	return nr_present;
}

size_t os_mappings_limit(void)
{
	int saved = errno;
	char text[32];
	size_t limit = 0;

	if (os_file_read("/proc/sys/vm/max_map_count", text, sizeof(text)) > 0)
		limit = strtoul(text, NULL, 10);
	errno = saved;
	return limit ? limit : MAPPINGS_LIMIT;
}
