/* SPDX-License-Identifier: MIT */
/*
 * The state of the simulated machine. Everything that changes is in `sim`.
 *
 * Invariants
 *  F1. A CPU's `running` fibre is the only one on it whose section is not aborted.
 *  F2. A waiting fibre waits for a lock that is held.
 *
 * Callers: sim/ only.
 */
#ifndef SHEAF_SIM_STATE_H
#define SHEAF_SIM_STATE_H

#include "os/current.h"
#include "os/lock.h"
#include "os/machine.h"
#include "os/section.h"
#include "os/step.h"
#include "sim/sim.h"

struct stack; /* the stack of a fibre while another one runs */

/* What a step announces. */
struct sim_access {
	const struct os_step *step;
	const volatile void *address;
	size_t size;
};

struct fibre {
	struct stack *stack;
	unsigned int cpu;
	bool done;
	uint64_t asleep_until; /* a step number */
	struct os_lock *waits_for;
	uint32_t *waits_on;   /* a word to be woken on */
	bool gives_up;	      /* it has slept long enough */
	struct slot *section; /* in progress, or NULL */
	bool aborted;
	uint32_t held_ranks;	       /* bits */
	uint32_t nr_held[OS_RANK_MAX]; /* more than one of a rank: fork() takes them all */
	struct os_current group;
	uint64_t steps;		/* its own steps */
	struct sim_access next; /* when it continues */
	uint64_t held_since[OS_RANK_MAX];
};

#define SIM_TRACES 32 /* steps that a failure shows */

struct trace {
	uint64_t number; /* 0: none yet */
	const struct fibre *fibre;
	unsigned int cpu;
	struct sim_access access;
};

struct sim {
	struct sim_config config;
	bool faults;
	uint64_t random, steps, hash;
	unsigned int nr_fibres;
	struct fibre *fibres;
	struct fibre outside; /* the caller of sim_run() */
	struct fibre *current;
	struct fibre *running[OS_MAX_ROWS];
	unsigned int nr_mm_cids;
	uint16_t mm_cids[OS_MAX_ROWS]; /* of CPUs, plus one; 0: none yet */
	unsigned int nr_candidates;
	struct fibre **candidates;
	void (*body)(unsigned int fibre, void *data);
	void *data;
	size_t committed;
	struct trace traces[SIM_TRACES];
	uint64_t nr_traces;
	uint64_t longest_hold[OS_RANK_MAX];
};

extern struct sim sim;

/* How far the clock advances per step. */
uint64_t sim_step_ns(void);
/* True with this probability, in 1/65536. */
bool sim_chance(unsigned int probability);
/* Switch to another fibre; returns when this one is chosen again. */
void sim_pass(void);
/* Like sim_pass(), to this fibre, which waits for nothing. */
void sim_go_on(struct fibre *fibre);
void sim_abort_section(struct fibre *fibre);
/* Does it wait for nothing? */
bool sim_can_go_on(const struct fibre *fibre);

/* A step of a call that src/os/ only declares. */
#define sim_step(kind, address, size)                                                              \
	({                                                                                         \
		static const struct os_step step_ = {OS_STEP_##kind, NULL};                        \
		os_sim_step(&step_, (address), (size));                                            \
	})

/* Print a step, or the last ones, to stderr. */
void trace_print(const struct trace *trace);
void trace_print_last(void);

/* A stack on which entry() will run; it must never return. */
struct stack *stack_new(void (*entry)(void));
/* The stack of the caller, to return to. */
struct stack *stack_outside(void);
/* Start the stack again at entry(). */
void stack_reset(struct stack *stack);
void stack_switch(struct stack *from, struct stack *to);

#endif
