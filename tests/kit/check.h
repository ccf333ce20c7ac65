/* SPDX-License-Identifier: MIT */
/* For children and threads, where cmocka's assertions cannot be used, and programs without
 * cmocka. */
#ifndef SHEAF_TESTS_CHECK_H
#define SHEAF_TESTS_CHECK_H

#include <stdio.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#endif
