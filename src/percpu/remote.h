/* SPDX-License-Identifier: MIT */
/*
 * Objects of other nodes on their way home. A CPU collects them in sheaves, one for each node
 * (those of nodes whose numbers are equal modulo SLOT_REMOTE take turns). A full one goes
 * into that node's barn, for an empty one if there is any: a sheaf remembers where it was taken, and
 * the next search begins there. If that barn has no room, its objects return to their slabs. So one object costs a section, as an object at home does, instead of words
 * of its slab that other CPUs write, and often the lock of its node.
 *
 * The sheaves are in the last cells of the row's slot, which have a line of their own. Sections add
 * objects and exchange sheaves there, as they do with main and spare. The in-hand count shows a
 * sheaf that was taken out.
 *
 * Invariants
 *  M1. A sheaf in such a cell has objects, all of the node that its filled_by says.
 *  M2. Its word counts no events: each free counts itself. sheaf_remote_taken() says so to whoever
 *      harvests it.
 *
 * Callers: src/cache/; src/percpu/drain.c.
 */
#ifndef SHEAF_PERCPU_REMOTE_H
#define SHEAF_PERCPU_REMOTE_H

#include "os/atomic.h"
#include "os/machine.h"
#include "percpu/sheaf.h"
#include "percpu/stat.h"

/* Free an object of another node by a section alone. Returns false if there is no sheaf with room
 * for it, or if it is another pointer. handle: cache->at.handle, which fast paths know. */
static inline bool sheaf_push_remote(struct sheaf_cache *cache, char *handle, void *object)
{
	if ((uintptr_t)object - (uintptr_t)pages.base >= pages.remote_size ||
	    !section_push_remote(handle, page_node(object), object))
		return false;
	stat_add(&cache->slab, STAT_free_fastpath, 1);
	return true;
}

/* Free an object of another node. Returns false if it must go to its slab. */
bool sheaf_free_remote(struct sheaf_cache *cache, void *object);

/* A remote sheaf left its cell: its objects are counted already. */
void sheaf_remote_taken(struct sheaf *sheaf);

/* The sheaf in cell i of this slot, i < slot_remotes(), or NULL. */
static inline struct sheaf *slot_remote(const struct slot *slot, unsigned int i)
{
	return (struct sheaf *)os_load_acquire(&slot->cells[slot_remote_cell(i)]);
}

static inline unsigned int slot_remotes(void)
{
	return os.nr_nodes > 1 ? SLOT_REMOTE : 0;
}

static inline bool slot_has_remote(const struct slot *slot)
{
	for (unsigned int i = 0; i < slot_remotes(); i++)
		if (slot_remote(slot, i))
			return true;
	return false;
}

#endif
