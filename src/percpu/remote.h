/* SPDX-License-Identifier: MIT */
/*
 * Objects of other nodes on their way home. A CPU collects them in sheaves: one for the freed
 * objects of each node, and one for the retired ones. A full one goes home as a whole, in exchange
 * for an empty one from that node's barn: a sheaf remembers where that was, and the next search
 * begins there. Freed objects go into that barn; if it has no room, they return to their slabs.
 * Retired objects wait for their grace period in a queue of their node (rcu/rcu_free.h). So one
 * object costs a section, as an object at home does, instead of words of its slab that other CPUs
 * write, and often the lock of its node.
 *
 *   kind of a remote sheaf: 2 * node: freed objects of that node; 2 * node + 1: retired ones
 *
 * The sheaves are in the last cells of the row's slot, which have a line of their own. Those whose
 * kinds are equal modulo SLOT_REMOTE take turns: with up to four nodes, none does; sheaves of both
 * sorts never do. Sections add objects and exchange sheaves there, as they do with main and spare.
 * The in-hand count of its sort shows a sheaf that was taken out.
 *
 * Invariants
 *  REMOTE-M1. A sheaf in such a cell has objects, all of the kind that its filled_by says.
 *  REMOTE-M2. Its word counts no events: each free counts itself. sheaf_remote_taken() says so to
 *      whoever harvests it. Argued: section_push_remote() adds 1 to its size, and nothing pops.
 *  REMOTE-M3. These cells change only while neither stop word is set, or by a drain of the sheaf's
 *      sort.
 *
 * Callers: src/cache/; src/rcu/; src/percpu/taken.c, each.c, drain.c.
 */
#ifndef SHEAF_PERCPU_REMOTE_H
#define SHEAF_PERCPU_REMOTE_H

#include "os/assert.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "percpu/sheaf.h"
#include "percpu/stat.h"

static inline unsigned int remote_kind(unsigned int node, bool retired)
{
	return 2 * node + retired;
}

/* For a sheaf in such a cell, or just taken out of it. */
static inline unsigned int remote_node(const struct sheaf *sheaf)
{
	return (sheaf->filled_by - 1) / 2;
}

static inline bool remote_is_retired(const struct sheaf *sheaf)
{
	return (os_load_relaxed(&sheaf->filled_by) - 1) & 1;
}

/* REMOTE-M1, for a sheaf of this sort that only its owner takes out of its cell. */
static inline bool remote_is_right(const struct sheaf *sheaf, bool retired)
{
	uint32_t filled_by = os_peek(&sheaf->filled_by);

	return ((uint32_t)os_peek(&sheaf->word) & SHEAF_SIZE) != 0 &&
	       filled_by - 1 == remote_kind(page_node(sheaf->objects[0]), retired);
}

/* Free or retire an object of another node by a section alone. Returns false if there is no sheaf
 * with room for it, or if it is another pointer. handle: cache->at.handle, which fast paths know.
 */
static inline bool sheaf_push_remote(char *handle, void *object, bool retired)
{
	return (uintptr_t)object - (uintptr_t)pages.base < pages.remote_size &&
	       section_push_remote(handle, remote_kind(page_node(object), retired), object);
}

static inline bool sheaf_push_freed(struct sheaf_cache *cache, char *handle, void *object)
{
	if (!sheaf_push_remote(handle, object, false))
		return false;
	stat_add(&cache->slab, STAT_free_fastpath, 1);
	return true;
}

/* Free an object of another node. Returns false if it must go to its slab. */
bool sheaf_free_remote(struct sheaf_cache *cache, void *object);

/* A remote sheaf left its cell: its objects are counted already. */
void sheaf_remote_taken(struct sheaf *sheaf);
/* Give up a remote sheaf that the caller has in hand, by the count of its sort, or NULL: its
 * objects go to their slabs, or wait. Returns true if too much is retired. */
bool sheaf_give_remote(struct sheaf_cache *cache, struct sheaf *sheaf);

/* The sheaf in this cell of the slot, or in that of this kind, if it is of this sort; or NULL. */
static inline struct sheaf *slot_remote(const struct slot *slot, unsigned int kind, bool retired)
{
	struct sheaf *sheaf = (struct sheaf *)os_load_acquire(&slot->cells[slot_remote_cell(kind)]);

	return sheaf && remote_is_retired(sheaf) == retired ? sheaf : NULL;
}

static inline unsigned int slot_remotes(void)
{
	return os.nr_nodes > 1 ? SLOT_REMOTE : 0;
}

static inline bool slot_has_remote(const struct slot *slot, bool retired)
{
	for (unsigned int i = 0; i < slot_remotes(); i++)
		if (slot_remote(slot, i, retired))
			return true;
	return false;
}

#endif
