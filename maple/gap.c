/* SPDX-License-Identifier: MIT */
/*
 * Free runs of indices: the longest one below each child of an arange node, kept as stores change it,
 * and the search for the lowest or highest one of a size.
 *
 * A run may begin in one leaf and go on in the next; it never goes further, for no leaf is all free.
 * The leaf where it begins owns the whole of it: the search for a run looks at each leaf's last
 * slot together with the next leaf's first. The next leaf counts its part for itself, too, which is
 * never more than the run.
 *
 *        leaf A                    leaf B
 *     | a |free| b | free........ | ....free | c | ...
 *              A owns   |-------------------|      B counts  |---------|
 *
 * Called with the tree's lock held.
 */
#include <errno.h>

#include "tree.h"

static inline unsigned long longer(unsigned long a, unsigned long b)
{
	return a > b ? a : b;
}

unsigned long leaf_gap(const struct maple_node *leaf, unsigned long min, unsigned long max,
		       unsigned long after)
{
	unsigned int end = end_of(leaf);
	unsigned long longest = 0;

	for (unsigned int i = 0; i < end; i++) {
		if (!leaf->range.slot[i])
			longest = longer(longest, leaf->range.pivot[i] - min + 1);
		min = leaf->range.pivot[i] + 1;
	}
	if (!leaf->range.slot[end])
		longest = longer(longest, max - min + 1 + after);
	return longest;
}

unsigned long node_gap(const struct maple_node *node)
{
	unsigned long longest = node->arange.gap[0];

	for (unsigned int i = 1; i < ARANGE_SLOTS; i++)
		longest = longer(longest, node->arange.gap[i]);
	return longest;
}

unsigned long free_after(const struct path *path)
{
	const struct maple_node *leaf;
	unsigned int up = 1;
	enode_t e;

	while (up <= path->height && path->at[up].offset == end_of(node_of(path->at[up].e)))
		up++;
	if (up > path->height)
		return 0;
	e = child(path->at[up].e, path->at[up].offset + 1);
	while (level_of(e))
		e = child(e, 0);
	leaf = node_of(e);
	return leaf->range.slot[0] ? 0 : leaf->range.pivot[0] - path->at[0].max;
}

unsigned long free_before(const struct path *path)
{
	const struct maple_node *leaf;
	unsigned int up = 1, end;
	enode_t e;

	while (up <= path->height && path->at[up].offset == 0)
		up++;
	if (up > path->height)
		return 0;
	e = child(path->at[up].e, path->at[up].offset - 1);
	while (level_of(e))
		e = child(e, end_of(node_of(e)));
	leaf = node_of(e);
	end = end_of(leaf);
	return leaf->range.slot[end] ? 0 : path->at[0].min - 1 - leaf->range.pivot[end - 1];
}

void gap_set(struct path *path, unsigned int level, unsigned long gap)
{
	for (unsigned int l = level; l <= path->height; l++) {
		const struct step *step = &path->at[l], *above = step + 1;
		unsigned long *kept = &gaps(step->e)[step->offset], old = *kept, upper;

		if (old == gap)
			return;
		*kept = gap;
		if (l == path->height)
			return;
		upper = gaps(above->e)[above->offset];
		if (gap < upper) {
			if (old < upper)
				return;
			gap = node_gap(node_of(step->e));
		}
	}
}

void gap_fix_before(const struct path *path)
{
	struct path before;
	const struct step *leaf = &before.at[0];

	if (!free_before(path))
		return;
	path_copy(&before, path);
	path_prev(&before, 0);
	gap_set(&before, 1, leaf_gap(node_of(leaf->e), leaf->min, leaf->max, free_after(&before)));
}

/* --- search ---------------------------------------------------------------------------------- */

/* A run that is looked for, and where it was found. */
struct wanted {
	unsigned long min, max, size, start;
};

static inline bool fits(struct wanted *w, unsigned long first, unsigned long last, bool highest)
{
	if (first < w->min)
		first = w->min;
	if (last > w->max)
		last = w->max;
	if (first > last || last - first < w->size - 1)
		return false;
	w->start = highest ? last - (w->size - 1) : first;
	return true;
}

/* A free slot of the path's leaf, with what belongs to its run in the next leaf or the one before. */
static inline bool search_slot(const struct path *path, unsigned int i, struct wanted *w,
			       bool highest)
{
	const struct step *at = &path->at[0];
	const struct maple_node *leaf = node_of(at->e);
	unsigned int end = end_of(leaf);
	unsigned long first = slot_min(leaf, i, at->min), last = slot_max(leaf, i, end, at->max);

	if (unlikely(i == 0) && highest && first > w->min)
		first -= free_before(path);
	if (unlikely(i == end) && last < w->max)
		last += free_after(path);
	return last - first >= w->size - 1 && fits(w, first, last, highest);
}

/* In the path's leaf, from its slot on upwards (downwards). */
static bool search_leaf(const struct path *path, struct wanted *w, bool highest)
{
	void *const *slot = slots(path->at[0].e);
	unsigned int from = path->at[0].offset, end = end_of(node_of(path->at[0].e));

	for (unsigned int i = from; highest ? i <= from : i <= end; i += highest ? -1u : 1)
		if (!slot[i] && search_slot(path, i, w, highest))
			return true;
	return false;
}

/* The slots of an arange node whose gap is large enough, as bits. */
static inline unsigned int large_slots(enode_t e, unsigned long size)
{
	const unsigned long *gap = gaps(e);
	unsigned int mask = 0;

	for (unsigned int i = 0; i < ARANGE_SLOTS; i++)
		mask |= (unsigned int)(gap[i] >= size) << i;
	return mask;
}

/* Go from at[level] into its slot, down to the leaf's lowest (highest) large slot. */
static void descend_large(struct path *path, unsigned int level, unsigned long size, bool highest)
{
	while (level-- > 0) {
		const struct step *above = &path->at[level + 1];
		const struct maple_node *node = node_of(above->e);
		struct step *step = &path->at[level];
		unsigned int large;

		step->e = child(above->e, above->offset);
		step->min = slot_min(node, above->offset, above->min);
		step->max = slot_max(node, above->offset, end_of(node), above->max);
		if (level == 0) {
			step->offset = highest ? end_of(node_of(step->e)) : 0;
			return;
		}
		large = large_slots(step->e, size);
		step->offset =
			(unsigned int)(highest ? 31 - __builtin_clz(large) : __builtin_ctz(large));
	}
}

/* The nearest leaf after (before) the path's that owns a large run; false if there is none. */
static bool next_large(struct path *path, unsigned long size, bool highest)
{
	for (unsigned int up = 1; up <= path->height; up++) {
		struct step *step = &path->at[up];
		unsigned int large = large_slots(step->e, size);

		large &= highest ? (1u << step->offset) - 1 : ~0u << step->offset << 1;
		if (!large)
			continue;
		step->offset =
			(unsigned int)(highest ? 31 - __builtin_clz(large) : __builtin_ctz(large));
		descend_large(path, up, size, highest);
		return true;
	}
	return false;
}

static bool search_tree(const struct maple_tree *mt, struct wanted *w, bool highest)
{
	const struct step *leaf;
	struct path path;

	if (!is_node(mt->ma_root))
		return fits(w, mt->ma_root ? 1 : 0, ULONG_MAX, highest);
	path_walk(&path, mt, highest ? w->max : w->min);
	leaf = &path.at[0];
	/* If the leaf owns none that large, only a run that comes from the leaf before can be. */
	if (path.height && gaps(path.at[1].e)[path.at[1].offset] < w->size) {
		const struct maple_node *node = node_of(leaf->e);

		if (highest && leaf->min > w->min && !node->range.slot[0] &&
		    fits(w, leaf->min - free_before(&path), node->range.pivot[0], true))
			return true;
		if (!next_large(&path, w->size, highest))
			return false;
	}
	/* A run that a leaf owns may reach beyond max into the next: then it is not in this leaf. */
	do {
		if (search_leaf(&path, w, highest))
			return true;
	} while ((highest ? leaf->min > w->min : leaf->max < w->max) &&
		 next_large(&path, w->size, highest));
	return false;
}

static int empty_area(struct ma_state *mas, unsigned long min, unsigned long max,
		      unsigned long size, bool highest)
{
	struct wanted w = {min, max, size, 0};

	if (size == 0 || min > max || !(mas->tree->ma_flags & MT_FLAGS_ALLOC_RANGE))
		return -EINVAL;
	if (!search_tree(mas->tree, &w, highest)) {
		mas_reset(mas);
		mas->status = ma_error;
		mas->error = -EBUSY;
		return -EBUSY;
	}
	mas_set_range(mas, w.start, w.start + size - 1);
	return 0;
}

SHEAF_PUBLIC int mas_empty_area(struct ma_state *mas, unsigned long min, unsigned long max,
				unsigned long size)
{
	return empty_area(mas, min, max, size, false);
}

SHEAF_PUBLIC int mas_empty_area_rev(struct ma_state *mas, unsigned long min, unsigned long max,
				    unsigned long size)
{
	return empty_area(mas, min, max, size, true);
}
