/* SPDX-License-Identifier: MIT */
/*
 * Nodes: their cache, preallocated nodes, and retired nodes.
 *
 * A store knows how many nodes it needs before it takes one. Up to SINGLY are allocated one by one
 * and linked to mas->alloc; more come as a prefilled sheaf. Either way a store has all of its nodes
 * before it begins. Readers may be using a replaced node, so it is freed after a grace period, or
 * immediately if the tree has no readers.
 *
 * Called with the tree's lock held, except nodes_alloc() and nodes_free().
 */
#include <errno.h>
#include <pthread.h>
#include <sheaf/rcu.h>
#include <time.h>

#include "rules.h"
#include "tree.h"

static struct kmem_cache *cache;
static pthread_once_t cache_once = PTHREAD_ONCE_INIT;

/* If another thread has created one meanwhile, this one is destroyed. */
static void make_cache(void)
{
	static const struct kmem_cache_args args = {.align = NODE_BYTES};
	struct kmem_cache *made = kmem_cache_create("maple_node", NODE_BYTES, &args, SLAB_NO_MERGE);
	struct kmem_cache *none = NULL;

	if (made && !__atomic_compare_exchange_n(&cache, &none, made, false, __ATOMIC_RELEASE,
						 __ATOMIC_RELAXED))
		kmem_cache_destroy(made);
}

/* One thread creates the cache while the others wait. If there is no memory, later threads try
 * again. */
static __attribute__((noinline)) struct kmem_cache *first_use(void)
{
	pthread_once(&cache_once, make_cache);
	if (!load_acquire(&cache))
		make_cache();
	return load_acquire(&cache);
}

struct kmem_cache *node_cache(void)
{
	struct kmem_cache *made = load_acquire(&cache);

	return likely(made) ? made : first_use();
}

/* The cache for this call. As with the nodes, a call that must not fail waits until there is
 * memory. */
static struct kmem_cache *cache_for(gfp_t gfp)
{
	static const struct timespec moment = {.tv_nsec = 50000};
	struct kmem_cache *s = node_cache();

	while (unlikely(!s) && (gfp & __GFP_NOFAIL)) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
		s = node_cache();
	}
	return s;
}

/* The node was retired a while ago, and all of it will be written. */
static inline void prefetch_new(const struct maple_node *node)
{
	for (unsigned int line = 0; line < NODE_BYTES; line += 64)
		__builtin_prefetch((const char *)node + line, 1);
}

/* Single nodes are a list, linked by their first words. They stay dead until they are used: a state
 * that was not reset may still remember one as a node of its tree. */
static inline void link_to(struct maple_node *node, const struct maple_node *next)
{
	node->meta = (uintptr_t)next | META_DEAD;
}

static inline struct maple_node *after(const struct maple_node *node)
{
	return (struct maple_node *)(uintptr_t)(node->meta & ~META_DEAD);
}

static unsigned int singles(const struct ma_state *mas)
{
	unsigned int n = 0;

	for (const struct maple_node *node = mas->alloc; node; node = after(node))
		n++;
	return n;
}

unsigned int nodes_in_hand(const struct ma_state *mas)
{
	return singles(mas) + (mas->sheaf ? kmem_cache_sheaf_size(mas->sheaf) : 0);
}

static void free_single(struct ma_state *mas)
{
	struct maple_node *node = mas->alloc;

	mas->alloc = after(node);
	kmem_cache_free(cache, node);
}

/* n more single nodes, or none. */
static int get_singly(struct ma_state *mas, unsigned int n, gfp_t gfp)
{
	for (unsigned int i = 0; i < n; i++) {
		struct maple_node *node = kmem_cache_alloc(cache, gfp);

		if (unlikely(!node)) {
			while (i-- > 0)
				free_single(mas);
			return -ENOMEM;
		}
		prefetch_new(node);
		link_to(node, mas->alloc);
		mas->alloc = node;
	}
	return 0;
}

int nodes_get(struct ma_state *mas, unsigned int n, gfp_t gfp)
{
	struct kmem_cache *s = cache_for(gfp);
	unsigned int had = nodes_in_hand(mas);

	mas->node_request = n;
	if (n <= had)
		return 0;
	if (unlikely(!s))
		return -ENOMEM;
	if (!mas->sheaf && n <= SINGLY)
		return get_singly(mas, n - had, gfp);
	n -= singles(mas);
	if (mas->sheaf)
		return kmem_cache_refill_sheaf(s, gfp, &mas->sheaf, n) ? -ENOMEM : 0;
	mas->sheaf = kmem_cache_prefill_sheaf(s, gfp, n);
	return mas->sheaf ? 0 : -ENOMEM;
}

struct maple_node *node_take(struct ma_state *mas)
{
	struct maple_node *node = mas->alloc;

	if (unlikely(!node))
		return kmem_cache_alloc_from_sheaf(cache, GFP_NOWAIT, mas->sheaf);
	mas->alloc = after(node);
	return node;
}

SHEAF_PUBLIC void mas_destroy(struct ma_state *mas)
{
	if (mas->sheaf)
		kmem_cache_return_sheaf(cache, GFP_NOWAIT, mas->sheaf);
	while (mas->alloc)
		free_single(mas);
	mas->sheaf = NULL;
	mas->prepared = NULL;
	mas->node_request = 0;
}

void node_retire(const struct maple_tree *mt, struct maple_node *node)
{
	if (in_rcu(mt)) {
		store_release(&node->meta, node->meta | META_DEAD);
		kmem_cache_free_rcu(cache, node);
	} else {
		kmem_cache_free(cache, node);
	}
}

SHEAF_PUBLIC void mt_cache_shrink(void)
{
	struct kmem_cache *made = load_acquire(&cache);

	if (made)
		kmem_cache_shrink(made);
}

int nodes_alloc(unsigned int n, void **nodes, gfp_t gfp)
{
	struct kmem_cache *s = cache_for(gfp);

	return s && kmem_cache_alloc_bulk(s, gfp, n, nodes) ? 0 : -ENOMEM;
}

void nodes_free(unsigned int n, void **nodes)
{
	kmem_cache_free_bulk(cache, n, nodes);
}
