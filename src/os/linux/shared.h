/* SPDX-License-Identifier: MIT */
/* The file that counters are shared through; see shared.c. Callers: src/os/linux/. */
#ifndef SHEAF_OS_LINUX_SHARED_H
#define SHEAF_OS_LINUX_SHARED_H

#include <stdbool.h>
#include <stddef.h>

#include "os/counters.h"

/* Map the counters of these rows, size bytes with nobody's and the handles'. False: no memory. */
bool shared_map(char *rows, size_t size);
/* The last n areas so mapped have no rows after all; their addresses are the caller's to unmap. */
void shared_unmap_last(unsigned int n);
/* In a forked child: leave the parent's counters alone. False: it can have none of its own, and must
 * not count. */
bool shared_after_fork(void);

#endif
