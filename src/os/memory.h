/* SPDX-License-Identifier: MIT */
/*
 * Memory from the machine: reserving addresses, making them usable, giving them back.
 *
 * Sizes and addresses are bytes, multiples of OS_PAGE. Every call preserves errno.
 * Callers: src/page/ (and src/sheaf/ for its rows).
 */
#ifndef SHEAF_OS_MEMORY_H
#define SHEAF_OS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#define OS_PAGE_SHIFT 12
#define OS_PAGE	      ((size_t)1 << OS_PAGE_SHIFT)
#define OS_HUGE_SHIFT 21
#define OS_HUGE	      ((size_t)1 << OS_HUGE_SHIFT)

struct slot;

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
/* Give the memory behind usable addresses back; they stay usable and read zero. */
void os_discard(void *address, size_t size);
/* Advise that these whole huge pages' worth will be used, or that it will be used in parts. */
void os_advise_huge(void *address, size_t size, bool huge);
/* Prefer memory of this node for addresses not yet touched. */
void os_prefer_node(void *address, size_t size, unsigned int node);

/*
 * Rows of 1 << ROW_SHIFT bytes: one for handles, which reads zero, and one for each of os.nr_rows
 * CPUs, every slot of row r a copy of template_of_node[node of r]. What is not written costs no
 * memory. NULL if refused.
 */
char *os_map_rows(const struct slot *template_of_node);

#endif
