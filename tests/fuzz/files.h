/* SPDX-License-Identifier: MIT */
/*
 * Replaces the library's function that reads small files, in a target: the n-th file that it asks
 * for contains the n-th part of the input. Parts end with a zero; a file with an empty one, or
 * without one, does not exist.
 */
#ifndef SHEAF_TESTS_FUZZ_FILES_H
#define SHEAF_TESTS_FUZZ_FILES_H

#include "fuzz/target.h"
#include "os/file.h"

static struct fuzz_bytes fuzz_files;

int os_file_read(const char *path, char *text, size_t size)
{
	FUZZ_CHECK(*path == '/' && strlen(path) < 2048 && !strchr(path, '\n'));
	fuzz_text(&fuzz_files, '\0', text, size);
	return *text ? (int)strlen(text) : -1;
}

#endif
