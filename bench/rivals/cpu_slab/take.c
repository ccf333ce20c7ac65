/* SPDX-License-Identifier: MIT */
/* Allocation when the CPU's freelist is empty: the next tiers in turn. See cpu_slab.c. */
#include "internal.h"
#include "section.h"
#include "slab/partial.h"

#define PORTION 16 /* objects linked at a time, if linking is deferred */

/* What a held slab supplied: objects for the caller, and a freelist, which may be empty. */
struct taken {
	unsigned int n;
	uintptr_t head;
};

static uintptr_t fresh_object(const struct cpu_slab_cache *c, const struct slab *slab,
			      unsigned int position)
{
	return (uintptr_t)slab_object(&c->slab, slab, position);
}

/* Link the objects from position `from` to `end`. Returns the freelist. */
static uintptr_t link_fresh(const struct cpu_slab_cache *c, const struct slab *slab,
			    unsigned int from, unsigned int end)
{
	uintptr_t head, object;

	if (from == end)
		return end_of(slab);
	head = object = fresh_object(c, slab, from);
	while (++from < end) {
		uintptr_t next = object + c->slab.size;

		*link_of((void *)object) = next;
		object = next;
	}
	*link_of((void *)object) = end_of(slab);
	return head;
}

/* How many of a slab's `left` unused objects are taken for a caller that wants max. */
static unsigned int fresh_wanted(const struct cpu_slab_cache *c, unsigned int left,
				 unsigned int max)
{
	unsigned int wanted = max > PORTION ? max : PORTION;

	return c->deferred && wanted < left ? wanted : left;
}

/* The objects from position `from` to `end` for the caller, unlinked if linking is deferred. */
static struct taken hand_fresh(const struct cpu_slab_cache *c, const struct slab *slab,
			       unsigned int from, unsigned int end, void **objects,
			       unsigned int max)
{
	struct taken taken = {0, 0};

	if (c->deferred)
		for (; taken.n < max && from < end; from++)
			objects[taken.n++] = (void *)fresh_object(c, slab, from);
	taken.head = link_fresh(c, slab, from, end);
	return taken;
}

/*
 * Take a held slab's own freelist, or else its unused objects. False if it has neither: then it
 * belongs to the thread that first frees into it.
 */
static bool take_from(struct cpu_slab_cache *c, struct slab *slab, void **objects, unsigned int max,
		      struct taken *taken)
{
	uint64_t state = os_load_acquire(&slab->state), changed;
	unsigned int end = c->slab.oo.objects, fresh, n = 0;

	do {
		fresh = fresh_of(state);
		if (head_of(state) != NO_OBJECT) {
			changed = SLAB_HELD | STATE(NO_OBJECT, fresh, fresh);
		} else if (fresh < end) {
			n = fresh_wanted(c, end - fresh, max);
			changed = state + STATE(0, n, n);
		} else {
			changed = state & ~SLAB_HELD;
		}
	} while (!os_cmpxchg(&slab->state, &state, changed));
	if (head_of(state) != NO_OBJECT)
		*taken = (struct taken){0, (uintptr_t)slab_object(&c->slab, slab, head_of(state))};
	else if (fresh < end)
		*taken = hand_fresh(c, slab, fresh, fresh + n, objects, max);
	else
		return false;
	return true;
}

/* Make a held slab and the rest of its freelist this CPU's, whichever CPU that is now. */
static void make_cpu_slab(struct cpu_slab_cache *c, struct slab *slab, uintptr_t head)
{
	uintptr_t old = EMPTY;

	if (!install((char *)c, head, &old))
		tiers_let_go(c, slab, head);
	else if (old != EMPTY)
		/* Others have exhausted it since, or the thread has moved to another CPU. */
		tiers_let_go(c, slab_of(c, (void *)old), old);
}

/* Take a slab of a node's list, and move some more to this CPU's list. */
static struct slab *take_partial(struct cpu_slab_cache *c, unsigned int nr_node, bool wait)
{
	struct slab_node *node = os_load_acquire(&c->slab.nodes[nr_node]);
	struct slab *more = NULL, *slab, *next;

	if (!node || os_load_relaxed(&node->nr_partial) <= (wait ? 0 : c->slab.min_partial))
		return NULL;
	if (wait)
		os_lock(&node->lock);
	else if (!os_trylock(&node->lock))
		return NULL;
	slab = partial_slab(node, node->first);
	if (slab)
		partial_remove(node, slab);
	for (unsigned int n = 0; n <= c->cpu_partial_slabs / 2; n++) {
		next = partial_slab(node, node->first);
		if (!next)
			break;
		partial_remove(node, next);
		next->bits = (uintptr_t)more;
		more = next;
	}
	os_unlock(&node->lock);
	for (; more; more = next) {
		next = (struct slab *)more->bits;
		count(c, CPU_SLAB_cpu_partial_node, 1);
		tiers_put_partial(c, more);
	}
	if (slab)
		count(c, CPU_SLAB_alloc_from_partial, 1);
	return slab;
}

static struct slab *take_any_partial(struct cpu_slab_cache *c, unsigned int here)
{
	struct slab *slab = take_partial(c, here, true);

	for (uint32_t i = 1; i < os.nr_nodes && !slab; i++)
		slab = take_partial(c, (here + i) % os.nr_nodes, false);
	return slab;
}

static struct slab *new_slab(struct cpu_slab_cache *c, unsigned int nr_node, void **objects,
			     unsigned int max, struct taken *taken)
{
	struct slab_node *node = partial_node(&c->slab, nr_node);
	struct slab *slab = node ? page_alloc(nr_node, c->slab.oo.order) : NULL;
	unsigned int n = fresh_wanted(c, c->slab.oo.objects, max);

	if (!slab)
		return NULL;
	*taken = hand_fresh(c, slab, 0, n, objects, max);
	os_store_relaxed(&slab->state, SLAB_HELD | STATE(NO_OBJECT, n, n));
	page_own(slab, c->slab.oo.order, &c->slab);
	os_fetch_add(&node->nr_slabs, 1);
	count(c, CPU_SLAB_alloc_slab, 1);
	return slab;
}

/* Make a slab that we hold, with what was taken from it, this CPU's; or take the next one. */
static struct slab *next_slab(struct cpu_slab_cache *c, uintptr_t head, void **objects,
			      unsigned int max, struct taken *taken)
{
	struct slab *slab = head == EMPTY ? NULL : slab_of(c, (void *)head);
	unsigned int here;

	if (slab) {
		if (take_from(c, slab, objects, max, taken)) {
			count(c, CPU_SLAB_alloc_refill, 1);
			return slab;
		}
		count(c, CPU_SLAB_deactivate_bypass, 1);
	}
	if (pop_list((char *)c, &slab)) {
		count(c, CPU_SLAB_cpu_partial_alloc, 1);
		if (take_from(c, slab, objects, max, taken))
			return slab;
	}
	here = os_node();
	slab = take_any_partial(c, here);
	if (slab && take_from(c, slab, objects, max, taken))
		return slab;
	slab = NULL;
	for (uint32_t i = 0; i < os.nr_nodes && !slab; i++)
		slab = new_slab(c, (here + i) % os.nr_nodes, objects, max, taken);
	return slab;
}

unsigned int tiers_alloc(struct cpu_slab_cache *c, void **objects, unsigned int max)
{
	uintptr_t head = EMPTY;
	struct taken taken;
	struct slab *slab;

	/* Take it out of the slot: its holder may examine it without the section (T1). */
	if (!install((char *)c, EMPTY, &head) && pop_head((char *)c, objects)) {
		count(c, CPU_SLAB_alloc_fastpath, 1);
		return 1;
	}
	slab = next_slab(c, head, objects, max, &taken);
	if (!slab)
		return 0;
	if (!taken.n) {
		objects[taken.n++] = (void *)taken.head;
		taken.head = *link_of((void *)taken.head);
	}
	count(c, CPU_SLAB_alloc_slowpath, taken.n);
	make_cpu_slab(c, slab, taken.head);
	return taken.n;
}
