/* SPDX-License-Identifier: MIT */
/*
 * What the machine is: CPUs, nodes, last-level caches, and which per-CPU backend runs.
 *
 * A row is the index of a CPU's slots: its cpu_id where there are several nodes (so that a row
 * belongs to one node) or few CPUs, else its mm_cid (so that memory follows running threads, not
 * possible CPUs). Distance is the CPU's: whoever is behind which cache, an mm_cid does not tell.
 *
 * On the trylock backend each node has OS_STAND_INS more rows, of no CPU: the slots there stand in for one
 * whose lock a thread holds that was put aside. Without them the others of its CPU would do without
 * sheaves until it goes on.
 *
 * Invariants
 *  M1. `os` is written once, by os_init(), before any other thread can see a cache.
 *  M2. Every row a section can compute, and every number os_cpu() returns, is below os.nr_cpus.
 *  M3. Where there are several nodes a row is a CPU: node_of_row is its node.
 *
 * Callers: every layer.
 */
#ifndef SHEAF_OS_MACHINE_H
#define SHEAF_OS_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OS_MAX_ROWS  4096
#define OS_MAX_NODES 64
#define OS_NO_NODE   (-1)
/* Of a node. With 8 a pair costs 8 threads of one CPU 31 ns, and 70 without; 24 measured the same. */
#define OS_STAND_INS 8
#define RSEQ_CPU_ID  4 /* where an rseq area has the CPU's number */

enum os_backend {
	OS_BACKEND_TRYLOCK, /* a try-lock in every slot; failing means the slow path */
	OS_BACKEND_RSEQ,    /* restartable sequences, glibc's registration */
};

/*
 * CPUs by distance: cpu_at lists those of node 0, then those of node 1, ...; of a node those behind one
 * last-level cache follow each other. A CPU's place counts from its node's first.
 */
struct os_place {
	uint16_t place;
	uint16_t llc, llc_end; /* places of those behind the same last-level cache */
	uint16_t allowed;      /* the program might run there when it began */
};

struct os_node {
	uint16_t first, n; /* in cpu_at */
};

struct os_machine {
	ptrdiff_t rseq_offset; /* of the rseq area from the thread pointer */
	uint32_t id_offset;    /* of the row's number in the rseq area */
	uint32_t backend;
	uint32_t counting;     /* events are counted: see os/counters.h */
	uint32_t tsan;	       /* the thread sanitizer must be told what we do: see os/tsan.h */
	uint32_t nr_cpus;      /* their numbers are below */
	uint32_t nr_rows;      /* they, and after them nr_stand_ins of each node */
	uint32_t nr_stand_ins; /* as many as OS_MAX_ROWS has room for */
	uint32_t nr_nodes;
	uint32_t nr_allowed;   /* CPUs the program might run on when it began */
	uint32_t node_allowed; /* those of the node that has most of them */
	size_t page_size;      /* of the system: see os/memory.h */
	uint16_t node_of_row[OS_MAX_ROWS];
	/* CPUs behind one last-level cache have the same number. */
	uint16_t llc_of_cpu[OS_MAX_ROWS];
	struct os_place place_of[OS_MAX_ROWS];
	struct os_node node[OS_MAX_NODES];
	uint16_t cpu_at[OS_MAX_ROWS];
};

extern struct os_machine os __attribute__((visibility("hidden"))); /* no GOT on fast paths */

/* Find out all of `os`. Called once; reads /sys, never fails (what is unknown is one node). */
void os_init(void);

/* The row, and the number, of the CPU this thread runs on now. Hints: it may be another on return. */
unsigned int os_row(void);
unsigned int os_cpu(void);

/* False on a thread whose rseq area the kernel does not serve: no section can run there. */
bool os_registered(void);

static inline unsigned int os_node(void)
{
	return os.nr_nodes == 1 ? 0 : os.node_of_row[os_row()];
}

/*
 * Abort every section running on another CPU of this process, and order memory as if each of its
 * threads had executed a full fence. False if the kernel refuses.
 */
bool os_membarrier(void);
/* In linux/loaded.c, for a constructor as it takes the loader's lock: keep the shared object that this code is in
 * loaded. */
void os_stay_loaded(void);
/* In linux/constant.c. Whether this is in the program's own file, where nothing is written and nothing is unloaded. */
bool os_is_constant(const void *address);
/* To be called in a forked child. */
void os_after_fork(void);

/* The node the calling thread's memory policy asks for now, or OS_NO_NODE. */
int os_policy_node(void);

/* A number of the calling thread's that no other one has. */
uintptr_t os_self(void);

/* Sleep 50 µs, or on invented CPUs let another one run: for loops that wait for a thread's hand-over. */
void os_sleep_briefly(void);

/* Nanoseconds since some moment. */
uint64_t os_now(void);

/*
 * Milliseconds since some moment, a tick of the machine late at most; they wrap. Much cheaper than
 * os_now(), which reads a clock that waits for all instructions before it.
 */
uint32_t os_now_ms(void);

/* Random bits, for secrets and orders. */
uint64_t os_random(void);

/* Go on as with one node: there are no addresses for more. Only before memory is reserved. */
void os_forget_nodes(void);

/* How many mappings a process may have (vm.max_map_count). */
size_t os_mappings_limit(void);

/* CPUs of this machine: a term in slab sizes. */
unsigned int os_nr_cpus(void);

/* The CPU at a place of a node. */
static inline unsigned int os_cpu_at(unsigned int node, unsigned int place)
{
	return os.cpu_at[os.node[node].first + place];
}

/* A row that stands in for those of a node's CPUs. */
static inline unsigned int os_stand_in(unsigned int node, unsigned int i)
{
	return os.nr_cpus + node * os.nr_stand_ins + i;
}

/*
 * In places.c. For os_init(), when the nodes and the backend are known: add the rows that stand in, fill in places and
 * count who is allowed, from nr_cpus, node_of_row, llc_of_cpu and `allowed`.
 */
void os_find_places(void);

#endif
