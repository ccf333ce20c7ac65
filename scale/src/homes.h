/* SPDX-License-Identifier: MIT */
/*
 * Pages: which node the memory of each is on, that of the CPU that touches it first, as Linux does
 * it; and a number for each, from 1 in the order in which they are first asked for. Cache lines are
 * known by it, so that a run does not depend on where the system has put its memory.
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
/* The page's node; `node` from now on if it had none, and then *first is set. */
unsigned int homes_touch(struct homes *homes, uintptr_t page, unsigned int node, bool *first);
bool homes_is_touched(struct homes *homes, uintptr_t page);
/* These pages are given back: the next touch is the first one again. Returns how many had been
 * touched. O(pages). */
size_t homes_discard(struct homes *homes, uintptr_t page, size_t pages);

#endif
