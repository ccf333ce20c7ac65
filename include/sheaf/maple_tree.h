/* SPDX-License-Identifier: MIT */
/*
 * A tree of ranges of unsigned long, each with a pointer: the Linux kernel's maple tree, on sheaves.
 *
 *     static DEFINE_MTREE(tree);
 *     mtree_store_range(&tree, 10, 19, entry, GFP_KERNEL);
 *     entry = mtree_load(&tree, 15);
 *
 * Ranges never overlap; what no range covers holds NULL. An entry is any pointer but those below 4096
 * whose two low bits are 10. Names, arguments and results are the kernel's.
 *
 * Locks. A call that changes a tree needs its lock: the mtree_ calls take it, the mas_ calls want it
 * held (mtree_lock(), or the caller's own with MT_FLAGS_LOCK_EXTERN). A call that reads needs the
 * lock, too, or, if the tree has MT_FLAGS_USE_RCU, an RCU read-side section of <sheaf/rcu.h>, which
 * must span all uses of one ma_state (mas_pause() between two sections). No call enters a section by
 * itself. Readers never wait. A store makes every other ma_state stale that is used with the lock: after
 * it call mas_pause() or mas_reset() for them. Only with MT_FLAGS_USE_RCU, and all uses of a state in one
 * RCU section, this is not needed.
 * No call may be made from a signal handler. errno is preserved. n is the number of ranges.
 *
 * Link: `pkg-config --cflags --libs libsheaf-maple`. Layout and algorithms: docs/maple-tree.md.
 */
#ifndef SHEAF_MAPLE_TREE_H
#define SHEAF_MAPLE_TREE_H

#include <limits.h>
#include <sheaf/slab.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- the tree ----------------------------------------------------------------------------------
 */

#define MT_FLAGS_ALLOC_RANGE   0x001u /* keep the largest gap below each node: gaps can be searched */
#define MT_FLAGS_USE_RCU       0x002u /* readers without the lock: changed nodes are replaced */
#define MT_FLAGS_LOCK_MASK     0x300u
#define MT_FLAGS_LOCK_IRQ      0x100u /* accepted, as MT_FLAGS_LOCK_BH: there are no interrupts here */
#define MT_FLAGS_LOCK_BH       0x200u
#define MT_FLAGS_LOCK_EXTERN   0x300u /* the caller has a lock of its own; ma_lock is not used */
#define MT_FLAGS_ALLOC_WRAPPED 0x800u /* alloc_cyclic has come to the end of its numbers */

/* Room for a pthread_mutex_t, whose header would bring in many names. */
#ifdef __aarch64__
#define __MT_LOCK_WORDS 6
#else
#define __MT_LOCK_WORDS 5
#endif

struct maple_tree {
	void *ma_root;
	unsigned int ma_flags;
	union {
		uintptr_t ma_owner;	/* the thread that has the lock, or 0 */
		void *ma_external_lock; /* with MT_FLAGS_LOCK_EXTERN */
	};
	unsigned long ma_lock[__MT_LOCK_WORDS];
};

#define MTREE_INIT(name, flags)                                                                    \
	{                                                                                          \
		NULL, (flags), {0},                                                                \
		{                                                                                  \
			0                                                                          \
		}                                                                                  \
	}
#define DEFINE_MTREE(name) struct maple_tree name = MTREE_INIT(name, 0)

/* Make an empty tree with these MT_FLAGS_; mt_init() with none. O(1). */
void mt_init_flags(struct maple_tree *mt, unsigned int flags) SHEAF_SYMBOL(mt_init_flags);
void mt_init(struct maple_tree *mt) SHEAF_SYMBOL(mt_init);

/* The tree's lock. Not for a tree with MT_FLAGS_LOCK_EXTERN. Sleeps while another thread has it. */
void mtree_lock(struct maple_tree *mt) SHEAF_SYMBOL(mtree_lock);
void mtree_unlock(struct maple_tree *mt) SHEAF_SYMBOL(mtree_unlock);

/*
 * From now on changes are made so that readers need no lock, or need one again. mt_set_in_rcu()
 * before the first reader, with the lock held; mt_clear_in_rcu() after the last. O(1).
 */
void mt_set_in_rcu(struct maple_tree *mt) SHEAF_SYMBOL(mt_set_in_rcu);
void mt_clear_in_rcu(struct maple_tree *mt) SHEAF_SYMBOL(mt_clear_in_rcu);
bool mt_in_rcu(const struct maple_tree *mt) SHEAF_SYMBOL(mt_in_rcu);
bool mt_external_lock(const struct maple_tree *mt) SHEAF_SYMBOL(mt_external_lock);

/*
 * The caller's lock of a tree with MT_FLAGS_LOCK_EXTERN (without: one line, and nothing else), a
 * pthread_mutex_t, or NULL, as at first. A library built for debugging then tells of a store while nobody
 * has it. The lock must not be a recursive one; the tree never takes it, and it must live as long. O(1).
 */
void mt_set_external_lock(struct maple_tree *mt, void *mutex) SHEAF_SYMBOL(mt_set_external_lock);

/* Whether the tree holds no entry. The levels of nodes it has: 0 if none. O(1). */
bool mtree_empty(const struct maple_tree *mt) SHEAF_SYMBOL(mtree_empty);
unsigned int mt_height(const struct maple_tree *mt) SHEAF_SYMBOL(mt_height);

/* The entry at this index, or NULL. A reader's call. O(log n). */
void *mtree_load(struct maple_tree *mt, unsigned long index) SHEAF_SYMBOL(mtree_load);

/*
 * Store an entry (NULL: nothing) at one index or at all of first ... last, over what was there.
 * Return 0, -EINVAL (last < first, or an entry that is reserved) or -ENOMEM, and then nothing has
 * changed. Take the lock; allocate as gfp says. O(log n), and O(nodes below) for what a range covers.
 */
int mtree_store(struct maple_tree *mt, unsigned long index, void *entry, gfp_t gfp)
	SHEAF_SYMBOL(mtree_store);
int mtree_store_range(struct maple_tree *mt, unsigned long first, unsigned long last, void *entry,
		      gfp_t gfp) SHEAF_SYMBOL(mtree_store_range);

/* The same, but only where nothing is: -EEXIST if any index has an entry. */
int mtree_insert(struct maple_tree *mt, unsigned long index, void *entry, gfp_t gfp)
	SHEAF_SYMBOL(mtree_insert);
int mtree_insert_range(struct maple_tree *mt, unsigned long first, unsigned long last, void *entry,
		       gfp_t gfp) SHEAF_SYMBOL(mtree_insert_range);

/*
 * Remove the whole range that contains the index. Returns its entry, or NULL if there is none, or if
 * memory is out, and then nothing has changed. Takes the lock; allocates as GFP_KERNEL. O(log n).
 */
void *mtree_erase(struct maple_tree *mt, unsigned long index) SHEAF_SYMBOL(mtree_erase);

/*
 * Store an entry at the lowest (rrange: highest) `size` free indices in min ... max, in a tree with
 * MT_FLAGS_ALLOC_RANGE; *startp is the first of them. Return 0, -EBUSY (no such gap), -EINVAL (size 0,
 * or more than min ... max has; max < min; NULL entry; no such flag) or -ENOMEM. Take the lock. O(log n).
 */
int mtree_alloc_range(struct maple_tree *mt, unsigned long *startp, void *entry, unsigned long size,
		      unsigned long min, unsigned long max, gfp_t gfp)
	SHEAF_SYMBOL(mtree_alloc_range);
int mtree_alloc_rrange(struct maple_tree *mt, unsigned long *startp, void *entry,
		       unsigned long size, unsigned long min, unsigned long max, gfp_t gfp)
	SHEAF_SYMBOL(mtree_alloc_rrange);

/*
 * Store an entry at the first free index from *next on in range_lo ... range_hi, going on from
 * range_lo when the end is reached; *startp is the index, *next the one after it. Return 0, or 1 if
 * the numbers began again, or as mtree_alloc_range(). Take the lock. O(log n).
 */
int mtree_alloc_cyclic(struct maple_tree *mt, unsigned long *startp, void *entry,
		       unsigned long range_lo, unsigned long range_hi, unsigned long *next,
		       gfp_t gfp) SHEAF_SYMBOL(mtree_alloc_cyclic);

/*
 * Make the empty tree `to` a copy of `from`: same entries, same flags, else -EINVAL. mtree_dup() takes
 * both locks, the copy's first. Return 0 or -ENOMEM, and then `to` is empty. O(n), nodes in bulk.
 */
int mtree_dup(struct maple_tree *from, struct maple_tree *to, gfp_t gfp) SHEAF_SYMBOL(mtree_dup);
int __mt_dup(struct maple_tree *from, struct maple_tree *to, gfp_t gfp) SHEAF_SYMBOL(__mt_dup);

/*
 * The same, and new entries in place of the old ones, as fork wants it. copy() is given the entries of
 * one leaf after another, 1 to 16 of them, none NULL, in order; it puts the new entries into the array
 * and returns 0, or a negative error, when it has put nothing, or taken back what it had. An error
 * ends the duplication: undo() is given all new entries, again by leaf, not in order; `to` is empty;
 * the error is the result. The same happens, with -EINVAL, if copy() puts in NULL or a reserved entry
 * (undo() is not given those), or if `ops` is NULL, lacks one of the two or has one that is not known
 * yet; and with -ENOMEM if there are no more nodes. Neither call may change one of the trees. O(n).
 */
struct mt_dup_ops { /* may grow: the call passes its size */
	int (*copy)(void **entries, unsigned int n, void *arg);
	void (*undo)(void **entries, unsigned int n, void *arg);
};
int __mt_dup_sized(struct maple_tree *from, struct maple_tree *to, const struct mt_dup_ops *ops,
		   size_t ops_size, void *arg, gfp_t gfp) SHEAF_SYMBOL(__mt_dup_sized);

static inline int __mt_dup_each(struct maple_tree *from, struct maple_tree *to,
				const struct mt_dup_ops *ops, void *arg, gfp_t gfp)
{
	return __mt_dup_sized(from, to, ops, sizeof(*ops), arg, gfp);
}

/* Remove everything. mtree_destroy() takes the lock. The tree can be used again. O(n). */
void mtree_destroy(struct maple_tree *mt) SHEAF_SYMBOL(mtree_destroy);
void __mt_destroy(struct maple_tree *mt) SHEAF_SYMBOL(__mt_destroy);

/*
 * The first entry at or after *index, up to max, or NULL; *index becomes the index after its range.
 * mt_find_after() is for going on: it gives NULL when *index is 0, past the end. Readers. O(log n).
 */
void *mt_find(struct maple_tree *mt, unsigned long *index, unsigned long max) SHEAF_SYMBOL(mt_find);
void *mt_find_after(struct maple_tree *mt, unsigned long *index, unsigned long max)
	SHEAF_SYMBOL(mt_find_after);

/* The next entry after the range at index, up to max; or the one before it, down to min; or NULL. */
void *mt_next(struct maple_tree *mt, unsigned long index, unsigned long max) SHEAF_SYMBOL(mt_next);
void *mt_prev(struct maple_tree *mt, unsigned long index, unsigned long min) SHEAF_SYMBOL(mt_prev);

/* Loops assign to the user's own variable: in C++ this takes a cast to its type. */
#ifdef __cplusplus
#define __MT_ENTRY(entry, found) ((entry) = static_cast<__typeof__(entry)>(found))
#else
#define __MT_ENTRY(entry, found) ((entry) = (found))
#endif

/*
 * Each entry from index (a variable, changed) up to max, in order. The tree may change meanwhile. entry: a
 * pointer to anything, as for all loops.
 */
#define mt_for_each(tree, entry, index, max)                                                       \
	for (__MT_ENTRY(entry, mt_find((tree), &(index), (max))); (entry);                         \
	     __MT_ENTRY(entry, mt_find_after((tree), &(index), (max))))

/* --- a place in a tree -------------------------------------------------------------------------
 */

struct maple_node;
struct slab_sheaf;

/* The names of the kernel's public header. */
enum maple_status {
	ma_active,    /* index ... last is a range of the tree, an entry's or a whole gap */
	ma_start,     /* nothing looked at yet */
	ma_root,      /* at the entry at index 0, which is alone and needs no node */
	ma_none,      /* beyond it, or in a tree that is empty: nothing is there */
	ma_pause,     /* the tree may have changed: go on after last */
	ma_overflow,  /* index ... last reaches the limit, and so does a gap that it is, if any */
	ma_underflow, /* the same, downwards */
	ma_error,     /* see mas_error() */
};

struct ma_state {
	struct maple_tree *tree;
	unsigned long index, last; /* the range to store, or that was found */
	enum maple_status status;
	/* The rest is the library's. */
	unsigned int store_type;
	struct maple_node *node; /* the leaf; not NULL only if active */
	void *const *at;	 /* its slot, and its last one */
	void *const *stop;
	uint64_t seen;		/* the leaf's word when it was looked at */
	unsigned long min, max; /* what the leaf covers */
	uintptr_t parent;	/* the node above it, its slot there, and what that one covers */
	unsigned long parent_offset, parent_min, parent_max;
	struct maple_node *prepared; /* the leaf that mas_preallocate() was at */
	struct maple_node *alloc;    /* nodes in hand: one, or a sheaf of them */
	struct slab_sheaf *sheaf;
	unsigned long node_request;
	int error;
};

/*
 * A state that has looked at nothing. What is not set here has no meaning while `node` and `prepared`
 * are NULL: to set all of it would cost as much as a search.
 */
static inline struct ma_state __mas_fresh(struct maple_tree *tree, unsigned long first,
					  unsigned long last)
{
	struct ma_state fresh;

	fresh.tree = tree;
	fresh.index = first;
	fresh.last = last;
	fresh.status = ma_start;
	fresh.store_type = 0;
	fresh.node = NULL;
	fresh.prepared = NULL;
	fresh.alloc = NULL;
	fresh.sheaf = NULL;
	fresh.node_request = 0;
	fresh.error = 0;
	return fresh;
}

#define MA_STATE(name, mt, first, end) struct ma_state name = __mas_fresh((mt), (first), (end))

/* As MA_STATE(), for one index. O(1). */
static inline void mas_init(struct ma_state *mas, struct maple_tree *tree, unsigned long index)
{
	*mas = __mas_fresh(tree, index, index);
}

/* Forget the place, keep index and last; what is in hand stays there. O(1). */
static inline void mas_reset(struct ma_state *mas)
{
	mas->status = ma_start;
	mas->node = NULL;
	mas->prepared = NULL;
}

/* The range to store, or the index to search from; the place is forgotten. O(1). */
static inline void mas_set_range(struct ma_state *mas, unsigned long start, unsigned long last)
{
	mas_reset(mas);
	mas->index = start;
	mas->last = last;
}

static inline void mas_set(struct ma_state *mas, unsigned long index)
{
	mas_set_range(mas, index, index);
}

/* Whether the last call failed, and how: 0, -ENOMEM, -EINVAL or -EBUSY. O(1). */
static inline bool mas_is_err(const struct ma_state *mas)
{
	return mas->status == ma_error;
}

static inline int mas_error(const struct ma_state *mas)
{
	return mas->status == ma_error ? mas->error : 0;
}

/* Whether index ... last is a range of the tree, an entry's or a whole gap. O(1). */
static inline bool mas_is_active(const struct ma_state *mas)
{
	return mas->status == ma_active;
}

static inline void mas_lock(struct ma_state *mas)
{
	mtree_lock(mas->tree);
}

static inline void mas_unlock(struct ma_state *mas)
{
	mtree_unlock(mas->tree);
}

/*
 * Before the lock or the RCU section is left: the next mas_find() goes on after last, mas_find_rev()
 * before index, in the tree as it is then. O(1).
 */
void mas_pause(struct ma_state *mas) SHEAF_SYMBOL(mas_pause);

/*
 * The entry at mas->index, or NULL; index ... last becomes the range that has it, or the whole gap.
 * A reader's call, as all down to mas_for_each_rev(). O(log n).
 */
void *mas_walk(struct ma_state *mas) SHEAF_SYMBOL(mas_walk);

/*
 * The first entry at or after mas->index; on an active state the next entry after last. Up to max,
 * where the range begins. NULL if there is none: index ... last is then the gap that reaches max, and the
 * status ma_overflow; or, if the state was at a range that reaches max, both are as they were. The _range
 * call stops at gaps, too, as a range with the result NULL, but not at one where the search begins, or
 * goes on after a pause. Downwards the _rev calls: ma_underflow, also if the state was at min. O(1) typical.
 * A range that another thread stores meanwhile, over the last one given, may be given again.
 */
void *mas_find(struct ma_state *mas, unsigned long max) SHEAF_SYMBOL(mas_find);
void *mas_find_range(struct ma_state *mas, unsigned long max) SHEAF_SYMBOL(mas_find_range);
void *mas_find_rev(struct ma_state *mas, unsigned long min) SHEAF_SYMBOL(mas_find_rev);
void *mas_find_range_rev(struct ma_state *mas, unsigned long min) SHEAF_SYMBOL(mas_find_range_rev);

/*
 * The next entry after the range at mas->index, up to max; or the one before it, down to min. The ends are
 * those of mas_find_rev(). After mas_next() came to the end (ma_overflow), mas_prev() gives the last entry
 * again, and the reverse. What each call does with each status: maple/states.c.
 */
void *mas_next(struct ma_state *mas, unsigned long max) SHEAF_SYMBOL(mas_next);
void *mas_next_range(struct ma_state *mas, unsigned long max) SHEAF_SYMBOL(mas_next_range);
void *mas_prev(struct ma_state *mas, unsigned long min) SHEAF_SYMBOL(mas_prev);
void *mas_prev_range(struct ma_state *mas, unsigned long min) SHEAF_SYMBOL(mas_prev_range);

/*
 * What these two mostly do, to be inlined: the next entry in the leaf where the state is, if that is as
 * it was seen; else NULL, and the state is unchanged. A leaf's first word tells of changes; the pivots
 * that end a slot and the one before it are 15 and 16 words below the slot. With the thread sanitizer the
 * library does it, which tells that the entry was stored before.
 */
#if defined(__SANITIZE_THREAD__)
#define __MT_TSAN true
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __MT_TSAN true
#endif
#endif
#ifndef __MT_TSAN
#define __MT_TSAN false
#endif
typedef unsigned long __mas_word __attribute__((__may_alias__));
typedef void *__mas_entry;
#define __MT_AT(type, place) SHEAF_CAST(const type *, SHEAF_CAST(const void *, place))

static inline unsigned long __mas_pivot(void *const *at, int below)
{
	return __atomic_load_n(__MT_AT(__mas_word, at) - below, __ATOMIC_RELAXED);
}

static inline void *__mas_step(struct ma_state *mas, unsigned long limit, bool up)
{
	void *const *at, *const *stop, *const *start;
	unsigned long border, other;
	void *entry;

	if (!mas->node || __MT_TSAN)
		return NULL;
	at = mas->at;
	stop = mas->stop;
	start = __MT_AT(__mas_entry, mas->node) + 16;
	if (at == (up ? stop : start))
		return NULL;
	at += up ? 1 : -1;
	entry = __atomic_load_n(at, __ATOMIC_ACQUIRE);
	border = __mas_pivot(at, up ? 16 : 15);
	if (entry) { /* a border between two may be moving, which is not in that word yet */
		if (border != (up ? mas->last : mas->index - 1))
			return NULL;
	} else { /* then the next is none, unless a writer has been between */
		if (at == (up ? stop : start))
			return NULL;
		at += up ? 1 : -1;
		entry = __atomic_load_n(at, __ATOMIC_ACQUIRE);
		border = __mas_pivot(at, up ? 16 : 15);
		if (!entry)
			return NULL;
	}
	if (up ? border >= limit : border < limit)
		return NULL;
	if (up)
		other = at != stop ? __mas_pivot(at, 15) : mas->max;
	else
		other = at != start ? __mas_pivot(at, 16) + 1 : mas->min;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (__atomic_load_n(__MT_AT(uint64_t, mas->node), __ATOMIC_RELAXED) != mas->seen)
		return NULL;
	mas->at = at;
	mas->index = up ? border + 1 : other;
	mas->last = up ? other : border;
	return entry;
}

static inline void *__mas_for_each_next(struct ma_state *mas, unsigned long max)
{
	void *entry = __mas_step(mas, max, true);

	return entry ? entry : mas_find(mas, max);
}

static inline void *__mas_for_each_prev(struct ma_state *mas, unsigned long min)
{
	void *entry = __mas_step(mas, min, false);

	return entry ? entry : mas_find_rev(mas, min);
}

#define mas_for_each(mas, entry, max)                                                              \
	while (__MT_ENTRY(entry, __mas_for_each_next((mas), (max))) != NULL)
#define mas_for_each_rev(mas, entry, min)                                                          \
	while (__MT_ENTRY(entry, __mas_for_each_prev((mas), (min))) != NULL)

/*
 * Store an entry at mas->index ... mas->last. mas_store() never waits for memory: look at mas_error().
 * mas_store_gfp() returns the error. Either the store happens wholly or nothing changes. After a store of
 * NULL index ... last is the whole gap that is there now. O(log n).
 */
void *mas_store(struct ma_state *mas, void *entry) SHEAF_SYMBOL(mas_store);
int mas_store_gfp(struct ma_state *mas, void *entry, gfp_t gfp) SHEAF_SYMBOL(mas_store_gfp);

/*
 * As mtree_erase(), at mas->index; index ... last becomes the whole gap that is there now. NULL: mas_error()
 * tells whether memory was out.
 */
void *mas_erase(struct ma_state *mas) SHEAF_SYMBOL(mas_erase);

/*
 * Get the nodes that storing this entry will take, so that mas_store_prealloc() cannot fail as long as
 * the tree does not change in between. 0, -EINVAL or -ENOMEM. O(log n).
 */
int mas_preallocate(struct ma_state *mas, void *entry, gfp_t gfp) SHEAF_SYMBOL(mas_preallocate);
void mas_store_prealloc(struct ma_state *mas, void *entry) SHEAF_SYMBOL(mas_store_prealloc);

/*
 * After mas_store(): if it failed for want of memory, leave the lock, get what it takes as gfp says,
 * take the lock again and return true: try once more. Else, or if there is no memory, false.
 */
bool mas_nomem(struct ma_state *mas, gfp_t gfp) SHEAF_SYMBOL(mas_nomem);

/* Give back what is in hand. To be called after mas_preallocate() or mas_nomem(). O(nodes in hand). */
void mas_destroy(struct ma_state *mas) SHEAF_SYMBOL(mas_destroy);

/*
 * Find the lowest (rev: highest) `size` free indices in min ... max: they become index ... last.
 * 0, -EBUSY or -EINVAL, as mtree_alloc_range(). The tree needs MT_FLAGS_ALLOC_RANGE; the lock must be held
 * as for a store. O(log n), and once more for each leaf whose longest gap was filled since the last search
 * came there.
 */
int mas_empty_area(struct ma_state *mas, unsigned long min, unsigned long max, unsigned long size)
	SHEAF_SYMBOL(mas_empty_area);
int mas_empty_area_rev(struct ma_state *mas, unsigned long min, unsigned long max,
		       unsigned long size) SHEAF_SYMBOL(mas_empty_area_rev);

/* As mtree_alloc_cyclic(), with the lock held. */
int mas_alloc_cyclic(struct ma_state *mas, unsigned long *startp, void *entry,
		     unsigned long range_lo, unsigned long range_hi, unsigned long *next, gfp_t gfp)
	SHEAF_SYMBOL(mas_alloc_cyclic);

/* --- looking at a tree -------------------------------------------------------------------------
 */

/*
 * Prove the tree's invariants (docs/maple-tree.md), with the lock held. Returns the number of faults,
 * each of them told in a line. O(n).
 */
int mt_validate(struct maple_tree *mt) SHEAF_SYMBOL(mt_validate);

/*
 * Write the tree's nodes to a file descriptor, as text or as an SVG picture. With the lock held. Return 0 or
 * a negative error number: -ENOMEM, or what dup(2) or write(2) said. A point of cancellation. O(n).
 */
int mt_dump(const struct maple_tree *mt, int fd) SHEAF_SYMBOL(mt_dump);
int mt_dump_svg(const struct maple_tree *mt, int fd) SHEAF_SYMBOL(mt_dump_svg);

#ifdef __cplusplus
}
#endif

#endif
