/* SPDX-License-Identifier: MIT */
/*
 * The barn: storage for whole sheaves. See sheaf.h for its cells and its order.
 *
 * Each CPU has a shard: 22 cells in the row of slots that has the CPU's number; 14 where there are
 * several nodes, because others are for objects of other nodes (remote.h). A node has blocks of 63
 * cells, allocated when they are needed. A full sheaf is put into this CPU's shard,
 * the blocks (a part of them that this CPU prefers, then the others), or the shard of another
 * CPU of the node, in that order; an empty one into the first or second of these. A search looks
 * at this CPU's shard, at the place where it last found another sheaf (the shard of a CPU with the
 * same hardware cache, or a part of the blocks), at all shards of such CPUs, at the blocks, and at
 * the shards of the node's other CPUs (steal.c).
 *
 * A CPU takes a sheaf of another CPU's shard only if it, or a third one, has seen it before: each
 * search marks the sheaves of the first shard in which it saw new ones. The owner's next exchange
 * removes the mark. So sheaves that the owner itself uses stay with it, and those that it does not
 * use find their users. A CPU that finds only unmarked sheaves makes new ones, from slabs or from
 * the pool: a cache gets as many as its CPUs want at the same time, and from then on only sheaves
 * that must move from CPU to CPU do so.
 *
 * One more cell of each shard is for a sheaf that is neither full nor empty, the CPU's partial
 * sheaf. Each such sheaf that is handed over on this CPU is merged with it, so that there is never
 * a second one. Prefills (prefill.h), and allocations that would go to slabs, take it.
 *
 * The search and the cells are in barn.c, cells.c and steal.c, the limits in limits.c; code that
 * visits every cell is in barn_all.c.
 *
 * Limits. A node may hold BARN_CPU_BYTES of free objects for each of its CPUs that has used the
 * barn, or up to 32 times that if a CPU's batches did not fit (flow.c); at least BARN_FLOOR
 * sheaves, or BARN_FLOOR_BYTES and two if that is less. Three quarters of a CPU's part are for its
 * shard, or two sheaves if the part has room for two; the rest is for the blocks. Limits set by
 * the user apply to a whole node, are divided among the CPUs that may use it, and do not grow; a
 * number of sheaves (sheaf_set_barn_full()) is met exactly, as far as there are cells. All
 * barns together have a limit, too: budget.h.
 *
 * A partial sheaf is beyond these limits, but there is none where a shard may hold no full sheaf.
 *
 * Invariants
 *  BARN-N1. A shard with a sheaf, or with a cell in transit, has its bit set in `used`. Bits are
 *      never cleared; nr_used counts them, with a short delay.
 *  BARN-N2. `found_none` is a hint, and so are `top` and `steal`. A search for a sheaf that follows
 *      it still looks at one place, a different one each time, so a sheaf that exists is seen, and
 *      then found, eventually. A search for room looks at this CPU's shard only: the next full
 *      sheaf that is taken anywhere clears the mark, and so does a search for one that finds none.
 *
 *  BARN-N3. The sheaf in the cell of a partial sheaf has objects, and room for more. A thread takes
 *      it out as a whole, with no cell in transit: its in-hand count shows it, or the program gets
 *      its objects.
 *
 * Callers: src/percpu/, and src/stats/ to count the sheaves.
 */
#ifndef SHEAF_PERCPU_BARN_H
#define SHEAF_PERCPU_BARN_H

#include "os/machine.h"
#include "percpu/sheaf.h"

/*
 * A CPU's share decides whether objects that are soon freed come from sheaves again. 128 KiB: in
 * the simulator, with half of 48 CPUs allocating and half freeing, the objects per pair that came
 * from slabs fell from 0.198 to 0.005 (64 bytes) and from 0.234 to 0.000 (1 KiB), compared with one
 * sum shared by all CPUs. With half as much, on many CPUs, half of each CPU's batch of 1000 objects
 * of 128 bytes moves to slabs, until the share grows; double is twice the memory that an idle cache
 * holds.
 */
#define BARN_CPU_BYTES ((size_t)128 << 10)
/*
 * Refills that look in other nodes' barns first, after one that found no memory on this node. Half:
 * two more page locks in as many refills; double: memory that is free again is found later.
 */
#define BARN_NODE_OUT	 64
#define BARN_FLOOR	 10		   /* sheaves it may always have: the kernel's number */
#define BARN_FLOOR_BYTES ((size_t)2 << 20) /* of larger sheaves, and two more */
/* A block is 512 bytes; with 7 blocks, the pointers to them and the words that are searched first
 * fit into one line. */
#define BARN_BLOCK_CELLS 63
#define BARN_BLOCKS	 7
/* One part of each block is one place that a search looks at: the cells of a cache line, of which
 * the first has one fewer. So with the barn's own line it reads eight lines at most. */
#define BARN_PARTS	8
#define BARN_PART_CELLS 8

/* The low bits of a cell; sheaves are aligned to 64 bytes. */
#define BARN_FULL    ((uintptr_t)1)
#define BARN_TRANSIT ((uintptr_t)2)
#define BARN_PHASE   ((uintptr_t)4)  /* of a cell in transit */
#define BARN_SEEN    ((uintptr_t)8)  /* by another CPU, since it was put here */
#define BARN_OLD     ((uintptr_t)16) /* nobody used it since idle.c last looked */
#define BARN_TAGS    ((uintptr_t)63)

struct barn_block {
	uint16_t top; /* approximate place where its full cells begin */
	uint16_t unused[3];
	uintptr_t cells[BARN_BLOCK_CELLS];
};

_Static_assert(sizeof(struct barn_block) == BARN_PARTS * 64, "a part is a line");

/* The first cell of this part of a block; of BARN_PARTS: their number. */
static inline unsigned int barn_part_at(unsigned int part)
{
	return part ? part * BARN_PART_CELLS - 1 : 0;
}

enum barn_wanted {
	BARN_EMPTY_SHEAF,
	BARN_FULL_SHEAF,
	BARN_ROOM, /* for a full sheaf */
};

/* Of one node. Written when a CPU first uses it, and when a search finds nothing. */
struct barn {
	struct barn_block *blocks[BARN_BLOCKS]; /* NULL until needed */
	uint32_t nr_used;
	uint8_t found_none[3]; /* by enum barn_wanted: the last search found none of it anywhere */
	uint8_t node_out;      /* the node had no memory: this many refills look elsewhere first */
	uint64_t used[];       /* CPUs, by place: see os/machine.h */
};

/* The first place in use from this one on, or `end`. */
static inline unsigned int barn_next_used(const struct barn *barn, unsigned int place,
					  unsigned int end)
{
	while (place < end) {
		uint64_t bits = os_load_relaxed(&barn->used[place / 64]) >> place % 64;

		if (bits) {
			place += (unsigned int)__builtin_ctzll(bits);
			break;
		}
		place = (place | 63) + 1;
	}
	return place < end ? place : end;
}

/* The cells of a shard for full and empty sheaves; the next one is that of the partial sheaf. */
static inline unsigned int barn_shard_cells(void)
{
	return (os.nr_nodes > 1 ? SLOT_CELLS - SLOT_REMOTE : SLOT_CELLS) - 1;
}

static inline uintptr_t *barn_partial_cell(const struct sheaf_cache *cache, unsigned int cpu)
{
	return &slot_of_row(cache->at.handle, cpu)->cells[barn_shard_cells()];
}

static inline struct sheaf *barn_sheaf(uintptr_t cell)
{
	return (struct sheaf *)(cell & ~BARN_TAGS);
}

/* A cell in transit: who took the sheaf, of which node it is, whether a full sheaf may be left in
 * it, whether it belongs to another CPU or to the node. */
struct barn_cell {
	uintptr_t *at, *saw; /* the first shard with sheaves that no other CPU had seen, or NULL */
	unsigned int cpu, node;
	bool may_be_full, far;
};

/*
 * Begin to take a full (an empty) sheaf from the barn of this node: this CPU's or another one. The
 * search goes from this CPU's shard to the node's blocks and other CPUs' shards. Returns NULL if
 * there is none that may be taken. Its cell is in transit until barn_finish(). place: where the
 * caller's last search ended (0 at first), and where this one does; a hint, which may be about
 * another node. NULL: this CPU's hint.
 */
struct sheaf *barn_begin_full(struct sheaf_cache *cache, unsigned int node, struct barn_cell *cell);
struct sheaf *barn_begin_empty(struct sheaf_cache *cache, unsigned int node, uint16_t *place,
			       struct barn_cell *cell);
/* A hint: had this CPU's node no memory when a refill asked last? Counts the questions. */
bool barn_node_is_out(struct sheaf_cache *cache);
void barn_set_node_out(struct sheaf_cache *cache, bool out);
/*
 * Leave this sheaf, or nothing, in the cell. A full sheaf is left only if the cell may be full. An
 * empty sheaf moves from a far cell into this CPU's shard if there is room; otherwise a CPU that
 * once took from a far cell would always do so. A full sheaf stays, near the CPU whose allocations
 * emptied the sheaf that it replaces.
 */
void barn_finish(struct sheaf_cache *cache, struct barn_cell *cell, struct sheaf *sheaf);

/*
 * Put a sheaf into this CPU's shard, the node's blocks or, if it is full, another CPU's shard.
 * Returns false if they are at their limits. *displaced: NULL, or the empty sheaf that was in the
 * only place for the full one. A full one goes to the node of its objects; if that is another one,
 * there is no room if no CPU of that node has used the cache, so that it has no barn: nobody would
 * take the sheaf out.
 */
bool barn_put_full(struct sheaf_cache *cache, unsigned int node, struct sheaf *sheaf,
		   struct sheaf **displaced);
bool barn_put_empty(struct sheaf_cache *cache, struct sheaf *sheaf);
/* Take this CPU's partial sheaf, or return NULL. For a caller that has seen no drain since it
 * entered the in-hand count, or that gives the objects to the program. */
struct sheaf *barn_take_partial(struct sheaf_cache *cache);
/* Make it this CPU's partial sheaf; or take that one, *other (else NULL), if there is one already.
 * Returns false if none is allowed, or its cell is in transit. */
bool barn_put_partial(struct sheaf_cache *cache, struct sheaf *sheaf, struct sheaf **other);
static inline bool barn_has_partial(const struct sheaf_cache *cache)
{
	return os_load_relaxed(barn_partial_cell(cache, os_cpu())) != 0;
}
/*
 * False if a full sheaf would hardly find room now: this CPU's shard has none, and the last search
 * for it found none anywhere. A hint for callers that would have to fill one first, or to find an
 * empty one.
 */
bool barn_has_room(struct sheaf_cache *cache);
/* There may be room again: the limits have changed, or all sheaves were taken. */
void barn_forget_no_room(struct sheaf_cache *cache);

/* Allocate the pointers to the barns. Returns false if there is no memory. */
bool barn_init(struct sheaf_cache *cache);
/* Free the barns' memory. They must be empty. */
void barn_exit(struct sheaf_cache *cache);

/*
 * --- barn_all.c --------------------------------------------------------------------------------
 */

/* Visits each cell that the cache has ever used. */
struct barn_walk {
	uintptr_t *cells; /* an array of n */
	unsigned int n;
	unsigned int node, next; /* where the next one is: among the node's places, then blocks */
};
bool barn_next_cells(struct sheaf_cache *cache, struct barn_walk *walk);
#define barn_for_each_cell(cache, at)                                                              \
	for (struct barn_walk at##_walk = {0}; barn_next_cells((cache), &at##_walk);)              \
		for (uintptr_t *at = at##_walk.cells; at < at##_walk.cells + at##_walk.n; at++)

/* Wait for cells that were put in transit in this phase (0 or 1). */
void barn_wait(struct sheaf_cache *cache, uint32_t phase);
/* Take all sheaves out, linked by `next`. Only while stop is set: waits for cells in transit. */
struct sheaf *barn_take_all(struct sheaf_cache *cache);
/* After fork: empty the cells that vanished threads had in transit; returns their number. CPUs in
 * use are counted again, and the limits are adjusted. */
unsigned int barn_after_fork(struct sheaf_cache *cache);

/*
 * --- limits.c ----------------------------------------------------------------------------------
 *
 * How many objects fit into sheaves, and how many sheaves into barns: from the size of objects, the
 * user's settings, and the CPUs that use the cache.
 */

/* Give the cache its slots and barns; its slab part must be laid out. Returns false if there is no
 * memory. barn_exit() releases them, when the cache is drained and no longer used. */
bool sheaf_cache_init(struct sheaf_cache *cache, void *handle, unsigned int capacity);

/* From now on new sheaves have this capacity (1 ... SHEAF_CAPACITY_MAX), which is then fixed, but
 * for retired objects of a busy cache (flow.c). */
void sheaf_set_capacity(struct sheaf_cache *cache, unsigned int capacity);
/* They have this one, and grow again as those of a new cache. */
void sheaf_choose_capacity(struct sheaf_cache *cache, unsigned int first);
/* Limit each node's barn to these objects and bytes, 0 for the default; or to so many full
 * sheaves. */
void sheaf_set_barn(struct sheaf_cache *cache, size_t objects, size_t bytes);
void sheaf_set_barn_full(struct sheaf_cache *cache, unsigned int sheaves);
/* How many full sheaves the barn of a node may hold now: by CPUs in use, or all if the user set
 * it. */
unsigned int barn_most_full(const struct sheaf_cache *cache);

/* Compute barn_full and shard_full from the limits, the capacity and the CPUs. */
void barn_set_limits(struct sheaf_cache *cache);
/* A CPU's part of the barn, which grows with use: see flow.c. */
size_t barn_cpu_bytes(const struct sheaf_cache *cache);
/* CPUs in use on all nodes: those on which the program runs, or this cache's, whichever are more;
 * at least 1. */
unsigned int barn_cpus(const struct sheaf_cache *cache);

#endif
