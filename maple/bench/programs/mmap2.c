/* SPDX-License-Identifier: MIT */
/*
 * The mmap2 benchmark: each task, a thread with an address space of its own, maps 128 MiB of a file
 * and unmaps them repeatedly: will-it-scale's mmap2 with the address space in user space. Nothing
 * is touched. All spaces' VMAs and nodes come from two caches.
 *
 * Prints lines for the `sheaf` command: those of common/threads.h, where a "pair" is a map and its
 * unmap; then "maps N", the number of maps, and "cpu NS", the CPU time of the process per map.
 * --capacity: the capacity of the sheaves of both caches.
 */
#include <stdio.h>

#include "common/common.h"
#include "common/threads.h"
#include "vma/spaces.h"

#define TASKS_MAX 4096
#define LENGTH	  (128ul << 20)
#define LOOPS	  32	/* between checks for the end */
#define FILES	  1000u /* file numbers of other mappings are below */

struct options {
	size_t tasks, capacity, vmas, window, windows;
};

static struct options options = {.tasks = 1, .vmas = 25, .window = 3, .windows = 60};
static atomic_size_t maps; /* of all tasks */

static const struct bench_option table[] = {
	{"tasks", &options.tasks, TASKS_MAX, NULL, NULL},
	{"capacity", &options.capacity, 4096, NULL, NULL},
	{"vmas", &options.vmas, 100000, NULL, NULL},
	{"window", &options.window, 60000, NULL, NULL},
	{"windows", &options.windows, 100000, NULL, NULL},
	{NULL, NULL, 0, NULL, NULL},
};

static void map_and_unmap(struct space *space, const struct space_request *request)
{
	long address = space_map(space, request);

	if (address < 0 || space_unmap(space, (unsigned long)address, request->length))
		bench_out_of_memory();
}

static void run(struct bench_thread *thread)
{
	struct space_request request = {
		.length = LENGTH, .flags = VMA_READ | VMA_WRITE, .file = FILES + thread->index};
	struct space space;
	size_t done = 0;

	spaces_thread_begin();
	spaces_make(&space, (unsigned int)options.vmas);
	do {
		for (unsigned int i = 0; i < LOOPS; i++)
			map_and_unmap(&space, &request);
		bench_did(thread, LOOPS);
		done += LOOPS;
	} while (bench_goes_on());
	atomic_fetch_add(&maps, done);
	spaces_thread_end();
}

int main(int argc, char **argv)
{
	struct bench_work work = {.run = run};
	double before;
	size_t done;

	bench_parse(argc, argv, table, "Measure one allocator; `sheaf bench mmap2` runs this.\n");
	work.threads = (unsigned int)options.tasks;
	bench_threads_start(&work);
	spaces_begin((unsigned int)options.capacity);
	before = bench_process_time();
	bench_threads_run(options.window, options.windows);
	done = atomic_load(&maps);
	printf("maps %zu\n", done);
	printf("cpu %.3f\n", (bench_process_time() - before) / (double)done);
	return 0;
}
