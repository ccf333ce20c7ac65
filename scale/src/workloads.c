/* SPDX-License-Identifier: MIT */
/* The list of workloads, own batches, and rounds at no cost. See workloads.h. This file is
 * instrumented. */
#include "scale/src/workloads.h"

#include <stdint.h>
#include <stdlib.h>

#include "os/machine.h"
#include "page/page.h"
#include "scale/src/periods.h"
#include "sim/sim.h"

#define APART	128
#define BATCH	1024   /* at least that of every workload */
#define WARM	32     /* rounds at no cost: enough for budgets to reach their final size */
#define GROWN	262144 /* objects of pairs, after which the library's sheaves have grown */
#define GROUP	32
#define FLIGHT	128 /* requests of a ublk queue */
#define MAP_NS	1500
#define UBLK_NS 400
/* The total time of the calls in a burst's quiet part. */
#define FEW	 10
#define APART_NS 1000000

struct batch {
	_Alignas(APART) void *objects[BATCH];
};

struct running running;
static struct batch *batches;

static void run_batch(void **objects)
{
	size_t n = running.workload->batch;

	for (size_t i = 0; i < n; i++) {
		objects[i] = work_alloc(running.allocator, running.context);
		if (running.workload->touches)
			*(uint64_t *)objects[i] = i;
	}
	for (size_t i = 0; i < n; i++) {
		work_free(running.allocator, running.context, objects[i]);
		work_did(1);
	}
}

static void run_own(unsigned int task)
{
	while (work_goes_on())
		run_batch(batches[task].objects);
}

/* A round's calls in its quiet part. */
static void call_now_and_then(void **objects, uint64_t end)
{
	while (work_now() < end && work_goes_on()) {
		for (size_t i = 0; i < FEW; i++)
			objects[i] = work_alloc(running.allocator, running.context);
		for (size_t i = 0; i < FEW; i++)
			work_free(running.allocator, running.context, objects[i]);
		work_did(FEW);
		work_sleep_until(work_now() + APART_NS);
	}
}

static void run_bursts(unsigned int task)
{
	void **objects = batches[task].objects;

	for (uint64_t begin = 0; work_goes_on(); begin += BURST_ROUND_NS) {
		while (work_now() < begin + BURST_NS)
			run_batch(objects);
		if (task == 0)
			call_now_and_then(objects, begin + BURST_ROUND_NS);
		else
			work_sleep_until(begin + BURST_ROUND_NS);
	}
}

const struct workload workloads[] = {
	{.name = "batch-10",
	 .what = "each CPU allocates 10 objects and frees them",
	 .batch = 10,
	 .own = true,
	 .run = run_own},
	{.name = "batch-100",
	 .what = "the same with 100",
	 .batch = 100,
	 .own = true,
	 .run = run_own},
	{.name = "batch-1000",
	 .what = "the same with 1000",
	 .batch = 1000,
	 .own = true,
	 .run = run_own},
	{.name = "batch-1000-late",
	 .what = "the same, with CPUs that began one after another",
	 .batch = 1000,
	 .one_by_one = true,
	 .own = true,
	 .run = run_own},
	{.name = "burst",
	 .what = "50 µs of batches of 1000, then two seconds with a few calls of one CPU",
	 .batch = 1000,
	 .bursts = true,
	 .touches = true,
	 .run = run_bursts},
	{.name = "node-out",
	 .what = "batches of 100, while node 0 has no page left: objects of the last node",
	 .batch = 100,
	 .node_out = true,
	 .touches = true,
	 .run = run_own},
	{.name = "cross-near",
	 .what = "pairs of neighbours: one allocates, the other frees",
	 .batch = BATCH,
	 .in_pairs = true,
	 .run = run_pair},
	{.name = "cross-far",
	 .what = "the same, each pair on two sockets if there are two",
	 .batch = BATCH,
	 .in_pairs = true,
	 .far_apart = true,
	 .run = run_pair},
	{.name = "ublk",
	 .what = "requests between neighbours: at most 128 of a pair, 400 ns of work on each side",
	 .batch = FLIGHT,
	 .size = 256,
	 .work = UBLK_NS,
	 .in_pairs = true,
	 .atomic = true,
	 .run = run_pair},
	{.name = "ublk-far",
	 .what = "the same, each pair on two sockets if there are two",
	 .batch = FLIGHT,
	 .size = 256,
	 .work = UBLK_NS,
	 .in_pairs = true,
	 .far_apart = true,
	 .atomic = true,
	 .run = run_pair},
	{.name = "all-to-all",
	 .what = "each CPU frees what every other one allocated",
	 .batch = GROUP,
	 .run = run_mail},
	{.name = "fork",
	 .what = "processes of 500 objects of 192 bytes: the next CPU frees them",
	 .batch = 500,
	 .size = 192,
	 .onward = true,
	 .run = run_mail},
	{.name = "fork-wait",
	 .what = "a process of 500 objects after another: the pair's other CPU frees them",
	 .batch = 500,
	 .size = 192,
	 .capacity = 32,
	 .in_pairs = true,
	 .run = run_forks},
	{.name = "exec",
	 .what = "each CPU replaces the 500 objects of 192 bytes of a process",
	 .batch = 500,
	 .size = 192,
	 .capacity = 32,
	 .touches = true,
	 .own = true,
	 .run = run_own},
	{.name = "retire-far",
	 .what = "as cross-far, but the other one retires the objects",
	 .batch = BATCH,
	 .in_pairs = true,
	 .far_apart = true,
	 .retires = true,
	 .run = run_pair},
	{.name = "mmap2",
	 .what = "processes that map and unmap: a maple tree each, two caches for all",
	 .work = MAP_NS,
	 .retires = true,
	 .run = run_maps},
	{0},
};

/* The tasks from `first` to before `end` allocate all that the workload has in use at one time;
 * then they free it, or the other one of each pair does. */
static bool warm(const unsigned int *cpus, unsigned int first, unsigned int end)
{
	unsigned int step = running.workload->in_pairs ? 2 : 1;
	size_t n = running.workload->batch;

	for (unsigned int i = first; i < end; i += step) {
		sim_go_to(cpus[i]);
		for (size_t k = 0; k < n; k++) {
			batches[i].objects[k] = running.allocator->alloc(running.context);
			if (!batches[i].objects[k])
				return false;
		}
	}
	for (unsigned int i = first; i < end; i += step) {
		sim_go_to(cpus[i + step - 1]);
		for (size_t k = 0; k < n; k++)
			running.allocator->free(running.context, batches[i].objects[k]);
	}
	return true;
}

/* All objects are on the last node, and there are enough to fill CPUs and barns. */
static bool run_node_out(unsigned int tasks)
{
	unsigned int last = os.nr_nodes - 1, n = os.node[last].n;
	size_t each = BATCH;

	for (unsigned int i = 0; i < tasks; i++) {
		sim_go_to(os_cpu_at(last, i % n));
		for (size_t k = 0; k < each; k++) {
			batches[i].objects[k] = running.allocator->alloc(running.context);
			if (!batches[i].objects[k])
				return false;
		}
	}
	for (unsigned int i = 0; i < tasks; i++) {
		sim_go_to(os_cpu_at(last, i % n));
		for (size_t k = 0; k < each; k++)
			running.allocator->free(running.context, batches[i].objects[k]);
	}
	work_no_more_memory();
	while (page_alloc(0, 0))
		;
	return true;
}

/* What the workload's program needs. */
static bool prepare_program(void)
{
	if (running.workload->run == run_pair)
		return rings_prepare();
	if (running.workload->run == run_mail || running.workload->run == run_forks)
		return mail_prepare();
	return running.workload->run != run_maps || maps_prepare();
}

/* Slow pairs would not get there during a run, and fast ones in the middle of it. */
static size_t warm_rounds(unsigned int tasks)
{
	size_t rounds = running.workload->in_pairs ? GROWN / (tasks * running.workload->batch) : 0;

	return rounds > WARM ? rounds : WARM;
}

bool workload_prepare(const struct workload *workload, const struct allocator *allocator,
		      size_t size, const unsigned int *cpus, unsigned int tasks)
{
	const struct cache_request request = {.name = "scale",
					      .size = workload->size ? workload->size : size,
					      .capacity = workload->capacity,
					      .atomic = workload->atomic};
	unsigned int at_once = workload->one_by_one ? 1 : tasks;

	if (workload->retires)
		periods_register();
	running =
		(struct running){workload, allocator, allocator->open(allocator, &request), tasks};
	batches = aligned_alloc(APART, tasks * sizeof(*batches));
	if (!running.context || !batches || !prepare_program())
		return false;
	for (unsigned int i = 0; i < tasks && workload->run == run_maps; i++) {
		sim_go_to(cpus[i]);
		if (!maps_warm(i))
			return false;
	}
	if (workload->node_out)
		return run_node_out(tasks);
	for (size_t round = 0; workload->run != run_maps && round < warm_rounds(tasks); round++)
		for (unsigned int i = 0; i < tasks; i += at_once)
			if (!warm(cpus, i, i + at_once))
				return false;
	return true;
}
