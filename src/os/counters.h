/* SPDX-License-Identifier: MIT */
/*
 * Event counters of a cache: exact, one set for each CPU, where other processes may map them.
 *
 * Only with SHEAF_OPTIONS=stats. Counters lie at a fixed distance from the slots and have their
 * layout, so that a section which has a slot's address has its counters', too:
 *
 *   rows of slots      nobody      | handles                | CPU 0    | CPU 1 | ...
 *   + OS_COUNTERS      description | unregistered threads'  | counters | ...
 *
 * A row's places are the caches', 1 << SLOT_SHIFT bytes each, so OS_WORDS words. The first word of a
 * CPU's is a copy of its main sheaf's word, the next ones of its spare's and of what both had when
 * they came to the slot: src/sheaf/ keeps them, the rest are sums.
 *
 * Invariants
 *  O1. A sum changes by a section on its own CPU, or atomically in the unregistered threads' row.
 *  O2. A forked child's counters are its own and begin at 0.
 *
 * Callers: every layer above.
 */
#ifndef SHEAF_OS_COUNTERS_H
#define SHEAF_OS_COUNTERS_H

#include <stdint.h>

#define OS_COUNTERS ((intptr_t)1 << 29)
#define OS_WORDS    32u

/* Where word i of the row that follows from this handle or slot is. */
static inline char *os_counter(void *handle_or_slot, unsigned int i)
{
	return (char *)handle_or_slot + OS_COUNTERS + i * sizeof(uint64_t);
}

/* Add n to word i of this CPU's counters of a cache. Only if os.counting. */
void os_count(void *handle, unsigned int i, uint64_t n);

/*
 * The file's first 1 << ROW_SHIFT bytes, for src/cache/publish.c to describe the process in; NULL if
 * nothing is counted.
 */
void *os_counters_head(void);
/* Areas of rows that lie behind it. */
unsigned int os_counters_areas(void);

#endif
