/* SPDX-License-Identifier: MIT */
/* Partial lists; see partial.h. */
#include "slab/partial.h"

#include "os/assert.h"
#include "os/atomic.h"
#include "page/pool.h"
#include "slab/drain_marks.h"
#include "slab/stat.h"

struct slab_node *partial_node(struct slab_cache *cache, unsigned int node)
{
	struct slab_node *found = os_load_acquire(&cache->nodes[node]), *fresh;

	if (found)
		return found;
	fresh = pool_alloc(sizeof(*fresh));
	if (!fresh)
		return NULL;
	page_slabs(node, &fresh->base);
	fresh->first = fresh->last = fresh->unused = fresh->deferred = fresh->stray = SLAB_NONE;
	os_lock_init(&fresh->lock, OS_RANK_NODE);
	if (os_cmpxchg(&cache->nodes[node], &found, fresh))
		return fresh;
	pool_free(fresh, sizeof(*fresh));
	return found;
}

struct slab_node *partial_node_of(struct slab_cache *cache, const struct slab *slab)
{
	return os_load_relaxed(&cache->nodes[page_node(page_address(slab))]);
}

static void link_next(struct slab_node *node, uint32_t link, uint32_t next)
{
	*(link == SLAB_NONE ? &node->first : &node->base[link].next) = next;
}

static void link_prev(struct slab_node *node, uint32_t link, uint32_t prev)
{
	*(link == SLAB_NONE ? &node->last : &node->base[link].prev) = prev;
}

static void link_slab(struct slab_node *node, uint32_t prev, struct slab *slab, uint32_t next)
{
	slab->prev = prev;
	slab->next = next;
	link_next(node, prev, partial_link(node, slab));
	link_prev(node, next, partial_link(node, slab));
}

static void unlink_slab(struct slab_node *node, struct slab *slab)
{
	link_next(node, slab->prev, slab->next);
	link_prev(node, slab->next, slab->prev);
}

/* The slab before the empty ones. */
static uint32_t last_used(const struct slab_node *node)
{
	return node->unused == SLAB_NONE ? node->last : node->base[node->unused].prev;
}

void partial_unused(struct slab_node *node, struct slab *slab)
{
	if (slab->next != node->unused) {
		unlink_slab(node, slab);
		link_slab(node, last_used(node), slab, node->unused);
	}
	node->unused = partial_link(node, slab);
	os_store_relaxed(&node->nr_unused, node->nr_unused + 1);
	os_assert(node->nr_unused <= node->nr_partial); /* SLAB-B9 */
	os_assert((os_peek(&slab->state) & SLAB_UNUSED) && !slab_inuse(os_peek(&slab->state)));
	slab_mark(slab->cache, MARK_EMPTY);
}

static void keep_listed(struct slab_node *node, struct slab *slab)
{
	os_fetch_or(&slab->state, SLAB_UNUSED);
	partial_unused(node, slab);
}

/* One of the empty slabs is no longer one of them; its links are as before. */
static void leave_unused(struct slab_node *node, struct slab *slab)
{
	os_assert(node->nr_unused > 0); /* SLAB-B9 */
	os_store_relaxed(&node->nr_unused, node->nr_unused - 1);
	if (node->unused == (uint32_t)(slab - node->base))
		node->unused = slab->next;
}

void partial_used(struct slab_node *node, struct slab *slab)
{
	leave_unused(node, slab);
	if (slab->next != node->unused) {
		unlink_slab(node, slab);
		link_slab(node, last_used(node), slab, node->unused);
	}
}

void partial_add(struct slab_node *node, struct slab *slab, bool first)
{
	os_assert((os_peek(&slab->state) & SLAB_FLAGS) == SLAB_HELD); /* SLAB-B5 */
	if (first)
		link_slab(node, SLAB_NONE, slab, node->first);
	else
		link_slab(node, last_used(node), slab, node->unused);
	os_store_relaxed(&node->nr_partial, node->nr_partial + 1);
	/* A thread may have freed the last object while the slab was held. */
	if (!slab_inuse(os_fetch_add(&slab->state, SLAB_LISTED - SLAB_HELD)))
		keep_listed(node, slab);
}

static void unlisted(struct slab_node *node, struct slab *slab)
{
	uint64_t flag = os_load_relaxed(&slab->state) & SLAB_UNUSED;

	os_assert((os_peek(&slab->state) & SLAB_FLAGS & ~flag) == SLAB_LISTED); /* SLAB-B5 */
	os_assert(os_peek(&node->lock.word) && node->nr_partial > 0);
	if (flag)
		leave_unused(node, slab);
	os_store_relaxed(&node->nr_partial, node->nr_partial - 1);
	os_fetch_add(&slab->state, SLAB_HELD - SLAB_LISTED - flag);
}

void partial_remove(struct slab_node *node, struct slab *slab)
{
	unlisted(node, slab);
	unlink_slab(node, slab);
}

/* With the node's lock held: is the slab empty, and does the node have enough others? */
static bool is_surplus(const struct slab_cache *cache, const struct slab *slab, uint32_t others)
{
	return others >= os_load_relaxed(&cache->min_partial) &&
	       slab_inuse(os_load_acquire(&slab->state)) == 0;
}

struct slab *partial_detach(struct slab_cache *cache, struct slab_node *node, unsigned int n,
			    unsigned int *count)
{
	struct slab *detached = partial_slab(node, node->first), *slab = NULL, *next = detached;
	bool prepares = slab_prepares(cache);

	*count = 0;
	/* With a constructor, only one slab at a time: nothing may be in hand while it runs. */
	for (int i = 0; next && *count < n && i < (prepares ? 1 : SLAB_STEP); i++) {
		unsigned int free = slab_free(cache, os_load_relaxed(&next->state));

		if (*count + free > n && !prepares)
			break;
		slab = next;
		next = partial_slab(node, slab->next);
		*count += free;
		unlisted(node, slab);
	}
	os_assert(*count <= n || prepares);
	if (!slab)
		return NULL;
	slab->next = SLAB_NONE;
	node->first = partial_link(node, next);
	link_prev(node, node->first, SLAB_NONE);
	return detached;
}

bool partial_let_go(struct slab_cache *cache, struct slab *slab, uint64_t taken)
{
	uint64_t state = os_load_relaxed(&slab->state), changed;

	os_assert((state & SLAB_FLAGS) == SLAB_HELD); /* SLAB-B4 */
	do {
		changed = state + taken;
		if (!slab_free(cache, changed))
			changed &= ~SLAB_HELD;
	} while (!stat_cmpxchg(cache, slab, &state, changed));
	return !(changed & SLAB_HELD);
}

bool partial_list(const struct slab_cache *cache, struct slab_node *node, struct slab *slab,
		  bool first)
{
	os_assert(os_peek(&node->lock.word)); /* SLAB-B5 */
	if (is_surplus(cache, slab, node->nr_partial))
		return false;
	partial_add(node, slab, first);
	/* A thread may have freed the last object before the slab was listed. */
	if (!is_surplus(cache, slab, node->nr_partial - 1))
		return true;
	partial_remove(node, slab);
	return false;
}

void partial_release(struct slab_cache *cache, struct slab *slab, bool first)
{
	struct slab_node *node = partial_node_of(cache, slab);
	bool listed;

	os_lock(&node->lock);
	listed = partial_list(cache, node, slab, first);
	os_unlock(&node->lock);
	stat_add(cache, STAT_free_remove_partial, !listed);
	if (!listed)
		slab_discard(cache, slab);
}

void partial_stray(struct slab_cache *cache, struct slab_node *node, struct slab *slab)
{
	uint32_t before = os_load_relaxed(&node->stray);

	while (!os_cmpxchg(&node->stray, &before,
			   before == SLAB_NONE ? partial_link(node, slab) : PARTIAL_STRAYS))
		;
	slab_mark(cache, MARK_EMPTY);
}

void slab_expect_strays(struct slab_cache *cache, struct slab_node *node)
{
	node->stray = PARTIAL_STRAYS;
	slab_mark(cache, MARK_EMPTY);
}

/* Is it listed, without an object in use, and not yet among those? It may be any slab by now. */
static bool is_stray(const struct slab_cache *cache, const struct slab *slab)
{
	uint64_t state = os_load_acquire(&slab->state);

	return os_load_relaxed(&slab->cache) == cache && !(state & (SLAB_TAIL | SLAB_UNUSED)) &&
	       state & SLAB_LISTED && !slab_inuse(state);
}

/* With the lock of the node held, under which a listed slab stays listed. */
static void settle_stray(const struct slab_cache *cache, struct slab_node *node, struct slab *slab)
{
	if (is_stray(cache, slab))
		keep_listed(node, slab);
}

struct slab *partial_detach_unused(struct slab_cache *cache, struct slab_node *node)
{
	struct slab *detached = NULL, *slab;
	uint32_t stray = os_load_relaxed(&node->stray);

	if (stray < PARTIAL_STRAYS && os_cmpxchg(&node->stray, &stray, SLAB_NONE))
		settle_stray(cache, node, partial_slab(node, stray));
	for (int i = 0; i < SLAB_STEP && (slab = partial_slab(node, node->unused)) != NULL; i++) {
		partial_remove(node, slab);
		slab->next = partial_link(node, detached);
		detached = slab;
	}
	return detached;
}

void partial_find_strays(struct slab_cache *cache, struct slab_node *node, bool wait)
{
	struct slab *slab;

	if (os_load_relaxed(&node->stray) != PARTIAL_STRAYS)
		return;
	os_exchange(&node->stray, SLAB_NONE);
	for (size_t n = partial_slabs(node, &slab); n > 0; n--, slab++) {
		if (!is_stray(cache, slab))
			continue;
		if (!wait && !os_trylock(&node->lock)) {
			os_exchange(&node->stray, PARTIAL_STRAYS);
			return;
		}
		if (wait)
			os_lock(&node->lock);
		settle_stray(cache, node, slab);
		os_unlock(&node->lock);
	}
}

/* The state of a slab whose thread may have cleared bits, or set some, and not counted them. */
static uint64_t counted_again(const struct slab_cache *cache, struct slab *slab)
{
	const uint64_t *words = slab_words(cache, slab);
	uint64_t state = slab->state;
	unsigned int inuse = slab_order_of(cache, state).objects;

	for (unsigned int i = 0; i < slab_nr_words(cache, state); i++)
		inuse -= (unsigned int)__builtin_popcountll(words[i]);
	return (state & ~(SLAB_WORD_CONSTRUCTED - 1)) | inuse;
}

void slab_list_again(struct slab_cache *cache, struct slab_node *node)
{
	struct slab *slab;

	os_lock_init(&node->lock, OS_RANK_NODE);
	node->first = node->last = node->unused = node->stray = SLAB_NONE;
	node->nr_partial = node->nr_unused = 0;
	for (size_t n = partial_slabs(node, &slab); n > 0; n--, slab++) {
		if (slab->cache != cache || slab->state & SLAB_TAIL || !(slab->state & SLAB_LISTED))
			continue;
		slab->state = counted_again(cache, slab) & ~(SLAB_LISTED | SLAB_UNUSED);
		if (!slab_free(cache, slab->state))
			continue;
		slab->state |= SLAB_HELD;
		partial_add(node, slab, false);
	}
}
