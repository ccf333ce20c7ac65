/* SPDX-License-Identifier: MIT */
/*
 * Pages: the node of each page's memory, which is that of the CPU that touches it first, as on
 * Linux; and a number for each page, from 1 in the order of the first lookups. Cache lines are
 * identified by it, so that a run does not depend on where the system put its memory.
 *
 * A hash table by address. Callers: scale/src/.
 */
#ifndef SHEAF_SCALE_HOMES_H
#define SHEAF_SCALE_HOMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOMES_PAGE_SHIFT 12

struct homes;

struct homes *homes_new(void);
/* A page is an address >> HOMES_PAGE_SHIFT. */
uint32_t homes_number(struct homes *homes, uintptr_t page);
/* The page's node. If it had none, it becomes `node`, and *first is set. */
unsigned int homes_touch(struct homes *homes, uintptr_t page, unsigned int node, bool *first);
bool homes_is_touched(struct homes *homes, uintptr_t page);
/* These pages are returned to the system: the next touch counts as the first one. Returns how many
 * had been touched. O(pages). */
size_t homes_discard(struct homes *homes, uintptr_t page, size_t pages);

#endif
