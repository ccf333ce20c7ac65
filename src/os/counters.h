/* SPDX-License-Identifier: MIT */
/*
 * Event counters of a cache: exact, one set for each CPU, where other processes may map them.
 *
 * Only with SHEAF_OPTIONS=stats. Counters lie in planes at fixed distances from the slots and have
 * their layout, so that a section which has a slot's address has its counters', too:
 *
 *   rows of slots        nobody      | handles                | CPU 0       | CPU 1 | ...
 *   + OS_COUNTERS        description | unregistered threads'  | words 0-31  | ...
 *   + 2 * OS_COUNTERS    nobody      | unregistered threads'  | words 32-63 | ...
 *
 * A row's places are the caches', 1 << SLOT_SHIFT bytes each, so OS_PLANE_WORDS words of a plane. The
 * first words of a CPU's are copies of what its two sheaves carry (os/view.h), the rest are sums.
 *
 * Rows are closed until they are opened, so that those of CPUs which never run cost no memory.
 *
 * Invariants
 *  O1. A sum changes by a section on its own CPU, or atomically in the unregistered threads' row.
 *  O2. A forked child's counters are its own and begin at 0.
 *  O3. Nothing is counted in a closed row, nor read: before a CPU's slot is open (src/percpu/rows.h)
 *      its events go to the unregistered threads' row.
 *
 * Callers: every layer above.
 */
#ifndef SHEAF_OS_COUNTERS_H
#define SHEAF_OS_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#define OS_COUNTERS    ((intptr_t)1 << 29)
#define OS_PLANES      2u
#define OS_PLANE_WORDS 32u
#define OS_WORDS       (OS_PLANES * OS_PLANE_WORDS)

enum os_shown {
	OS_SHOWN_MAIN, /* words of the slot's two sheaves; a counted push stores the first one */
	OS_SHOWN_SPARE,
	OS_SHOWN_BASES, /* what they had when they came: main in the low half, spare in the high one */
	OS_NR_SHOWN,
};

_Static_assert(OS_COUNTERS == 0x20000000 && OS_COUNTERS + 65536 == 536936448 && OS_SHOWN_MAIN == 0,
	       "a counted push knows where it shows main's word");

/* How far from the slots a plane is. */
static inline intptr_t os_plane(unsigned int plane)
{
	return (intptr_t)(plane + 1) * OS_COUNTERS;
}

/* Where word i of the row that follows from this handle or slot is. */
static inline char *os_counter(void *handle_or_slot, unsigned int i)
{
	return (char *)handle_or_slot + os_plane(i / OS_PLANE_WORDS) +
	       i % OS_PLANE_WORDS * sizeof(uint64_t);
}

/* In linux/shared.c. Let there be memory for the counters of the row of slots that this address is in. False: there is none,
 * or somebody else sees to it just now. Any thread may, at any time. */
bool os_open_counters(char *row);

/* In section.c. Add n to word i of this CPU's counters of a cache. Only if os.counting. */
void os_count(void *handle, unsigned int i, uint64_t n);

/*
 * The file's first 1 << ROW_SHIFT bytes, for src/cache/publish.c to describe the process in; NULL if
 * nothing is counted.
 */
void *os_counters_head(void);
/* Areas of rows that lie behind it. */
unsigned int os_counters_areas(void);

#endif
