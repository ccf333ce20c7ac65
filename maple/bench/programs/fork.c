/* SPDX-License-Identifier: MIT */
/*
 * The fork benchmark: one task repeatedly forks a process. Another task, on another CPU, is the
 * child: it ends, or with --exec first becomes another program. A fork allocates VMAs and nodes in
 * a burst, the end of the child frees them all; exec frees them and makes a new space, mapping by
 * mapping.
 *
 * Threads work in pairs 2i and 2i + 1, through a ring of a few spaces. Prints lines for the `sheaf`
 * command: those of common/threads.h, a "pair" being a fork and its end; and `cpu`: ns of CPU time
 * for each, grace periods included, without the time that a thread waits for its partner.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH_RING  8 /* most children at the same time */
#define BENCH_GROUP 1

#include "common/common.h"
#include "common/ring.h"
#include "common/threads.h"
#include "vma/spaces.h"

#define THREADS_MAX 4096
#define IMAGE	    25u /* mappings of a program after exec */

struct options {
	size_t threads, capacity, vmas, window, windows;
	bool exec;
};

/* Shared by two threads. */
struct family {
	struct bench_ring ring;
	struct space children[BENCH_RING]; /* each belongs to the slot with its number */
};

/* A thread's wait for its partner. */
struct wait {
	unsigned int turns;
	double since, all; /* CPU time of the thread, in ns */
};

static struct options options = {.threads = 2, .vmas = 25, .window = 3, .windows = 60};
static struct family *families;
static struct space_request image[IMAGE];
static unsigned int spins;
static atomic_size_t waited; /* by all threads, in ns of CPU time */
static atomic_size_t lives;  /* children that ended */

static const struct bench_option table[] = {
	{"threads", &options.threads, THREADS_MAX, NULL, NULL},
	{"capacity", &options.capacity, 4096, NULL, NULL},
	{"vmas", &options.vmas, 100000, NULL, NULL},
	{"exec", NULL, 0, NULL, &options.exec},
	{"window", &options.window, 60000, NULL, NULL},
	{"windows", &options.windows, 100000, NULL, NULL},
	{NULL, NULL, 0, NULL, NULL},
};

/* Returns false if all children exist. */
static bool fork_once(struct family *family, struct space *parent)
{
	void **slot = bench_ring_room(&family->ring);
	struct space *child;

	if (!slot)
		return false;
	child = &family->children[slot - family->ring.slots];
	if (space_fork(child, parent))
		bench_out_of_memory();
	*slot = child;
	bench_ring_put(&family->ring);
	return true;
}

/* Returns false if there is no child. */
static bool live_once(struct family *family)
{
	void **slot = bench_ring_group(&family->ring);
	struct space fresh;

	if (!slot)
		return false;
	if (options.exec) {
		if (space_exec(&fresh, *slot, image, IMAGE))
			bench_out_of_memory();
		space_destroy(&fresh);
	} else {
		space_destroy(*slot);
	}
	bench_ring_took(&family->ring);
	return true;
}

static void wait_once(struct wait *wait)
{
	if (!wait->turns)
		wait->since = bench_thread_time();
	bench_wait(&wait->turns, spins);
}

static void end_wait(struct wait *wait)
{
	if (wait->turns)
		wait->all += bench_thread_time() - wait->since;
	wait->turns = 0;
}

static void run_parent(struct family *family, struct wait *wait)
{
	struct space parent;

	spaces_make(&parent, (unsigned int)options.vmas);
	while (bench_goes_on()) {
		if (fork_once(family, &parent))
			end_wait(wait);
		else
			wait_once(wait);
	}
}

static void run_child(struct bench_thread *thread, struct family *family, struct wait *wait)
{
	size_t done = 0;

	while (bench_goes_on()) {
		if (live_once(family)) {
			end_wait(wait);
			bench_did(thread, 1);
			done++;
		} else {
			wait_once(wait);
		}
	}
	atomic_fetch_add(&lives, done);
}

static void run(struct bench_thread *thread)
{
	struct family *family = &families[thread->index / 2];
	struct wait wait = {0};

	spaces_thread_begin();
	if (thread->index % 2)
		run_child(thread, family, &wait);
	else
		run_parent(family, &wait);
	end_wait(&wait);
	atomic_fetch_add(&waited, (size_t)wait.all);
	spaces_thread_end();
}

static void prepare(unsigned int index)
{
	if (index % 2 == 0)
		memset(&families[index / 2], 0, sizeof(*families));
}

int main(int argc, char **argv)
{
	struct bench_work work = {.prepare = prepare, .run = run};
	double before;

	bench_parse(argc, argv, table, "Measure one allocator; `sheaf bench fork` runs this.\n");
	if (options.threads % 2) {
		fprintf(stderr, "%s: threads work in pairs\n", argv[0]);
		return 2;
	}
	for (unsigned int i = 0; i < IMAGE; i++)
		image[i] = spaces_mapping(i);
	families = bench_room(options.threads / 2 * sizeof(*families));
	work.threads = (unsigned int)options.threads;
	spins = bench_oversubscribed(work.threads) ? 0 : BENCH_SPINS;
	bench_threads_start(&work);
	spaces_begin((unsigned int)options.capacity);
	before = bench_process_time();
	bench_threads_run(options.window, options.windows);
	before = bench_process_time() - before - (double)atomic_load(&waited);
	printf("cpu %.3f\n", before / (double)atomic_load(&lives));
	return 0;
}
