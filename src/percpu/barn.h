/* SPDX-License-Identifier: MIT */
/*
 * The barn: where whole sheaves wait. See sheaf.h for its cells and its order.
 *
 * Each CPU has a shard of it, 23 cells in the row of slots that has the CPU's number; a node has blocks
 * of 63 cells, made when they are needed. Full sheaves go to this CPU's shard, the blocks or the shard of
 * another CPU of the node, in that order; empty ones to the first two. A search looks at this CPU's
 * shard, where it found another's sheaf before, at the blocks, and at other CPUs' shards (steal.c).
 *
 * Limits. A node may hold BARN_CPU_BYTES of free objects for each of its CPUs that has used the barn; at
 * least BARN_NODE_OBJECTS or BARN_NODE_BYTES, whichever is less, and BARN_FLOOR sheaves. Of a CPU's
 * part three quarters are for its shard, but two sheaves if they are that many; the rest is for the blocks.
 * Limits of the user's are for all of a node, and divided among the CPUs that may come.
 *
 * Invariants
 *  N1. A shard that holds a sheaf, or a cell in transit, has its bit in `used`. Bits stay; nr_used counts
 *      them, or is about to.
 *  N2. `found_none` is a hint, and so are `top` and `steal`. A search that heeds it looks at one place all the
 *      same, another one each time: a sheaf that is there is found, sooner or later.
 *
 * Callers: src/percpu/, and src/stats/ to count what is there.
 */
#ifndef SHEAF_PERCPU_BARN_H
#define SHEAF_PERCPU_BARN_H

#include "percpu/sheaf.h"

/*
 * A CPU's share decides whether objects that are freed at once come from sheaves again. 128 KiB: in the
 * simulator, half of 48 CPUs allocating and half freeing, objects of each pair that came from slabs fell from
 * 0.198 to 0.005 (64 bytes) and from 0.234 to 0.000 (1 KiB), where they had a part of one sum before. With half, on many CPUs,
 * half of each one's batch of 1000 objects of 128 bytes goes to slabs; double is twice the memory that an idle cache keeps.
 */
#define BARN_CPU_BYTES ((size_t)128 << 10)
/* What a node may have however few CPUs use it: batches of one thread, as with the kernel's barn. */
#define BARN_NODE_OBJECTS 4096
#define BARN_NODE_BYTES	  ((size_t)1 << 20)
#define BARN_FLOOR	  10 /* sheaves it may always have: as many as the kernel's */
/* A block is 512 bytes; with 7 the pointers to them and what is searched first are one line. */
#define BARN_BLOCK_CELLS 63
#define BARN_BLOCKS	 7

/* The low bits of a cell; sheaves are aligned to 64 bytes. */
#define BARN_FULL    ((uintptr_t)1)
#define BARN_TRANSIT ((uintptr_t)2)
#define BARN_PHASE   ((uintptr_t)4) /* of a cell in transit */
#define BARN_TAGS    ((uintptr_t)63)

struct barn_block {
	uint32_t top; /* where its full cells begin, about */
	uint32_t unused;
	uintptr_t cells[BARN_BLOCK_CELLS];
};

/* Of a node. Written when a CPU first uses it, and when a search finds nothing. */
struct barn {
	struct barn_block *blocks[BARN_BLOCKS]; /* NULL until needed */
	uint32_t nr_used;
	uint16_t found_none[2]; /* no empty, no full sheaf was found anywhere when last searched */
	uint64_t used[];	/* CPUs, by place: see os/machine.h */
};

static inline struct sheaf *barn_sheaf(uintptr_t cell)
{
	return (struct sheaf *)(cell & ~BARN_TAGS);
}

/* A cell in transit, who looked for it, whether a full sheaf may be left in it, and whether it is
 * another CPU's or the node's. */
struct barn_cell {
	uintptr_t *at;
	unsigned int cpu;
	bool may_be_full, far;
};

/*
 * Begin to take a full (an empty) sheaf: from this CPU's shard, the node's blocks, or another CPU's
 * shard. NULL: there is none. Its cell is in transit until barn_finish().
 */
struct sheaf *barn_begin_full(struct sheaf_cache *cache, struct barn_cell *cell);
struct sheaf *barn_begin_empty(struct sheaf_cache *cache, struct barn_cell *cell);
/*
 * Leave this sheaf in the cell, or nothing. A full one only if the cell may be full. An empty one moves
 * from a far cell into this CPU's shard if that has room, or a CPU that once went far always would; a
 * full one stays, near the CPU whose allocations emptied the sheaf it replaces.
 */
void barn_finish(struct sheaf_cache *cache, struct barn_cell *cell, struct sheaf *sheaf);

/* Leave the full sheaf that was begun where it was. */
void barn_put_back(struct barn_cell *cell, struct sheaf *full);

/*
 * Put a sheaf into this CPU's shard, the node's blocks or, if it is full, another CPU's shard. False if
 * they are at their limits. *displaced: NULL, or the empty sheaf that was in the full one's only place.
 */
bool barn_put_full(struct sheaf_cache *cache, struct sheaf *sheaf, struct sheaf **displaced);
bool barn_put_empty(struct sheaf_cache *cache, struct sheaf *sheaf);
/* Would a full sheaf find room now? A hint, for who would have to fill one first. */
bool barn_has_room(struct sheaf_cache *cache);

/* Wait for cells that were put in transit in this phase (0 or 1). */
void barn_wait(struct sheaf_cache *cache, uint32_t phase);
/* Take everything out, linked by `next`. Only while stop is set: waits for cells in transit. */
struct sheaf *barn_take_all(struct sheaf_cache *cache);
/* After fork: cells that vanished threads had in transit are emptied; returns how many. CPUs in use are
 * counted again, and the limits follow. */
unsigned int barn_after_fork(struct sheaf_cache *cache);
/* Make room for the barns; false: no memory. */
bool barn_init(struct sheaf_cache *cache);
/* Free what they are made of. They must be empty. */
void barn_exit(struct sheaf_cache *cache);

/* Call visit for each array of cells the cache has ever used. */
void barn_for_each_cells(struct sheaf_cache *cache,
			 void (*visit)(void *data, uintptr_t *cells, unsigned int n), void *data);

#endif
