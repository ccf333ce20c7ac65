/* SPDX-License-Identifier: MIT */
/*
 * Readers that continue from a range to the next or previous one; states.c calls them.
 *
 * A state stores its leaf, the leaf's meta word, and the node above. The next slot comes from the
 * leaf if that word is unchanged (usually in __mas_step() of the public header, which is inlined
 * into loops); at the leaf's end, from the next leaf below the same node, or from the first one
 * below the next node; and otherwise from a walk from the root to the index after the last one
 * returned. Each step first reads its data, then the meta word, and only then changes the state: a
 * step that fails changes nothing.
 *
 * Invariants:
 *  1. A state with a leaf is active; `at` and `stop` are slots of that leaf: `stop` is the last one
 *     that was seen, and `at` is not behind it. In a gap `at` is any of its slots.
 *  2. A state whose leaf is not that of its parent's slot has no leaf: node is NULL.
 *
 * Called with the lock, or in an RCU read-side section.
 */
#include "tree.h"

/* The gap at the leaf's end (beginning) may continue in the next leaf. */
static inline void widen(struct ma_state *mas, bool up)
{
	if (up)
		mas_widen_after(mas);
	else
		mas_widen_before(mas);
}

/* The two pivots around a slot of a leaf: where the previous slot ends, and where it ends. */
static inline unsigned long pivot_before(void *const *at)
{
	return load_relaxed((const any_word *)at - LEAF_SLOTS);
}

static inline unsigned long pivot_at(void *const *at)
{
	return load_relaxed((const any_word *)at - (LEAF_SLOTS - 1));
}

/* The last (first) of the NULLs from this one on, not beyond the border. */
static inline void *const *end_of_run(void *const *at, void *const *border, bool up)
{
	while (at != border && !load_acquire(at + (up ? 1 : -1)))
		at += up ? 1 : -1;
	return at;
}

/* A leaf at the time of the look, and the slot where a search in it begins. */
struct view {
	const struct maple_node *leaf;
	uint64_t seen;
	void *const *at, *const *stop;
	unsigned long min, max;
};

/*
 * Move the state to the first (last) slot that counts, beginning with the view's, if its range
 * begins below (ends above) the limit. Without gaps, NULL does not count; with them, neighbouring
 * NULLs are one gap. False: the state is unchanged, because there is no such slot or the leaf has
 * changed.
 */
static inline __attribute__((always_inline)) bool
look(struct ma_state *mas, struct view v, unsigned long limit, bool up, bool gaps_too, void **entry)
{
	void *const *start = first_slot(v.leaf), *const *border = up ? v.stop : start,
		    *const * near;
	unsigned long first, last;

	*entry = load_acquire(v.at);
	while (!gaps_too && !*entry) {
		if (unlikely(v.at == border))
			return false;
		v.at += up ? 1 : -1;
		*entry = load_acquire(v.at);
	}
	near = v.at;
	if (gaps_too && !*entry)
		v.at = end_of_run(v.at, border, up);
	first = (up ? near : v.at) != start ? pivot_before(up ? near : v.at) + 1 : v.min;
	last = (up ? v.at : near) != v.stop ? pivot_at(up ? v.at : near) : v.max;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (unlikely(up ? first > limit : last < limit))
		return false;
	if (unlikely(gaps_too && (up ? first != mas->last + 1 : last != mas->index - 1)))
		return false; /* the border is moving, which is not in meta yet */
	if (unlikely(load_relaxed(&v.leaf->meta) != v.seen))
		return false;
	mas->at = v.at;
	mas->index = first;
	mas->last = last;
	return true;
}

/* Move to the range after (before) the state's, in its leaf. */
static inline bool in_leaf(struct ma_state *mas, unsigned long limit, bool up, void **entry)
{
	struct view v = {mas->node, mas->seen, mas->at, mas->stop, mas->min, mas->max};
	void *const *border = up ? v.stop : first_slot(v.leaf);

	if (!load_acquire(v.at))
		v.at = end_of_run(v.at, border, up);
	if (v.at == border)
		return false;
	v.at += up ? 1 : -1;
	return look(mas, v, limit, up, true, entry);
}

/* The state has visited all slots of its leaf; without gaps, NULLs may be left. */
static inline bool is_through(const struct ma_state *mas, bool up, bool gaps_too)
{
	void *const *border = up ? mas->stop : first_slot(mas->node);

	if (mas->at != border &&
	    ((gaps_too && load_acquire(mas->at)) || end_of_run(mas->at, border, up) != border))
		return false;
	return load_acquire(&mas->node->meta) == mas->seen;
}

/* A node above the leaves, and the indices that it covers. */
struct above {
	enode_t e;
	unsigned long min, max;
};

/*
 * Continue in the leaf in slot i of a node above the leaves, which begins after (ends before) the
 * state's leaf. Of the node's words, only the children ever change, so if it is alive after a look
 * at the child, this is the current leaf with the range that its pivots give (cut.c). False: the
 * state is unchanged.
 */
static inline __attribute__((always_inline)) bool
in_child(struct ma_state *mas, const struct above *above, unsigned long i, unsigned long end,
	 unsigned long limit, bool up, bool gaps_too, void **entry)
{
	const struct maple_node *node = node_of(above->e);
	void *const *children = slots(above->e);
	struct view v;

	v.leaf = node_of((enode_t)load_acquire(&children[i]));
	if (up ? i + AHEAD <= end : i >= AHEAD)
		prefetch_node((enode_t)load_acquire(&children[up ? i + AHEAD : i - AHEAD]));
	v.seen = load_acquire(&v.leaf->meta);
	v.stop = first_slot(v.leaf) + (v.seen & META_END);
	v.at = up ? first_slot(v.leaf) : v.stop;
	v.min = slot_min(node, i, above->min);
	v.max = slot_max(node, i, end, above->max);
	if (unlikely(load_relaxed(&node->meta) & META_DEAD))
		return false;
	if (unlikely(v.seen & (META_DEAD | META_MOVING)) ||
	    !look(mas, v, limit, up, gaps_too, entry))
		return false;
	mas->node = (struct maple_node *)v.leaf;
	mas->stop = v.stop;
	mas->seen = v.seen;
	mas->min = v.min;
	mas->max = v.max;
	mas->parent_offset = i;
	return true;
}

/* Walk from the root to the node above the leaves that begins (ends) with the index. False: there
 * is no such node. Nodes on the way may be dead: only leaves get another range (node.h, 5). */
static inline bool walk_above(const struct maple_tree *mt, unsigned long index, bool up,
			      struct above *to)
{
	enode_t e = (enode_t)load_acquire(&mt->ma_root);
	unsigned int level;

	if (unlikely(!is_node((void *)e)))
		return false;
	to->min = 0;
	to->max = ULONG_MAX;
	for (level = level_of(e); level > 1; level--) {
		const struct maple_node *node = node_of(e);
		unsigned int i = search(e, index), end = end_of(node);

		if (level == 2 && (up ? i < end : i > 0))
			prefetch_node(child(e, up ? i + 1 : i - 1));
		to->min = slot_min(node, i, to->min);
		to->max = slot_max(node, i, end, to->max);
		e = child(e, i);
		prefetch_node(e);
	}
	to->e = e;
	return level == 1 && (up ? to->min : to->max) == index;
}

/* Continue in the first (last) leaf of the next (previous) node above the leaves. False: the state
 * is unchanged. */
static inline __attribute__((always_inline)) bool
in_next_node(struct ma_state *mas, unsigned long limit, bool up, bool gaps_too, void **entry)
{
	struct above above;
	unsigned int end, i;

	if (up ? mas->max >= limit : mas->min <= limit)
		return false;
	if (unlikely(!walk_above(mas->tree, up ? mas->max + 1 : mas->min - 1, up, &above)))
		return false;
	end = end_of(node_of(above.e));
	for (i = 0; i < AHEAD && i <= end; i++)
		prefetch_node(child(above.e, up ? i : end - i));
	if (!in_child(mas, &above, up ? 0 : end, end, limit, up, gaps_too, entry))
		return false;
	mas->parent = above.e;
	mas->parent_min = above.min;
	mas->parent_max = above.max;
	return true;
}

/* Continue in the next (previous) leaf, below the same node or the next one. False: walk from the
 * root. */
static inline __attribute__((always_inline)) bool
in_next_leaf(struct ma_state *mas, unsigned long limit, bool up, bool gaps_too, void **entry)
{
	const struct above above = {mas->parent, mas->parent_min, mas->parent_max};
	unsigned long i = mas->parent_offset + (up ? 1 : -1ul), end;

	if (unlikely(!mas->parent || !is_through(mas, up, gaps_too)))
		return false;
	end = load_relaxed(&node_of(above.e)->meta) & META_END;
	if (unlikely(i > end)) /* below 0 it is above the end */
		return in_next_node(mas, limit, up, gaps_too, entry);
	return in_child(mas, &above, i, end, limit, up, gaps_too, entry);
}

/*
 * Walk from the root to the range after (before) the state's. If gaps do not count and that range
 * is a gap that reaches the limit, the state is in the gap; if the state's own range reaches the
 * limit, it stays there.
 */
static inline __attribute__((always_inline)) void *
from_root(struct ma_state *mas, unsigned long limit, bool up, bool gaps_too)
{
	if (mas_at_limit(mas, limit, up))
		return mas_ended(mas, up ? ma_overflow : ma_underflow);
	do {
		void *entry = mas_descend_on(mas, up ? mas->last + 1 : mas->index - 1, up);

		if (entry)
			return entry;
		if (mas_is_outside(mas, up))
			return NULL;
		if (gaps_too)
			break;
		entry = mas_step(mas, limit, up);
		if (entry)
			return entry;
	} while (!mas_at_limit(mas, limit, up));
	mas_widen_after(mas);
	mas_widen_before(mas);
	return gaps_too ? NULL : mas_ended(mas, up ? ma_overflow : ma_underflow);
}

/* Go on to an entry. mas_step() found none in the leaf, unless NULLs are neighbours there. */
static inline __attribute__((always_inline)) void *go_on(struct ma_state *mas, unsigned long limit,
							 bool up)
{
	void *entry;

	if (mas->node && in_next_leaf(mas, limit, up, false, &entry))
		return tell_loaded(mas->tree, entry);
	if (mas->node && in_leaf(mas, limit, up, &entry)) {
		if (entry)
			return tell_loaded(mas->tree, entry);
		widen(mas, up); /* it may reach the limit, and then the search ends */
	}
	return from_root(mas, limit, up, false);
}

/* Go on to a range that is not in the state's leaf. */
static inline __attribute__((always_inline)) void *leave_leaf(struct ma_state *mas,
							      unsigned long limit, bool up)
{
	void *entry;

	if (!mas->node || !in_next_leaf(mas, limit, up, true, &entry))
		return from_root(mas, limit, up, true);
	if (!entry)
		widen(mas, up);
	return tell_loaded(mas->tree, entry);
}

/* Not inlined into the calls, so that a step in the leaf saves few registers. */
static __attribute__((noinline)) void *leave_leaf_up(struct ma_state *mas, unsigned long max)
{
	return leave_leaf(mas, max, true);
}

static __attribute__((noinline)) void *leave_leaf_down(struct ma_state *mas, unsigned long min)
{
	return leave_leaf(mas, min, false);
}

/* Go on to an entry or a gap: usually it is in the leaf. */
static inline __attribute__((always_inline)) void *go_on_range(struct ma_state *mas,
							       unsigned long limit, bool up)
{
	void *entry;

	if (!mas->node || !in_leaf(mas, limit, up, &entry))
		return up ? leave_leaf_up(mas, limit) : leave_leaf_down(mas, limit);
	if (!entry)
		widen(mas, up);
	return tell_loaded(mas->tree, entry);
}

void *mas_up(struct ma_state *mas, unsigned long max)
{
	return go_on(mas, max, true);
}

void *mas_up_range(struct ma_state *mas, unsigned long max)
{
	return go_on_range(mas, max, true);
}

void *mas_down(struct ma_state *mas, unsigned long min)
{
	return go_on(mas, min, false);
}

void *mas_down_range(struct ma_state *mas, unsigned long min)
{
	return go_on_range(mas, min, false);
}
