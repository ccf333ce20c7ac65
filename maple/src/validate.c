/* SPDX-License-Identifier: MIT */
/*
 * Checks a tree's invariants (node.h): walks every node, and reports each fault in one line.
 *
 * Called with the tree's lock held.
 */
#include <stdarg.h>

#include "tree.h"

struct proof {
	struct maple_tree *mt;
	int faults;
};

__attribute__((format(printf, 3, 4))) static void fault(struct proof *proof, enode_t e,
							const char *format, ...)
{
	va_list arguments;
	char text[256];

	proof->faults++;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	say("libsheaf: maple tree %p, node %p of level %u: %s", (void *)proof->mt,
	    (void *)node_of(e), level_of(e), text);
}

/* Check that pivots ascend within the node's bounds, and that nothing is beyond the end. False: do
 * not look below. */
static bool prove_words(struct proof *proof, enode_t e, unsigned long min, unsigned long max)
{
	const struct maple_node *node = node_of(e);
	bool cut = !level_of(e) && node->meta & META_CUT;
	unsigned int end = end_of(node), cap = slots_of(e) - cut;
	unsigned long beyond = cut ? max : ULONG_MAX;

	if (node->meta & META_DEAD)
		fault(proof, e, "it is dead, but still in the tree");
	if (end >= cap) {
		fault(proof, e, "end is %u of %u slots", end, cap);
		return false;
	}
	for (unsigned int i = 0; i < slots_of(e) - 1; i++) {
		unsigned long pivot = pivots(e)[i];

		if (i >= end && pivot != beyond)
			fault(proof, e, "pivot %u beyond the end is %lu", i, pivot);
		if (i < end && (pivot >= max || pivot < slot_min(node, i, min)))
			fault(proof, e, "pivot %u is %lu, not in %lu ... %lu", i, pivot,
			      slot_min(node, i, min), max);
	}
	for (unsigned int i = end + 1; i < cap; i++)
		if (slots(e)[i] || (is_arange(e) && gaps(e)[i]))
			fault(proof, e, "slot %u beyond the end is used", i);
	if (cut && slots(e)[cap] != XA_ZERO_ENTRY)
		fault(proof, e, "it was cut, but slot %u has no mark", cap);
	return true;
}

static void prove_leaf(struct proof *proof, enode_t e)
{
	void *const *slot = slots(e);
	unsigned int end = end_of(node_of(e));

	bool empty = true;

	for (unsigned int i = 0; i <= end; i++) {
		if (is_reserved(slot[i]))
			fault(proof, e, "slot %u holds the reserved value %p", i, slot[i]);
		empty = empty && !slot[i];
	}
	if (empty && (end || !proof->mt->__ma_unjoined))
		fault(proof, e, "it holds nothing but a gap");
}

static unsigned long longest_below(struct proof *proof, enode_t e, unsigned long min,
				   unsigned long max)
{
	struct path path;

	if (level_of(e))
		return node_gap(node_of(e));
	path_walk(&path, proof->mt, min);
	return leaf_gap(node_of(e), min, max, free_after(proof->mt, &path));
}

/* The gap stored for a leaf may be too large. */
static void prove_gap(struct proof *proof, enode_t e, unsigned int i, unsigned long longest)
{
	unsigned long gap = gaps(e)[i];

	if (gap < longest || (gap > longest && level_of(e) > 1))
		fault(proof, e, "gap %u is %lu, but the longest below is %lu", i, gap, longest);
}

static void prove(struct proof *proof, enode_t e, unsigned long min, unsigned long max)
{
	bool arange = proof->mt->ma_flags & MT_FLAGS_ALLOC_RANGE;
	const struct maple_node *node = node_of(e);
	unsigned int end = end_of(node);

	if (!prove_words(proof, e, min, max))
		return;
	if (level_of(e) == 0) {
		prove_leaf(proof, e);
		return;
	}
	if (is_arange(e) != arange)
		fault(proof, e, "its layout is not that of the tree's flags");
	for (unsigned int i = 0; i <= end; i++) {
		unsigned long first = slot_min(node, i, min), last = slot_max(node, i, end, max);
		enode_t below = (enode_t)slots(e)[i];

		if (!is_node((void *)below) || level_of(below) != level_of(e) - 1) {
			fault(proof, e, "slot %u holds %p, no node of the level below", i,
			      (void *)below);
			continue;
		}
		prove(proof, below, first, last);
		if (arange)
			prove_gap(proof, e, i, longest_below(proof, below, first, last));
	}
}

SHEAF_PUBLIC int mt_validate(struct maple_tree *mt)
{
	struct proof proof = {mt, 0};

	if (is_node(mt->ma_root))
		prove(&proof, (enode_t)mt->ma_root, 0, ULONG_MAX);
	return proof.faults;
}
