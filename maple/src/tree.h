/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of the maple tree. Layers, each using those before it:
 *
 *     node.h   a node: layout, search              pool.c    nodes: allocated, stored, retired
 *     path.c   a path from the root to a leaf      walk.c    readers: load, walk; find.c, states.c
 *     gap.c    gaps: stored; area.c: searched      rebuild.c stores that change several nodes
 *     leaf.c   stores of one leaf                  plan.c    what a store will do
 *     insert.c    part of leaf.c             rebuild_plan.c, items.c   parts of rebuild.c
 *     cut.c    a split that keeps the leaf     empty.c   leaves without an entry
 *     store.c  the mas_ calls that store           tree.c    the mtree_ and mt_ calls
 *     dup.c    copy and destroy                    validate.c, dump.c, svg.c, misuse.c
 *     say.c    lines about misuse            symbols.c what the header inlines
 */
#ifndef MAPLE_TREE_H
#define MAPLE_TREE_H

#include <stdio.h>

#include "node.h"
#include "store_type.h"

/* For the functions of the public header. */
#define SHEAF_PUBLIC __attribute__((visibility("default")))

/* In say.c: write a line about misuse, to which this adds the line feed. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2), cold));
/* write(2), but it ends no program, and is no cancellation point. */
ssize_t write_quietly(int fd, const char *text, size_t length) __attribute__((cold));

static inline bool in_rcu(const struct maple_tree *mt)
{
	return mt->ma_flags & MT_FLAGS_USE_RCU;
}

/* Record that the call failed: clear the place, and set the error for mas_error(). */
static inline int mas_fail(struct ma_state *mas, int error)
{
	mas_reset(mas);
	mas->status = ma_error;
	mas->error = error;
	return error;
}

/* --- in a program built with the thread sanitizer, if the library is not ---------------------- */

extern void __tsan_acquire(void *address) __attribute__((weak));
extern void __tsan_release(void *address) __attribute__((weak));

/* All that the writer did before it stored an entry happens before ... */
static inline void tell_stored(struct maple_tree *mt)
{
	if (!SHEAF_TSAN && unlikely(&__tsan_release != NULL))
		__tsan_release(mt);
}

/* ... all that a reader without the lock does with the entry that it loads. Returns the entry, so
 * that a reader can end with this call, which then costs it no registers. */
void *tsan_loaded(struct maple_tree *mt, void *entry) __attribute__((noinline));

static inline __attribute__((always_inline)) void *tell_loaded(struct maple_tree *mt, void *entry)
{
	if (!SHEAF_TSAN && unlikely(&__tsan_acquire != NULL))
		return tsan_loaded(mt, entry);
	return entry;
}

static inline __attribute__((always_inline)) void *mas_step(struct ma_state *mas,
							    unsigned long limit, bool up)
{
	void *entry = __mas_step(mas, limit, up);

	if (!entry)
		return NULL;
	entry = tell_loaded(mas->tree, entry);
	if (!entry) /* so that no caller tests it again */
		__builtin_unreachable();
	return entry;
}

/* --- pool.c ---------------------------------------------------------------------------------- */

/* NULL if there is no memory for the cache itself. */
struct kmem_cache *node_cache(void);
/* Preallocate n nodes for node_take(); 0 or -ENOMEM. */
int nodes_get(struct ma_state *mas, unsigned int n, gfp_t gfp);
unsigned int nodes_in_hand(const struct ma_state *mas) __attribute__((pure));
/* Take one of the preallocated nodes. */
struct maple_node *node_take(struct ma_state *mas);
/* Retire a node that readers may be using. */
void node_retire(const struct maple_tree *mt, struct maple_node *node);
/* Allocate (all n or none) and free nodes that no reader has seen. */
int nodes_alloc(unsigned int n, void **nodes, gfp_t gfp);
void nodes_free(unsigned int n, void **nodes);

/* --- path.c: for writers only ---------------------------------------------------------------- */

struct step {
	enode_t e;
	unsigned int offset;
	unsigned long min, max; /* what the node covers */
};

struct path {
	unsigned int height; /* the root's level; at[0] is the leaf */
	struct step at[MAX_LEVELS];
};

/* From the root to the slot that covers the index. The tree must have a node. */
void path_walk(struct path *path, const struct maple_tree *mt, unsigned long index);
/* Copy the levels in use from `from` to `to`. */
void path_copy(struct path *to, const struct path *from);
/* Move to the next or previous node of a level, at its first or last slot; false if there is
 * none. */
bool path_next(struct path *path, unsigned int level);
bool path_prev(struct path *path, unsigned int level);

/* --- gap.c ----------------------------------------------------------------------------------- */

/* The longest run of free indices that a leaf owns; `after` more follow a run at its end. */
unsigned long leaf_gap(const struct maple_node *leaf, unsigned long min, unsigned long max,
		       unsigned long after);
/* The longest gap in an inner node's slots. */
unsigned long node_gap(const struct maple_node *node);
/* The last slot of the run that begins a leaf; the first slot of the run that ends it. The leaf has
 * an entry. */
static inline unsigned int free_first(const struct maple_node *leaf)
{
	unsigned int i = 0;

	while (!leaf->range.slot[i + 1])
		i++;
	return i;
}

static inline unsigned int free_last(const struct maple_node *leaf, unsigned int end)
{
	while (!leaf->range.slot[end - 1])
		end--;
	return end;
}

/* The number of free indices after `before`: e is the next leaf, or an inner node with that leaf
 * first. */
unsigned long free_at_start(const struct maple_tree *mt, enode_t e, unsigned long before);
/* The number of free indices right after the path's leaf. */
unsigned long free_after(const struct maple_tree *mt, const struct path *path);
/* Set the gap of the child in slot at[level].offset of the path's node at this level. */
void gap_set(struct path *path, unsigned int level, unsigned long gap);
/* Set the gap stored for the path's leaf to the longest run that it owns. */
void gap_correct(const struct maple_tree *mt, struct path *path);
/* The free run at the beginning of the path's leaf changed; its first part may be in the previous
 * leaf. Moves the path. */
void gap_fix_before(const struct maple_tree *mt, struct path *path);

/* --- walk.c ---------------------------------------------------------------------------------- */

/* Go to the slot that covers the index: index and last become its range, or all of the gap within
 * the leaf. */
void *mas_descend(struct ma_state *mas, unsigned long index);
/* Go to the slot of mas->index; index and last stay. For writers. */
void *mas_go_to_index(struct ma_state *mas);

/* Like mas_descend() for an upward (downward) iteration: prefetch the next leaves. */
#define AHEAD 4u
void *mas_descend_on(struct ma_state *mas, unsigned long index, bool up);
/* The tree has no node, the state is beyond its entry, and nothing follows in this direction. */
static inline bool mas_is_outside(const struct ma_state *mas, bool up)
{
	return mas->status == ma_none && (up || mas->index == 0);
}

/* The state's range reaches the limit: the next one is beyond it. */
static inline bool mas_at_limit(const struct ma_state *mas, unsigned long limit, bool up)
{
	return up ? mas->last >= limit : mas->index <= limit;
}

/* A search ends with this status, its index and last as they are. */
static inline void *mas_ended(struct ma_state *mas, enum maple_status status)
{
	mas->node = NULL;
	mas->status = status;
	return NULL;
}

/* A gap at a leaf's end may continue in the next leaf: set index ... last to the whole gap. */
void mas_join_after(struct ma_state *mas);
void mas_join_before(struct ma_state *mas);

static inline void mas_widen_after(struct ma_state *mas)
{
	if (mas->status == ma_active && mas->last == mas->max)
		mas_join_after(mas);
}

static inline void mas_widen_before(struct ma_state *mas)
{
	if (mas->status == ma_active && mas->index == mas->min)
		mas_join_before(mas);
}

/* --- find.c ---------------------------------------------------------------------------------- */

/* Go from a range of the tree to the next entry, or the next range; if there is none, set the
 * status of the end. */
void *mas_up(struct ma_state *mas, unsigned long max);
void *mas_up_range(struct ma_state *mas, unsigned long max);
void *mas_down(struct ma_state *mas, unsigned long min);
void *mas_down_range(struct ma_state *mas, unsigned long min);

/* --- stores ------------------------------------------------------------------------------- */

/* Slots that move into new nodes: those of up to five leaves, and those that a store adds. */
#define MAX_ITEMS (5 * LEAF_SLOTS + 3)
struct items {
	unsigned int n;
	unsigned long min; /* the beginning of the first */
	unsigned long pivot[MAX_ITEMS];
	void *slot[MAX_ITEMS];
	unsigned long gap[MAX_ITEMS];
};

/* What happens at one level, decided before anything is allocated. */
struct level {
	enode_t left, right; /* neighbours taken in, or 0 */
	unsigned long left_min, right_max;
	unsigned int n, nodes; /* items, and the nodes they fill */
};

/* The state of a store, from the plan to its end. */
struct store {
	struct ma_state *mas;
	void *entry;
	unsigned long index, last; /* widened over free neighbours if the entry is NULL */
	enum store_type type;
	unsigned int nodes;	    /* nodes that the store needs */
	unsigned int first, second; /* slots of the leaf, or of two, that hold index and last */
	unsigned long first_min, second_max;
	bool left, right;	 /* the first and the second slot keep a part */
	bool compact;		 /* each run of the leaf becomes one slot */
	unsigned int nulls;	 /* the leaf's free slots after an exact fit of NULL */
	unsigned int end;	 /* the leaf's end afterwards */
	unsigned int into;	 /* the slot that gets the entry, if that is in free slots */
	unsigned int keep;	 /* how many slots stay in a leaf that is cut, or 0 */
	struct maple_node *next; /* the next leaf, if it gets the other slots; or NULL */
	unsigned int top; /* the level that gets the new nodes, or the level of the new root */
	bool in_place;	  /* the new nodes go into a slot, and are no new root */
	int skew;	  /* > 0: it grows upwards, < 0: downwards; 2: at the end of the tree */
	bool has_way;	  /* lo is known; a store in one leaf rarely needs it */
	bool alone;	  /* joins no leaves */
	unsigned long empty_before, empty_after; /* indices of empty leaves that rebuild.c joins */
	struct path lo, hi; /* ways to index and, if in another leaf, to last */
	struct level level[MAX_LEVELS];
	struct items items;
};

/* plan.c: plan the store; set type and nodes. Walk the path lo if it is not known yet. `alone`: do
 * not join leaves. */
void store_plan(struct store *st, struct ma_state *mas, void *entry, bool alone);
/* Go to the leaf of mas->index. Returns whether the range of its slot is that of the state. */
bool is_exact_place(struct ma_state *mas);
/* Plan to erase what is there. False: nothing is, or the leaf would have too few entries. */
bool erase_plan(struct store *st, struct ma_state *mas);
void store_way(struct store *st);

/* leaf.c: a store in one leaf, in a tree without nodes, or of the whole range. */
void leaf_store(struct store *st);
/* insert.c: a store that adds slots to a leaf, in place. */
void leaf_insert(struct store *st);
void root_store(struct store *st);

/* cut.c: a store into a full leaf, which keeps its lower slots. `count`: how many slots it would
 * have; `stays`: the entry can be inserted into the leaf. False: no such split is possible. */
bool cut_plan(struct store *st, unsigned int count, bool stays);
void cut_split(struct store *st);

/* empty.c: NULL was stored in the state's leaf, which may have no entry now. */
void leaf_emptied(const struct ma_state *mas);
/* Join the empty leaves before and after those of a rebuild. */
void take_empty(struct store *st);
/* The number of free indices from this one on, with which an empty leaf begins. */
unsigned long free_over(const struct maple_tree *mt, unsigned long index);

/* rebuild.c: a store that does not fit into one leaf; the plan sets nodes and top. */
void rebuild_plan(struct store *st);
void rebuild(struct store *st);

/* --- dump.c ----------------------------------------------------------------------------------- */

/* Write the tree to the descriptor through a new stream; returns 0 or the error. Preserves
 * errno. */
int dump_to(int fd, const struct maple_tree *mt,
	    void (*dump)(const struct maple_tree *mt, FILE *out));

/* --- dup.c ----------------------------------------------------------------------------------- */

/* Retire a node and all nodes below it, whether or not there are readers. */
void subtree_retire(const struct maple_tree *mt, enode_t e);

#endif
