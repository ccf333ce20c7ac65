/* SPDX-License-Identifier: MIT */
/* Memory policies: which node a thread prefers, and which one memory is to come from. */
#include <linux/mempolicy.h>

#include "os/machine.h"
#include "os/memory.h"
#include "os/should_fail.h"

#define WEIGHTED_INTERLEAVE 6 /* newer than some headers */

static uint32_t interleaved; /* objects */

/* The node that comes after the last one, among these. */
static int next_in_policy(unsigned long nodes)
{
	unsigned int n =
		os_fetch_add_relaxed(&interleaved, 1) % (unsigned int)__builtin_popcountl(nodes);

	while (n--)
		nodes &= nodes - 1;
	return __builtin_ctzl(nodes);
}

/* The nearest of these; OS_NO_NODE if that is what the thread would get anyway. */
static int nearest_of(unsigned long nodes, bool preferred)
{
	unsigned int here = os_node();
	int mine = os.memory_of_node[here] == OS_NO_NODE ? (int)here : os.memory_of_node[here];

	if (nodes >> mine & 1 && !preferred)
		return OS_NO_NODE;
	for (unsigned int i = 0; i < os.nr_nodes; i++)
		if (nodes >> os_near(here, i) & 1)
			return (int)os_near(here, i);
	return OS_NO_NODE;
}

int os_policy_node(void)
{
	unsigned long nodes[OS_MAX_NODES / (8 * sizeof(long)) + 1] = {0};
	OS_KEEP_ERRNO;
	int mode = 0, node = OS_NO_NODE;

	if (os_syscall_may_fail(EPERM, get_mempolicy, &mode, nodes, OS_MAX_NODES + 1, NULL, 0) ==
		    0 &&
	    nodes[0]) {
		mode &= ~MPOL_MODE_FLAGS;
		node = mode == MPOL_INTERLEAVE || mode == WEIGHTED_INTERLEAVE
			       ? next_in_policy(nodes[0])
			       : nearest_of(nodes[0], mode == MPOL_PREFERRED);
	}
	if (node >= (int)os.nr_nodes)
		node = OS_NO_NODE;
	return node;
}

void os_prefer_node(void *address, size_t size, unsigned int node)
{
	OS_KEEP_ERRNO;
	int where = os.memory_of_node[node];
	unsigned long mask;

	if (where == OS_NO_NODE)
		return;
	mask = 1ul << where;
	/* If it is refused, as in a container without the node, the addresses are only labelled. */
	os_syscall_may_fail(EPERM, mbind, address, size, MPOL_PREFERRED, &mask, OS_MAX_NODES + 1,
			    0);
}
