/* SPDX-License-Identifier: MIT */
/*
 * Readers: load, and walks from the root; find.c continues from there.
 *
 * Why a reader without the lock sees a consistent tree: the only change of an inner node is that a
 * child is replaced by another one with the same range, and a leaf's contents were true when the
 * reader reached it, for the indices that the leaf still has (cut.c). A leaf may change in place,
 * which changes its meta word. A reader loads that word before the pivots and the slot and again
 * after them, so that these belong together. An ma_state stores the word. If it is different at the
 * next call, or if the leaf is dead, the walk begins again at the root, with the index after the
 * last one returned.
 *
 * Neighbouring NULLs are one gap: a state in one of them has the range of all of them. Pivots
 * between them may move at any time, those at the ends of the run only with meta.
 *
 * Called with the lock, or in an RCU read-side section.
 */
#include "tree.h"

void *tsan_loaded(struct maple_tree *mt, void *entry)
{
	__tsan_acquire(mt);
	return entry;
}

/* XA_ZERO_ENTRY, or a leaf's mark that the index is in another leaf now (cut.c). */
static __attribute__((noinline)) void *load_marked(struct maple_tree *mt, unsigned long index)
{
	MA_STATE(mas, mt, index, index);
	void *entry = mas_descend(&mas, index);

	return xa_is_zero(entry) ? NULL : entry;
}

SHEAF_PUBLIC void *mtree_load(struct maple_tree *mt, unsigned long index)
{
	enode_t e = (enode_t)load_acquire(&mt->ma_root);
	const struct maple_node *leaf;
	uint64_t seen;
	void *entry;

	if (unlikely(!is_node((void *)e)))
		return tell_loaded(mt, index == 0 && !xa_is_zero((void *)e) ? (void *)e : NULL);
	if (is_arange(e)) {
		for (unsigned int level = level_of(e); level > 0; level--) {
			const struct maple_node *node = node_of(e);

			e = (enode_t)load_acquire(
				&node->arange.slot[search9(node->arange.pivot, index)]);
			prefetch_node(e);
		}
	} else {
		for (unsigned int level = level_of(e); level > 0; level--) {
			const struct maple_node *node = node_of(e);

			e = (enode_t)load_acquire(
				&node->range.slot[search15(node->range.pivot, index)]);
			prefetch_node(e);
		}
	}
	leaf = node_of(e);
	do {
		seen = load_acquire(&leaf->meta);
		entry = load_acquire(&leaf->range.slot[search15(leaf->range.pivot, index)]);
	} while (unlikely((load_relaxed(&leaf->meta) ^ seen) & ~META_DEAD));
	if (unlikely(xa_is_zero(entry)))
		return load_marked(mt, index);
	return tell_loaded(mt, entry);
}

/* The tree has no node: at most an entry at 0. */
static void *descend_root(struct ma_state *mas, void *root, unsigned long index)
{
	mas->status = index == 0 && root ? ma_root : ma_none;
	mas->node = NULL;
	mas->index = index && root ? 1 : 0;
	mas->last = index == 0 && root ? 0 : ULONG_MAX;
	return tell_loaded(mas->tree, index == 0 ? root : NULL);
}

/* The slot is NULL: widen index ... last over the NULLs next to it in the leaf. */
static void widen_in_leaf(struct ma_state *mas, const struct maple_node *leaf, unsigned int end)
{
	unsigned int offset = (unsigned int)(mas->at - first_slot(leaf)), i = offset;

	while (i > 0 && !load_acquire(&leaf->range.slot[i - 1]))
		i--;
	if (i < offset)
		mas->index = slot_min(leaf, i, mas->min);
	i = offset;
	while (i < end && word(leaf, i + 1) < mas->max && !load_acquire(&leaf->range.slot[i + 1]))
		i++;
	if (i > offset)
		mas->last = slot_max(leaf, i, end, mas->max);
}

/*
 * Where a leaf ends, which is at most `max`: the node above that gave `max` may be out of date, if
 * the leaf was cut since. For a leaf that was not cut, this is `max`, computed without a branch.
 */
static inline unsigned long leaf_end(const struct maple_node *leaf, uint64_t seen,
				     unsigned long max)
{
	unsigned long end = word(leaf, LEAF_SLOTS - 1);

	if (unlikely(seen & META_MOVING))
		end = word(leaf, (seen & META_END) + 1);
	end |= (seen & META_CUT) / META_CUT - 1;
	return end < max ? end : max;
}

/* The slot of a leaf that covers the index, or with `whole`, all of the gap in the leaf; false if
 * the leaf is dead, or another leaf has the index now. */
static inline __attribute__((always_inline)) bool leaf_slot(struct ma_state *mas,
							    const struct maple_node *leaf,
							    unsigned long index, void **entry,
							    bool whole)
{
	unsigned long max = mas->max; /* by the node above */
	uint64_t seen;

	do {
		unsigned int offset, end;

		seen = load_acquire(&leaf->meta);
		if (unlikely(seen & META_DEAD))
			return false;
		end = seen & META_END;
		if (whole) {
			mas->max = leaf_end(leaf, seen, max);
			if (unlikely(index > mas->max))
				return false;
		}
		offset = search15(leaf->range.pivot, index);
		/* An append has stored pivots, but not yet meta: the slot that it divides still
		 * counts as one. */
		if (unlikely(offset > end))
			offset = end;
		*entry = load_acquire(&leaf->range.slot[offset]);
		mas->at = &leaf->range.slot[offset];
		mas->stop = &leaf->range.slot[end];
		mas->index = slot_min(leaf, offset, mas->min);
		mas->last = slot_max(leaf, offset, end, mas->max);
		if (whole && !*entry)
			widen_in_leaf(mas, leaf, end);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		/* While a border moves, meta does not show it yet: the search saw it on one side.
		 */
	} while (unlikely(load_relaxed(&leaf->meta) != seen ||
			  (whole && (index < mas->index || index > mas->last))));
	/* A leaf whose slots move counts as changed; one that is dead has no such slots. */
	mas->seen = seen | (seen & META_MOVING) / (META_MOVING / META_DEAD);
	return true;
}

/* Go from a node to its child, and to the child's range. */
static inline enode_t step_down(enode_t e, unsigned int i, unsigned long *min, unsigned long *max,
				bool arange)
{
	const struct maple_node *node = node_of(e);

	*min = slot_min(node, i, *min);
	*max = slot_max(node, i, end_of(node), *max);
	e = (enode_t)load_acquire(arange ? &node->arange.slot[i] : &node->range.slot[i]);
	prefetch_node(e);
	return e;
}

static inline __attribute__((always_inline)) enode_t
descend_nodes(struct ma_state *mas, enode_t e, unsigned long index, bool arange, int ahead)
{
	unsigned long min = 0, max = ULONG_MAX, above_min = 0, above_max = 0;
	enode_t above = 0;
	unsigned int i = 0;

	for (unsigned int level = level_of(e); level > 0; level--) {
		above = e;
		above_min = min;
		above_max = max;
		i = arange ? search9(pivots(e), index) : search15(pivots(e), index);
		if (ahead && level == 2 && i + (unsigned int)ahead <= end_of(node_of(e)))
			prefetch_node(child(e, i + (unsigned int)ahead));
		e = step_down(e, i, &min, &max, arange);
	}
	mas->min = min;
	mas->max = max;
	mas->parent = above;
	mas->parent_offset = i;
	mas->parent_min = above_min;
	mas->parent_max = above_max;
	return e;
}

/* `ahead`: an iteration will also reach the next (1) or previous (-1) node above the leaves. */
static inline __attribute__((always_inline)) void *
descend(struct ma_state *mas, unsigned long index, int ahead, bool whole)
{
	void *entry;

	for (;;) {
		enode_t e = (enode_t)load_acquire(&mas->tree->ma_root);

		if (unlikely(!is_node((void *)e)))
			return descend_root(mas, (void *)e, index);
		e = is_arange(e) ? descend_nodes(mas, e, index, true, ahead)
				 : descend_nodes(mas, e, index, false, ahead);
		mas->node = node_of(e);
		mas->status = ma_active;
		if (likely(leaf_slot(mas, mas->node, index, &entry, whole)))
			break;
	}
	return tell_loaded(mas->tree, entry);
}

void *mas_descend(struct ma_state *mas, unsigned long index)
{
	return descend(mas, index, 0, true);
}

void *mas_go_to_index(struct ma_state *mas)
{
	unsigned long index = mas->index, last = mas->last;
	void *entry = descend(mas, index, 0, false);

	mas->index = index;
	mas->last = last;
	return entry;
}

void *mas_descend_on(struct ma_state *mas, unsigned long index, bool up)
{
	void *entry = descend(mas, index, up ? 1 : -1, true);
	unsigned long i = mas->parent_offset, end;

	if (mas->node && mas->parent) {
		end = end_of(node_of(mas->parent));
		for (unsigned int n = 1; n < AHEAD && (i += up ? 1 : -1ul) <= end; n++)
			prefetch_node(child(mas->parent, (unsigned int)i));
	}
	return entry;
}

void mas_join_after(struct ma_state *mas)
{
	struct ma_state next = *mas;

	while (next.last != ULONG_MAX && !mas_descend(&next, next.last + 1)) {
		mas->last = next.last;
		mas->node = NULL;
		if (next.status != ma_active || next.last != next.max)
			return;
	}
}

void mas_join_before(struct ma_state *mas)
{
	struct ma_state previous = *mas;

	while (previous.index != 0 && !mas_descend(&previous, previous.index - 1)) {
		mas->index = previous.index;
		mas->node = NULL;
		if (previous.status != ma_active || previous.index != previous.min)
			return;
	}
}

SHEAF_PUBLIC void *mas_walk(struct ma_state *mas)
{
	void *entry = descend(mas, mas->index, 0, true);

	if (!entry) {
		mas_widen_after(mas);
		mas_widen_before(mas);
	}
	return entry;
}
