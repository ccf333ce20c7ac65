/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU sections: the only code that changes a slot or the sheaf in it.
 *
 * User space cannot switch preemption off, so an operation is a restartable section whose last
 * instruction is its only visible store (docs/design.md, R1). The two structures that sections use
 * are defined here; src/percpu/ explains their fields.
 *
 *   slot (one per CPU and cache, 256 bytes)         sheaf (32 bytes and the pointers)
 *   +------------------------------+                +---------------------------------+
 *   | top, steal, cells[23]: shard |                | size, pops | capacity | next ... |
 *   | main | main ^ spare          |                | objects[0] ... objects[size-1]  |
 *   | home | home_size             |                +---------------------------------+
 *   | lock | in_hand[2] | rcu_free |
 *   +------------------------------+
 *
 * Other CPUs read and write the first three lines: they are the barn's shard of the CPU with that
 * number, whichever row the CPU uses (src/percpu/barn/barn.h). If there are several nodes, the
 * third one belongs to the row instead: each of its words is a sheaf that collects objects of
 * another node, freed or retired ones, or NULL (src/percpu/remote.h). The words that every
 * operation touches are in a separate line at the end: at the beginning of the slot, their low 12
 * address bits would equal those of the cache's handle and of sheaves, which first-level caches and
 * store forwarding treat as a conflict (measured: one process in five ran at half speed).
 *
 *   rows, 64 KiB each:   nobody | handles | CPU 0 | CPU 1 | ... | those that stand in
 *
 * A cache's handle is its place in the second row; its slot for CPU n is n + 1 rows after it. So a
 * section needs no load to find the slots of a cache. A section leaves if the thread's rseq area is
 * not registered.
 *
 * Invariants
 *  SECTION-S1. main and rcu_free are never NULL; a slot without a sheaf holds the bootstrap sheaf
 *      (size 0, capacity 0), which is empty for a pop and full for a push.
 *  SECTION-S2. A section commits with one store: pop and push store sheaf->size, swap stores
 *      slot->main, replace stores slot->pair, slot->rcu_free or a remote sheaf's cell. Every state
 *      between two sections is valid. A pop where objects are sampled stores sheaf->left before,
 *      which may have any value.
 *  SECTION-S3. Sections load and store size with one width: 32 bits, or the whole word where events
 *      are counted. Argued: it is the text of the sections that says so.
 *  SECTION-S4. Only a section on the slot's own CPU (on the trylock backend, a thread that holds
 *      the slot's lock) writes main, pair, rcu_free or remote sheaves' cells; or a drain
 *      (src/percpu/drain.c), while the cache's stop word for them is set and after a barrier. Pop
 *      and push do not test stop.
 *  SECTION-S5. No section puts a sheaf into a slot whose home_size is 0, or locks it. So drains and
 *      forks need not look at slots that no thread has opened (ROWS-W2).
 *
 * Progress: a section that is preempted, signalled or migrated restarts; the caller tries a few
 * times and then continues without the sheaf, so threads make progress under single-stepping and
 * signal storms.
 *
 * Callers: src/percpu/ and the fast paths of src/cache/.
 */
#ifndef SHEAF_OS_SECTION_H
#define SHEAF_OS_SECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sheaf/section.h>

#define SLOT_SHIFT	   8  /* bytes of a slot, as a power of two */
#define ROW_SHIFT	   16 /* bytes of a CPU's row of slots */
#define SLOTS_PER_ROW	   (1u << (ROW_SHIFT - SLOT_SHIFT))
#define SLOT_CELLS	   23
#define SLOT_REMOTE	   8 /* of the cells, if there are several nodes: see below */
#define SHEAF_HEADER	   32
#define SECTION_STOCK_BITS 16 /* see section_stock() */

/* In a slot, if events are counted, the upper half holds the pops since the sheaf arrived there:
 * pushes = size + pops - base. Everywhere else there are no pops, and `size` alone is correct. */
struct sheaf {
	union {
		uint64_t word;
		uint32_t size;
	};
	uint32_t capacity;
	union {
		uint32_t base;	/* its size when it came into its slot */
		uint32_t units; /* the memory of pointers of any kind: see src/rcu/any.c */
		/* If it collects retired objects: when it came into its cell, in ms; in a queue,
		 * about when it came there (src/grace/). */
		uint32_t since;
	};
	union {
		struct sheaf *next;  /* in a private list */
		const void *lent_by; /* a user owns it; its cache's handle: src/percpu/prefill.h */
		int32_t left;	     /* in a slot: see below */
	};
	/* Other CPUs read filled_by, whoever owns the sheaf: each store to this word is atomic. */
	union {
		struct {
			/* The CPU whose frees filled it, plus one; 0: a refill did. In a remote
			 * sheaf's cell: its kind, plus one. */
			uint32_t filled_by;
			/* Of a remote sheaf: where the node's barn had an empty one. A hint. */
			uint16_t place;
		};
		uint64_t number;     /* while it waits for a grace period */
		uint64_t taken_from; /* while a drain owns it: see src/percpu/taken.c */
		struct sheaf *prev;  /* and after the drain: the next older one, or NULL */
	};
	void *objects[];
};

/* In `capacity`: of an oversize sheaf, which no cache keeps (src/percpu/prefill.h). */
#define SHEAF_OVERSIZE (1u << 31)

#define SHEAF_SIZE_BITS 13
#define SHEAF_SIZE	((1u << SHEAF_SIZE_BITS) - 1)
#define SHEAF_POP	(UINT64_C(1) << SHEAF_SIZE_BITS)
/*
 * `left`, in a cache whose objects are sampled: how many pops of the fast path take no sample. Each
 * takes one away, before it commits the size, and fails if there were none: then a sample is due.
 * An abort between the two stores counts a pop twice; aborts are rare, so that hardly matters.
 */
#define SHEAF_MOST_LEFT (1u << 30)

static inline uint32_t sheaf_size(const struct sheaf *sheaf)
{
	return (uint32_t)sheaf->word & SHEAF_SIZE;
}

struct slot {
	/* The first line: the shard of the CPU, not of the row. */
	uint16_t top;	   /* where its full cells begin */
	uint16_t turns;	   /* from too many sheaves to too few, and back: src/percpu/flow.c */
	uint16_t steal[2]; /* where searches for others' empty, and full, sheaves begin */
	uintptr_t cells[SLOT_CELLS]; /* in a handle without a cache: words, see section_stock() */
#if SHEAF_SLOT_WORDS != 192
	uint32_t rcu_in_hand[2];
#endif
	struct sheaf *main;
	uintptr_t pair;	     /* main ^ spare */
	uintptr_t home;	     /* first address of the objects that may be pushed here */
	uintptr_t home_size; /* and the length in bytes of that range; 0: none */
	uint16_t lock;	     /* trylock backend */
	int16_t flow;	     /* not yet added to the cache's: src/percpu/flow.c */
	uint32_t rcu_since;  /* approximate time when rcu_free arrived here, in ms */
	uint32_t in_hand[2]; /* sheaves taken from here and not yet handed over, by phase */
	struct sheaf *rcu_free;
#if SHEAF_SLOT_WORDS == 192
	uint32_t rcu_in_hand[2]; /* rcu_free sheaves taken from here and not yet queued, by phase */
#endif
};

_Static_assert(sizeof(struct slot) == 1u << SLOT_SHIFT, "rows are arrays of slots");
_Static_assert((offsetof(struct slot, cells) + (SLOT_CELLS - SLOT_REMOTE) * sizeof(uintptr_t)) %
			       64 ==
		       0,
	       "other CPUs, which search shards, do not read the line of remote sheaves");

/*
 * Offsets in the text of linux/section_*.h, relative to main. Change them here and there together.
 */
#define SLOT_AT(member, at) (offsetof(struct slot, member) == offsetof(struct slot, main) + (at))
_Static_assert(offsetof(struct slot, main) == SHEAF_SLOT_WORDS && SLOT_AT(pair, 8) &&
		       SLOT_AT(home, 16) && SLOT_AT(home_size, 24) && SLOT_AT(rcu_free, 48) &&
		       offsetof(struct slot, cells) == 8 && SECTION_STOCK_BITS == 16,
	       "sections know where the words of a slot are");
_Static_assert(offsetof(struct sheaf, word) == 0 && offsetof(struct sheaf, size) == 0 &&
		       offsetof(struct sheaf, capacity) == 8 &&
		       offsetof(struct sheaf, left) == 16 &&
		       offsetof(struct sheaf, filled_by) == 24 &&
		       offsetof(struct sheaf, objects) == 32 && SHEAF_HEADER == 32,
	       "sections know where the words of a sheaf are");
_Static_assert(ROW_SHIFT == 16 && SHEAF_SIZE == 8191 && SHEAF_POP - 1 == 8191,
	       "sections know how rows follow each other, and what a counted pop adds");

/* The words of a cache's per-CPU part that a section needs. */
struct section_slots {
	char *handle;
	/* Set while a drain changes slots: sections that change main or spare (rcu_free) fail;
	 * those that change remote sheaves' cells, while either is set. */
	uint32_t stop, rcu_stop;
};

static inline struct slot *slot_of_row(char *handle, unsigned int row)
{
	return (struct slot *)(handle + ((size_t)(row + 1) << ROW_SHIFT));
}

/* Kinds of remote sheaves (src/percpu/remote.h) that are equal modulo SLOT_REMOTE take turns. */
static inline unsigned int slot_remote_cell(unsigned int kind)
{
	return SLOT_CELLS - SLOT_REMOTE + kind % SLOT_REMOTE;
}

/* The slot in nobody's row. It has no shard: src/percpu/rows.h says what is in its cells. */
static inline struct slot *slot_of_nobody(char *handle)
{
	return (struct slot *)(handle - ((size_t)1 << ROW_SHIFT));
}

/* All of these return NULL, 0 or false when there is nothing to do, when this thread has no
 * registered rseq area, and after a few aborts in a row. None of them waits; errno is preserved. */

/* Take the newest object from main. */
void *section_pop(struct section_slots *s);
/* The same, counting down to the next sample. Fails also if a sample is due. */
void *section_pop_sampled(struct section_slots *s);
/* If a sample is due in main, make the next one due at the nth pop from now, n up to
 * SHEAF_MOST_LEFT. */
bool section_arm(struct section_slots *s, uint32_t n);
/* Put an object into main, if sheaves here may hold it. */
bool section_push(struct section_slots *s, void *object);
/* Take up to n objects from main in one section, n > 0. */
unsigned int section_pop_bulk(struct section_slots *s, void **objects, unsigned int n);
/*
 * Put up to n objects into main in one section, n > 0, from the beginning of the array. Puts none
 * if sheaves here may not hold one of them. The caller must find out whether that or main's room
 * was the limit.
 */
unsigned int section_push_bulk(struct section_slots *s, void **objects, unsigned int n);
/* Swap main and spare if main is empty and spare is not. */
bool section_swap_empty(struct section_slots *s);
/* Swap main and spare if main is full and spare is not. */
bool section_swap_full(struct section_slots *s);
/* The next three fail if the slot is closed (SECTION-S5). */
/*
 * Make `sheaf` (or NULL) the spare of this CPU; *old is the previous one, now owned by the caller.
 */
bool section_replace_spare(struct section_slots *s, struct sheaf *sheaf, struct sheaf **old);
/* Make `sheaf` the spare of this CPU, if it has none. */
bool section_put_spare(struct section_slots *s, struct sheaf *sheaf);
/* Put an object into rcu_free, if sheaves here may hold it. */
bool section_push_rcu(struct section_slots *s, void *object);
/* Make `sheaf` (not empty) the rcu_free sheaf of this CPU; *old is the previous one, now owned by
 * the caller. Fails, too, if its first object is one of another node. */
bool section_replace_rcu(struct section_slots *s, struct sheaf *sheaf, struct sheaf **old);

/* Put an object into the remote sheaf of this kind. Fails if it is full, or if the cell has no
 * sheaf, or one of another kind. */
bool section_push_remote(char *handle, unsigned int kind, void *object);
/* Make `sheaf` (or NULL) the remote sheaf in the cell of this kind; *old is the previous one, now
 * owned by the caller. Fails if the slot is closed. */
bool section_replace_remote(struct section_slots *s, unsigned int kind, struct sheaf *sheaf,
			    struct sheaf **old);
/*
 * Slots of a handle without a cache: their cells are words of a key in the upper bits and a number
 * below 1 << SECTION_STOCK_BITS (group/stock.h). Add to the number, if the word has this key, and
 * the sum is not outside; `add` may be a negative number. Does not test stop.
 */
bool section_stock(struct section_slots *s, unsigned int cell, uint64_t key, uint64_t add);
/* Exchange a word. Fails while stop is set, and if the slot is closed (SECTION-S5). */
bool section_stock_swap(struct section_slots *s, unsigned int cell, uint64_t word, uint64_t *old);

#endif
