/* SPDX-License-Identifier: MIT */
/*
 * Decides what a store will do, and how many nodes it needs, before anything is allocated.
 *
 *     the tree has no node      store_root     0 or 1 node
 *     0 ... ULONG_MAX           new_root       1
 *     one slot, exactly         exact_fit      0    the slot
 *     one pivot moves           slot_store     0    the pivot; without readers any change of
 *                                                   ranges that keeps their number
 *     in free slots             run_store      0    pivots between them, then the slot
 *     in the last, free slot    append         0    slots beyond the end, then the one that
 *                                                   shows them
 *     one or two slots more     insert         0    the slots behind them, then one word
 *     one leaf                  node_store     1    a new leaf, then the parent's slot; without
 *                                                   readers in place, and 0
 *     a full leaf               split_store    2    with readers, if the node above has room:
 *                                                   cut.c
 *     else                      rebuild.c: split_store, rebalance, spanning_store
 *
 * NULL is stored from the first entry that it covers to the last; if that is one range, into its
 * slot. Neighbouring NULLs become one when a leaf has no room without that, and in rebuild.c.
 *
 * A store in one leaf is planned in that leaf, where the caller's state already is, or which a walk
 * finds. Only stores that change more need the whole path from the root (store_way()).
 *
 * Called with the tree's lock held.
 */
#include "rules.h"
#include "tree.h"

static void plan_root(struct store *st)
{
	const void *root = st->mas->tree->ma_root;
	bool single = st->index == 0 && st->last == 0 && ((uintptr_t)st->entry & 3) != ENODE_MARK;

	st->type = wr_store_root;
	st->nodes = st->entry && !single;
	if (!st->entry && (!root || st->index > 0))
		st->type = wr_none;
}

/* --- the place ------------------------------------------------------------------------------- */

/* The state has the current leaf of its index, and the leaf's slot in the node above. */
static inline bool is_at_index(const struct ma_state *mas)
{
	const struct maple_node *leaf = mas->node;
	enode_t e = encode(leaf, 0, false);

	if (!leaf || mas->index < mas->min || mas->index > mas->max ||
	    load_relaxed(&leaf->meta) != mas->seen)
		return false;
	if (!mas->parent)
		return (enode_t)mas->tree->ma_root == e;
	return !(load_relaxed(&node_of(mas->parent)->meta) & META_DEAD) &&
	       child(mas->parent, mas->parent_offset) == e;
}

static inline void go_to_leaf(struct ma_state *mas)
{
	if (!mas->node)
		mas->node = mas->prepared;
	if (!is_at_index(mas))
		mas_go_to_index(mas);
}

void store_way(struct store *st)
{
	if (!st->has_way)
		path_walk(&st->lo, st->mas->tree, st->mas->min);
	st->has_way = true;
}

/* Find the slots that hold index and last, and their ranges. False: they are in two leaves. */
static inline bool find_slots(struct store *st)
{
	const struct ma_state *mas = st->mas;
	const struct maple_node *leaf = mas->node;
	unsigned int end = end_of(leaf), i = (unsigned int)(mas->at - first_slot(leaf));
	unsigned long min = slot_min(leaf, i, mas->min), max = slot_max(leaf, i, end, mas->max);

	if (unlikely(st->index < min || st->index > max)) {
		i = search15(leaf->range.pivot, st->index);
		min = slot_min(leaf, i, mas->min);
		max = slot_max(leaf, i, end, mas->max);
	}
	st->first = i;
	st->first_min = min;
	if (unlikely(st->last > max)) {
		if (st->last > mas->max)
			return false;
		i = search15(leaf->range.pivot, st->last);
		max = slot_max(leaf, i, end, mas->max);
	}
	st->second = i;
	st->second_max = max;
	return true;
}

/* The leaf of last is a different one. */
static void find_second(struct store *st)
{
	struct step *leaf = &st->hi.at[0];
	const struct maple_node *node;

	path_walk(&st->hi, st->mas->tree, st->last);
	node = node_of(leaf->e);
	st->second = leaf->offset;
	st->second_max = slot_max(node, leaf->offset, end_of(node), leaf->max);
}

/* --- the decision ---------------------------------------------------------------------------- */

/* NULL joins one free neighbour on each side within its leaves; the second leaf ends at max. */
static inline void widen_free(struct store *st, const struct maple_node *second, unsigned long max)
{
	const struct maple_node *first = st->mas->node;
	unsigned int end = end_of(second);

	if (!first->range.slot[st->first]) {
		st->index = st->first_min;
		st->left = false;
	} else if (!st->left && st->first > 0 && !first->range.slot[st->first - 1]) {
		st->first--;
		st->index = st->first_min = slot_min(first, st->first, st->mas->min);
	}
	if (!second->range.slot[st->second]) {
		st->last = st->second_max;
		st->right = false;
	} else if (!st->right && st->second < end && !second->range.slot[st->second + 1]) {
		st->second++;
		st->last = slot_max(second, st->second, end, max);
	}
}

/* Find which parts of their ranges the first and the last slot keep. */
static inline void find_rests(struct store *st)
{
	st->left = st->first_min < st->index;
	st->right = st->last < st->second_max;
}

/* One word can show the entry: at one end of its slot, or anywhere in a free one. A hole before the
 * first slot (insert.c) has no place below index 0. */
static inline bool can_insert(const struct store *st)
{
	if (KERNEL_RULES || st->first != st->second)
		return false;
	if (!st->mas->node->range.slot[st->first])
		return true;
	return st->left != st->right && (st->left || st->first > 0 || st->mas->min > 0);
}

/* Stores that change one word that readers see. */
static inline bool plan_in_place(struct store *st, unsigned int old_end)
{
	void *const *slot = st->mas->node->range.slot;
	bool rcu = in_rcu(st->mas->tree);

	st->nodes = 0;
	if (st->first == st->second && !st->left && !st->right) {
		st->type = slot[st->first] == st->entry ? wr_none : wr_exact_fit;
	} else if (st->second == st->first + 1 && st->left != st->right &&
		   slot[st->left ? st->second : st->first] == st->entry) {
		st->type = wr_slot_store;
	} else if (st->first == old_end && (st->entry || !rcu) &&
		   (!rcu || (!slot[old_end] && !KERNEL_RULES))) {
		st->type = wr_append;
	} else if (!rcu) {
		st->type = st->end == old_end ? wr_slot_store : wr_node_store;
	} else if (can_insert(st)) {
		st->type = wr_insert;
	} else {
		return false;
	}
	return true;
}

static void plan_skew(struct store *st)
{
	const struct ma_state *mas = st->mas;
	const struct maple_node *node = mas->node;
	unsigned int old_end = end_of(node);

	if (!st->entry)
		st->skew = 0;
	else if (st->second == old_end && (!st->right || !node->range.slot[old_end]))
		st->skew = mas->max == ULONG_MAX ? 2 : 1;
	else if (st->first == 0 && (!st->left || !node->range.slot[0]))
		st->skew = mas->min == 0 ? -2 : -1;
	else
		st->skew = 0;
}

/*
 * By the kernel's rules: three nodes for each level, or two if nothing spans leaves, up to a level
 * that can lose a slot or has room for one more.
 */
static unsigned int kernel_request(const struct store *st, bool spanning)
{
	unsigned int height = st->lo.height + 1, enough = 0, room = 0, levels;

	for (unsigned int l = st->lo.height; l > (spanning ? 1 : 0); l--) {
		unsigned int end = end_of(node_of(st->lo.at[l].e));

		if (end + 1 < slots_of(st->lo.at[l].e))
			room = height - l;
		if (end >= ARANGE_FEW)
			enough = height - l;
	}
	levels = height - (enough < room && st->type != wr_split_store ? enough : room);
	return (spanning ? 3 : 2) * levels + 1;
}

static void plan_nodes(struct store *st, enum store_type type)
{
	st->type = type;
	rebuild_plan(st);
	if (KERNEL_RULES) {
		unsigned int asked = kernel_request(st, type == wr_spanning_store);

		st->nodes = asked > st->nodes ? asked : st->nodes;
	}
}

/* index and last are in two leaves, or (by the kernel's rules) the next leaf is changed, too. NULL
 * may have been widened before. */
static void plan_spanning(struct store *st)
{
	unsigned long last = st->last;

	if (KERNEL_RULES && last == st->mas->max)
		st->last++;
	store_way(st);
	find_second(st);
	st->last = last;
	find_rests(st);
	if (!st->entry)
		widen_free(st, node_of(st->hi.at[0].e), st->hi.at[0].max);
	st->skew = 0;
	plan_nodes(st, wr_spanning_store);
}

static void plan_rebuild(struct store *st, enum store_type type)
{
	plan_skew(st);
	store_way(st);
	path_copy(&st->hi, &st->lo);
	plan_nodes(st, type);
}

/* The leaf joins a neighbour, or nothing is left in it; otherwise the store concerns this leaf
 * alone. */
static bool plan_join(struct store *st)
{
	if (unlikely(st->alone))
		return false;
	plan_rebuild(st, wr_rebalance);
	return KERNEL_RULES || !st->nodes || st->level[0].left || st->level[0].right ||
	       st->empty_before || st->empty_after;
}

static inline unsigned int count_after(const struct store *st, unsigned int old_end)
{
	return st->first + st->left + 1 + st->right + old_end - st->second;
}

/*
 * Of the leaf's slots after the store, those that hold an entry or are the last of their run, as
 * bits. Their number is that of the slots if no NULLs were neighbours.
 */
static unsigned int shape_after(const struct store *st, unsigned int nulls, unsigned int old_end)
{
	unsigned int count = count_after(st, old_end), n = st->first;
	unsigned int shape = nulls & ((1u << n) - 1);

	if (st->left)
		shape |= (nulls >> st->first & 1) << n++;
	shape |= (unsigned int)!st->entry << n++;
	if (st->right)
		shape |= (nulls >> st->second & 1) << n++;
	shape |= nulls >> st->second >> 1 << n;
	shape &= (1u << count) - 1;
	return ~(shape & shape >> 1) & ((1u << count) - 1);
}

/* Leave out the parts that are free already. False: nothing is left to store. */
static inline bool trim_free(struct store *st, unsigned int nulls, unsigned int end)
{
	const struct ma_state *mas = st->mas;
	unsigned int taken = ~nulls & (~0u << st->first) & ((2u << st->second) - 1);

	if (!taken)
		return false;
	if (unlikely(nulls >> st->first & 1)) {
		st->first = (unsigned int)__builtin_ctz(taken);
		st->index = st->first_min = slot_min(mas->node, st->first, mas->min);
		st->left = false;
	}
	if (unlikely(nulls >> st->second & 1)) {
		st->second = 31 - (unsigned int)__builtin_clz(taken);
		st->last = st->second_max = slot_max(mas->node, st->second, end, mas->max);
		st->right = false;
	}
	return true;
}

static inline bool is_exact(const struct store *st)
{
	return st->first == st->second && !st->left && !st->right;
}

/* Whether at most three slots are in this set. */
static inline bool is_few(unsigned int slots)
{
	_Static_assert(LEAF_FEW == 4 || KERNEL_RULES, "three are few");
	slots &= slots - 1;
	slots &= slots - 1;
	slots &= slots - 1;
	return !slots;
}

bool is_exact_place(struct ma_state *mas)
{
	const struct maple_node *leaf;
	unsigned int i;

	if (KERNEL_RULES || !is_node(mas->tree->ma_root))
		return false;
	go_to_leaf(mas);
	leaf = mas->node;
	i = (unsigned int)(mas->at - first_slot(leaf));
	return slot_min(leaf, i, mas->min) == mas->index &&
	       slot_max(leaf, i, end_of(leaf), mas->max) == mas->last;
}

bool erase_plan(struct store *st, struct ma_state *mas)
{
	const struct maple_node *leaf = mas->node;
	unsigned int i = (unsigned int)(mas->at - first_slot(leaf));

	if (!*mas->at)
		return false;
	st->mas = mas;
	st->entry = NULL;
	st->has_way = false;
	st->first = i;
	st->nodes = 0;
	st->type = mas->store_type = wr_exact_fit;
	st->nulls = null_slots(leaf) | 1u << i;
	return likely(!is_few(~st->nulls & ((2u << end_of(leaf)) - 1)));
}

/* For NULL: return true if this is the plan already. */
static inline bool plan_free(struct store *st, unsigned int end)
{
	unsigned int nulls = null_slots(st->mas->node), entries;

	st->nodes = 0;
	if (!trim_free(st, nulls, end)) {
		st->type = wr_none;
		return true;
	}
	if (!is_exact(st))
		widen_free(st, st->mas->node, st->mas->max);
	entries = ~nulls & ((2u << end) - 1);
	entries &= ~((2u << st->second) - (1u << st->first));
	if (unlikely(is_few(shape_after(st, nulls, end)) &&
		     (!(entries || st->left || st->right) || st->mas->parent)) &&
	    plan_join(st))
		return true;
	if (!is_exact(st))
		return false;
	st->nulls = nulls | 1u << st->first;
	st->nodes = 0;
	st->type = wr_exact_fit;
	return true;
}

/*
 * In neighbouring free slots: choose the one that gets the entry, so that each slot before and
 * behind it keeps a part of what stays free.
 */
static inline bool plan_run(struct store *st, unsigned int end)
{
	const struct ma_state *mas = st->mas;
	unsigned int nulls = null_slots(mas->node);
	unsigned int first = run_first(nulls, st->first), last = run_last(nulls, st->first, end);
	unsigned long before = st->index - slot_min(mas->node, first, mas->min);
	unsigned long behind = slot_max(mas->node, last, end, mas->max) - st->last;
	unsigned int least = first + (before > 0), most = last - (behind > 0);

	if (last < st->second)
		return false;
	if (last - first > behind && last - (unsigned int)behind > least)
		least = last - (unsigned int)behind;
	if (last - first > before && first + (unsigned int)before < most)
		most = first + (unsigned int)before;
	if ((int)least > (int)most)
		return false;
	st->into = st->first < least ? least : st->first > most ? most : st->first;
	st->first = first;
	st->second = last;
	st->end = end;
	st->nodes = 0;
	st->type = wr_run_store;
	return true;
}

/* More slots than a leaf has: they fit if neighbouring NULLs become one, or the leaf is split. */
static __attribute__((noinline)) void plan_full(struct store *st, unsigned int old_end)
{
	unsigned int shape = shape_after(st, null_slots(st->mas->node), old_end);

	st->end = (unsigned int)__builtin_popcount(shape) - 1;
	plan_skew(st);
	if (st->end >= room_of(st->mas->node) &&
	    cut_plan(st, count_after(st, old_end), can_insert(st)))
		return;
	st->compact = st->end < LEAF_SLOTS;
	if (st->compact) {
		st->type = wr_node_store;
		st->nodes = in_rcu(st->mas->tree);
	} else {
		plan_rebuild(st, wr_split_store);
	}
}

/* By the number of its slots. For NULL, plan_free() has examined what is left. */
static inline bool leaves_few(const struct store *st, unsigned int count, unsigned int old_end)
{
	if (KERNEL_RULES)
		return (count < LEAF_FEW && st->mas->parent) || (count == 1 && !st->entry);
	return count < LEAF_FEW && count <= old_end && st->mas->parent && st->entry;
}

/* The store is inside free slots, of which there are several. */
static inline bool is_in_run(const struct store *st, unsigned int end)
{
	void *const *slot = &st->mas->node->range.slot[st->first];

	return !slot[0] && ((st->first < end && !slot[1]) || (st->first > 0 && !slot[-1]));
}

/* Once an erase was refused nodes, a leaf with few entries joins a neighbour at any later store. */
static __attribute__((noinline)) bool plan_unjoined(struct store *st, unsigned int old_end)
{
	unsigned int shape = shape_after(st, null_slots(st->mas->node), old_end);

	return st->entry && st->mas->parent && __builtin_popcount(shape) < (int)LEAF_FEW + 2 &&
	       plan_join(st);
}

static inline void plan_leaf(struct store *st)
{
	const struct maple_node *leaf = st->mas->node;
	unsigned int old_end = end_of(leaf), count;

	if (unlikely(st->mas->tree->__ma_unjoined) && plan_unjoined(st, old_end))
		return;
	st->compact = leaf->meta & META_CUT;
	if (KERNEL_RULES && !st->entry)
		widen_free(st, leaf, st->mas->max);
	else if (!st->entry ? plan_free(st, old_end)
			    : !KERNEL_RULES && is_in_run(st, old_end) && plan_run(st, old_end))
		return;
	count = count_after(st, old_end);
	st->end = count - 1;
	if (KERNEL_RULES && !st->entry && st->last == st->mas->max && st->last != ULONG_MAX) {
		plan_spanning(st);
	} else if (unlikely(count > room_of(leaf))) {
		plan_full(st, old_end);
	} else if (!(unlikely(leaves_few(st, count, old_end)) && plan_join(st)) &&
		   !plan_in_place(st, old_end)) {
		st->type = wr_node_store;
		st->nodes = 1;
	}
}

void store_plan(struct store *st, struct ma_state *mas, void *entry, bool alone)
{
	unsigned long index = mas->index;

	KEEP(index); /* one load of both words would wait for the stores of each */
	st->mas = mas;
	st->entry = entry;
	st->index = index;
	st->last = mas->last;
	st->has_way = false;
	st->alone = alone;
	st->keep = 0;
	if (unlikely(!is_node(mas->tree->ma_root))) {
		plan_root(st);
	} else if (unlikely(st->index == 0 && st->last == ULONG_MAX)) {
		st->type = wr_new_root;
		st->nodes = entry ? 1 : 0;
	} else {
		go_to_leaf(mas);
		if (likely(find_slots(st))) {
			find_rests(st);
			plan_leaf(st);
		} else {
			plan_spanning(st);
		}
	}
	mas->store_type = st->type;
}
