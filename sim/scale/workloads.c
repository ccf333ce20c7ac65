/* SPDX-License-Identifier: MIT */
/* See workloads.h. This file is instrumented. */
#include "sim/scale/workloads.h"

#include <stdint.h>
#include <stdlib.h>

#include "sim/sim.h"

#define APART 128 /* bytes: two lines, which some processors fetch together */
#define RING  1024
#define GROUP 32
#define BATCH RING /* at least that of every workload */
#define WARM  8	   /* rounds at no cost */

/* One end writes `tail` and `slots`, the other one `head`; as bench/common/ring.h. */
struct ring {
	_Alignas(APART) size_t tail;
	size_t head_seen;
	_Alignas(APART) size_t head;
	size_t tail_seen;
	_Alignas(APART) void *slots[RING];
};

struct batch {
	_Alignas(APART) void *objects[BATCH];
};

static const struct workload *workload;
static const struct allocator *allocator;
static void *context;
static struct ring *rings;
static struct batch *batches;

static void run_own(unsigned int task)
{
	void **objects = batches[task].objects;
	size_t n = workload->batch;

	while (work_goes_on()) {
		for (size_t i = 0; i < n; i++)
			objects[i] = work_alloc(allocator, context);
		for (size_t i = 0; i < n; i++)
			work_free(allocator, context, objects[i]);
	}
}

/* False if the ring has no room for a group. */
static bool produce(struct ring *ring)
{
	size_t tail = ring->tail;

	if (tail - ring->head_seen > RING - GROUP) {
		ring->head_seen = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
		if (tail - ring->head_seen > RING - GROUP)
			return false;
	}
	for (size_t i = 0; i < GROUP; i++) {
		uint64_t *object = work_alloc(allocator, context);

		*object = tail + i;
		ring->slots[(tail + i) % RING] = object;
	}
	__atomic_store_n(&ring->tail, tail + GROUP, __ATOMIC_RELEASE);
	return true;
}

/* False if the ring is empty. */
static bool consume(struct ring *ring)
{
	size_t head = ring->head;

	if (head == ring->tail_seen) {
		ring->tail_seen = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
		if (head == ring->tail_seen)
			return false;
	}
	for (size_t i = 0; i < GROUP; i++) {
		uint64_t *object = ring->slots[(head + i) % RING];

		if (*object != head + i)
			abort(); /* somebody else has it, too */
		work_free(allocator, context, object);
	}
	__atomic_store_n(&ring->head, head + GROUP, __ATOMIC_RELEASE);
	return true;
}

static void run_pair(unsigned int task)
{
	struct ring *ring = &rings[task / 2];

	while (work_goes_on()) {
		if (task % 2 == 0 ? !produce(ring) : !consume(ring))
			work_wait();
	}
}

const struct workload workloads[] = {
	{.name = "batch-10",
	 .what = "each CPU allocates 10 objects and frees them",
	 .batch = 10,
	 .run = run_own},
	{.name = "batch-100", .what = "the same with 100", .batch = 100, .run = run_own},
	{.name = "batch-1000", .what = "the same with 1000", .batch = 1000, .run = run_own},
	{.name = "batch-1000-late",
	 .what = "the same, with CPUs that began one after another",
	 .batch = 1000,
	 .one_by_one = true,
	 .run = run_own},
	{.name = "cross-near",
	 .what = "pairs of neighbours: one allocates, the other frees",
	 .in_pairs = true,
	 .run = run_pair},
	{.name = "cross-far",
	 .what = "the same, each pair on two sockets if there are two",
	 .in_pairs = true,
	 .far_apart = true,
	 .run = run_pair},
	{0},
};

/* The tasks from `first` to before `end` allocate what the workload has in use at once; then they
 * free it, or the other one of each pair does. */
static bool warm(const unsigned int *cpus, unsigned int first, unsigned int end)
{
	unsigned int step = workload->in_pairs ? 2 : 1;
	size_t n = workload->in_pairs ? RING : workload->batch;

	for (unsigned int i = first; i < end; i += step) {
		sim_go_to(cpus[i]);
		for (size_t k = 0; k < n; k++) {
			batches[i].objects[k] = allocator->alloc(context);
			if (!batches[i].objects[k])
				return false;
		}
	}
	for (unsigned int i = first; i < end; i += step) {
		sim_go_to(cpus[i + step - 1]);
		for (size_t k = 0; k < n; k++)
			allocator->free(context, batches[i].objects[k]);
	}
	return true;
}

bool workload_prepare(const struct workload *w, const struct allocator *a, void *opened,
		      const unsigned int *cpus, unsigned int tasks)
{
	unsigned int at_once;

	workload = w;
	allocator = a;
	context = opened;
	rings = aligned_alloc(APART, tasks * sizeof(*rings));
	batches = aligned_alloc(APART, tasks * sizeof(*batches));
	for (unsigned int i = 0; rings && i < tasks; i++)
		rings[i] = (struct ring){0};
	if (!rings || !batches)
		return false;
	at_once = workload->one_by_one ? 1 : tasks;
	for (unsigned int round = 0; round < WARM; round++)
		for (unsigned int i = 0; i < tasks; i += at_once)
			if (!warm(cpus, i, i + at_once))
				return false;
	return true;
}
