/* SPDX-License-Identifier: MIT */
/*
 * Stocks: bytes that a group was charged with in advance, for one CPU.
 *
 *   slots of the CPU: | ... | number, bytes | number, bytes | ... | ... |     STOCKS words
 *                                  ^ number & STOCK_AT: its distance from the first, in bytes
 *
 * A charge takes bytes from the stock, a free adds them: one section with one store (os/section.h,
 * section_stock()), and no shared line. If the word has another group, too few or too many bytes, a
 * slow path charges the group itself, and exchanges the word; the old one's bytes return to their
 * group. The slots are those of handles next to each other that belong to no cache.
 *
 * Invariants
 *  STOCK-T1. A group has one word of each CPU: at most KMEM_GROUP_STOCK bytes for each CPU.
 *  STOCK-T2. The bytes of a word are part of the usage of its group (GROUP-G1): a word with bytes
 *      has a group. A word without bytes may have an old number.
 *  STOCK-T3. Only an open slot has a word that is not 0 (SECTION-S5), so drains and forks look at
 *      the rows in use (ROWS-W2).
 *  STOCK-T4. A word of 0 changes only by an exchange, which tests `stop`. So a drain sets stop,
 *      ends all sections, puts 0 into words, and ends all sections again. A word that is still 0
 *      then is the drain's; the others were in a section meanwhile, and the drain tries again. On
 *      the trylock backend it takes each slot's lock instead. If the system refuses to end
 *      sections, the drain does nothing.
 *
 * Locks: a drain takes OS_RANK_STOCKS; others none. stock_add() is async-signal-safe, and so
 * are stock_charge() and stock_uncharge().
 * Callers: src/group/, src/cache/.
 */
#ifndef SHEAF_GROUP_STOCK_H
#define SHEAF_GROUP_STOCK_H

#include "group/group.h"
#include "os/section.h"

#define STOCK_SLOTS 8u /* of a CPU */
#define STOCK_CELLS 16u
#define STOCKS	    (STOCK_SLOTS * STOCK_CELLS)
#define STOCK_BATCH 32768u /* charged in advance */
#define STOCK_AT    0x778u /* bits of a number */

_Static_assert(STOCK_CELLS <= SLOT_CELLS, "a slot has room for them");
_Static_assert(STOCK_AT ==
		       ((STOCK_SLOTS - 1) << SLOT_SHIFT | (STOCK_CELLS - 1) * sizeof(uintptr_t)),
	       "a number has the distance of its word");
_Static_assert(KMEM_GROUP_STOCK == 1u << SECTION_STOCK_BITS, "sections know the most bytes");

extern struct section_slots stocks[STOCK_SLOTS] __attribute__((visibility("hidden")));
extern struct os_lock stock_drains; /* held during a drain */

/* Take the handles. With OS_RANK_CACHES held. False: no memory. */
bool stock_begin(void);

/* The slots with the word of a group, and which of their cells that is. */
static inline struct section_slots *stock_slots(uint32_t number)
{
	return &stocks[number >> SLOT_SHIFT & (STOCK_SLOTS - 1)];
}

static inline unsigned int stock_cell(uint32_t number)
{
	return number / sizeof(uintptr_t) & (STOCK_CELLS - 1);
}

/* The word of a stock. */
static inline uint64_t stock_word(uint32_t number, uint32_t bytes)
{
	return (uint64_t)number << 32 | bytes;
}

/* Charge, or force it. Returns NULL; or the group whose limit is reached. */
struct kmem_group *stock_charge(uint32_t number, uint64_t bytes, enum group_force force);
void stock_uncharge(uint32_t number, uint64_t bytes);
/* Would a charge fail, as it seems now? Charges nothing. */
bool stock_refuses(uint32_t number, uint64_t bytes);

/* Bytes in stocks of this group and those below it. O(CPUs in use). */
uint64_t stock_bytes(const struct kmem_group *g);
/* Return the stocks of this group and those below it. Sleeps. O(CPUs in use). */
void stock_drain(const struct kmem_group *g);

/* In a forked child. */
void stock_forget(void);

#endif
