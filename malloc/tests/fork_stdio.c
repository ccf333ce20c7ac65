/* SPDX-License-Identifier: MIT */
/*
 * fork() beside threads that allocate and hold the lock of all streams: neither side waits for the
 * other. Children allocate, use stdio, start threads and fork. Handlers from before the first
 * malloc() allocate and free in parent and child, while the library is locked.
 *
 * Usage: fork-stdio FORKS
 */
#include <pthread.h>
#include <sys/wait.h>

#include "check.h"

static bool stop;
static void *kept; /* by handlers */

static void handles(void)
{
	void *block = malloc(HIDDEN((size_t)3000));

	free(kept);
	kept = calloc(1, HIDDEN((size_t)48));
	CHECK(block && kept);
	free(block);
}

/* Before all constructors. */
static void very_early(int argc, char **argv, char **environment)
{
	(void)argc, (void)argv, (void)environment;
	pthread_atfork(handles, handles, handles);
}
static void (*const early)(int, char **, char **)
	__attribute__((section(".preinit_array"), used)) = very_early;

/* Between rounds the CPUs are left to the forks. */
static bool stops(void)
{
	usleep(200);
	return __atomic_load_n(&stop, __ATOMIC_RELAXED);
}

static void *flushes(void *unused)
{
	while (!stops()) {
		FILE *file = tmpfile();

		CHECK(file && fputs("a line\n", file) >= 0);
		fflush(NULL);
		fclose(file);
	}
	return unused;
}

static void *reads(void *unused)
{
	while (!stops()) {
		char text[] = "one\ntwo\n", *line = NULL;
		FILE *from = fmemopen(text, sizeof(text) - 1, "r");
		size_t size = 0;

		CHECK(from);
		while (getline(&line, &size, from) > 0)
			;
		free(line);
		fclose(from);
	}
	return unused;
}

static void *allocates(void *seed)
{
	while (!stops())
		churn((unsigned int)(size_t)seed, 500);
	return NULL;
}

static void *runs_programs(void *unused)
{
	while (!stops()) {
		FILE *from = popen("exit 0", "r");

		CHECK(from && !pclose(from));
	}
	return unused;
}

static int child(unsigned int seed)
{
	char *line = NULL;
	pthread_t thread;
	int status;
	pid_t pid;

	alarm(300);
	churn(seed, 100);
	CHECK(asprintf(&line, "%u", seed) > 0);
	free(line);
	fflush(NULL);
	if (seed % 8)
		return 0;
	stop = true;
	CHECK(!pthread_create(&thread, NULL, allocates, NULL) && !pthread_join(thread, NULL));
	pid = fork();
	if (!pid) {
		churn(seed, 100);
		_exit(0);
	}
	return waitpid(pid, &status, 0) == pid && !status ? 0 : 1;
}

int main(int argc, char **argv)
{
	int forks = argc > 1 ? atoi(argv[1]) : 100;
	void *(*const bodies[])(void *) = {flushes, reads, allocates, allocates, runs_programs};
	enum {
		THREADS = sizeof(bodies) / sizeof(*bodies)
	};
	pthread_t threads[THREADS];

	check_ours();
	for (size_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, bodies[i], (void *)i));
	for (int i = 0; i < forks; i++) {
		pid_t pid = fork();
		int status;

		if (!pid)
			_exit(child((unsigned int)i));
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
		CHECK(!status);
	}
	printf("%d forks\n", forks);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
