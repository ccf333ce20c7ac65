/* SPDX-License-Identifier: MIT */
/*
 * Makes a failing list of operations as short as possible: parts are removed as long as the rest
 * fails, first halves, then quarters, and finally single operations (delta debugging). Each trial
 * runs in a separate process, so that a crash or an endless loop is a failure like any other.
 */
#ifndef TESTS_MAPLE_SHRINK_H
#define TESTS_MAPLE_SHRINK_H

#include "operations.h"

/* Runs the operations, from an empty tree. */
typedef void list_run(const struct op *ops, unsigned int n, void *data);

/*
 * In a child: returns true if it fails; *failed_at: at which operation, if run() called list_at().
 */
bool list_fails(list_run *run, const struct op *ops, unsigned int n, void *data, bool silent,
		unsigned int *failed_at);
/* For run(): the next operation. */
void list_at(unsigned int i);
/* Shorten the list; returns its new length. */
unsigned int list_shrink(list_run *run, struct op *ops, unsigned int n, void *data);

#endif
