/* SPDX-License-Identifier: MIT */
/*
 * What the machine is: CPUs, nodes, last-level caches, and which per-CPU backend runs.
 *
 * A row is the index of a CPU's slots: its cpu_id where there are several nodes (so that a row
 * belongs to one node) or few CPUs, else its mm_cid (so that memory follows running threads, not
 * possible CPUs).
 *
 * Invariants
 *  M1. `os` is written once, by os_init(), before any other thread can see a cache.
 *  M2. Every row a section can compute is below os.nr_rows.
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
#define RSEQ_CPU_ID  4 /* where an rseq area has the CPU's number */

enum os_backend {
	OS_BACKEND_TRYLOCK, /* a try-lock in every slot; failing means the slow path */
	OS_BACKEND_RSEQ,    /* restartable sequences, glibc's registration */
};

struct os_machine {
	ptrdiff_t rseq_offset; /* of the rseq area from the thread pointer */
	uint32_t id_offset;    /* of the row's number in the rseq area */
	uint32_t backend;
	uint32_t counting; /* events are counted: see os/counters.h */
	uint32_t nr_rows;
	uint32_t nr_nodes;
	uint16_t node_of_row[OS_MAX_ROWS];
	uint16_t llc_of_row[OS_MAX_ROWS];
};

extern struct os_machine os __attribute__((visibility("hidden"))); /* no GOT on fast paths */

/* Find out all of `os`. Called once; reads /sys, never fails (what is unknown is one node). */
void os_init(void);

/* The row of the CPU this thread runs on now. A hint: it may be another one on return. */
unsigned int os_row(void);

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
/* Keep the shared object that this code is in loaded. For a constructor: takes the loader's lock. */
void os_stay_loaded(void);
/* To be called in a forked child. */
void os_after_fork(void);

/* The node the calling thread's memory policy asks for now, or OS_NO_NODE. */
int os_policy_node(void);

/* A number of the calling thread's that no other one has. */
uintptr_t os_self(void);

/* Let others run: for loops that wait for a thread's hand-over. */
void os_yield(void);

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

/* CPUs of this machine: a term in slab sizes. */
unsigned int os_nr_cpus(void);

#endif
