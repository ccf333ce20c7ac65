/* SPDX-License-Identifier: MIT */
/*
 * A node's list of partial slabs, and the end of a slab's life.
 *
 * Callers: src/slab/ only.
 */
#ifndef SHEAF_SLAB_PARTIAL_H
#define SHEAF_SLAB_PARTIAL_H

#include "slab/slab.h"

/* Links count descriptors from the one of the node's first page. */
static inline uint32_t partial_link(const struct slab_node *node, const struct slab *slab)
{
	return slab ? (uint32_t)(slab - node->base) : SLAB_NONE;
}

static inline struct slab *partial_slab(const struct slab_node *node, uint32_t link)
{
	return link == SLAB_NONE ? NULL : node->base + link;
}

/* The node's part of the cache, made when it is first needed. NULL: out of memory. */
struct slab_node *partial_node(struct slab_cache *cache, unsigned int node);
struct slab_node *partial_node_of(struct slab_cache *cache, const struct slab *slab);

/* With the node's lock held: hang a held slab on the list, or take a listed one and hold it. */
void partial_add_first(struct slab_node *node, struct slab *slab);
void partial_add_last(struct slab_node *node, struct slab *slab);
void partial_remove(struct slab_node *node, struct slab *slab);
/* The same of a slab that was taken out of the list's links already. */
void partial_unlisted(struct slab_node *node, struct slab *slab);

/*
 * With the node's lock held: detach slabs until they have n free objects. Returns them linked,
 * held, or NULL.
 */
struct slab *partial_detach(struct slab_cache *cache, struct slab_node *node, unsigned int n);

/*
 * Add to a held slab's state what was taken of it, and let it go if it is full then: from now on it
 * belongs to the thread that frees into it first (B4). False: it has free objects, and is still
 * held.
 */
bool partial_let_go(struct slab_cache *cache, struct slab *slab, uint64_t taken);

/*
 * Let a held slab go that is not full: to the list, or to the system if it is empty and the node
 * has enough.
 */
void partial_release(struct slab_cache *cache, struct slab *slab, bool first);

/* With the node's lock held: is the slab empty, and does the node have enough others? */
bool partial_is_surplus(const struct slab_cache *cache, const struct slab *slab, uint32_t others);

/* Give a slab's pages back, late if the cache's go late; it is on no list. */
void partial_discard(struct slab_cache *cache, struct slab *slab);
void partial_discard_now(struct slab_cache *cache, struct slab *slab);

#endif
