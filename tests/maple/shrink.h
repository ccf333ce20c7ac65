/* SPDX-License-Identifier: MIT */
/*
 * A list of operations that fails, made as short as can be: parts are left out as long as what remains
 * fails, first halves, then quarters, and at last single ones (delta debugging). Each trial runs in a
 * process of its own, so that a crash or an endless loop is a failure like any other.
 */
#ifndef TESTS_MAPLE_SHRINK_H
#define TESTS_MAPLE_SHRINK_H

#include "operations.h"

/* Runs the operations, from an empty tree. */
typedef void list_run(const struct op *ops, unsigned int n, void *data);

/* In a child: whether it fails; *failed_at: at which operation, if it tells (list_at()). */
bool list_fails(list_run *run, const struct op *ops, unsigned int n, void *data, bool silent,
		unsigned int *failed_at);
/* For run(): the operation that comes. */
void list_at(unsigned int i);
/* Shorten the list; returns its new length. */
unsigned int list_shrink(list_run *run, struct op *ops, unsigned int n, void *data);

#endif
