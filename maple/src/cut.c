/* SPDX-License-Identifier: MIT */
/*
 * A split beside readers that keeps the leaf: a new leaf gets its upper slots, and a new node takes
 * the place of the one above, with the new leaf behind the old one. If the next leaf has room, the
 * new one has its slots, too, and replaces it. Then the old leaf is cut.
 *
 *     before        node [ .  L  . ]                  L | a | b | c | d |
 *     the node      node [ .  L  R  . ]               L | a | b | c | d |      R | c | d | x |
 *     the cut                                         L | a | b | M   M |
 *
 * A reader that came through the old node may still search L for an index that R has now. Before
 * the cut it finds the old entry. After the cut it finds a mark M instead of an entry, and walks
 * from the root again. So a leaf that was ever cut has 15 slots at most: all pivots behind its last
 * slot are the leaf's end, and the sixteenth slot stays a mark.
 *
 * Invariants:
 *  1. The leaf has META_MOVING before the new node can be seen, until it is cut, so that no state
 *     begins or continues at a slot that the new node no longer assigns to the leaf. The old node
 *     is dead before the leaf is cut: a reader that sees the leaf cut and the node alive got the
 *     leaf's range from the new node.
 *  2. The mark is XA_ZERO_ENTRY, which mtree_load() has to look for anyway.
 *  3. First all slots that move away get the mark, then all pivots between them move, then all of
 *     these slots but the last become NULL. After each of these stores, a search for an index that
 *     R has finds an old entry or the mark. The leaf is stamped before the first NULL.
 *
 * The gap that the node above had for the leaf is that of both leaves now: it may be too large
 * (gap.c).
 *
 * Called with the tree's lock held.
 */
#include "rebuild.h"

/* If both leaves together have at most this many slots, the next one gets what the leaf loses. With
 * more, both would soon be full; with fewer, leaves would be half empty. If the node above is full,
 * it would have to be split, too. */
#define CUT_SHARED(room) ((room) ? 28u : 30u)

/* The next leaf below the same node, if it has room; or NULL. */
static struct maple_node *next_with_room(const struct ma_state *mas, unsigned int count, bool room)
{
	unsigned int i = (unsigned int)mas->parent_offset;
	struct maple_node *next;

	if (i == end_of(node_of(mas->parent)))
		return NULL;
	next = node_of(child(mas->parent, i + 1));
	return count + end_of(next) + 1 <= CUT_SHARED(room) ? next : NULL;
}

static inline unsigned int more_of(const struct store *st)
{
	return st->next ? end_of(st->next) + 1 : 0;
}

/* How many slots the leaf should keep, of `count`. */
static unsigned int half_of(const struct store *st, unsigned int count)
{
	if (st->next)
		return (count + more_of(st)) / 2;
	return st->skew > 1    ? count - 2
	       : st->skew < -1 ? 2
	       : st->skew > 0  ? count * 2 / 3
	       : st->skew < 0  ? count / 3
			       : count / 2;
}

/*
 * How many of its slots the leaf keeps, so that all others fit into the new one. It keeps those
 * before the entry; or half of all, if that is more and the entry can be inserted among them
 * (`stays`). 0: not possible.
 */
static unsigned int slots_to_keep(const struct store *st, unsigned int count, bool stays)
{
	void *const *slot = st->mas->node->range.slot;
	unsigned int end = end_of(st->mas->node), added = count - end - 1;
	unsigned int half = half_of(st, count), others, least = 1, most, keep;

	stays = stays && half > st->first && st->second + added < LEAF_SLOTS - 1;
	if (stays) {
		least = st->second + 1;
		most = end < LEAF_SLOTS - 1 - added ? end : LEAF_SLOTS - 1 - added;
		others = end + 1 + more_of(st);
		keep = half - added;
	} else {
		most = st->first;
		others = count + more_of(st);
		keep = half;
	}
	if (others > LEAF_SLOTS && least < others - LEAF_SLOTS)
		least = others - LEAF_SLOTS;
	if (least > most)
		return 0;
	keep = keep < least ? least : keep > most ? most : keep;
	/* A gap at the end may become one in two leaves. */
	if (!slot[keep - 1])
		keep += keep > least ? -1 : keep < most;
	return keep;
}

static bool can_keep(struct store *st, unsigned int count, bool stays)
{
	const struct maple_node *leaf = st->mas->node;
	unsigned int keep = slots_to_keep(st, count, stays), nulls = null_slots(leaf);

	st->keep = keep;
	/* Both leaves have an entry: the stored one, or another. */
	return keep &&
	       ~nulls & (keep > st->first ? (2u << end_of(leaf)) - (1u << keep) : (1u << keep) - 1);
}

bool cut_plan(struct store *st, unsigned int count, bool stays)
{
	const struct ma_state *mas = st->mas;
	bool room, can;

	if (KERNEL_RULES || !st->entry || !in_rcu(mas->tree) || !mas->parent)
		return false;
	room = end_of(node_of(mas->parent)) + 1 < slots_of(mas->parent);
	st->next = next_with_room(mas, count, room);
	can = st->next && can_keep(st, count, stays);
	if (!can) {
		st->next = NULL;
		can = room && can_keep(st, count, stays);
	}
	if (!can)
		st->keep = 0;
	st->type = wr_split_store;
	st->nodes = 2;
	return can;
}

/* The new leaf: the slots that the old one loses, with the new entry if it belongs there, and those
 * of the next leaf. */
static enode_t make_right(struct store *st)
{
	struct ma_state *mas = st->mas;
	const struct maple_node *parent = node_of(mas->parent);
	unsigned int next = (unsigned int)mas->parent_offset + 1;

	gather_upper(st, st->keep);
	if (st->next)
		gather_more(st, st->next, slot_max(parent, next, end_of(parent), mas->parent_max));
	return make_node(node_take(mas), &st->items, 0, st->items.n, 0, false);
}

/* The new node above: the leaf now ends at `max`, and the new leaf follows it, as an additional
 * child or in place of the next one. */
static enode_t node_with(struct store *st, unsigned long max, enode_t right)
{
	struct ma_state *mas = st->mas;
	const struct maple_node *old = node_of(mas->parent);
	struct maple_node *new = node_take(mas);
	enode_t e = (enode_t) new | (mas->parent & (NODE_BYTES - 1));
	unsigned int i = (unsigned int)mas->parent_offset, from = i + !!st->next;
	unsigned int rest = slots_of(e) - 2 - i;

	new->meta = end_of(old) + !st->next;
	copy_words(pivots(e), pivots(mas->parent), i);
	pivots(e)[i] = max;
	copy_words(pivots(e) + i + 1, pivots(mas->parent) + from, rest);
	copy_words(slots(e), slots(mas->parent), i + 1);
	slots(e)[i + 1] = (void *)right;
	copy_words(slots(e) + i + 2, slots(mas->parent) + from + 1, rest);
	if (is_arange(e)) {
		unsigned long gap = gaps(mas->parent)[i], other = gaps(mas->parent)[from];

		copy_words(gaps(e), gaps(mas->parent), i + 1);
		gaps(e)[i + 1] = gap > other ? gap : other;
		copy_words(gaps(e) + i + 2, gaps(mas->parent) + from + 1, rest);
	}
	return e;
}

static void replace_parent(struct store *st, enode_t new)
{
	struct ma_state *mas = st->mas;
	const struct step *above = &st->lo.at[2];

	store_way(st);
	if (st->lo.height > 1)
		store_release(&slots(above->e)[above->offset], (void *)new);
	else
		store_release(&mas->tree->ma_root, (void *)new);
	node_retire(mas->tree, node_of(mas->parent));
	mas->parent = new;
	st->has_way = false;
}

/* The leaf keeps its first slots, up to `max`. */
static void cut(struct maple_node *leaf, unsigned int keep, unsigned long max)
{
	uint64_t meta = (leaf->meta & ~META_END) | META_CUT | (keep - 1);

	store_release(&leaf->meta, meta += META_STEP);
	for (unsigned int i = keep; i < LEAF_SLOTS; i++)
		store_release(&leaf->range.slot[i], XA_ZERO_ENTRY);
	for (unsigned int i = keep; i < LEAF_SLOTS - 1; i++)
		store_release(&leaf->range.pivot[i], max);
	store_release(&leaf->meta, meta += META_STEP);
	for (unsigned int i = keep; i < LEAF_SLOTS - 1; i++)
		store_release(&leaf->range.slot[i], NULL);
	store_release(&leaf->meta, meta + META_STEP - META_MOVING);
}

void cut_split(struct store *st)
{
	struct ma_state *mas = st->mas;
	struct maple_node *leaf = mas->node;
	unsigned long max = leaf->range.pivot[st->keep - 1];
	enode_t right = make_right(st);

	store_release(&leaf->meta, (leaf->meta | META_MOVING) + META_STEP);
	replace_parent(st, node_with(st, max, right));
	if (st->next)
		node_retire(mas->tree, st->next);
	cut(leaf, st->keep, max);
	if (st->keep > st->first) {
		mas->max = max;
		mas->seen = leaf->meta;
		store_plan(st, mas, st->entry, true);
		mas->store_type = wr_split_store;
		leaf_store(st);
	}
}
