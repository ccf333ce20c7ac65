/* SPDX-License-Identifier: MIT */
/*
 * Memory from the machine: reserve addresses, make them usable, return their memory.
 *
 * A page here is 4 KiB, the unit of layouts and orders. The system's pages have os.page_size bytes,
 * up to 64 KiB. Sizes and addresses are in bytes, multiples of OS_PAGE. Calls affect every system
 * page that the range touches, except os_discard(), which affects whole system pages only. Every
 * call preserves errno. Callers: src/page/ (and src/percpu/ for its rows).
 */
#ifndef SHEAF_OS_MEMORY_H
#define SHEAF_OS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/machine.h"
#include "os/section.h"

#define OS_PAGE_SHIFT 12
#define OS_PAGE	      ((size_t)1 << OS_PAGE_SHIFT)
#define OS_HUGE_SHIFT 21
#define OS_HUGE	      ((size_t)1 << OS_HUGE_SHIFT)

/* Round bytes, or an address, to whole pages of the system. */
static inline uintptr_t os_round_up(uintptr_t bytes)
{
	return (bytes + os.page_size - 1) & ~(os.page_size - 1);
}

static inline uintptr_t os_round_down(uintptr_t bytes)
{
	return bytes & ~(os.page_size - 1);
}

/*
 * Reserve addresses, not memory, aligned to OS_HUGE. Returns NULL if refused. They are left out of
 * core dumps until they are made usable: a debugger would write terabytes of zeros.
 */
void *os_reserve(size_t size);
/* The same not aligned, in half the system calls; or usable ones, in a quarter. */
void *os_map_anywhere(size_t size, bool usable);
void os_unreserve(void *address, size_t size);
/* In linux/refused.c. Why the system last refused addresses or memory, and what to do: the end of a
 * line. O(mappings). */
void os_refusal(char *text, size_t size);
/*
 * Make reserved addresses readable; they read as zero, use no memory, and stay out of core dumps.
 * Returns false if refused.
 */
bool os_allow_reads(void *address, size_t size);
/* The most bytes of addresses that this process can use without too high a cost; and what it may
 * use of these (ulimit -v), in a system call. */
size_t os_addresses(void);
size_t os_address_limit(void);
/* Read os.memory and os.quota, which are unknown at first. Returns true if the memory has changed.
 * Some 15 system calls; one thread at a time. */
bool os_memory_refresh(void);
/* Make reserved addresses usable; they read as zero. Returns false if the system has no memory. */
bool os_commit(void *address, size_t size);
/* Reserve addresses and make them usable, until os_unreserve(). NULL: refused. */
static inline void *os_map(size_t size)
{
	char *memory = os_reserve(size);

	if (!memory || os_commit(memory, size))
		return memory;
	os_unreserve(memory, size);
	return NULL;
}
/* Put whole system pages back into the state of reserved ones, and return their memory, locked or
 * not. False: refused. */
bool os_uncommit(void *address, size_t size);
/*
 * Move usable memory, without copying it, to reserved addresses, `size` of which become usable;
 * what is beyond `old` bytes reads as zero. False if the system refuses: the memory is where it
 * was, and the reserved addresses must no longer be used or unreserved: they may be lost,
 * or the system may have given them to another thread.
 */
bool os_move(void *from, size_t old, void *to, size_t size);
/*
 * Return the memory of whole system pages in this range to the system; the addresses stay usable
 * and read as zero. Locked memory (mlock, mlockall) is returned only if `locked` is true and the
 * system can do it (Linux 5.18). False: refused; each of the pages may read as zero, or as before.
 */
bool os_discard(void *address, size_t size, bool locked);
/* Lock whole system pages in memory, and leave them out of core dumps. False: refused. */
bool os_hide(void *address, size_t size);
void os_unhide(void *address, size_t size);
/* Advise that this range of whole huge pages will be used as a whole, or in parts. */
void os_advise_huge(void *address, size_t size, bool huge);
/* In linux/resident.c. Resident bytes of the whole process: now, and the peak; 0 where unknown. */
void os_resident(size_t *now, size_t *peak);
/* Has the process locked any memory, as far as is known? */
bool os_locks_memory(void);
/* In linux/policy.c. Prefer memory of this node for addresses that have not been touched yet. */
void os_prefer_node(void *address, size_t size, unsigned int node);

/*
 * In linux/rows.c. Map nr_areas areas, one after the other, of os_area_bytes() each. An area has
 * rows of 1 << ROW_SHIFT bytes: one for handles, one for each of os.nr_rows CPUs, and nobody's. All
 * are copies of the template. Memory is used only for rows that are written, and for a few rows of
 * each area. If the template is not copied, all are zero. Returns the first row of handles; NULL if
 * refused.
 */
char *os_map_rows(unsigned int nr_areas, const struct slot *template, bool *copied);

static inline size_t os_area_bytes(void)
{
	return (size_t)(os.nr_rows + 2) << ROW_SHIFT;
}

/* --- for src/os/linux/ ------------------------------------------------------------------------ */

/* In linux/refused.c: note, for os_refusal(), that the system just refused this many bytes, with
 * this errno; 0: nothing. */
void map_refused(size_t size, bool writable);

#endif
