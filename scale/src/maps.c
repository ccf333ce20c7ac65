/* SPDX-License-Identifier: MIT */
/*
 * The workload mmap2; see workloads.h. The address spaces of the benchmark of that name, on the
 * maple tree: maple/bench/vma/space/, maple/src/. Both are compiled for calls.h. This file is
 * instrumented.
 */
#include <stdlib.h>

#include "scale/src/workloads.h"
#include "space/space.h"

#define APART	128
#define LOW	0x10000ul
#define HIGH	0x7ffffffff000ul
#define LENGTH	(128ul << 20)
#define MAPPED	25 /* mappings of a process before it begins */
#define FILES	1000u
#define AT_ONCE 64 /* maps of a task at no cost */

struct process {
	_Alignas(APART) struct space space;
};

static struct process *processes;

static bool map_and_unmap(struct space *space, unsigned int task)
{
	const struct space_request request = {
		.length = LENGTH, .flags = VMA_READ | VMA_WRITE, .file = FILES + task};
	long address = space_map(space, &request);

	return address > 0 && !space_unmap(space, (unsigned long)address, LENGTH);
}

/* Mappings of 1 to 16 pages, of all kinds, with holes. */
static bool make(struct space *space)
{
	unsigned long at = HIGH;

	space_init(space, LOW, HIGH);
	for (unsigned int i = 0; i < MAPPED; i++) {
		struct space_request request = {.length = (1 + i * 7 % 16) * SPACE_PAGE,
						.flags = i % 7,
						.file = i % 4,
						.page = i * 100ul,
						.fixed = true};

		at -= request.length + (i % 3 ? 0 : 4 * SPACE_PAGE);
		request.address = at;
		if (space_map(space, &request) < 0)
			return false;
	}
	return true;
}

bool maps_prepare(void)
{
	processes = aligned_alloc(APART, running.tasks * sizeof(*processes));
	return processes && vma_cache();
}

bool maps_warm(unsigned int task)
{
	struct space *space = &processes[task].space;
	bool done = make(space);

	for (unsigned int i = 0; i < AT_ONCE && done; i++)
		done = map_and_unmap(space, task);
	return done;
}

void run_maps(unsigned int task)
{
	while (work_goes_on()) {
		if (!map_and_unmap(&processes[task].space, task))
			abort();
		work_for(running.workload->work);
		work_did(1);
	}
}
