/* SPDX-License-Identifier: MIT */
/* See threads.h. */
#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define WARM_MS	   20
#define LOOKS	   100
#define PRIORITY   (-20)
#define AUTOGROUP  "/proc/self/autogroup" /* a session's priority, if sessions are scheduled */
#define STACK_SIZE (256 << 10)

atomic_bool bench_stopped;

static struct bench_work job;
static struct bench_thread *threads;
static pthread_barrier_t gate; /* all threads and the first one */
static cpu_set_t allowed;

static _Noreturn void die(const char *call, int error)
{
	fprintf(stderr, "%s: %s\n", call, strerror(error));
	exit(1);
}

void *bench_room(size_t bytes)
{
	void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (room == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return room;
}

bool bench_oversubscribed(unsigned int count)
{
	if (!CPU_COUNT(&allowed))
		sched_getaffinity(0, sizeof(allowed), &allowed);
	return count > (unsigned int)CPU_COUNT(&allowed);
}

/*
 * Another program on either CPU stalls a hand-over for as long as the system lets it run, so ask
 * for priority; not every user gets it. Only in a new session: never change the session of a user
 * who started this by hand.
 */
static void ask_for_priority(void)
{
	bool own_session = setsid() >= 0;
	FILE *file = own_session ? fopen(AUTOGROUP, "w") : NULL;

	if (file) {
		fprintf(file, "%d", PRIORITY);
		fclose(file);
	}
	setpriority(PRIO_PROCESS, 0, PRIORITY);
}

static void *thread_main(void *argument)
{
	struct bench_thread *thread = argument;

	if (!bench_oversubscribed(job.threads))
		bench_pin(bench_cpu(thread->index));
	if (job.prepare)
		job.prepare(thread->index);
	pthread_barrier_wait(&gate);
	pthread_barrier_wait(&gate);
	job.run(thread);
	pthread_barrier_wait(&gate);
	while (true)
		pause();
	return NULL;
}

void bench_threads_start(const struct bench_work *work)
{
	pthread_attr_t attributes;
	pthread_t thread;

	job = *work;
	threads = bench_room(job.threads * sizeof(*threads));
	bench_oversubscribed(job.threads);
	bench_cpu(0); /* both read the CPUs of this process before any thread is pinned */
	ask_for_priority();
	pthread_barrier_init(&gate, NULL, job.threads + 1);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_SIZE);
	for (unsigned int i = 0; i < job.threads; i++) {
		int error;

		threads[i].index = i;
		error = pthread_create(&thread, &attributes, thread_main, &threads[i]);
		if (error)
			die("pthread_create", error);
	}
	pthread_attr_destroy(&attributes);
	pthread_barrier_wait(&gate);
}

static size_t pairs_done(void)
{
	size_t sum = 0;

	for (unsigned int i = 0; i < job.threads; i++)
		sum += atomic_load_explicit(&threads[i].pairs, memory_order_relaxed);
	return sum;
}

static void sleep_ms(unsigned int milliseconds)
{
	struct timespec time = {.tv_sec = milliseconds / 1000,
				.tv_nsec = milliseconds % 1000 * 1000000L};

	nanosleep(&time, NULL);
}

/* Count the pairs done. Read again if reading took long: pairs done while this thread did not run
 * would count for the wrong window. */
static size_t look(double *now, double window)
{
	size_t done = 0;

	for (unsigned int i = 0; i < LOOKS; i++) {
		double before = bench_time();

		done = pairs_done();
		*now = bench_time();
		if (*now - before < window / 100)
			break;
	}
	return done;
}

/* The most resident KiB since the program began; getrusage() would count what ran it, too. */
static void tell_peak(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[128];
	long peak;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "VmHWM: %ld", &peak) == 1)
			printf("peak %ld\n", peak);
	if (file)
		fclose(file);
}

/* Print a line for each window of time. */
static void look_at_windows(unsigned int milliseconds, size_t windows)
{
	double began, window = milliseconds * 1e6;
	size_t before;

	sleep_ms(WARM_MS);
	before = look(&began, window);
	for (size_t i = 0; i < windows; i++) {
		double now;
		size_t done;

		sleep_ms(milliseconds);
		done = look(&now, window);
		printf("window %zu %.0f\n", done - before, now - began);
		before = done;
		began = now;
	}
	tell_peak();
}

void bench_threads_run(size_t milliseconds, size_t windows)
{
	/* An allocator may have pinned this thread to the CPU of another thread. */
	sched_setaffinity(0, sizeof(allowed), &allowed);
	pthread_barrier_wait(&gate);
	if (windows)
		look_at_windows((unsigned int)milliseconds, windows);
	atomic_store_explicit(&bench_stopped, true, memory_order_relaxed);
	pthread_barrier_wait(&gate);
}
