/* SPDX-License-Identifier: MIT */
/*
 * The machine as Linux describes it in /sys: possible CPUs, nodes, last-level caches.
 *
 * Callers: src/os/linux/machine.c.
 */
#ifndef SHEAF_OS_LINUX_TOPOLOGY_H
#define SHEAF_OS_LINUX_TOPOLOGY_H

#include <stdbool.h>

/* Fill in nr_cpus, nr_nodes, node_of_row, llc_of_cpu and `allowed` of `os`. Returns false if no
 * bound of the CPU numbers is known. */
bool topology_find(void);

#endif
