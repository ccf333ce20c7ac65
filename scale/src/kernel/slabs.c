/* SPDX-License-Identifier: MIT */
/* Slabs with a freelist through their objects, and the nodes' partial lists. See kernel.h, K2. */
#include "os/atomic.h"
#include "scale/src/kernel/kernel.h"
#include "slab/partial.h"

#define NONE		   0xffffu
#define STATE(head, inuse) ((uint64_t)(inuse) | (uint64_t)(head) << 24)
#define HEAD		   STATE(NONE, 0)

static unsigned int head_of(uint64_t state)
{
	return (uint16_t)(state >> 24);
}

/* The next free object; NULL: none. */
static void **link_of(void *object)
{
	return object;
}

static void *object_at(const struct kernel_cache *c, const struct slab *slab, unsigned int index)
{
	return index == NONE ? NULL : slab_object(&c->slab, slab, index);
}

static unsigned int index_in(const struct kernel_cache *c, const struct slab *slab,
			     const void *object)
{
	return object ? slab_index(&c->slab, slab, object) : NONE;
}

/* Release a held slab: it is full, or goes to its node's list. */
static void let_go(struct kernel_cache *c, struct slab *slab, bool first)
{
	if (!partial_let_go(&c->slab, slab, 0))
		partial_release(&c->slab, slab, first);
}

/* --- free ----------------------------------------------------------------------------------- */

/* With the node's lock held: a listed slab became empty. False: the node has enough empty ones, and
 * the slab left the list. */
static bool keep_empty(struct kernel_cache *c, struct slab_node *node, struct slab *slab)
{
	if (node->nr_partial > c->slab.min_partial) {
		partial_remove(node, slab);
		return false;
	}
	os_fetch_or(&slab->state, SLAB_UNUSED);
	partial_unused(node, slab);
	return true;
}

/* Free the last object of a listed slab, under the lock of the list. */
static void free_last(struct kernel_cache *c, struct slab *slab, void *object, unsigned int index)
{
	struct slab_node *node = partial_node_of(&c->slab, slab);
	uint64_t state, changed;
	bool stays;

	os_lock(&node->lock);
	state = os_load_acquire(&slab->state);
	do {
		*link_of(object) = object_at(c, slab, head_of(state));
		changed = ((state & ~HEAD) | STATE(index, 0)) - 1;
		if (!(state & (SLAB_LISTED | SLAB_HELD)))
			changed |= SLAB_HELD;
	} while (!os_cmpxchg(&slab->state, &state, changed));
	stays = !(changed & SLAB_LISTED) || slab_inuse(changed) || keep_empty(c, node, slab);
	os_unlock(&node->lock);
	if (!stays)
		slab_discard(&c->slab, slab);
	else if (!(state & (SLAB_LISTED | SLAB_HELD)))
		partial_release(&c->slab, slab, false);
}

void kernel_slabs_free(struct kernel_cache *c, void *object)
{
	struct slab *slab = page_slab(object);
	unsigned int index;
	uint64_t state, changed;
	bool was_full;

	if (c->tiers) {
		cpu_slab_free(c->tiers, object);
		return;
	}
	index = index_in(c, slab, object);
	state = os_load_acquire(&slab->state);
	do {
		if (slab_inuse(state) == 1 && (state & SLAB_LISTED)) {
			free_last(c, slab, object, index);
			return;
		}
		*link_of(object) = object_at(c, slab, head_of(state));
		was_full = !(state & (SLAB_LISTED | SLAB_HELD));
		changed = ((state & ~HEAD) | STATE(index, 0)) - 1;
		if (was_full)
			changed |= SLAB_HELD;
	} while (!os_cmpxchg(&slab->state, &state, changed));
	if (was_full)
		partial_release(&c->slab, slab, false);
}

/* --- take ----------------------------------------------------------------------------------- */

/* Put back the rest of a freelist that was taken whole: n objects from this one on. */
static void put_back(struct kernel_cache *c, struct slab *slab, void *object, unsigned int n)
{
	uint64_t state = os_load_acquire(&slab->state), head = index_in(c, slab, object);
	void *tail = NULL;

	do {
		/* Another CPU freed meanwhile: its objects go behind the rest. */
		if (head_of(state) != NONE && !tail)
			for (tail = object; *link_of(tail);)
				tail = *link_of(tail);
		if (tail)
			*link_of(tail) = object_at(c, slab, head_of(state));
	} while (!os_cmpxchg(&slab->state, &state, ((state & ~HEAD) | STATE(head, 0)) - n));
}

/* Take up to n objects of a held slab, whose whole freelist is taken first. */
static unsigned int take_from(struct kernel_cache *c, struct slab *slab, void **objects,
			      unsigned int n)
{
	uint64_t state = os_load_acquire(&slab->state);
	unsigned int got = 0, all;
	void *object;

	do
		all = slab_free(&c->slab, state);
	while (!os_cmpxchg(&slab->state, &state, (state | HEAD) + all));
	object = object_at(c, slab, head_of(state));
	for (; got < all && got < n; object = *link_of(object))
		objects[got++] = object;
	if (got < all)
		put_back(c, slab, object, all - got);
	return got;
}

/* With the list's lock held: take slabs until they have n free objects. They are linked, and held.
 */
static struct slab *detach(struct kernel_cache *c, struct slab_node *node, unsigned int n)
{
	struct slab *first = NULL, *last = NULL, *slab;
	unsigned int free = 0;

	while (free < n && (slab = partial_slab(node, node->first)) != NULL) {
		partial_remove(node, slab);
		slab->next = SLAB_NONE;
		if (last)
			last->next = partial_link(node, slab);
		else
			first = slab;
		last = slab;
		free += slab_free(&c->slab, os_load_relaxed(&slab->state));
	}
	return first;
}

static unsigned int refill_from(struct kernel_cache *c, unsigned int nr, void **objects,
				unsigned int n, bool waits)
{
	struct slab_node *node = partial_node(&c->slab, nr);
	struct slab *slab, *next;
	unsigned int got = 0;

	if (!node || !os_load_relaxed(&node->nr_partial))
		return 0;
	if (waits)
		os_lock(&node->lock);
	else if (!os_trylock(&node->lock))
		return 0;
	slab = detach(c, node, n);
	os_unlock(&node->lock);
	for (; slab; slab = next) {
		next = partial_slab(node, slab->next);
		if (got < n)
			got += take_from(c, slab, objects + got, n - got);
		let_go(c, slab, false);
	}
	return got;
}

/* From this node, or from one that has pages. */
static struct slab *new_slab(struct kernel_cache *c, unsigned int nr)
{
	struct slab *slab = NULL;

	for (unsigned int i = 0; i < os.nr_nodes && !slab; i++)
		if (partial_node(&c->slab, (nr + i) % os.nr_nodes))
			slab = page_alloc((nr + i) % os.nr_nodes, c->slab.oo.order);
	return slab;
}

/* Make a slab: n objects for the caller, a freelist of the others. */
static unsigned int take_new(struct kernel_cache *c, unsigned int nr, void **objects,
			     unsigned int n)
{
	unsigned int all = c->slab.oo.objects;
	struct slab *slab = new_slab(c, nr);

	if (!slab)
		return 0;
	if (n > all)
		n = all;
	for (unsigned int i = 0; i < n; i++)
		objects[i] = object_at(c, slab, i);
	for (unsigned int i = n; i < all; i++)
		*link_of(object_at(c, slab, i)) = object_at(c, slab, i + 1 < all ? i + 1 : NONE);
	os_store_relaxed(&slab->state, SLAB_HELD | STATE(n < all ? n : NONE, n));
	page_own(slab, c->slab.oo.order, &c->slab);
	os_fetch_add(&partial_node_of(&c->slab, slab)->nr_slabs, 1);
	let_go(c, slab, true);
	return n;
}

unsigned int kernel_slabs_refill(struct kernel_cache *c, void **objects, unsigned int n)
{
	unsigned int here = os_node(), got, more;

	if (c->tiers)
		return cpu_slab_alloc_bulk(c->tiers, objects, n) ? n : 0;
	got = refill_from(c, here, objects, n, true);
	for (unsigned int i = 1; i < os.nr_nodes && got < n; i++)
		got += refill_from(c, (here + i) % os.nr_nodes, objects + got, n - got,
				   !c->rules.refills);
	while (got < n) {
		more = take_new(c, here, objects + got, n - got);
		if (!more)
			break;
		got += more;
	}
	return got;
}

/* Take one object of the first slab of a list. */
static void *alloc_from(struct kernel_cache *c, unsigned int nr)
{
	struct slab_node *node = partial_node(&c->slab, nr);
	void *object = NULL;
	struct slab *slab;
	uint64_t state, changed;

	if (!node || !os_load_relaxed(&node->nr_partial))
		return NULL;
	os_lock(&node->lock);
	slab = partial_slab(node, node->first);
	if (slab) {
		state = os_load_acquire(&slab->state);
		do {
			object = object_at(c, slab, head_of(state));
			changed = index_in(c, slab, *link_of(object));
			changed = ((state & ~HEAD) | STATE(changed, 0)) + 1;
		} while (!os_cmpxchg(&slab->state, &state, changed));
		/* It is listed again below if another CPU has freed into it since. */
		if (head_of(changed) == NONE) {
			partial_remove(node, slab);
		} else {
			if (changed & SLAB_UNUSED) {
				partial_used(node, slab);
				os_fetch_and(&slab->state, ~SLAB_UNUSED);
			}
			slab = NULL;
		}
	}
	os_unlock(&node->lock);
	if (slab)
		let_go(c, slab, false);
	return object;
}

void *kernel_slabs_alloc(struct kernel_cache *c)
{
	unsigned int here = os_node();
	void *object = NULL;

	if (c->tiers)
		return cpu_slab_alloc(c->tiers);
	for (unsigned int i = 0; i < os.nr_nodes && !object; i++)
		object = alloc_from(c, (here + i) % os.nr_nodes);
	return object || take_new(c, here, &object, 1) ? object : NULL;
}
