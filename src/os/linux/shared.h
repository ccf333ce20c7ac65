/* SPDX-License-Identifier: MIT */
/* Counters that other processes read; see shared.c. Callers: src/os/linux/. */
#ifndef SHEAF_OS_LINUX_SHARED_H
#define SHEAF_OS_LINUX_SHARED_H

#include <stdbool.h>
#include <stddef.h>

#include "os/counters.h"

/* Map the counters of these rows; size includes nobody's row and the row of handles. Returns false
 * if there is no memory. */
bool shared_map(char *rows, size_t size);
/* The last n areas mapped this way have no rows after all; the caller unmaps their addresses. */
void shared_unmap_last(unsigned int n);
/* In a forked child: stop using the parent's counters. Returns false if the child cannot have its
 * own, and must not count. */
bool shared_after_fork(void);

#endif
