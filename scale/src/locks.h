/* SPDX-License-Identifier: MIT */
/* The library's locks with prices: see locks.c. Callers: scale/src/. */
#ifndef SHEAF_SCALE_LOCKS_H
#define SHEAF_SCALE_LOCKS_H

#include "os/lock.h"

/* From now on locks are queued spinlocks, like the kernel's. Call it before any is taken. */
void locks_are_queued(void);

#endif
