/* SPDX-License-Identifier: MIT */
/* A program with the static library: threads, fork, C strings. Its output says whether the system
 * regards it as one that changes its user. */
#include <pthread.h>
#include <sheaf/debug.h>
#include <sheaf/slab.h>
#include <sys/auxv.h>
#include <sys/wait.h>

#include "check.h"

static void *allocates(void *unused)
{
	churn(1, 1000);
	return unused ? unused : strdup("a text");
}

int main(void)
{
	void *text = NULL;
	pthread_t thread;
	int status;
	pid_t pid;

	CHECK(!pthread_create(&thread, NULL, allocates, NULL) && !pthread_join(thread, &text));
	CHECK(sheaf_owns(text) && !strcmp(text, "a text"));
	free(text);
	pid = fork();
	if (!pid) {
		churn(2, 1000);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	printf("secure: %lu\n", getauxval(AT_SECURE));
	return 0;
}
