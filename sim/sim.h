/* SPDX-License-Identifier: MIT */
/*
 * The simulator: the library's own sources on simulated CPUs (docs/design.md, R11).
 *
 * Threads are fibres of one real thread. Before every seam call (an atomic operation, a lock, a
 * barrier, a memory call, a yield) the fibre says what it is about to do (os/step.h), and a
 * scheduler driven by the seed may switch to another fibre:
 *
 *   fibres on different CPUs   interleave; a section in progress does not notice
 *   fibres on the same CPU     preempt each other: the preempted fibre's section is aborted
 *   a fibre that migrates      loses its section too
 *   a fibre that forks         continues alone in a real child process: sim_fork()
 *
 * Invariants
 *  V1. The same configuration and the same bodies give the same run, as sim_hash() shows.
 *  V2. Memory is sequentially consistent: missing fences are not found here.
 *  V3. The library initialises its state once per process, so each configuration runs in a separate
 *      process: see sim_in_child().
 *
 * Callers: sim/kit/, scale/src/, tests/sim/.
 */
#ifndef SHEAF_SIM_SIM_H
#define SHEAF_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/step.h"

#define SIM_ALWAYS 65536u /* a probability of one */

/*
 * The functions of a simulation that also has a price for each step (scale/src/). Its `decide`
 * keeps the running fibre; other fibres continue where it calls sim_go_on() (state.h). It has its
 * own locks in place of os/lock.c.
 */
struct sim_prices {
	const uint16_t *node_of_cpu, *llc_of_cpu;
	uint64_t (*now)(void);			     /* the running fibre's clock, in ns */
	void (*section)(void);			     /* the fibre enters a section */
	void (*barrier)(void);			     /* the fibre calls membarrier */
	void (*sleep)(uint64_t ns);		     /* the fibre sleeps */
	void (*discard)(void *address, size_t size); /* the fibre returns memory */
};

struct sim_config {
	uint64_t seed;
	unsigned int cpus;    /* 1 ... OS_MAX_ROWS */
	unsigned int nodes;   /* 1 ... OS_MAX_NODES; CPUs are assigned to them in blocks */
	unsigned int backend; /* enum os_backend */
	const char *options;  /* in the form of SHEAF_OPTIONS; NULL: none */
	size_t page_size;     /* the system's page size; 0: OS_PAGE */

	/* Probabilities in 1/65536 for each step: */
	unsigned int switching; /* another fibre continues */
	unsigned int migration; /* a fibre that continues does so on another CPU */
	unsigned int signal;	/* the section in progress is aborted */
	unsigned int stall;	/* this fibre pauses for up to stall_steps */
	unsigned int stall_steps;
	/* ... and for each call: */
	unsigned int no_memory;		 /* os_commit() or os_reserve() is refused */
	unsigned int membarrier_refused; /* and other CPUs' sheaves cannot be reached */

	size_t memory;	      /* bytes that the system can commit; 0: enough */
	bool no_assertions;   /* os_assert() checks nothing */
	bool silent;	      /* the library must not report anything: a report is a bug */
	bool patient;	      /* waits with a timeout do not end: missing wake-ups are found */
	bool spread;	      /* fibre n begins on CPU n modulo cpus, not on a random one */
	unsigned int step_ns; /* how far the clock advances per step; 0: 1000 */
	uint64_t max_steps;   /* a longer run makes no progress: it is reported and aborted */
	bool trace;	      /* print each step; without it, a failure prints the last ones */

	/*
	 * If set, this function instead of chance decides which fibre continues, for fibres that
	 * wait for nothing: at each step of `fibre`, and with SIM_NOBODY at the start and at each
	 * end of a fibre.
	 */
	unsigned int (*decide)(unsigned int fibre);

	const struct sim_prices *prices; /* NULL: each step takes step_ns */
};
#define SIM_NOBODY (~0u)

/* Set up the machine. Before the first call of the library, once per process. */
void sim_start(const struct sim_config *config);

/* Run n fibres, each on a CPU chosen by the seed, until all have ended: then everything is
 * quiet. */
void sim_run(unsigned int n, void (*body)(unsigned int fibre, void *data), void *data);

/* Continue on this CPU: for bodies that are bound to a CPU, and for a test's actions when
 * everything is quiet. */
void sim_go_to(unsigned int cpu);

/* For `decide`: run this in the running fibre, as a signal handler that interrupts it. Its section
 * in progress is aborted. */
void sim_interrupt(void (*handler)(void));

/* Refuse memory and membarrier as configured, or not at all (the initial state). */
void sim_faults(bool on);

/* Random bits from the seed, for the bodies of fibres. */
uint64_t sim_random(void);
/* 0 ... n-1 */
unsigned int sim_below(unsigned int n);
/* Mix an event into the hash. */
void sim_note(uint64_t what);
/* The hash of the schedule and of everything noted so far. */
uint64_t sim_hash(void);
uint64_t sim_steps(void);
/*
 * True if the running fibre holds a lock: it must not, while a callback runs (docs/design.md, R13).
 */
bool sim_holds_locks(void);

/* The most steps that a fibre made while it held a lock of this rank, since the last call. */
uint64_t sim_longest_hold(unsigned int rank);

/* Pages of slot rows that use memory, because a CPU wrote to them. */
size_t sim_row_pages(void);

/* True if the address is in memory that the library reserved. */
bool sim_reserved(uintptr_t address);

/* The row of slots that contains an address, and where the row begins. Row 0 belongs to no CPU, 1
 * has the handles, 2 is the first CPU's. False if there is none. */
bool sim_row(uintptr_t address, unsigned int *row, uintptr_t *begin);

/* Print one line with the seed, and the last steps, then abort(). */
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Call run(data) in a forked child, because the library keeps its state for the life of a process.
 * Returns run's result (0 ... 255), or -1 if it crashed. *hash: the child's sim_hash(). */
int sim_in_child(int (*run)(void *data), void *data, uint64_t *hash);
/* The same with each of the seeds from 1 on, until a run fails; every third one changes fibres
 * rarely. Returns an exit status. run() gets a copy of the configuration with the seed. */
int sim_first_seeds(int (*run)(void *data), struct sim_config config, unsigned int seeds);

/*
 * For the body of a fibre: fork() now, wherever the other fibres are. They do not exist in the
 * child, which calls run(data), and in which nothing is refused. Returns run's result, or -1 if it
 * crashed. Another fibre that calls it meanwhile gets 0, and no child.
 */
int sim_fork(int (*run)(void *data), void *data);

#endif
