/* SPDX-License-Identifier: MIT */
/* Frees to slabs that are not this CPU's, and the release of slabs. See cpu_slab.c. */
#include "internal.h"
#include "section.h"
#include "slab/partial.h"

/* Under the lock of the slab's node, put a held slab on its list; false if it must be freed. */
static bool add_to_node(struct cpu_slab_cache *c, struct slab_node *node, struct slab *slab)
{
	bool listed = partial_list(&c->slab, node, slab, false);

	count(c, CPU_SLAB_free_add_partial, listed);
	return listed;
}

static void discard(struct cpu_slab_cache *c, struct slab *slab)
{
	count(c, CPU_SLAB_free_slab, 1);
	slab_discard(&c->slab, slab);
}

void tiers_free_list(struct cpu_slab_cache *c, struct slab *list)
{
	struct slab_node *node = NULL;
	struct slab *empty = NULL, *slab, *next;

	for (slab = list; !((uintptr_t)slab & EMPTY); slab = next) {
		struct slab_node *mine = partial_node_of(&c->slab, slab);

		next = (struct slab *)slab->bits;
		if (node != mine) {
			if (node)
				os_unlock(&node->lock);
			os_lock(&mine->lock);
			node = mine;
		}
		if (!add_to_node(c, node, slab)) {
			slab->bits = (uintptr_t)empty;
			empty = slab;
		}
	}
	if (node)
		os_unlock(&node->lock);
	for (slab = empty; slab; slab = next) {
		next = (struct slab *)slab->bits;
		discard(c, slab);
	}
}

/* Put a held slab on this CPU's list. A full list goes to the nodes; so does the slab if there is
 * no list. */
void tiers_put_partial(struct cpu_slab_cache *c, struct slab *slab)
{
	struct slab *list;

	if (push_list((char *)c, slab, c->cpu_partial_slabs))
		return;
	if (take_list((char *)c, &list)) {
		count(c, CPU_SLAB_cpu_partial_drain, 1);
		tiers_free_list(c, list);
		if (push_list((char *)c, slab, c->cpu_partial_slabs))
			return;
	}
	slab->bits = EMPTY;
	tiers_free_list(c, slab);
}

/* Release a held slab that is no CPU's any more; false if it has free objects and is still held. */
static bool let_go_full(struct cpu_slab_cache *c, struct slab *slab)
{
	uint64_t state = os_load_acquire(&slab->state);

	while (head_of(state) == NO_OBJECT && fresh_of(state) == c->slab.oo.objects)
		if (os_cmpxchg(&slab->state, &state, state & ~SLAB_HELD)) {
			count(c, CPU_SLAB_deactivate_full, 1);
			return true;
		}
	count(c, CPU_SLAB_deactivate_remote_frees, 1);
	return false;
}

static unsigned int index_of(const struct cpu_slab_cache *c, const void *object)
{
	return (unsigned int)(((uintptr_t)object & c->mask) * c->slab.reciprocal >> 32);
}

/* The link that leads from this object to what its slab's freelist is in this state. */
static uintptr_t freelist_of(const struct cpu_slab_cache *c, const void *object, uint64_t state)
{
	uintptr_t base = (uintptr_t)object & ~c->mask;
	unsigned int head = head_of(state);

	return head == NO_OBJECT ? base | EMPTY : base + head * c->slab.size;
}

/* The state when n objects from the one of this index on are free again. */
static uint64_t state_with(uint64_t state, unsigned int index, unsigned int n)
{
	state = ((state & ~STATE(NO_OBJECT, 0, 0)) | STATE(index, 0, 0)) - n;
	return state & (SLAB_LISTED | SLAB_HELD) ? state : state | SLAB_HELD;
}

/* Put the freelist of a slab that we hold back onto the slab's own. */
static void give_back(struct cpu_slab_cache *c, struct slab *slab, uintptr_t head)
{
	uintptr_t tail = head;
	uint64_t state = os_load_acquire(&slab->state);
	unsigned int n = 1;

	if (head & EMPTY)
		return;
	for (; !(*link_of((void *)tail) & EMPTY); n++)
		tail = *link_of((void *)tail);
	do {
		*link_of((void *)tail) = freelist_of(c, (void *)tail, state);
	} while (
		!os_cmpxchg(&slab->state, &state, state_with(state, index_of(c, (void *)head), n)));
}

void tiers_let_go(struct cpu_slab_cache *c, struct slab *slab, uintptr_t head)
{
	give_back(c, slab, head);
	if (!let_go_full(c, slab))
		tiers_put_partial(c, slab);
}

/* With the node's lock held: a listed slab became empty. False: the node has enough empty ones, and
 * the slab left the list. */
static bool keep_empty(struct cpu_slab_cache *c, struct slab_node *node, struct slab *slab)
{
	if (node->nr_partial > c->slab.min_partial) {
		partial_remove(node, slab);
		return false;
	}
	os_fetch_or(&slab->state, SLAB_UNUSED);
	partial_unused(node, slab);
	return true;
}

/*
 * The exchange that would empty a listed slab is made under its node's lock: before it, the slab
 * cannot disappear, because it has an object of ours; after it, no other thread can decide about
 * the slab.
 */
static __attribute__((noinline)) void free_last(struct cpu_slab_cache *c, struct slab *slab,
						void *object, void *tail, unsigned int n)
{
	struct slab_node *node = partial_node_of(&c->slab, slab);
	uint64_t state, changed;
	bool surplus;

	os_lock(&node->lock);
	state = os_load_acquire(&slab->state);
	do {
		*link_of(tail) = freelist_of(c, tail, state);
		changed = state_with(state, index_of(c, object), n);
	} while (!os_cmpxchg(&slab->state, &state, changed));
	surplus = (changed & SLAB_LISTED) && !slab_inuse(changed) && !keep_empty(c, node, slab);
	os_unlock(&node->lock);
	if (surplus) {
		count(c, CPU_SLAB_free_remove_partial, 1);
		discard(c, slab);
	} else if (!(state & (SLAB_LISTED | SLAB_HELD))) {
		tiers_put_partial(c, slab);
	}
}

/* Called before the exchange: false if the slab may become empty and is listed. */
static inline __attribute__((always_inline)) bool publish(struct cpu_slab_cache *c,
							  struct slab *slab, void *object,
							  void *tail, unsigned int n,
							  uint64_t *found)
{
	uint64_t state = os_load_acquire(&slab->state);
	unsigned int index = index_of(c, object);

	do {
		if (__builtin_expect(slab_inuse(state) == n && (state & SLAB_LISTED), 0))
			return false;
		*link_of(tail) = freelist_of(c, tail, state);
	} while (!os_cmpxchg(&slab->state, &state, state_with(state, index, n)));
	*found = state;
	return true;
}

void tiers_free(struct cpu_slab_cache *c, void *object, void *tail, unsigned int n)
{
	struct slab *slab = slab_of(c, object);
	uint64_t state;

	count(c, CPU_SLAB_free_slowpath, n);
	if (!publish(c, slab, object, tail, n, &state)) {
		free_last(c, slab, object, tail, n);
	} else if (state & SLAB_HELD) {
		count(c, CPU_SLAB_free_frozen, n);
	} else if (!(state & SLAB_LISTED)) {
		count(c, CPU_SLAB_cpu_partial_free, 1);
		tiers_put_partial(c, slab);
	}
}

void tiers_free_one(struct cpu_slab *cache, void *object)
{
	struct cpu_slab_cache *c = cache_of(cache);
	struct slab *slab = slab_of(c, object);
	uint64_t state;

	if (__builtin_expect(!publish(c, slab, object, object, 1, &state), 0))
		free_last(c, slab, object, object, 1);
	else if (__builtin_expect(!(state & (SLAB_HELD | SLAB_LISTED)), 0))
		tiers_put_partial(c, slab);
}
