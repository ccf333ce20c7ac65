/* SPDX-License-Identifier: MIT */
/*
 * A machine as `sheaf sim scale` sees it: which CPUs are near each other, and what a cache line
 * costs from each distance. Read from a text file, one fact a line; `#` begins a comment:
 *
 *   cpus 8                    numbered from 0
 *   threads 2                 of a core: CPU n and CPU n + cpus / 2 are of one (default: 1)
 *   node 0-3 memoryless       CPUs of a memory node, in the order of their numbers
 *   node 4-7
 *   socket 0-7                CPUs of a socket
 *   llc 0-3                   CPUs behind one last-level cache
 *   llc 4-7
 *   away 6-7 500000 1000000   these CPUs are away for the last 500000 ns of each 1000000 ns
 *   cache 16384               lines that a CPU's private cache holds
 *   misses 24                 lines in flight for a CPU, at most
 *   sibling 80                percent: how much longer own work takes while the core's other
 *                             thread works, too (default: 0)
 *   own 0.5                   nanoseconds, a cost of the list below
 *
 * Invariants
 *  D1. Every CPU is in exactly one node, one socket and one group behind a last-level cache. A
 *      group is inside one socket.
 *  D2. Every cost is given, and greater than 0.
 *  D3. At least one node has memory. A node without memory uses the next one that has some.
 *  D4. CPUs that come and go do so together. Some never do: while its CPU is away, a task continues
 *      on the nearest of these.
 *
 * Callers: scale/src/.
 */
#ifndef SHEAF_SCALE_MACHINE_H
#define SHEAF_SCALE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MACHINE_CPUS  1024 /* at most */
#define MACHINE_NODES 64

/*
 * Costs, in nanoseconds in the file and in picoseconds here. Those up to `far` are the ways to get
 * a line, from near to distant.
 */
#define MACHINE_COSTS(X)                                                                           \
	X(own, "an access to a line that this CPU's private cache holds, with what is around it")  \
	X(l3, "a line of the last-level cache that is in no private cache")                        \
	X(same_core, "a line of the CPU on the same core")                                         \
	X(same_llc, "a line of a CPU behind the same last-level cache")                            \
	X(same_socket, "a line of another CPU on the same socket")                                 \
	X(other_socket, "a line of a CPU on another socket")                                       \
	X(near, "a line of this node's memory")                                                    \
	X(far, "a line of another node's memory")                                                  \
	X(atomic, "what an atomic change costs beyond the access")                                 \
	X(section, "a restartable section on lines of its own")                                    \
	X(ahead, "how much of all that a CPU does while a load has not arrived")                   \
	X(pause, "one turn of a loop that waits for another CPU")                                  \
	X(call, "a system call to sleep or to wake that has nothing to do")                        \
	X(wake, "to wake a thread that sleeps")                                                    \
	X(woken, "from there until that thread runs")                                              \
	X(fault, "the first touch of a page of 4 KiB")                                             \
	X(barrier, "membarrier, of the caller")                                                    \
	X(barrier_cpu, "... and more for each CPU that runs")                                      \
	X(slice, "how long a thread runs while others wait for its CPU")                           \
	X(change, "from one thread of a CPU to the next")

enum machine_cost {
#define X(name, what) MACHINE_##name,
	MACHINE_COSTS(X)
#undef X
	MACHINE_NR_COSTS
};

struct machine {
	unsigned int nr_cpus, nr_nodes, nr_sockets, nr_groups;
	unsigned int threads;
	unsigned int misses, sibling;
	size_t cache_lines;
	uint64_t cost[MACHINE_NR_COSTS]; /* in ps */
	uint16_t node_of[MACHINE_CPUS], socket_of[MACHINE_CPUS], group_of[MACHINE_CPUS];
	uint16_t cpu_of_group[MACHINE_CPUS]; /* one of its CPUs */
	uint64_t away, period;		     /* in ps; 0: CPUs stay */
	uint16_t refuge[MACHINE_CPUS]; /* where tasks of this CPU go while it is away; or itself */
	uint16_t memory_node[MACHINE_NODES]; /* where pages of the node's CPUs come from */
};

/*
 * Read a machine. False if the file cannot be read or makes no sense: `error` then has one line,
 * FILE:LINE: what is wrong, and what would be right.
 */
bool machine_read(struct machine *machine, const char *path, char *error, size_t size);

/* The name of a cost as in the file. */
const char *machine_cost_name(enum machine_cost cost);

/* From one CPU to another: MACHINE_same_core ... MACHINE_other_socket; MACHINE_own from itself. */
enum machine_cost machine_distance(const struct machine *machine, unsigned int from,
				   unsigned int to);

#endif
