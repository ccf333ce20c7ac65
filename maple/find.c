/* SPDX-License-Identifier: MIT */
/*
 * Readers that go on: find, next, previous.
 *
 * A state remembers its leaf, the leaf's meta word, and the node above. The next slot is taken from
 * the leaf if that word is as it was (mostly in __mas_step() of the public header, which is compiled
 * into loops); at the leaf's end from the next one below the same node; and if neither is there, by a
 * walk from the root to the index after the last one given. Each step reads first what it wants to
 * know, then the meta word, and only then changes the state: a step that fails has changed nothing.
 *
 * Invariants:
 *  1. A state with a leaf is active; at and stop are slots of that leaf, stop the last one as seen, and at
 *     is none behind it.
 *  2. A state whose leaf is not that of its parent's slot has no leaf: node is NULL.
 *
 * Called with the lock, or in an RCU read-side section.
 */
#include "tree.h"

/* A leaf's pivots beside a slot: where the slot before it ends, and where it ends itself. */
static inline unsigned long pivot_before(void *const *at)
{
	return load_relaxed((const any_word *)at - LEAF_SLOTS);
}

static inline unsigned long pivot_at(void *const *at)
{
	return load_relaxed((const any_word *)at - (LEAF_SLOTS - 1));
}

/* A leaf as it was seen, and the slot where a search in it begins. */
struct view {
	const struct maple_node *leaf;
	uint64_t seen;
	void *const *at, *const *stop;
	unsigned long min, max;
};

/*
 * The first (last) slot from the view's on that counts, if its range begins below (ends above) the
 * limit: the state goes there. Without gaps a NULL is passed over, and there are never two, unless a
 * writer has been between. False, and nothing has changed, if there is no such slot or the leaf is not
 * as it was seen.
 */
static inline __attribute__((always_inline)) bool
look(struct ma_state *mas, struct view v, unsigned long limit, bool up, bool gaps_too, void **entry)
{
	void *const *start = first_slot(v.leaf), *const *border = up ? v.stop : start;
	unsigned long first, last;

	*entry = load_acquire(v.at);
	if (!gaps_too && !*entry) {
		if (unlikely(v.at == border))
			return false;
		v.at += up ? 1 : -1;
		*entry = load_acquire(v.at);
		if (unlikely(!*entry))
			return false;
	}
	first = v.at != start ? pivot_before(v.at) + 1 : v.min;
	last = v.at != v.stop ? pivot_at(v.at) : v.max;
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

/* The slot after (before) the state's, in its leaf. */
static inline bool in_leaf(struct ma_state *mas, unsigned long limit, bool up, void **entry)
{
	struct view v = {mas->node, mas->seen, mas->at, mas->stop, mas->min, mas->max};

	if (!mas->node || v.at == (up ? v.stop : first_slot(v.leaf)))
		return false;
	v.at += up ? 1 : -1;
	return look(mas, v, limit, up, true, entry);
}

/* The state has come to all slots of its leaf; without gaps one may be left, if it is NULL. */
static inline bool is_through(const struct ma_state *mas, bool up, bool gaps_too)
{
	long left = up ? mas->stop - mas->at : mas->at - first_slot(mas->node);

	if (left > 0 && (gaps_too || left > 1 || load_acquire(mas->at + (up ? 1 : -1))))
		return false;
	return load_acquire(&mas->node->meta) == mas->seen;
}

/*
 * In the next (previous) leaf, by way of the node above, whose other words than children never change:
 * if it is alive, its child is the leaf that is there now. False: from the root, please.
 */
static inline __attribute__((always_inline)) bool
in_next_leaf(struct ma_state *mas, unsigned long limit, bool up, bool gaps_too, void **entry)
{
	const struct maple_node *node = node_of(mas->parent);
	unsigned long i = mas->parent_offset + (up ? 1 : -1ul), end;
	void *const *children;
	struct view v;
	uint64_t meta;

	if (unlikely(!mas->node || !mas->parent || !is_through(mas, up, gaps_too)))
		return false;
	meta = load_acquire(&node->meta);
	end = meta & META_END;
	if (unlikely((meta & META_DEAD) || i > end)) /* below 0 it is above the end */
		return false;
	children = slots(mas->parent);
	v.leaf = node_of((enode_t)load_acquire(&children[i]));
	if (up ? i + AHEAD <= end : i >= AHEAD)
		prefetch_node((enode_t)load_acquire(&children[up ? i + AHEAD : i - AHEAD]));
	v.seen = load_acquire(&v.leaf->meta);
	v.stop = first_slot(v.leaf) + (v.seen & META_END);
	v.at = up ? first_slot(v.leaf) : v.stop;
	v.min = slot_min(node, i, mas->parent_min);
	v.max = slot_max(node, i, end, mas->parent_max);
	if (unlikely(v.seen & META_DEAD) || !look(mas, v, limit, up, gaps_too, entry))
		return false;
	mas->node = (struct maple_node *)v.leaf;
	mas->stop = v.stop;
	mas->seen = v.seen;
	mas->min = v.min;
	mas->max = v.max;
	mas->parent_offset = i;
	return true;
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

/* From the root to the slots after the state's, to the first that counts. */
static void *go_up(struct ma_state *mas, unsigned long max, bool gaps_too)
{
	unsigned long index = mas->index, last = mas->last;

	while (mas->last < max) {
		void *entry = mas_descend_on(mas, mas->last + 1, true);

		if (gaps_too && !entry)
			mas_widen_after(mas);
		if (!gaps_too && !entry)
			entry = __mas_step(mas, max, true);
		if (gaps_too || entry)
			return entry;
	}
	return ended(mas, index, last, ma_overflow);
}

static void *go_down(struct ma_state *mas, unsigned long min, bool gaps_too)
{
	unsigned long index = mas->index, last = mas->last;

	while (mas->index > min) {
		void *entry = mas_descend_on(mas, mas->index - 1, false);

		if (gaps_too && !entry)
			mas_widen_before(mas);
		if (!gaps_too && !entry)
			entry = __mas_step(mas, min, false);
		if (gaps_too || entry)
			return entry;
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
	if (!entry && !gaps_too)
		entry = __mas_step(mas, limit, up);
	if (entry || gaps_too)
		return entry;
	entry = up ? go_up(mas, limit, false) : go_down(mas, limit, false);
	if (!entry)
		ended(mas, index, last, mas->status);
	return entry;
}

/* From the root: what is to be done depends on how the last search ended. */
static __attribute__((noinline)) void *find_up(struct ma_state *mas, unsigned long max,
					       bool gaps_too)
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

static __attribute__((noinline)) void *find_down(struct ma_state *mas, unsigned long min,
						 bool gaps_too)
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

/* Out of line, so that what comes before it needs no stack. */
static __attribute__((noinline)) void *find_in_next_up(struct ma_state *mas, unsigned long max)
{
	void *entry;

	return likely(in_next_leaf(mas, max, true, false, &entry)) ? entry
								   : find_up(mas, max, false);
}

static __attribute__((noinline)) void *find_in_next_down(struct ma_state *mas, unsigned long min)
{
	void *entry;

	return likely(in_next_leaf(mas, min, false, false, &entry)) ? entry
								    : find_down(mas, min, false);
}

static inline void *find(struct ma_state *mas, unsigned long limit, bool up)
{
	void *entry = __mas_step(mas, limit, up);

	if (likely(entry))
		return entry;
	if (mas->node)
		return up ? find_in_next_up(mas, limit) : find_in_next_down(mas, limit);
	return up ? find_up(mas, limit, false) : find_down(mas, limit, false);
}

static void *find_range(struct ma_state *mas, unsigned long limit, bool up)
{
	void *entry;

	if (!in_leaf(mas, limit, up, &entry) && !in_next_leaf(mas, limit, up, true, &entry))
		return up ? find_up(mas, limit, true) : find_down(mas, limit, true);
	if (!entry && up)
		mas_widen_after(mas);
	else if (!entry)
		mas_widen_before(mas);
	return entry;
}

SHEAF_PUBLIC void *mas_find(struct ma_state *mas, unsigned long max)
{
	return find(mas, max, true);
}

SHEAF_PUBLIC void *mas_find_range(struct ma_state *mas, unsigned long max)
{
	return find_range(mas, max, true);
}

SHEAF_PUBLIC void *mas_find_rev(struct ma_state *mas, unsigned long min)
{
	return find(mas, min, false);
}

SHEAF_PUBLIC void *mas_find_range_rev(struct ma_state *mas, unsigned long min)
{
	return find_range(mas, min, false);
}

/* mas_next() goes on after the range at the index: it must be known first. */
static inline void know_range(struct ma_state *mas)
{
	if (unlikely(!mas->node) && (mas->status == ma_start || mas->status == ma_pause))
		mas_walk(mas);
}

SHEAF_PUBLIC void *mas_next(struct ma_state *mas, unsigned long max)
{
	know_range(mas);
	return find(mas, max, true);
}

SHEAF_PUBLIC void *mas_next_range(struct ma_state *mas, unsigned long max)
{
	know_range(mas);
	return find_range(mas, max, true);
}

SHEAF_PUBLIC void *mas_prev(struct ma_state *mas, unsigned long min)
{
	know_range(mas);
	return find(mas, min, false);
}

SHEAF_PUBLIC void *mas_prev_range(struct ma_state *mas, unsigned long min)
{
	know_range(mas);
	return find_range(mas, min, false);
}

SHEAF_PUBLIC void mas_pause(struct ma_state *mas)
{
	mas_reset(mas);
	mas->status = ma_pause;
}
