/* SPDX-License-Identifier: MIT */
/* The library's locks with prices: see locks.c. Callers: sim/scale/. */
#ifndef SHEAF_SIM_SCALE_LOCKS_H
#define SHEAF_SIM_SCALE_LOCKS_H

#include "os/lock.h"

/* From now on locks are queued spinlocks, as the kernel's. Before any is taken. */
void locks_are_queued(void);

#endif
