/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU sections: the only code that changes a slot or the sheaf in it.
 *
 * User space cannot switch preemption off, so an operation is a restartable section whose last
 * instruction is its only visible store (DESIGN R1). The two layouts the sections touch are given
 * here; src/sheaf/ gives them their meaning.
 *
 *   slot (one per CPU and cache, 256 bytes)         sheaf (32 bytes and the pointers)
 *   +------------------------------+                +---------------------------------+
 *   | main | main ^ spare          |                | word: pops << 16 | size         |
 *   | home | home_size             |                | capacity | row | owner | next   |
 *   | lock | hint | in_hand[2] ... |                | objects[0] ... objects[size-1]  |
 *   | cells[24]: the barn's shard  |                +---------------------------------+
 *   +------------------------------+
 *
 * Invariants
 *  S1. main is never NULL; a slot without a sheaf holds the bootstrap sheaf (size 0, capacity 0),
 *      which looks empty to a pop and full to a push.
 *  S2. A section commits with one store: pop and push to sheaf->word, swap to slot->main, replace
 *      to slot->pair. Every state between two sections is a valid one.
 *  S3. word is stored 64 bits wide; loads may be narrower (they forward), never wider.
 *  S4. Only a section on the slot's own CPU writes main or pair, or a drain (src/sheaf/drain.c)
 *      while the cache's stop word is set and after a barrier. Pop and push do not test stop.
 *
 * Progress: a section that is preempted, signalled or migrated restarts; the caller tries a few
 * times and then does without the sheaf, so single-stepping and signal storms make progress.
 *
 * Callers: src/sheaf/ and the fast paths of src/cache/.
 */
#ifndef SHEAF_OS_SECTION_H
#define SHEAF_OS_SECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLOT_SHIFT    8	 /* bytes of a slot, as a power of two */
#define ROW_SHIFT     16 /* bytes of a CPU's row of slots */
#define SLOTS_PER_ROW (1u << (ROW_SHIFT - SLOT_SHIFT))
#define SLOT_CELLS    24
#define SHEAF_HEADER  32
#define SHEAF_MAX     0xffffu	       /* largest capacity: size is 16 bits of the word */
#define SHEAF_POP     UINT64_C(0xffff) /* added to word by a pop: size - 1, pops + 1 */

struct sheaf {
	uint64_t word;
	uint32_t capacity;
	uint32_t row;
	const void *owner;
	struct sheaf *next;
	void *objects[];
};

struct slot {
	struct sheaf *main;
	uintptr_t pair;	     /* main ^ spare */
	uintptr_t home;	     /* first address whose objects may be pushed here */
	uintptr_t home_size; /* and how many bytes from there; 0: none */
	uint32_t lock;	     /* trylock backend */
	uint32_t hint;	     /* barn: about how many cells are full, from below */
	uint32_t in_hand[2]; /* sheaves taken from here and not yet handed over, by phase */
	uintptr_t unused[2];
	uintptr_t cells[SLOT_CELLS];
};

_Static_assert(sizeof(struct sheaf) == SHEAF_HEADER, "sections know where the objects begin");
_Static_assert(sizeof(struct slot) == 1u << SLOT_SHIFT, "rows are arrays of slots");

static inline unsigned int sheaf_size(const struct sheaf *sheaf)
{
	return (uint16_t)sheaf->word;
}

static inline struct slot *slot_of_row(char *slots, unsigned int row)
{
	return (struct slot *)(slots + ((size_t)row << ROW_SHIFT));
}

/* What a section needs to know of a cache's per-CPU part. */
struct section_slots {
	char *slots;   /* the cache's slot in row 0 */
	uint32_t stop; /* set while a drain changes slots: slot-changing sections fail */
};

/*
 * All of these return NULL, 0 or false when there is nothing to do, when this thread has no
 * registered rseq area, and after a few aborts in a row. None waits; errno is untouched.
 */

/* Take the newest object from main. */
void *section_pop(struct section_slots *s);
/* Put an object into main. The caller has checked that it may live in a sheaf. */
bool section_push(struct section_slots *s, void *object);
/* Take up to n objects from main, as one section. */
unsigned int section_pop_bulk(struct section_slots *s, void **objects, unsigned int n);
/* Put up to n objects into main, as one section; the first ones of the array. */
unsigned int section_push_bulk(struct section_slots *s, void **objects, unsigned int n);
/* Swap main and spare if main is empty and spare is not. */
bool section_swap_empty(struct section_slots *s);
/* Swap main and spare if main is full and spare is not. */
bool section_swap_full(struct section_slots *s);
/* Make `sheaf` (or NULL) the spare of this CPU; *old is what was there, now the caller's. */
bool section_replace_spare(struct section_slots *s, struct sheaf *sheaf, struct sheaf **old);

#endif
