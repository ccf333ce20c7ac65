/* SPDX-License-Identifier: MIT */
/*
 * Memory from the machine: reserving addresses, making them usable, giving them back.
 *
 * A page is 4 KiB, as layouts and orders count them, whatever the system's pages are: those have
 * os.page_size bytes, up to 64 KiB. Sizes and addresses are bytes, multiples of OS_PAGE; what the
 * system does page by page is done to all that it touches, but os_discard() to whole pages only.
 * Every call preserves errno.
 * Callers: src/page/ (and src/percpu/ for its rows).
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

/* Bytes, or an address, to whole pages of the system. */
static inline uintptr_t os_round_up(uintptr_t bytes)
{
	return (bytes + os.page_size - 1) & ~(os.page_size - 1);
}

static inline uintptr_t os_round_down(uintptr_t bytes)
{
	return bytes & ~(os.page_size - 1);
}

/* Reserve addresses, not memory, aligned to OS_HUGE. NULL if refused. */
void *os_reserve(size_t size);
void os_unreserve(void *address, size_t size);
/* True if addresses were refused last because mlockall() makes them count as locked memory. */
bool os_refused_as_locked(void);
/* Make reserved addresses readable; they read zero, and cost no memory. False if refused. */
bool os_allow_reads(void *address, size_t size);
/* Bytes of addresses this process may use at most (ulimit -v), or where more would cost too much. */
size_t os_address_limit(void);
/* Make reserved addresses usable; they read zero. False if the system has no more. */
bool os_commit(void *address, size_t size);
/* Give the memory behind usable addresses back, of whole pages of the system; they stay usable and read
 * zero. */
void os_discard(void *address, size_t size);
/* Advise that these whole huge pages' worth will be used, or that it will be used in parts. */
void os_advise_huge(void *address, size_t size, bool huge);
/* In linux/resident.c. Resident bytes of the whole process, now and at most; 0 where that is not known. */
void os_resident(size_t *now, size_t *peak);
/* Prefer memory of this node for addresses not yet touched. */
void os_prefer_node(void *address, size_t size, unsigned int node);

/*
 * In linux/rows.c. So many areas, one behind the other, of os_area_bytes() each: rows of 1 << ROW_SHIFT bytes for handles,
 * for each of os.nr_rows CPUs, and for nobody. All are copies of the template. What is not written
 * costs no memory, but for a few rows of each area. The first row of handles; NULL if refused.
 */
char *os_map_rows(unsigned int nr_areas, const struct slot *template);

static inline size_t os_area_bytes(void)
{
	return (size_t)(os.nr_rows + 2) << ROW_SHIFT;
}

#endif
