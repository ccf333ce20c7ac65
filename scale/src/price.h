/* SPDX-License-Identifier: MIT */
/*
 * What each access costs the running task, and how it is counted: between the compiler's calls
 * (tsan.c) and the lines (lines.h).
 *
 * A section that commits has a price of its own, which includes accesses to lines that the CPU has,
 * because its C differs from the assembly that it stands for. Callers: scale/src/.
 */
#ifndef SHEAF_SCALE_PRICE_H
#define SHEAF_SCALE_PRICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scale/src/machine.h"

enum price_access {
	PRICE_READ,
	PRICE_LOOK, /* a read that acquires: later accesses depend on it */
	PRICE_WRITE,
	PRICE_CHANGE,	/* an atomic one: reads and writes */
	PRICE_PREFETCH, /* its line is requested, and nothing waits for it */
	PRICE_PREFETCH_WRITE,
};

void price_start(const struct machine *machine);
/* The running task is about to access these bytes, at this instruction. */
void price_access(const volatile void *at, size_t size, enum price_access how, const void *pc);
/* The running task is about to access a lock's word; `at`: the instruction that requested the lock.
 */
void price_lock(const void *lock, enum price_access how, const void *pc);
/* Memory was returned to the system. */
void price_discard(void *address, size_t size);
/* Pages of the library's memory in use now. */
uint64_t price_pages(void);

#endif
