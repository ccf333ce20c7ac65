/* SPDX-License-Identifier: MIT */
/* A directory for the files of a test, with a setup and a teardown for cmocka. */
#ifndef SHEAF_TESTS_DIRECTORY_H
#define SHEAF_TESTS_DIRECTORY_H

#include <stdio.h>
#include <stdlib.h>

static char directory[64];

static inline int make_directory(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/libsheaf-test-XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

/* Remove it with its contents. */
static inline int remove_directory(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command);
}

#endif
