/* SPDX-License-Identifier: MIT */
/*
 * The main function of a program of several parts. Each is a group of tests in a file of its own,
 * and runs in a child of its own, where the library has not been used. One that returns SKIPPED has
 * said why.
 */
#ifndef SHEAF_TESTS_IN_TURN_H
#define SHEAF_TESTS_IN_TURN_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/needs.h"

typedef int tests(void);

/* This part needs one more option. Before it uses the library. */
static inline void one_more_option(const char *option)
{
	const char *given = getenv("SHEAF_OPTIONS");
	char text[512];

	snprintf(text, sizeof(text), "%s;%s", given ? given : "", option);
	setenv("SHEAF_OPTIONS", text, 1);
}

/* The exit status of the program. */
static inline int in_turn(tests *const *parts, size_t n)
{
	int failed = 0;

	for (size_t i = 0; i < n; i++) {
		int status;
		pid_t child;

		fflush(NULL);
		child = fork();
		if (child == 0)
			exit(parts[i]());
		if (waitpid(child, &status, 0) != child ||
		    (status && !(WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)))
			failed = 1;
	}
	return failed;
}

#endif
