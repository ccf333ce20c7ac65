/* SPDX-License-Identifier: MIT */
/* Where memory really is: the node of a page, according to the system. */
#ifndef SHEAF_TESTS_PLACEMENT_H
#define SHEAF_TESTS_PLACEMENT_H

#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/machine.h"

#define PLACEMENT_DEFAULT    0
#define PLACEMENT_PREFERRED  1
#define PLACEMENT_BIND	     2
#define PLACEMENT_INTERLEAVE 3
#define PLACEMENT_OF_ADDRESS 3 /* MPOL_F_NODE | MPOL_F_ADDR */

/* Has this system memory on the node, for this process? */
static inline bool has_memory(unsigned int node)
{
	unsigned long mask = 1ul << node;
	void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool has = syscall(SYS_mbind, page, 4096, PLACEMENT_BIND, &mask, 65, 0) == 0;

	munmap(page, 4096);
	return has;
}

/* The thread's policy for its memory; false: refused. */
static inline bool set_policy(int mode, unsigned long nodes)
{
	return syscall(SYS_set_mempolicy, mode, nodes ? &nodes : NULL, nodes ? 65 : 0) == 0;
}

/* The node of the page at this address, which was written. -1: unknown. */
static inline int node_of_page(const void *address)
{
	int node = -1;

	if (syscall(SYS_get_mempolicy, &node, NULL, 0, address, PLACEMENT_OF_ADDRESS))
		return -1;
	return node;
}

/* Is the written page where the node's objects should be? True also if no such node exists here. */
static inline bool is_placed_on(unsigned int node, const void *address)
{
	int where = os.memory_of_node[node];

	return where == OS_NO_NODE || !has_memory((unsigned int)where) ||
	       node_of_page(address) == where;
}

#endif
