/* SPDX-License-Identifier: MIT */
/*
 * The search for the highest or lowest free run of a size, by the gaps that gap.c stores.
 *
 * From the top: find the highest run with `size` indices at or below max. It is the result if these
 * begin at or above min; otherwise there is no result, because all other runs are lower. So min is
 * checked once, at the end. The search descends along max while the gaps there are large enough,
 * then continues with the nearest slot whose gap is large enough, and does the same inside it. The
 * leaf that owns such a run contains it, with two exceptions: the run continues in the leaf of max
 * and is cut off there, or the gap stored for the leaf is too large. The latter is corrected
 * (gap.c), and the search continues. From the bottom everything is mirrored, and only the first run
 * can be cut off.
 *
 * In a leaf, a run is a maximal sequence of free slots. The run at the limit may reach beyond it on
 * either side, and a run with the leaf's first or last slot may reach beyond the leaf:
 * border_run(). All others end at pivots: search_inner().
 *
 * Called with the tree's lock held. Loads are plain, because no other thread writes meanwhile.
 */
#include <errno.h>

#include "misuse.h"

/* Inlined into one function for each direction. */
#define INLINE static inline __attribute__((always_inline))

/* The way down: for each level above the leaves, the node and the slot taken in it. */
struct way {
	const struct maple_tree *mt;
	unsigned int height;
	struct {
		enode_t e;
		unsigned int slot;
	} at[MAX_LEVELS];
};

/* The run to search for, and its end nearest to where the search began. */
struct wanted {
	unsigned long limit; /* max, or min if the lowest is wanted */
	unsigned long size, found;
	unsigned long row; /* from this leaf on all is free up to the limit, but too short; or 0 */
};

/* The range of the way's leaf, and how many indices are free right after it. */
static unsigned long leaf_min(const struct way *way)
{
	for (unsigned int l = 1; l <= way->height; l++)
		if (way->at[l].slot > 0)
			return pivots(way->at[l].e)[way->at[l].slot - 1] + 1;
	return 0;
}

static unsigned long leaf_max(const struct way *way)
{
	for (unsigned int l = 1; l <= way->height; l++)
		if (way->at[l].slot < end_of(node_of(way->at[l].e)))
			return pivots(way->at[l].e)[way->at[l].slot];
	return ULONG_MAX;
}

static __attribute__((noinline)) unsigned long after_leaf(const struct way *way, unsigned long max)
{
	unsigned int l = 1;

	while (l <= way->height && way->at[l].slot == end_of(node_of(way->at[l].e)))
		l++;
	if (l > way->height)
		return 0;
	return free_at_start(way->mt, child(way->at[l].e, way->at[l].slot + 1), max);
}

/* Cut the run first ... last, which this leaf owns, at the limit. */
static inline bool fits(struct wanted *w, unsigned long first, unsigned long last, bool highest)
{
	if (highest && last > w->limit)
		last = w->limit;
	if (!highest && first < w->limit)
		first = w->limit;
	if (last < first || last - first < w->size - 1)
		return false;
	w->found = highest ? last : first;
	return true;
}

/* The run that contains slot *i, at the leaf's borders or at the limit. Moves *i to the run's end
 * that is farther from the limit. */
static __attribute__((noinline)) bool border_run(const struct way *way,
						 const struct maple_node *leaf, unsigned int *i,
						 struct wanted *w, bool highest)
{
	unsigned int end = end_of(leaf), a = *i, b = *i;
	unsigned long first, last;

	while (a > 0 && !leaf->range.slot[a - 1])
		a--;
	while (b < end && !leaf->range.slot[b + 1])
		b++;
	*i = highest ? a : b;
	first = a ? leaf->range.pivot[a - 1] + 1 : leaf_min(way);
	last = b < end ? leaf->range.pivot[b] : leaf_max(way);
	if (!highest && fits(w, first, last, false))
		return true;
	if (highest && last + 1 == w->row)
		last = w->limit;
	if (b == end && !(highest && last >= w->limit))
		last += after_leaf(way, last);
	if (highest && !a && last >= w->limit)
		w->row = first;
	return fits(w, first, last, highest);
}

/* Slots are identified by the addresses of their pivots. */
INLINE bool is_free(const unsigned long *at)
{
	return !((const any_word *)at)[LEAF_SLOTS - 1];
}

/*
 * Search the slots between two others of a leaf for the first run that is large enough, and return
 * its first slot in this direction, or NULL. Often all of them together are too short. A run that
 * reaches `stop` is examined again, so only the rest of it counts here.
 */
INLINE const unsigned long *search_inner(const unsigned long *at, const unsigned long *stop,
					 unsigned long size, bool highest)
{
	const long on = highest ? -1 : 1;

	if (at == stop || (highest ? at[0] - stop[0] : stop[-1] - at[-1]) < size)
		return NULL;
	for (; highest ? at > stop : at < stop; at += on) {
		const unsigned long *near = at;

		if (!is_free(at))
			continue;
		if (at[0] - at[-1] >= size)
			return at;
		at += on; /* taken, or the run is longer */
		if (unlikely(is_free(at))) {
			while (at != stop && is_free(at))
				at += on;
			if (highest ? near[0] - at[0] >= size : at[-1] - near[-1] >= size)
				return near;
		}
	}
	return NULL;
}

/* Search from slot i on, downwards (upwards). */
INLINE bool search_leaf(const struct way *way, enode_t e, unsigned int i, struct wanted *w,
			bool highest)
{
	const struct maple_node *leaf = node_of(e);
	const unsigned long *pivot = leaf->range.pivot, *at;
	unsigned int last = highest ? 0 : end_of(leaf);

	if (!leaf->range.slot[i] && border_run(way, leaf, &i, w, highest))
		return true;
	if (i == last)
		return false;
	at = search_inner(pivot + i + (highest ? -1 : 1), pivot + last, w->size, highest);
	if (at) {
		w->found = highest ? at[0] : at[-1] + 1;
		return true;
	}
	if (leaf->range.slot[last])
		return false;
	/* The common case of border_run(). The limit is above this slot. */
	if (highest && likely(leaf->range.slot[1])) {
		w->found = pivot[0];
		return pivot[0] - leaf_min(way) >= w->size - 1;
	}
	return border_run(way, leaf, &last, w, highest);
}

/* The slots of an arange node whose gap is large enough, as bits: carries, doubled as they are
 * added. */
INLINE unsigned int large_slots(const unsigned long *gap, unsigned long size)
{
	unsigned int high = 0, low = 0, same;

	for (unsigned int i = ARANGE_SLOTS / 2; i-- > 0;) {
		same = low;
		KEEP(same);
		low = low + (gap[i] < size) + same;
		same = high;
		KEEP(same);
		high = high + (gap[i + ARANGE_SLOTS / 2] < size) + same;
	}
	return ~(high << ARANGE_SLOTS / 2 | low) & ((1u << ARANGE_SLOTS) - 1);
}

INLINE unsigned int nearest(unsigned int large, bool highest)
{
	return (unsigned int)(highest ? 31 - __builtin_clz(large) : __builtin_ctz(large));
}

/* The slot of the limit. Usually it is the outermost slot, which the processor predicts correctly.
 */
INLINE unsigned int limit_slot(const unsigned long *pivot, unsigned int end, unsigned long limit,
			       bool highest, bool leaf)
{
	if (highest && end && likely(limit > pivot[end - 1]))
		return end;
	if (highest && leaf && end > 1 && likely(limit > pivot[end - 2]))
		return end - 1;
	if (!highest && likely(limit <= pivot[0]))
		return 0;
	return leaf ? search15(pivot, limit) : search9(pivot, limit);
}

/* Go along the limit down to its leaf; returns 0, or the level where the gap is too small. */
INLINE unsigned int follow_limit(struct way *way, enode_t *leaf, const struct wanted *w,
				 bool highest)
{
	enode_t e = *leaf;
	unsigned int level = way->height = level_of(e);

	for (; level > 0; level--) {
		const struct maple_node *node = node_of(e);
		unsigned int i =
			limit_slot(node->arange.pivot, end_of(node), w->limit, highest, false);

		way->at[level].e = e;
		way->at[level].slot = i;
		if (node->arange.gap[i] < w->size)
			break;
		e = (enode_t)node->arange.slot[i];
		prefetch_node(e);
	}
	*leaf = e;
	return level;
}

/* Go from this level to the nearest leaf before (after) that owns a large run; 0 if there is none.
 */
INLINE enode_t next_large(struct way *way, unsigned int level, unsigned long size, bool highest)
{
	unsigned int large, i;
	enode_t e;

	for (;; level++) {
		if (level > way->height)
			return 0;
		i = way->at[level].slot;
		large = large_slots(gaps(way->at[level].e), size);
		large &= highest ? (1u << i) - 1 : ~0u << i << 1;
		if (large)
			break;
	}
	for (e = way->at[level].e;;) {
		i = nearest(large, highest);
		way->at[level].slot = i;
		e = (enode_t)node_of(e)->arange.slot[i];
		prefetch_node(e);
		if (--level == 0)
			return e;
		way->at[level].e = e;
		large = large_slots(gaps(e), size);
	}
}

/* The gap stored for the leaf was larger than its longest run; so may be those of a row of leaves
 * without an entry. But if the limit cuts the run off, the gap is right. */
static __attribute__((noinline)) void correct(const struct way *way, const struct wanted *w)
{
	unsigned long min = leaf_min(way);
	struct path path;

	if (min && min == w->row)
		return;
	path_walk(&path, way->mt, min);
	if (likely(!is_empty_leaf(node_of(path.at[0].e)))) {
		gap_correct(way->mt, &path);
		return;
	}
	while (path_next(&path, 0) && is_empty_leaf(node_of(path.at[0].e)))
		;
	gap_fix_before(way->mt, &path);
}

INLINE bool search_tree(const struct maple_tree *mt, struct wanted *w, bool highest)
{
	enode_t e = (enode_t)mt->ma_root;
	unsigned int level;
	struct way way;

	way.mt = mt;
	level = follow_limit(&way, &e, w, highest);
	if (level == 0) {
		const struct maple_node *leaf = node_of(e);
		unsigned int i =
			limit_slot(leaf->range.pivot, end_of(leaf), w->limit, highest, true);

		/* Usually the search failed here because of the limit: nothing to correct. */
		if (search_leaf(&way, e, i, w, highest))
			return true;
		level = 1;
	}
	while ((e = next_large(&way, level, w->size, highest)) != 0) {
		unsigned int i = highest ? end_of(node_of(e)) : 0;

		if (search_leaf(&way, e, i, w, highest))
			return true;
		correct(&way, w);
		level = 1;
	}
	return false;
}

INLINE bool search_all(const struct maple_tree *mt, struct wanted *w, bool highest)
{
	if (unlikely(!is_node(mt->ma_root)))
		return fits(w, mt->ma_root ? 1 : 0, ULONG_MAX, highest);
	return search_tree(mt, w, highest);
}

static bool is_wrong(const struct ma_state *mas, unsigned long min, unsigned long max,
		     unsigned long size)
{
	return size == 0 || min > max || max - min < size - 1 ||
	       !(mas->tree->ma_flags & MT_FLAGS_ALLOC_RANGE);
}

SHEAF_PUBLIC int mas_empty_area(struct ma_state *mas, unsigned long min, unsigned long max,
				unsigned long size)
{
	struct wanted w = {min, size, 0, 0};

	check_locked(mas->tree, "mas_empty_area");
	if (unlikely(is_wrong(mas, min, max, size)))
		return mas_fail(mas, -EINVAL);
	if (!search_all(mas->tree, &w, false) || w.found > max - (size - 1))
		return mas_fail(mas, -EBUSY);
	mas_set_range(mas, w.found, w.found + (size - 1));
	return 0;
}

SHEAF_PUBLIC int mas_empty_area_rev(struct ma_state *mas, unsigned long min, unsigned long max,
				    unsigned long size)
{
	struct wanted w = {max, size, 0, 0};

	check_locked(mas->tree, "mas_empty_area_rev");
	if (unlikely(is_wrong(mas, min, max, size)))
		return mas_fail(mas, -EINVAL);
	if (!search_all(mas->tree, &w, true) || w.found < min + (size - 1))
		return mas_fail(mas, -EBUSY);
	mas_set_range(mas, w.found - (size - 1), w.found);
	return 0;
}
