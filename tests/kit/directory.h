/* SPDX-License-Identifier: MIT */
/* A directory for the files of a test, with a setup and a teardown for cmocka. */
#ifndef SHEAF_TESTS_DIRECTORY_H
#define SHEAF_TESTS_DIRECTORY_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

static char directory[64];

static inline int make_directory(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/libsheaf-test-XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static inline int remove_file(const char *path, const struct stat *info, int kind,
			      struct FTW *place)
{
	(void)info, (void)kind, (void)place;
	return remove(path);
}

/* Remove it with its contents. Where tests run in an emulator there is no shell. */
static inline int remove_directory(void **state)
{
	(void)state;
	return nftw(directory, remove_file, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
