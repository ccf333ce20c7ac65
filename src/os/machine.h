/* SPDX-License-Identifier: MIT */
/*
 * What the machine is: CPUs, nodes, last-level caches, and which per-CPU backend runs.
 *
 * A row is the index of a CPU's slots: its cpu_id where several nodes have CPUs (so that a row
 * belongs to one node) or CPUs are few, else its mm_cid (so that memory follows running threads,
 * not possible CPUs). Distance belongs to the CPU: an mm_cid does not say which CPUs share a cache.
 *
 * On the trylock backend each node has OS_STAND_INS additional rows that belong to no CPU. Their
 * slots replace a slot that is locked by a preempted thread. Without them, other threads on that
 * CPU could not use sheaves until the holder continues.
 *
 * Invariants
 *  MACHINE-M1. `os` is written by os_init(), and by os_forget_nodes() before memory is reserved, so
 *      before any other thread can see a cache; later, only `watched`, `memory` and `quota`
 *      change, and `counting` in a forked child. Argued: nothing else assigns to it.
 *  MACHINE-M2. Every row that a section can compute, and every number that os_cpu() returns, is
 *      below os.nr_cpus. If the system has, or may have, CPU numbers beyond, no section runs: rows
 *      are then CPU numbers modulo os.nr_cpus.
 *  MACHINE-M3. node_of_row is the node of the CPUs that compute the row. If several nodes have
 *      CPUs, a row is a CPU.
 *
 * Callers: every layer.
 */
#ifndef SHEAF_OS_MACHINE_H
#define SHEAF_OS_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/atomic.h"

#define OS_MAX_ROWS  4096
#define OS_MAX_NODES 64
#define OS_NO_NODE   (-1)
/* Per node. With 8, a pair costs 8 threads on one CPU 31 ns; without stand-ins, 70 ns; 24 measured
 * the same. */
#define OS_STAND_INS 8
#define RSEQ_CPU_ID  4 /* where the rseq area has the CPU number */

enum os_backend {
	OS_BACKEND_TRYLOCK, /* a try-lock in every slot; a failed try means the slow path */
	OS_BACKEND_RSEQ,    /* restartable sequences, registered by glibc */
};

/*
 * CPUs by distance: cpu_at lists the CPUs of node 0, then those of node 1, ...; within a node, CPUs
 * behind one last-level cache are adjacent. A CPU's place is relative to the first one of its node.
 */
struct os_place {
	uint16_t place;
	uint16_t llc, llc_end; /* places of the CPUs behind the same last-level cache */
	uint16_t cache;	       /* the same number for these CPUs */
	uint16_t allowed;      /* the program was allowed to run there when it began */
	uint16_t cpu_at;       /* not of this CPU: the next one in the list */
};

struct os_node {
	uint16_t first, n; /* in cpu_at */
};

struct os_machine {
	ptrdiff_t rseq_offset;	 /* offset of the rseq area from the thread pointer */
	ptrdiff_t thread_offset; /* from the thread pointer to the thread's number, or 0 */
	uint32_t id_offset;	 /* offset of the row number in the rseq area */
	uint32_t backend;
	const char *obstacle;  /* why restartable sequences do not run; NULL if they do */
	uint32_t counting;     /* events are counted: see os/counters.h */
	uint32_t tools;	       /* tools that the library reports to: os/memory_tools.h, os/tsan.h */
	uint32_t watched;      /* read it by os_watched() */
	uint32_t bulk_called;  /* bulk allocations are no section: trylock, counting, strict_numa */
	uint32_t nr_cpus;      /* CPU numbers are below this */
	uint32_t cpu_beyond;   /* the highest one, if it is not: see MACHINE-M2 */
	uint32_t unread;       /* files of /sys were refused: there may be more CPUs and nodes */
	uint32_t nr_rows;      /* of nr_cpus CPUs, and after these nr_stand_ins of each node */
	uint32_t nr_stand_ins; /* as many as fit into OS_MAX_ROWS */
	uint32_t nr_nodes;
	uint32_t nr_cpu_nodes; /* those with CPUs: others have only memory, or nothing */
	uint32_t quota;	       /* CPUs whose time its control group grants; 0: all, or unknown */
	uint32_t nr_allowed;   /* CPUs on which it was allowed to run then */
	uint32_t node_allowed; /* CPUs of the node that has most of them */
	size_t page_size;      /* the system's page size: see os/memory.h */
	/* Bytes of memory of the machine, or what the control group grants of it, at most a second
	 * ago while much is in use; SIZE_MAX where that is unknown. */
	size_t memory;
	/* From here on in few pages, if nodes and CPUs are few. */
	struct os_node node[OS_MAX_NODES];
	/* Whose memory a node uses: its own, or the nearest node's; OS_NO_NODE: any. */
	int16_t memory_of_node[OS_MAX_NODES];
	uint16_t node_of_row[OS_MAX_ROWS];
	struct os_place place_of[OS_MAX_ROWS];
	uint8_t near[OS_MAX_NODES][OS_MAX_NODES]; /* each node, and the others by distance */
};

extern struct os_machine os __attribute__((visibility("hidden"))); /* no GOT on fast paths */

/* Fill in `os`. Called once; reads /sys and never fails (unknown nodes count as one). */
void os_init(void);

/* --- linux/backend.c -------------------------------------------------------------------------- */

/* The row, and the number, of the CPU on which this thread runs now. Hints: the thread may have
 * moved on return. */
unsigned int os_row(void);
unsigned int os_cpu(void);

/* False in a thread whose rseq area the kernel does not maintain: no section can run there. */
bool os_registered(void);

/* Abort every section that runs on another CPU of this process, and order memory as if each of its
 * threads had executed a full fence. Returns false if the kernel refuses. */
bool os_membarrier(void);
/* For a constructor: register for os_membarrier() if this is the process's only thread. Beside
 * others the kernel waits for all CPUs, 10 ms, and the first use would. */
void os_register_early(void);
/* In a forked child. */
void os_after_fork(void);

/* Slow calls check each object that the program gets or frees. Another thread may set it: with the
 * first group, or the first cache of secrets. */
static inline bool os_watched(void)
{
	return os_unlikely(os_load_relaxed(&os.watched));
}

/* This many CPUs, or fewer if the process's control group does not grant their time. */
static inline unsigned int os_within_quota(unsigned int cpus)
{
	unsigned int quota = os_load_relaxed(&os.quota);

	return quota && cpus > quota ? quota : cpus;
}

static inline unsigned int os_node(void)
{
	return os.nr_nodes == 1 ? 0 : os.node_of_row[os_row()];
}

/* --- others of linux/ ------------------------------------------------------------------------- */

/* In thread.c. A number that identifies the calling thread. */
uintptr_t os_self(void);
/* The thread's number in the system and its tools. Takes a system call, or a load
 * (os.thread_offset). */
uint32_t os_thread(void);
/* In policy.c. The node that the calling thread's memory policy prefers now, or OS_NO_NODE. */
int os_policy_node(void);
/* In loaded.c, for a constructor because it takes the loader's lock: keep the shared object
 * that contains this code loaded. */
void os_stay_loaded(void);
/* In constant.c. Returns true if this address is in the program's own file, in memory that is
 * never written or unloaded. */
bool os_is_constant(const void *address);

/* --- linux/machine.c -------------------------------------------------------------------------- */

/* Sleep 50 µs, or let another invented CPU run: for loops that wait for another thread. */
void os_sleep_briefly(void);

/* Nanoseconds since an arbitrary moment. */
uint64_t os_now(void);

/* Milliseconds since an arbitrary moment, at most one tick late; the number wraps. Much cheaper
 * than os_now(), which reads a clock that waits for all earlier instructions. */
uint32_t os_now_ms(void);

/* Random bits, for secrets and for orders. */
uint64_t os_random(void);

/* Continue as if there were one node, because there are no addresses for more. Call it only before
 * memory is reserved. */
void os_forget_nodes(void);

/* In linux/topology.c, as the next. The number of mappings that a process may have
 * (vm.max_map_count). */
size_t os_mappings_limit(void);

/* CPUs of this machine: a term in slab sizes. */
unsigned int os_nr_cpus(void);

/* The CPU at a place of a node. */
static inline unsigned int os_cpu_at(unsigned int node, unsigned int place)
{
	return os.place_of[os.node[node].first + place].cpu_at;
}

/* The i-th of all nodes by their distance from this one, which is the first, 0. */
static inline unsigned int os_near(unsigned int node, unsigned int i)
{
	return os.near[node][i];
}

/* A row that replaces a locked slot of this node's CPUs. */
static inline unsigned int os_stand_in(unsigned int node, unsigned int i)
{
	return os.nr_cpus + node * os.nr_stand_ins + i;
}

/* In places.c. For os_init(), when the nodes and the backend are known: add the stand-in rows, fill
 * in places and count the allowed CPUs, from nr_cpus, node_of_row, `cache` and `allowed`. */
void os_find_places(void);

/* In places.c, for os_init(): replace the distances in `near`, if they are known, by the nodes in
 * that order. Of nodes at the same distance, those with the next higher numbers come first. */
void os_order_nodes(bool known);

/* In linux/start.c. Report which backend runs, if an option asks for it, and options that cannot be
 * followed. Called after os_init(), with no lock held. */
void os_report_start(void);

#endif
