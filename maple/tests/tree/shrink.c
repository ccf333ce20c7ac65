/* SPDX-License-Identifier: MIT */
/* Delta debugging of lists of operations; see shrink.h. */
#include "shrink.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* A run that takes longer counts as endless: seconds of CPU time, however busy the CPU is. */
enum {
	LONGEST_RUN = 100,
	LONGEST_TRIAL = 20
};

static unsigned int *at; /* shared with the child */

void list_at(unsigned int i)
{
	if (at)
		*(volatile unsigned int *)at = i;
}

static void limit_cpu(rlim_t seconds)
{
	const struct rlimit limit = {seconds, seconds};

	setrlimit(RLIMIT_CPU, &limit);
}

bool list_fails(list_run *run, const struct op *ops, unsigned int n, void *data, bool silent,
		unsigned int *failed_at)
{
	int status;
	pid_t child;

	if (!at)
		at = mmap(NULL, sizeof(*at), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			  0);
	fflush(NULL);
	child = fork();
	if (child == 0) {
		if (silent && !freopen("/dev/null", "w", stderr))
			_exit(1);
		limit_cpu(silent ? LONGEST_TRIAL : LONGEST_RUN);
		run(ops, n, data);
		fflush(NULL);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child) {
		perror("fork");
		exit(2);
	}
	*failed_at = *at;
	return status != 0;
}

/* Without ops[from ... from + size - 1]: true if the list still fails. */
static bool fails_without(list_run *run, struct op *ops, unsigned int *n, unsigned int from,
			  unsigned int size, void *data)
{
	unsigned int rest = *n - from - size, failed_at;
	struct op *trial = malloc(sizeof(*ops) * *n);
	bool fails;

	memcpy(trial, ops, from * sizeof(*ops));
	memcpy(trial + from, ops + from + size, rest * sizeof(*ops));
	fails = list_fails(run, trial, from + rest, data, true, &failed_at);
	if (fails) {
		*n = failed_at + 1 < from + rest ? failed_at + 1 : from + rest;
		memcpy(ops, trial, *n * sizeof(*ops));
	}
	free(trial);
	return fails;
}

unsigned int list_shrink(list_run *run, struct op *ops, unsigned int n, void *data)
{
	for (unsigned int size = n / 2; size > 0; size /= 2) {
		bool shorter;

		do {
			shorter = false;
			for (unsigned int from = 0; from + size <= n;) {
				if (fails_without(run, ops, &n, from, size, data))
					shorter = true;
				else
					from += size;
			}
		} while (shorter && size == 1);
		if (size > n)
			size = n;
	}
	return n;
}
