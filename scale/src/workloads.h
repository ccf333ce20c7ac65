/* SPDX-License-Identifier: MIT */
/*
 * The programs that `sheaf sim scale` runs: one task on each CPU, or several. Their accesses are
 * instrumented, too, and are counted as the program's own.
 *
 *   own batches   each task allocates N objects, then frees them in the same order; all CPUs have
 *                 had theirs at the same time once, or each began when the others had freed theirs
 *   burst         as own batches for a moment; then all tasks but one sleep for two seconds, in
 *                 which that one makes a few calls
 *   node-out      own batches, with objects that CPUs of the last node have allocated and freed;
 *                 node 0 has no page for more
 *   cross         tasks 2i allocate, write a word and pass objects on through a ring, in groups;
 *                 tasks 2i + 1 read the word and free them
 *   retire-far    as cross, across sockets, but objects are retired
 *   ublk          as cross, with at most 128 requests in flight, some work for each on both sides,
 *                 and callers that must not block
 *   all-to-all    each task allocates groups for every other one in turn, and frees what the others
 *                 have for it
 *   fork          each task allocates what a process consists of, and the next one frees it all
 *   fork-wait     task 2i does this for task 2i + 1, and waits until that one has freed all
 *   exec          as own batches of what a process consists of
 *   mmap2         each task is a process that maps 128 MiB and unmaps them: an address space on a
 *                 maple tree of its own, whose nodes and areas come from two caches of all tasks
 *
 * Callers: scale/src/.
 */
#ifndef SHEAF_SCALE_WORKLOADS_H
#define SHEAF_SCALE_WORKLOADS_H

#include <stdbool.h>
#include <stddef.h>

#include "scale/src/allocators.h"
#include "scale/src/tally.h"

struct workload {
	const char *name, *what;
	size_t batch;	       /* of own batches; else what a task, or a pair, has at most */
	size_t size;	       /* of an object; 0: as the user says */
	unsigned int capacity; /* of a sheaf; 0: the allocator's choice */
	unsigned int work;     /* ns beside the allocator: for each object, or map */
	bool one_by_one;       /* CPUs begin one after another, with what others have freed */
	bool in_pairs;	       /* an even number of tasks */
	bool far_apart;	       /* the two of a pair */
	bool atomic;	       /* callers must not block */
	bool retires;
	bool onward;   /* to the next CPU only */
	bool bursts;   /* windows are whole rounds of BURST_ROUND_NS */
	bool own;      /* each CPU's objects are its own, and alternate from the start */
	bool touches;  /* own batches write a word of each object */
	bool node_out; /* node 0 has no page left, and others have all objects */
	void (*run)(unsigned int task);
};

/* A round of bursts, of which the first part is the burst. */
#define BURST_ROUND_NS UINT64_C(2000000000)
#define BURST_NS       UINT64_C(50000)

/* The last one has no name. */
extern const struct workload workloads[];

/* What runs, for the programs (rings.c, maps.c). */
struct running {
	const struct workload *workload;
	const struct allocator *allocator;
	void *context; /* the cache that is measured */
	unsigned int tasks;
};
extern struct running running;

/*
 * Before the tasks run on these CPUs: set up what they use, and do a few rounds at no cost, CPU by
 * CPU. Otherwise, for most of a run, all CPUs would queue for their first memory. False: no memory.
 */
bool workload_prepare(const struct workload *workload, const struct allocator *allocator,
		      size_t size, const unsigned int *cpus, unsigned int tasks);

/* --- rings.c, maps.c: programs; each is prepared before its first task runs ------------------- */

bool rings_prepare(void);
void run_pair(unsigned int task);
bool mail_prepare(void);
void run_mail(unsigned int task);
void run_forks(unsigned int task);
bool maps_prepare(void);
/* On the task's CPU, at no cost: create its process and its first mappings. False: no memory. */
bool maps_warm(unsigned int task);
void run_maps(unsigned int task);

/* --- work.c: what workloads call; not instrumented ------------------------------------------ */

bool work_goes_on(void);
/* A turn of a loop that waits for another task; others run if they wait for the CPU. */
void work_wait(void);
/* Sleep until this time, in ns; the CPU may run others. */
void work_sleep_until(uint64_t ns);
uint64_t work_now(void);
/* From now on the system has no more memory. */
void work_no_more_memory(void);
/* Work beside the allocator. */
void work_for(unsigned int ns);
/* Call the measured allocator: accesses meanwhile are not the program's. */
void *work_alloc(const struct allocator *allocator, void *context);
void work_free(const struct allocator *allocator, void *context, void *object);
void work_retire(const struct allocator *allocator, void *context, void *object);
/* What follows is done for the program, or for the allocator. Returns the old value. */
enum tally_side work_side(enum tally_side side);
/* This many operations are done: an allocation and its free, or a map and its unmap. */
void work_did(unsigned int operations);

#endif
