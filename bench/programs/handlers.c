/* SPDX-License-Identifier: MIT */
/*
 * What the library's handlers of fork() cost a process with many caches, each with one object in
 * use: CPU time before the fork, and after it in the parent and in the child; and page faults after
 * it, most of them pages that are copied. The CPUs are invented: the process uses one.
 *
 *     bench/handlers-sheaf [CACHES] [CPUS]     10000 384
 *
 * Handlers that are registered before the library's run inside those, others outside.
 */
#include <pthread.h>
#include <sched.h>
#include <sheaf/slab.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/machine.h"

#define FORKS 11

enum place {
	BEFORE_OUTSIDE,
	BEFORE_INSIDE,
	PARENT_INSIDE,
	PARENT_OUTSIDE,
	CHILD_INSIDE,
	CHILD_OUTSIDE,
	NR_PLACES
};

struct moment {
	double ms;
	long faults;
};

static struct moment *moments; /* shared with the child */

static void note(enum place place)
{
	struct rusage usage;
	struct timespec now;

	if (!moments)
		return;
	getrusage(RUSAGE_SELF, &usage);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	moments[place].ms = (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
	moments[place].faults = usage.ru_minflt;
}

#define NOTE(name, place)                                                                          \
	static void name(void)                                                                     \
	{                                                                                          \
		note(place);                                                                       \
	}
NOTE(before_outside, BEFORE_OUTSIDE)
NOTE(before_inside, BEFORE_INSIDE)
NOTE(parent_inside, PARENT_INSIDE)
NOTE(parent_outside, PARENT_OUTSIDE)
NOTE(child_inside, CHILD_INSIDE)
NOTE(child_outside, CHILD_OUTSIDE)

/* Before the library's constructor. */
static void register_inside(void)
{
	pthread_atfork(before_inside, parent_inside, child_inside);
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = register_inside;

static void make_caches(int n)
{
	for (int i = 0; i < n; i++) {
		struct kmem_cache *s;
		char name[32];

		snprintf(name, sizeof(name), "cache-%d", i);
		s = kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
		if (!s || !kmem_cache_alloc(s, GFP_KERNEL)) {
			fprintf(stderr, "handlers: no memory\n");
			exit(1);
		}
	}
}

static double ms_between(enum place from, enum place to)
{
	return moments[to].ms - moments[from].ms;
}

static void fork_once(void)
{
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	printf("before %.2f ms, parent %.2f ms and %ld faults, child %.2f ms and %ld faults\n",
	       ms_between(BEFORE_OUTSIDE, BEFORE_INSIDE), ms_between(PARENT_INSIDE, PARENT_OUTSIDE),
	       moments[PARENT_OUTSIDE].faults - moments[PARENT_INSIDE].faults,
	       ms_between(CHILD_INSIDE, CHILD_OUTSIDE),
	       moments[CHILD_OUTSIDE].faults - moments[CHILD_INSIDE].faults);
}

int main(int argc, char **argv)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((unsigned int)sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	os_init();
	os.nr_cpus = argc > 2 ? (uint32_t)atoi(argv[2]) : 384;
	os_find_places();
	make_caches(argc > 1 ? atoi(argv[1]) : 10000);
	pthread_atfork(before_outside, parent_outside, child_outside);
	moments = mmap(NULL, NR_PLACES * sizeof(*moments), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (moments == MAP_FAILED)
		return 1;
	for (int i = 0; i < FORKS; i++)
		fork_once();
	return 0;
}
