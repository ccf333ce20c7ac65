/* SPDX-License-Identifier: MIT */
/*
 * Event counters of a cache: exact, one set per CPU, in memory that other processes can map.
 *
 * Only with SHEAF_OPTIONS=stats. Counters are in planes at fixed distances from the slots, with the
 * same layout, so that a section that has the address of a slot can compute the address of its
 * counters:
 *
 *   rows of slots        no CPU      | handles                | CPU 0       | CPU 1 | ...
 *   + OS_COUNTERS        description | unregistered threads'  | words 0-31  | ...
 *   + 2 * OS_COUNTERS    no CPU      | unregistered threads'  | words 32-63 | ...
 *
 * In a row each cache has 1 << SLOT_SHIFT bytes, which is OS_PLANE_WORDS words per plane. The first
 * words of a CPU's counters are copies of the words of its two sheaves (os/view.h); the others are
 * sums.
 *
 * Rows are closed until they are opened, so that rows of CPUs that never run use no memory.
 *
 * Invariants
 *  COUNTERS-O1. Only a section on its own CPU changes a sum; without sections (on the trylock
 *      backend, and in the unregistered threads' row) sums change atomically.
 *  COUNTERS-O2. A forked child has its own counters, which begin at 0.
 *  COUNTERS-O3. Closed rows are neither written nor read: until a CPU's slot is open
 *      (src/percpu/rows.h), its events are counted in the unregistered threads' row.
 *
 * Callers: every layer above.
 */
#ifndef SHEAF_OS_COUNTERS_H
#define SHEAF_OS_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "os/section.h"

#define OS_COUNTERS    ((intptr_t)1 << 29)
#define OS_PLANES      2u
#define OS_PLANE_WORDS 32u
#define OS_WORDS       (OS_PLANES * OS_PLANE_WORDS)

enum os_shown {
	OS_SHOWN_MAIN, /* words of the slot's two sheaves; a counted push stores the first one */
	OS_SHOWN_SPARE,
	OS_SHOWN_BASES, /* their values on arrival: main in the low half, spare in the high half */
	OS_NR_SHOWN,
};

_Static_assert(OS_COUNTERS == 0x20000000 && OS_COUNTERS + 65536 == 536936448 && OS_SHOWN_MAIN == 0,
	       "a counted push knows where it shows main's word");

/* The distance from the slots to a plane. */
static inline intptr_t os_plane(unsigned int plane)
{
	return (intptr_t)(plane + 1) * OS_COUNTERS;
}

/* The address of word i in the row that belongs to this handle or slot. */
static inline char *os_counter(void *handle_or_slot, unsigned int i)
{
	return (char *)handle_or_slot + os_plane(i / OS_PLANE_WORDS) +
	       i % OS_PLANE_WORDS * sizeof(uint64_t);
}

/*
 * In linux/shared.c. Allocate memory for the counters of the row of slots that contains this
 * address. Returns false if there is no memory, or if another thread is doing this now. Any thread
 * may call it, at any time.
 */
bool os_open_counters(char *row);

/* In section.c. Add n to word i of this CPU's counters of a cache. Only if os.counting. */
void os_count(void *handle, unsigned int i, uint64_t n);

/* The file's first 1 << ROW_SHIFT bytes, where src/cache/publish.c describes the process; NULL if
 * nothing is counted. */
void *os_counters_head(void);
/* The number of areas of rows after it, 64 at most: counters of further areas are private. */
unsigned int os_counters_areas(void);
/* In linux/counter_file.c. At exit, after counters were read for the last time: other processes no
 * longer see them, and those in the file may be lost. */
void os_counters_end(void);

/*
 * The memory that the process has from the library, in words at the end of the head, which other
 * processes can read, and settings of it. Each layer updates its own.
 */
#define OS_PROCESS_AT (((size_t)1 << ROW_SHIFT) - 512)

/* X(name): as in struct sheaf_stats. */
#define OS_PROCESS_WORDS(X)                                                                        \
	X(committed_bytes)                                                                         \
	X(used_bytes)                                                                              \
	X(free_bytes)                                                                              \
	X(mapped_bytes)                                                                            \
	X(peak_bytes)                                                                              \
	X(decay_ms)                                                                                \
	X(decay_set_by)

#define OS_PROCESS_WORD(name) OS_PROCESS_##name,
enum os_process_word {
	OS_PROCESS_WORDS(OS_PROCESS_WORD) OS_NR_PROCESS_WORDS,
};
#undef OS_PROCESS_WORD

/* NULL if nothing is counted, or if there are no counters yet. */
static inline uint64_t *os_process_word(enum os_process_word word)
{
	char *head = os_counters_head();

	return head ? (uint64_t *)(head + OS_PROCESS_AT) + word : NULL;
}

#endif
