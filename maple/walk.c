/* SPDX-License-Identifier: MIT */
/*
 * Readers: load, walk, find, next, previous.
 *
 * Why a reader without the lock sees a whole tree: inner nodes never change but for children replaced
 * by others with the same range, and what a leaf held when the reader came to it was true then. A
 * leaf may change in place; its meta word tells, so that pivots and slot belong together: it is read
 * before them and after them. An ma_state remembers that word. If it is another one at the next call,
 * or the leaf is dead, the walk begins again at the root, at the index after the last one given.
 *
 * Called with the lock, or in an RCU read-side section.
 */
#include "tree.h"

SHEAF_PUBLIC void *mtree_load(struct maple_tree *mt, unsigned long index)
{
	enode_t e = (enode_t)load_acquire(&mt->ma_root);
	const struct maple_node *leaf;
	uint64_t seen;
	void *entry;

	if (unlikely(!is_node((void *)e)))
		return index == 0 ? (void *)e : NULL;
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
	return entry;
}

/* The tree has no node: an entry at 0, perhaps, and nothing else. */
static void *descend_root(struct ma_state *mas, void *root, unsigned long index)
{
	mas->status = ma_root;
	mas->node = NULL;
	mas->index = index && root ? 1 : 0;
	mas->last = index == 0 && root ? 0 : ULONG_MAX;
	return index == 0 ? root : NULL;
}

/* The slot of a leaf that covers the index; false if the leaf is dead. */
static inline bool leaf_slot(struct ma_state *mas, const struct maple_node *leaf,
			     unsigned long index, void **entry)
{
	uint64_t seen;

	do {
		unsigned int offset;

		seen = load_acquire(&leaf->meta);
		if (unlikely(seen & META_DEAD))
			return false;
		offset = search15(leaf->range.pivot, index);
		*entry = load_acquire(&leaf->range.slot[offset]);
		mas->offset = offset;
		mas->index = slot_min(leaf, offset, mas->min);
		mas->last = slot_max(leaf, offset, seen & META_END, mas->max);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (unlikely(load_relaxed(&leaf->meta) != seen));
	mas->seen = seen;
	return true;
}

void *mas_descend(struct ma_state *mas, unsigned long index)
{
	void *entry;

	for (;;) {
		enode_t e = (enode_t)load_acquire(&mas->tree->ma_root);

		if (unlikely(!is_node((void *)e)))
			return descend_root(mas, (void *)e, index);
		mas->min = 0;
		mas->max = ULONG_MAX;
		mas->parent = 0;
		for (unsigned int level = level_of(e); level > 0; level--) {
			const struct maple_node *node = node_of(e);
			unsigned int i = search(e, index), end = end_of(node);

			if (level == 1) {
				mas->parent_min = mas->min;
				mas->parent_max = mas->max;
				mas->parent_offset = i;
			}
			mas->parent = e;
			mas->min = slot_min(node, i, mas->min);
			mas->max = slot_max(node, i, end, mas->max);
			e = child(e, i);
			prefetch_node(e);
		}
		mas->node = node_of(e);
		mas->status = ma_active;
		if (likely(leaf_slot(mas, mas->node, index, &entry)))
			return entry;
	}
}

/*
 * The first (last) slot of the next (previous) leaf, by way of the node above, whose other words than
 * children never change: if it is alive, its child is the leaf that is there now. NULL is also for
 * "from the root, please": then mas->node is NULL.
 */
static void *next_leaf(struct ma_state *mas, bool up)
{
	const struct maple_node *node = node_of(mas->parent);
	uint64_t meta = mas->parent ? load_acquire(&node->meta) : META_DEAD;
	unsigned int i = up ? mas->parent_offset + 1 : mas->parent_offset - 1,
		     end = meta & META_END;
	void *entry;
	enode_t e;

	mas->node = NULL;
	if ((meta & META_DEAD) || i > end) /* below 0 it is above the end */
		return NULL;
	e = child(mas->parent, i);
	if (up ? i < end : i > 0)
		prefetch_node(child(mas->parent, up ? i + 1 : i - 1));
	mas->min = slot_min(node, i, mas->parent_min);
	mas->max = slot_max(node, i, end, mas->parent_max);
	if (!leaf_slot(mas, node_of(e), up ? mas->min : mas->max, &entry))
		return NULL;
	mas->parent_offset = i;
	mas->node = node_of(e);
	return entry;
}

/* The slot after (before) the state's, in its leaf if that is as it was, else from the root. */
static inline void *slot_after(struct ma_state *mas)
{
	const struct maple_node *leaf = mas->node;
	uint64_t seen = mas->seen;
	unsigned int i = mas->offset + 1, end = seen & META_END;

	if (likely(leaf && i <= end)) {
		void *entry = load_acquire(&leaf->range.slot[i]);
		unsigned long last = slot_max(leaf, i, end, mas->max);

		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (likely(load_relaxed(&leaf->meta) == seen)) {
			mas->offset = i;
			mas->index = mas->last + 1;
			mas->last = last;
			return entry;
		}
	} else if (leaf && load_acquire(&leaf->meta) == seen && mas->last == mas->max) {
		unsigned long last = mas->last;
		void *entry = next_leaf(mas, true);

		if (likely(mas->node))
			return entry;
		mas->last = last;
	}
	return mas_descend(mas, mas->last + 1);
}

static inline void *slot_before(struct ma_state *mas)
{
	const struct maple_node *leaf = mas->node;
	unsigned int i = mas->offset - 1;

	if (likely(leaf && mas->offset > 0)) {
		void *entry = load_acquire(&leaf->range.slot[i]);
		unsigned long first = slot_min(leaf, i, mas->min);

		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (likely(load_relaxed(&leaf->meta) == mas->seen)) {
			mas->offset = i;
			mas->last = mas->index - 1;
			mas->index = first;
			return entry;
		}
	} else if (leaf && load_acquire(&leaf->meta) == mas->seen && mas->index == mas->min) {
		unsigned long index = mas->index;
		void *entry = next_leaf(mas, false);

		if (likely(mas->node))
			return entry;
		mas->index = index;
	}
	return mas_descend(mas, mas->index - 1);
}

/* A gap at a leaf's end may go on in the next leaf: index ... last becomes the whole of it. */
static void widen_after(struct ma_state *mas)
{
	struct ma_state next = *mas;

	if (mas->status != ma_active || mas->last != mas->max)
		return;
	while (next.last != ULONG_MAX && !mas_descend(&next, next.last + 1)) {
		mas->last = next.last;
		mas->node = NULL;
		if (next.status != ma_active || next.last != next.max)
			return;
	}
}

static void widen_before(struct ma_state *mas)
{
	struct ma_state previous = *mas;

	if (mas->status != ma_active || mas->index != mas->min)
		return;
	while (previous.index != 0 && !mas_descend(&previous, previous.index - 1)) {
		mas->index = previous.index;
		mas->node = NULL;
		if (previous.status != ma_active || previous.index != previous.min)
			return;
	}
}

SHEAF_PUBLIC void *mas_walk(struct ma_state *mas)
{
	void *entry = mas_descend(mas, mas->index);

	if (!entry) {
		widen_after(mas);
		widen_before(mas);
	}
	return entry;
}

/* The search ended: index and last are as before it. */
static void *ended(struct ma_state *mas, unsigned long index, unsigned long last,
		   enum maple_status status)
{
	mas->node = NULL;
	mas->index = index;
	mas->last = last;
	mas->status = status;
	return NULL;
}

/* From a range that does not count, to the first that does. */
static inline void *go_up(struct ma_state *mas, unsigned long max, bool gaps_too)
{
	unsigned long index = mas->index, last = mas->last;

	while (mas->last < max) {
		void *entry = slot_after(mas);

		if (entry)
			return entry;
		if (gaps_too) {
			widen_after(mas);
			return NULL;
		}
	}
	return ended(mas, index, last, ma_overflow);
}

static inline void *go_down(struct ma_state *mas, unsigned long min, bool gaps_too)
{
	unsigned long index = mas->index, last = mas->last;

	while (mas->index > min) {
		void *entry = slot_before(mas);

		if (entry)
			return entry;
		if (gaps_too) {
			widen_before(mas);
			return NULL;
		}
	}
	return ended(mas, index, last, ma_underflow);
}

/* Begin at the index itself; go on from there if nothing is there. */
static void *find_first(struct ma_state *mas, unsigned long at, unsigned long limit, bool up,
			bool gaps_too)
{
	unsigned long index = mas->index, last = mas->last;
	void *entry;

	if (up ? at > limit : at < limit)
		return ended(mas, index, last, up ? ma_overflow : ma_underflow);
	mas->index = at;
	entry = gaps_too ? mas_walk(mas) : mas_descend(mas, at);
	if (entry || gaps_too)
		return entry;
	entry = up ? go_up(mas, limit, false) : go_down(mas, limit, false);
	if (!entry)
		ended(mas, index, last, mas->status);
	return entry;
}

static inline void *find_up(struct ma_state *mas, unsigned long max, bool gaps_too)
{
	switch (mas->status) {
	case ma_active:
	case ma_root:
	case ma_overflow:
		return go_up(mas, max, gaps_too);
	case ma_pause:
		if (mas->last == ULONG_MAX)
			return ended(mas, mas->index, mas->last, ma_overflow);
		return find_first(mas, mas->last + 1, max, true, gaps_too);
	case ma_start:
	case ma_underflow:
		return find_first(mas, mas->index, max, true, gaps_too);
	default:
		return NULL;
	}
}

static inline void *find_down(struct ma_state *mas, unsigned long min, bool gaps_too)
{
	switch (mas->status) {
	case ma_active:
	case ma_root:
	case ma_underflow:
		return go_down(mas, min, gaps_too);
	case ma_pause:
		if (mas->index == 0)
			return ended(mas, mas->index, mas->last, ma_underflow);
		return find_first(mas, mas->index - 1, min, false, gaps_too);
	case ma_start:
	case ma_overflow:
		return find_first(mas, mas->index, min, false, gaps_too);
	default:
		return NULL;
	}
}

SHEAF_PUBLIC void *mas_find(struct ma_state *mas, unsigned long max)
{
	return find_up(mas, max, false);
}

SHEAF_PUBLIC void *mas_find_range(struct ma_state *mas, unsigned long max)
{
	return find_up(mas, max, true);
}

SHEAF_PUBLIC void *mas_find_rev(struct ma_state *mas, unsigned long min)
{
	return find_down(mas, min, false);
}

SHEAF_PUBLIC void *mas_find_range_rev(struct ma_state *mas, unsigned long min)
{
	return find_down(mas, min, true);
}

/* mas_next() goes on after the range at the index: it must be known first. */
static void know_range(struct ma_state *mas)
{
	if (mas->status == ma_start || mas->status == ma_pause)
		mas_walk(mas);
}

SHEAF_PUBLIC void *mas_next(struct ma_state *mas, unsigned long max)
{
	know_range(mas);
	return find_up(mas, max, false);
}

SHEAF_PUBLIC void *mas_next_range(struct ma_state *mas, unsigned long max)
{
	know_range(mas);
	return find_up(mas, max, true);
}

SHEAF_PUBLIC void *mas_prev(struct ma_state *mas, unsigned long min)
{
	know_range(mas);
	return find_down(mas, min, false);
}

SHEAF_PUBLIC void *mas_prev_range(struct ma_state *mas, unsigned long min)
{
	know_range(mas);
	return find_down(mas, min, true);
}

SHEAF_PUBLIC void mas_pause(struct ma_state *mas)
{
	mas->status = ma_pause;
	mas->node = NULL;
}
