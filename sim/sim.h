/* SPDX-License-Identifier: MIT */
/*
 * The simulator: the library's own sources on invented CPUs (DESIGN R11).
 *
 * Threads are fibres of one real thread. Before every seam call (an atomic operation, a lock, a
 * barrier, a memory call, a yield) a scheduler fed by the seed may let another one go on:
 *
 *   fibres on different CPUs   interleave; a section in progress does not notice
 *   fibres on the same CPU     preempt each other: the section of the one put aside is aborted
 *   a fibre that migrates      loses its section too
 *
 * Invariants
 *  V1. The same configuration and the same bodies give the same run: sim_hash() tells.
 *  V2. Memory is sequentially consistent: missing fences are not found here.
 *  V3. The library's state is made once for a process, so each configuration runs in a process of
 *      its own: see sim_in_child().
 *
 * Callers: sim/kit/, tests/sim/.
 */
#ifndef SHEAF_SIM_SIM_H
#define SHEAF_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_ALWAYS 65536u /* a probability of one */

struct sim_config {
	uint64_t seed;
	unsigned int cpus;    /* 1 ... OS_MAX_ROWS */
	unsigned int nodes;   /* 1 ... OS_MAX_NODES; CPUs are dealt to them in blocks */
	unsigned int backend; /* enum os_backend */
	const char *options;  /* as SHEAF_OPTIONS; NULL: none */
	size_t page_size;     /* of the system; 0: OS_PAGE */

	/* Probabilities in 1/65536 for each step: */
	unsigned int switching; /* another fibre goes on */
	unsigned int migration; /* of a fibre that goes on: on another CPU */
	unsigned int signal;	/* the section in progress is aborted */
	unsigned int stall;	/* this fibre stands still for up to stall_steps */
	unsigned int stall_steps;
	/* ... and for each call: */
	unsigned int no_memory;		 /* os_commit() or os_reserve() is refused */
	unsigned int membarrier_refused; /* and sheaves of other CPUs are out of reach */

	size_t memory;	      /* bytes the system has to commit; 0: enough */
	bool silent;	      /* the library has no reason to report anything: it would be a bug */
	bool patient;	      /* a wait that should end by itself does not: who wakes it, is seen */
	unsigned int step_ns; /* how far the clock moves with a step; 0: 1000 */
	uint64_t max_steps;   /* a longer run has no progress: it is reported and aborted */

	/*
	 * Not chance, but this decides who goes on, for fibres that wait for nothing: at each step
	 * of `fibre`, and with SIM_NOBODY at the start and at each end of a fibre.
	 */
	unsigned int (*decide)(unsigned int fibre);
};
#define SIM_NOBODY (~0u)

/* Invent the machine. Before the first call of the library, once in a process. */
void sim_start(const struct sim_config *config);

/* Run n fibres, each on a CPU chosen by the seed, to their ends: then everything is quiet. */
void sim_run(unsigned int n, void (*body)(unsigned int fibre, void *data), void *data);

/* Go on on this CPU: for bodies that are bound to one, and for what a test does when all is quiet. */
void sim_go_to(unsigned int cpu);

/* Refuse memory and membarrier as configured, or not at all (the start). */
void sim_faults(bool on);

/* Random bits of the seed, for what fibres do. */
uint64_t sim_random(void);
/* 0 ... n-1 */
unsigned int sim_below(unsigned int n);
/* Mix something that happened into the hash. */
void sim_note(uint64_t what);
/* Of the schedule and everything noted so far. */
uint64_t sim_hash(void);
uint64_t sim_steps(void);
/* Locks that the running fibre holds: none, while a callback runs (DESIGN R13). */
bool sim_holds_locks(void);

/* Steps that a fibre made at most while it held a lock of this rank, since the last call. */
uint64_t sim_longest_hold(unsigned int rank);

/* Pages of slot rows that cost memory of their own, because a CPU wrote to them. */
size_t sim_row_pages(void);

/* One clear line with the seed, then abort(). */
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/*
 * Call run(data) in a forked child, since the library keeps its state for a process's life. Returns
 * what it returned (0 ... 255), or -1 if it crashed. *hash: its sim_hash().
 */
int sim_in_child(int (*run)(void *data), void *data, uint64_t *hash);

#endif
