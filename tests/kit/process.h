/* SPDX-License-Identifier: MIT */
/* A pinned thread, one that sleeps, a child that checks, a new image, a process without memory. */
#ifndef SHEAF_TESTS_PROCESS_H
#define SHEAF_TESTS_PROCESS_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/check.h"

/* Keep this thread on one CPU; false if the machine does not let us. */
static inline bool pin(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0;
}

/*
 * Return when the process's first thread sleeps: it then waits for something that the caller holds.
 */
static inline void wait_until_first_sleeps(void)
{
	char path[64], text[512], state = 'R';

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
	while (state != 'S') {
		int file = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t length = read(file, text, sizeof(text) - 1);

		close(file);
		text[length < 0 ? 0 : length] = '\0';
		/* "pid (name) state", and a name may hold anything */
		if (!strrchr(text, ')'))
			_exit(1);
		state = strrchr(text, ')')[2];
		sched_yield();
	}
}

/* A child that hangs gets SIGALRM, and its test fails. Children take a few seconds: this is enough
 * for a busy machine and an emulator. */
#define CHILD_SECONDS 300

/* A forked child that runs the body. */
static inline pid_t start_child(void (*body)(void))
{
	struct rlimit none = {0, 0};
	pid_t child = fork();

	if (child == 0) {
		/* cmocka catches these, and would continue with the next test in the child. */
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		signal(SIGFPE, SIG_DFL);
		signal(SIGILL, SIG_DFL);
		setrlimit(RLIMIT_CORE, &none);
		alarm(CHILD_SECONDS);
		body();
		_exit(0);
	}
	return child;
}

/* Wait for it, and return its wait status. */
static inline int status_of(pid_t child)
{
	int status = -1;

	return child < 0 || waitpid(child, &status, 0) != child ? -1 : status;
}

static inline int in_child(void (*body)(void))
{
	return status_of(start_child(body));
}

#define NOT_STARTED 126 /* the exit status of start_again() where an emulator cannot do that */

/* Continue as a new image of the program. Only what the link says is true under valgrind, too. */
static inline void start_again(const char *argument)
{
	char path[PATH_MAX] = "";

	if (readlink("/proc/self/exe", path, sizeof(path) - 1) > 0)
		execl(path, path, argument, (char *)NULL);
	_exit(errno == ENOEXEC ? NOT_STARTED : 127);
}

/* Give the process no more memory than it has now: for use in a child. */
static inline void no_more_memory(void)
{
	struct rlimit limit = {0, 0};

	CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
}

#endif
