/* SPDX-License-Identifier: MIT */
/*
 * A node of the tree, what its words mean, and the search in it.
 *
 *     leaf, range (16 slots)                      arange (10 slots)
 *     word   0      meta                          word   0      meta
 *            1..15  pivot[0..14]                         1..9   pivot[0..8]
 *           16..31  slot[0..15]                         10..19  slot[0..9]
 *                                                       20..29  gap[0..9]
 *
 * A node covers min ... max, which it does not store: its parent's pivots give them (the root
 * covers 0 ... ULONG_MAX). Slot i covers pivot[i-1] + 1 ... pivot[i]; the first slot begins at min,
 * the last (number `end`) ends at max. A slot of a leaf holds an entry or NULL. A slot of an inner
 * node holds a child as an encoded pointer: the address, and in the low byte 2, ENODE_ARANGE for
 * the second layout, and the level (leaves: 0) << 3.
 *
 * Invariants:
 *  1. Pivots from `end` on are ULONG_MAX, or in a leaf that was cut (cut.c) the leaf's max: the
 *     search counts those below an index and needs no end.
 *  2. Slots from end + 1 on are NULL, gaps 0. But slot 15 of a leaf that was cut is XA_ZERO_ENTRY.
 *  3. NULLs may be neighbours: they are one run of free indices, and the borders between them mean
 *     nothing. A leaf may begin or end with NULL. Some leaf has an entry: instead of a root that is
 *     all NULL, the tree has no node. Unless an erase was refused nodes (empty.c), every leaf has
 *     one, and a run is in two leaves at most.
 *  4. gap[i] of a leaf is at least its longest run of free indices; of an inner node it is the
 *     longest gap in it. A run at the end of a leaf includes its continuation in the next leaf; a
 *     run at the beginning of a leaf counts only within the leaf.
 *  5. A writer may replace a child's pointer in place by a child with the same range. It changes
 *     other words of a node that a reader may see one at a time, so that the tree is consistent
 *     before and after each change. A leaf's range may become smaller (cut.c). Before it moves a
 *     pivot, it changes meta: a reader that has seen the pivot sees that, too. It changes meta
 *     again before it stores a slot whose range has moved. A replaced node is dead: the writer sets
 *     META_DEAD and then retires it. Only writers use gaps.
 */
#ifndef MAPLE_NODE_H
#define MAPLE_NODE_H

#include <sheaf/maple_tree.h>
#include <stdint.h>

#define NODE_BYTES   256
#define LEAF_SLOTS   16u
#define ARANGE_SLOTS 10u
#define MAX_LEVELS   32u

#define META_END    UINT64_C(0x0f) /* number of the last slot */
#define META_DEAD   UINT64_C(0x10)
#define META_MOVING UINT64_C(0x20) /* slots move (insert.c): no state continues from here */
#define META_CUT    UINT64_C(0x40) /* a leaf that lost its upper slots to another (cut.c) */
#define META_STEP   UINT64_C(0x80) /* the bits above count changes in place */

struct maple_node {
	uint64_t meta;
	union {
		struct {
			unsigned long pivot[LEAF_SLOTS - 1];
			void *slot[LEAF_SLOTS];
		} range;
		struct {
			unsigned long pivot[ARANGE_SLOTS - 1];
			void *slot[ARANGE_SLOTS];
			unsigned long gap[ARANGE_SLOTS];
			unsigned long unused[2];
		} arange;
	};
};
_Static_assert(sizeof(struct maple_node) == NODE_BYTES, "a node is 256 bytes");

/* Any word of a node: pivots and gaps are numbers, slots are pointers. */
typedef uint64_t any_word __attribute__((may_alias));

/* An encoded pointer to a node, as in slots of inner nodes and ma_root. */
typedef uintptr_t enode_t;

#define ENODE_MARK   2u
#define ENODE_ARANGE 4u
#define ENODE_LEVEL  3

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Accesses to shared words: one width, and the order that RCU needs. A test can observe each
 * (MAPLE_WORDS). */
#ifdef MAPLE_WORDS
#include MAPLE_WORDS
#else
#define load_relaxed(p)	    __atomic_load_n((p), __ATOMIC_RELAXED)
#define load_acquire(p)	    __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#endif

/* ma_root is NULL, an entry at index 0 alone, or a node. */
static inline bool is_node(const void *root)
{
	return ((uintptr_t)root & 3) == ENODE_MARK && (uintptr_t)root >= 4096;
}

/* The mas_ calls store XA_ZERO_ENTRY, too. */
static inline bool is_reserved(const void *entry)
{
	return ((uintptr_t)entry & 3) == ENODE_MARK && (uintptr_t)entry < 4096 &&
	       !xa_is_zero(entry);
}

static inline enode_t encode(const struct maple_node *node, unsigned int level, bool arange)
{
	return (uintptr_t)node | ENODE_MARK | (arange && level ? ENODE_ARANGE : 0) |
	       level << ENODE_LEVEL;
}

static inline struct maple_node *node_of(enode_t e)
{
	return (struct maple_node *)(e & ~(enode_t)(NODE_BYTES - 1));
}

static inline unsigned int level_of(enode_t e)
{
	return e >> ENODE_LEVEL & (MAX_LEVELS - 1);
}

static inline bool is_arange(enode_t e)
{
	return e & ENODE_ARANGE;
}

static inline unsigned int slots_of(enode_t e)
{
	return is_arange(e) ? ARANGE_SLOTS : LEAF_SLOTS;
}

static inline unsigned long *pivots(enode_t e)
{
	return node_of(e)->range.pivot;
}

static inline void **slots(enode_t e)
{
	return is_arange(e) ? node_of(e)->arange.slot : node_of(e)->range.slot;
}

static inline void **first_slot(const struct maple_node *leaf)
{
	return ((struct maple_node *)leaf)->range.slot;
}

static inline unsigned long *gaps(enode_t e)
{
	return node_of(e)->arange.gap;
}

static inline unsigned int end_of(const struct maple_node *node)
{
	return load_relaxed(&node->meta) & META_END;
}

/* A leaf without an entry is one free slot (empty.c). */
static inline bool is_empty_leaf(const struct maple_node *leaf)
{
	return !end_of(leaf) && !leaf->range.slot[0];
}

/* How many slots a leaf may have. */
static inline unsigned int room_of(const struct maple_node *leaf)
{
	return LEAF_SLOTS - (load_relaxed(&leaf->meta) & META_CUT) / META_CUT;
}

static inline enode_t child(enode_t e, unsigned int i)
{
	return (enode_t)load_acquire(&slots(e)[i]);
}

/*
 * Return where slot i of a node that covers min ... max begins and ends. Both words are always read
 * (meta for the first slot, the word after the pivots for the last), because a branch would depend
 * on the data.
 */
static inline unsigned long word(const struct maple_node *node, unsigned int i)
{
	return load_relaxed(&((const any_word *)node)[i]);
}

static inline unsigned long slot_min(const struct maple_node *node, unsigned int i,
				     unsigned long min)
{
	unsigned long below = word(node, i);

	return i ? below + 1 : min;
}

static inline unsigned long slot_max(const struct maple_node *node, unsigned int i,
				     unsigned int end, unsigned long max)
{
	unsigned long pivot = word(node, i + 1);

	return i < end ? pivot : max;
}

/*
 * Return the slot that covers the index: the number of pivots below it. No branch depends on the
 * pivots, because a walk would mostly wait for such branches. There are three sums, because one sum
 * would be a dependency chain; KEEP() prevents the compiler from merging them. The loads are plain,
 * so that each is one instruction with its comparison: a pivot is read once, and changes by a
 * writer show in meta.
 */
#if SHEAF_TSAN || defined(MAPLE_WORDS)
#define PIVOT(i) load_relaxed(&pivot[i])
#else
#define PIVOT(i) pivot[i]
#endif
#define BELOW(i) (PIVOT(i) < index)
#define KEEP(x)	 __asm__("" : "+r"(x))

static inline unsigned int search9(const unsigned long *pivot, unsigned long index)
{
	unsigned int a = BELOW(0), b = BELOW(3), c = BELOW(6);

	a = a + BELOW(1) + BELOW(2);
	KEEP(a);
	b = b + BELOW(4) + BELOW(5);
	KEEP(b);
	c = c + BELOW(7) + BELOW(8);
	return a + b + c;
}

static inline unsigned int search15(const unsigned long *pivot, unsigned long index)
{
	unsigned int a = BELOW(0), b = BELOW(5), c = BELOW(10);

	a = a + BELOW(1) + BELOW(2) + BELOW(3) + BELOW(4);
	KEEP(a);
	b = b + BELOW(6) + BELOW(7) + BELOW(8) + BELOW(9);
	KEEP(b);
	c = c + BELOW(11) + BELOW(12) + BELOW(13) + BELOW(14);
	return a + b + c;
}

static inline unsigned int search(enode_t e, unsigned long index)
{
	return is_arange(e) ? search9(pivots(e), index) : search15(pivots(e), index);
}

/*
 * The slots of a leaf that are NULL, as bits, with those behind its last. Carries, doubled as they
 * are added, in two sums: no branch depends on the slots.
 */
static inline unsigned int null_slots(const struct maple_node *leaf)
{
	const any_word *slot = (const any_word *)leaf->range.slot;
	unsigned int low = 0, high = 0, same;

#pragma GCC unroll 8
	for (unsigned int i = LEAF_SLOTS / 2; i-- > 0;) {
		same = low;
		KEEP(same);
		low = low + (slot[i] < 1) + same;
		same = high;
		KEEP(same);
		high = high + (slot[i + LEAF_SLOTS / 2] < 1) + same;
	}
	return high << LEAF_SLOTS / 2 | low;
}

/* The first and the last slot of the run that contains slot i, in a leaf that ends with `end`. */
static inline unsigned int run_first(unsigned int nulls, unsigned int i)
{
	unsigned int taken = ~nulls & ((1u << i) - 1);

	return taken ? 32u - (unsigned int)__builtin_clz(taken) : 0;
}

static inline unsigned int run_last(unsigned int nulls, unsigned int i, unsigned int end)
{
	unsigned int taken = ~nulls & (~0u << i) & ((2u << end) - 1);

	return taken ? (unsigned int)__builtin_ctz(taken) - 1 : end;
}

/* Copy two words with one load and one store: a call of memcpy() would cost as much as all the
 * copying. */
typedef uint64_t pair __attribute__((vector_size(16), aligned(8), may_alias));

static inline void copy_pair(void *to, const void *from)
{
	*(pair *)to = *(const pair *)from;
}

/* n words, in pairs. */
static inline void copy_words(void *to, const void *from, unsigned int n)
{
	const any_word *source = from;
	any_word *target = to;
	unsigned int i = 0;

	for (; i + 1 < n; i += 2)
		copy_pair(&target[i], &source[i]);
	if (i < n)
		target[i] = source[i];
}

static inline void fill_words(void *to, uint64_t value, unsigned int n)
{
	any_word *target = to;

	for (unsigned int i = 0; i < n; i++) {
		target[i] = value;
		KEEP(i); /* a call would cost more for so few */
	}
}

/* All lines of a node: the processor does not fetch the others with the first. */
static inline void prefetch_node(enode_t e)
{
	const char *line = (const char *)node_of(e);

	__builtin_prefetch(line);
	__builtin_prefetch(line + 64);
	__builtin_prefetch(line + 128);
	__builtin_prefetch(line + 192);
}

#endif
