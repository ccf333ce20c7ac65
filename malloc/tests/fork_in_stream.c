/* SPDX-License-Identifier: MIT */
/*
 * fork() in a function that stdio calls while it holds the lock of all streams: in the child, that
 * call of stdio ends as in the parent, and the lock is free then. Beside other threads the C
 * library resets the lock in the child, and would unlock it twice: only a plain fork() is shown.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "check.h"

static pid_t forked; /* what fork() returned in the function below */
static bool forks;

static ssize_t writes(void *cookie, const char *bytes, size_t size)
{
	(void)cookie, (void)bytes;
	if (forks) {
		forks = false;
		forked = fork();
	}
	return (ssize_t)size;
}

static void *flushes(void *unused)
{
	fflush(NULL);
	return unused;
}

/* This thread's use shows a wrong count of the lock to the other one. */
static void check_streams(void)
{
	pthread_t thread;

	fflush(NULL);
	CHECK(!pthread_create(&thread, NULL, flushes, NULL) && !pthread_join(thread, NULL));
}

static void end(void)
{
	int status;

	if (!forked) {
		alarm(300);
		churn(1, 100);
		check_streams();
		_exit(0);
	}
	CHECK(forked > 0 && waitpid(forked, &status, 0) == forked && !status);
}

int main(void)
{
	FILE *file = fopencookie(NULL, "w", (cookie_io_functions_t){.write = writes});

	check_ours();
	CHECK(file);
	for (int i = 0; i < 10; i++) {
		forks = true;
		CHECK(fputs("a line\n", file) >= 0);
		fflush(NULL);
		end();
	}
	check_streams(); /* makes a thread */
	for (int i = 0; i < 10; i++) {
		forked = fork();
		end();
	}
	return 0;
}
