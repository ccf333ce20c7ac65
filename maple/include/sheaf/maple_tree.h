/* SPDX-License-Identifier: MIT */
/*
 * A tree of ranges of unsigned long, each with a pointer: the Linux kernel's maple tree, on
 * sheaves.
 *
 *     static DEFINE_MTREE(tree);
 *     mtree_store_range(&tree, 10, 19, entry, GFP_KERNEL);
 *     entry = mtree_load(&tree, 15);
 *
 * Ranges never overlap. Indices that no range covers hold NULL. An entry is any pointer, except
 * values below 4096 whose two lowest bits are 10 (binary). Names, arguments and results are the
 * kernel's.
 *
 * Locks. A call that changes a tree needs the tree's lock: the mtree_ calls take it; for the mas_
 * calls the caller must hold it (mtree_lock(), or the caller's own lock with MT_FLAGS_LOCK_EXTERN).
 * A call that reads needs the lock, too, or, if the tree has MT_FLAGS_USE_RCU, an RCU read-side
 * section of <sheaf/rcu.h>, which must span all uses of one ma_state (use mas_pause() between two
 * sections). No call enters a section by itself. Readers never wait. A store invalidates every
 * other ma_state that is used with the lock: call mas_pause() or mas_reset() on them after it. This
 * is not needed only with MT_FLAGS_USE_RCU, if all uses of a state are in one RCU section. Signal
 * handlers must not make any of these calls. errno is preserved. n is the number of ranges.
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

/* --- the tree --------------------------------------------------------------------------------- */

#define MT_FLAGS_ALLOC_RANGE   0x001u /* keep the largest gap below each node, for searches */
#define MT_FLAGS_USE_RCU       0x002u /* readers without the lock: changed nodes are replaced */
#define MT_FLAGS_LOCK_MASK     0x300u
#define MT_FLAGS_LOCK_IRQ      0x100u /* accepted, like MT_FLAGS_LOCK_BH; no effect */
#define MT_FLAGS_LOCK_BH       0x200u
#define MT_FLAGS_LOCK_EXTERN   0x300u /* the caller has a lock of its own; ma_lock is not used */
#define MT_FLAGS_ALLOC_WRAPPED 0x800u /* alloc_cyclic has wrapped around */

/*
 * An entry that marks a range as taken and empty. All calls store it like any other entry, and the
 * mas_ calls return it. mtree_load() returns NULL for it, and mt_find() and mt_for_each() skip it.
 * For indices that are reserved before their entries are ready, and for trees that are abandoned
 * while they are built, such as the copy of an address space in a fork that fails.
 */
#define XA_ZERO_ENTRY SHEAF_ADDRESS(void *, 1030)

/* Return whether an entry is XA_ZERO_ENTRY. O(1). */
static inline bool xa_is_zero(const void *entry)
{
	return entry == XA_ZERO_ENTRY;
}

/* Room for a pthread_mutex_t, whose header would bring in many names. */
#ifdef __aarch64__
#define __MT_LOCK_WORDS 6
#else
#define __MT_LOCK_WORDS 5
#endif

/* A lookup reads only ma_root, which changes only when the tree gets another root. The lock, which
 * each store takes, is in another cache line, wherever the tree is. */
struct maple_tree {
	void *ma_root;
	unsigned long __ma_unjoined; /* an erase was refused nodes: leaves may have no entry */
	unsigned long __ma_apart[48 / sizeof(unsigned long)];
	unsigned int ma_flags;
	union {
		void *ma_external_lock; /* with MT_FLAGS_LOCK_EXTERN */
		uintptr_t ma_owner;	/* the thread that has the lock, or 0 */
	};
	unsigned long ma_lock[__MT_LOCK_WORDS];
};

/* The initial value of an empty tree with these MT_FLAGS_; the same with MT_FLAGS_LOCK_EXTERN among
 * them and this pthread_mutex_t, as by mt_set_external_lock(); an empty tree without flags. */
#define MTREE_INIT(name, flags)		  __MTREE_INIT(flags, NULL)
#define MTREE_INIT_EXT(name, flags, lock) __MTREE_INIT(flags, &(lock))
#define __MTREE_INIT(flags, lock)                                                                  \
	{                                                                                          \
		NULL, 0, {0}, (flags), {lock},                                                     \
		{                                                                                  \
			0                                                                          \
		}                                                                                  \
	}
#define DEFINE_MTREE(name) struct maple_tree name = MTREE_INIT(name, 0)

/* Initialise an empty tree with these MT_FLAGS_; mt_init() uses none. O(1). */
void mt_init_flags(struct maple_tree *mt, unsigned int flags) SHEAF_SYMBOL(mt_init_flags);
void mt_init(struct maple_tree *mt) SHEAF_SYMBOL(mt_init);

/* Take and release the tree's lock. Not for a tree with MT_FLAGS_LOCK_EXTERN. Sleeps while another
 * thread has it. */
void mtree_lock(struct maple_tree *mt) SHEAF_SYMBOL(mtree_lock);
void mtree_unlock(struct maple_tree *mt) SHEAF_SYMBOL(mtree_unlock);

/* mtree_lock(), for kernel code that tells lockdep of a second lock of the same class. */
static inline void mtree_lock_nested(struct maple_tree *mt, int subclass)
{
	(void)subclass;
	mtree_lock(mt);
}

/*
 * Switch to changes for which readers need no lock (MT_FLAGS_USE_RCU), or back. Call
 * mt_set_in_rcu() before the first reader without a lock, with the lock held, and mt_clear_in_rcu()
 * after the last one. The other two return whether a tree has MT_FLAGS_USE_RCU, and
 * MT_FLAGS_LOCK_EXTERN. O(1).
 */
void mt_set_in_rcu(struct maple_tree *mt) SHEAF_SYMBOL(mt_set_in_rcu);
void mt_clear_in_rcu(struct maple_tree *mt) SHEAF_SYMBOL(mt_clear_in_rcu);
bool mt_in_rcu(const struct maple_tree *mt) SHEAF_SYMBOL(mt_in_rcu);
bool mt_external_lock(const struct maple_tree *mt) SHEAF_SYMBOL(mt_external_lock);

/*
 * Pass the caller's lock of a tree with MT_FLAGS_LOCK_EXTERN (without this flag, the call only
 * reports): a pthread_mutex_t, or NULL, the initial value. A debug build of the library then
 * reports a store made while no thread holds the lock. The lock must not be recursive and must live
 * as long as the tree, which never takes it. O(1).
 */
void mt_set_external_lock(struct maple_tree *mt, void *mutex) SHEAF_SYMBOL(mt_set_external_lock);

/* Return whether the tree is empty; the number of levels of nodes, 0 if there is no node. O(1). */
bool mtree_empty(const struct maple_tree *mt) SHEAF_SYMBOL(mtree_empty);
unsigned int mt_height(const struct maple_tree *mt) SHEAF_SYMBOL(mt_height);

/* Return the entry at this index, or NULL. For readers. O(log n). */
void *mtree_load(struct maple_tree *mt, unsigned long index) SHEAF_SYMBOL(mtree_load);

/*
 * Store an entry (NULL erases) at one index, or at all of first ... last, and overwrite what was
 * there. Return 0, or -EINVAL (last < first, or a reserved entry) or -ENOMEM; if a call fails, the
 * tree is unchanged. NULL at exactly the indices of one range cannot fail, and an entry there needs
 * no memory. Take the lock; allocate with the flags gfp. O(log n), plus O(nodes below) for nodes
 * that the range covers.
 */
int mtree_store(struct maple_tree *mt, unsigned long index, void *entry, gfp_t gfp)
	SHEAF_SYMBOL(mtree_store);
int mtree_store_range(struct maple_tree *mt, unsigned long first, unsigned long last, void *entry,
		      gfp_t gfp) SHEAF_SYMBOL(mtree_store_range);

/* Like mtree_store() and mtree_store_range(), but only if all indices are free: -EEXIST if any
 * index has an entry. */
int mtree_insert(struct maple_tree *mt, unsigned long index, void *entry, gfp_t gfp)
	SHEAF_SYMBOL(mtree_insert);
int mtree_insert_range(struct maple_tree *mt, unsigned long first, unsigned long last, void *entry,
		       gfp_t gfp) SHEAF_SYMBOL(mtree_insert_range);

/*
 * Remove the whole range that contains the index. Returns its entry, or NULL if there is none.
 * Cannot fail: nodes are allocated with GFP_NOWAIT, to join leaves, and without memory that is done
 * by a later store. Takes the lock. O(log n).
 */
void *mtree_erase(struct maple_tree *mt, unsigned long index) SHEAF_SYMBOL(mtree_erase);

/*
 * Store an entry at the lowest (rrange: highest) `size` consecutive free indices in min ... max, in
 * a tree with MT_FLAGS_ALLOC_RANGE, and set *startp to the first of them. Return 0, -EBUSY (no such
 * gap), -EINVAL (size is 0 or larger than min ... max; max < min; NULL entry; the tree lacks the
 * flag) or -ENOMEM. Take the lock. O(log n).
 */
int mtree_alloc_range(struct maple_tree *mt, unsigned long *startp, void *entry, unsigned long size,
		      unsigned long min, unsigned long max, gfp_t gfp)
	SHEAF_SYMBOL(mtree_alloc_range);
int mtree_alloc_rrange(struct maple_tree *mt, unsigned long *startp, void *entry,
		       unsigned long size, unsigned long min, unsigned long max, gfp_t gfp)
	SHEAF_SYMBOL(mtree_alloc_rrange);

/*
 * Store an entry at the first free index at or after *next in range_lo ... range_hi; at the end,
 * continue from range_lo. Set *startp to the index, and *next to the index after it. Return 0; 1 if
 * the search wrapped around; or an error of mtree_alloc_range(). Take the lock. O(log n).
 */
int mtree_alloc_cyclic(struct maple_tree *mt, unsigned long *startp, void *entry,
		       unsigned long range_lo, unsigned long range_hi, unsigned long *next,
		       gfp_t gfp) SHEAF_SYMBOL(mtree_alloc_cyclic);

/*
 * Make the empty tree `to` a copy of `from`, with the same entries. Both must have the same flags,
 * else -EINVAL. mtree_dup() takes both locks, the copy's first; for __mt_dup() the caller must hold
 * them. Return 0, or -ENOMEM, and then `to` is empty. O(n); nodes are allocated in bulk.
 */
int mtree_dup(struct maple_tree *from, struct maple_tree *to, gfp_t gfp) SHEAF_SYMBOL(mtree_dup);
int __mt_dup(struct maple_tree *from, struct maple_tree *to, gfp_t gfp) SHEAF_SYMBOL(__mt_dup);

/*
 * Like __mt_dup(), but replace the old entries by new ones, as a fork needs it. copy() is called
 * for each leaf in turn with the leaf's entries: 1 to 16 of them, none NULL, in order. It must put
 * the new entries into the array and return 0, or return a negative error after undoing its own
 * work on this leaf. An error ends the duplication: undo() is called with all new entries, again by
 * leaf but in no order; `to` is empty; and the error is returned. The same happens, with -EINVAL,
 * if copy() stores NULL or a reserved entry (which undo() does not get), or if `ops` is NULL, lacks
 * a function or has an unknown one; and with -ENOMEM if there is no memory for nodes. Neither
 * function may change one of the trees. O(n).
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

/* Remove everything. mtree_destroy() takes the lock; for __mt_destroy() the caller must hold it.
 * The tree can be used again. O(n). */
void mtree_destroy(struct maple_tree *mt) SHEAF_SYMBOL(mtree_destroy);
void __mt_destroy(struct maple_tree *mt) SHEAF_SYMBOL(__mt_destroy);

/*
 * Return the first entry at or after *index, up to max, or NULL, and set *index to the index after
 * its range. mt_find_after() continues a search: it returns NULL if *index is 0, past the end. For
 * readers. O(log n).
 */
void *mt_find(struct maple_tree *mt, unsigned long *index, unsigned long max) SHEAF_SYMBOL(mt_find);
void *mt_find_after(struct maple_tree *mt, unsigned long *index, unsigned long max)
	SHEAF_SYMBOL(mt_find_after);

/* Return the next entry after the range at index, up to max; or the entry before it, down to min;
 * or NULL. For readers. O(log n). */
void *mt_next(struct maple_tree *mt, unsigned long index, unsigned long max) SHEAF_SYMBOL(mt_next);
void *mt_prev(struct maple_tree *mt, unsigned long index, unsigned long min) SHEAF_SYMBOL(mt_prev);

/* Loops assign to the user's own variable: in C++ this takes a cast to its type. */
#ifdef __cplusplus
#define __MT_ENTRY(entry, found) ((entry) = static_cast<__typeof__(entry)>(found))
#else
#define __MT_ENTRY(entry, found) ((entry) = (found))
#endif

/*
 * Iterate over the entries from index (a variable, which changes) up to max, in order. The tree may
 * change meanwhile. entry: a pointer to any type, as for all loops.
 */
#define mt_for_each(tree, entry, index, max)                                                       \
	for (__MT_ENTRY(entry, mt_find((tree), &(index), (max))); (entry);                         \
	     __MT_ENTRY(entry, mt_find_after((tree), &(index), (max))))

/* --- a position in a tree --------------------------------------------------------------------- */

struct maple_node;
struct slab_sheaf;

/* The names of the kernel's public header. */
enum maple_status {
	ma_active,    /* index ... last is a range of the tree: that of an entry, or a whole gap */
	ma_start,     /* nothing looked at yet */
	ma_root,      /* at the entry at index 0, which is the only one and needs no node */
	ma_none,      /* beyond that entry, or in an empty tree: nothing is there */
	ma_pause,     /* the tree may have changed: the next search continues after last */
	ma_overflow,  /* an upward search found nothing more up to its limit */
	ma_underflow, /* a downward search found nothing more down to its limit */
	ma_error,     /* see mas_error() */
};

struct ma_state {
	struct maple_tree *tree;
	unsigned long index, last; /* the range to store, or that was found */
	enum maple_status status;
	/* The rest is private. */
	unsigned int store_type;
	struct maple_node *node; /* the leaf; not NULL only if active */
	void *const *at;	 /* the slot of index ... last in the leaf */
	void *const *stop;	 /* the leaf's last slot */
	uint64_t seen;		 /* the leaf's first word when it was looked at */
	unsigned long min, max;	 /* the indices that the leaf covers */
	uintptr_t parent; /* the node above the leaf; the leaf's slot in it, and its indices */
	unsigned long parent_offset, parent_min, parent_max;
	struct maple_node *prepared; /* the leaf that mas_preallocate() was at */
	struct maple_node *alloc;    /* preallocated: linked nodes, or a sheaf of them */
	struct slab_sheaf *sheaf;
	unsigned long node_request;
	int error;
};

/*
 * A new state. The members that are not set here have no meaning while `node` and `prepared` are
 * NULL; setting them all would cost as much as a search.
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

/* Define a state for the range first ... end: to store there, or to search from first. O(1). */
#define MA_STATE(name, mt, first, end) struct ma_state name = __mas_fresh((mt), (first), (end))

/* As MA_STATE(), for one index. O(1). */
static inline void mas_init(struct ma_state *mas, struct maple_tree *tree, unsigned long index)
{
	*mas = __mas_fresh(tree, index, index);
}

/* Clear the place in the tree; keep index, last and preallocated nodes. O(1). */
static inline void mas_reset(struct ma_state *mas)
{
	mas->status = ma_start;
	mas->node = NULL;
	mas->prepared = NULL;
}

/* Set the range to store, or the index to search from; clear the place in the tree. O(1). */
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

/* Return whether the last call failed, and its error: 0, -ENOMEM, -EINVAL or -EBUSY. O(1). */
static inline bool mas_is_err(const struct ma_state *mas)
{
	return mas->status == ma_error;
}

static inline int mas_error(const struct ma_state *mas)
{
	return mas->status == ma_error ? mas->error : 0;
}

/* Return whether index ... last is a range of the tree: that of an entry, or a whole gap. O(1). */
static inline bool mas_is_active(const struct ma_state *mas)
{
	return mas->status == ma_active;
}

/* Return whether nothing has been looked at yet, as after MA_STATE(), mas_set() and mas_reset().
 * O(1). */
static inline bool mas_is_start(const struct ma_state *mas)
{
	return mas->status == ma_start;
}

/* Return whether mas_pause() was the last call that changed the state. O(1). */
static inline bool mas_is_paused(const struct ma_state *mas)
{
	return mas->status == ma_pause;
}

/* mtree_lock() and mtree_unlock() of the state's tree. */
static inline void mas_lock(struct ma_state *mas)
{
	mtree_lock(mas->tree);
}

static inline void mas_unlock(struct ma_state *mas)
{
	mtree_unlock(mas->tree);
}

/* mas_lock() and mas_unlock(), for kernel code: a thread has no interrupts to switch off. `flags`
 * becomes 0. */
#define mas_lock_irqsave(mas, flags)	  ((void)((flags) = 0), mas_lock(mas))
#define mas_unlock_irqrestore(mas, flags) ((void)(flags), mas_unlock(mas))

/*
 * Call this before leaving the lock or the RCU section. The next mas_find() then continues after
 * last, mas_find_rev() before index, in the tree as it is at that time. O(1).
 */
void mas_pause(struct ma_state *mas) SHEAF_SYMBOL(mas_pause);

/*
 * Return the entry at mas->index, or NULL, and set index ... last to the range of this entry, or to
 * the whole gap. For readers, like all calls down to mas_for_each_rev(). O(log n).
 */
void *mas_walk(struct ma_state *mas) SHEAF_SYMBOL(mas_walk);

/*
 * Return the first entry at or after mas->index; on an active state, the next entry after last. The
 * entry's range must begin at or below max. If there is none, return NULL; index ... last is then
 * the gap that reaches max, and the status is ma_overflow. If the state was already at a range that
 * reaches max, index, last and the status are unchanged. The _range calls also stop at gaps and
 * then return NULL, but not at the gap where the search begins, or continues after a pause. The
 * _rev calls search downwards, to min; if there is no entry, the status is ma_underflow, even if
 * the state was already at a range that reaches min. Typically O(1). If another thread stores a
 * range over the last one returned, that range may be returned, too.
 */
void *mas_find(struct ma_state *mas, unsigned long max) SHEAF_SYMBOL(mas_find);
void *mas_find_range(struct ma_state *mas, unsigned long max) SHEAF_SYMBOL(mas_find_range);
void *mas_find_rev(struct ma_state *mas, unsigned long min) SHEAF_SYMBOL(mas_find_rev);
void *mas_find_range_rev(struct ma_state *mas, unsigned long min) SHEAF_SYMBOL(mas_find_range_rev);

/*
 * Return the next entry after the range at mas->index, up to max; or the entry before it, down to
 * min. At the ends they behave like mas_find_rev(). After mas_next() reached the end (ma_overflow),
 * mas_prev() returns the last entry again, and the other way round. src/states.c of the sources
 * lists what each call does with each status.
 */
void *mas_next(struct ma_state *mas, unsigned long max) SHEAF_SYMBOL(mas_next);
void *mas_next_range(struct ma_state *mas, unsigned long max) SHEAF_SYMBOL(mas_next_range);
void *mas_prev(struct ma_state *mas, unsigned long min) SHEAF_SYMBOL(mas_prev);
void *mas_prev_range(struct ma_state *mas, unsigned long min) SHEAF_SYMBOL(mas_prev_range);

/*
 * The common case of these two, inlined: return the next entry in the state's leaf, if the leaf is
 * unchanged; otherwise NULL, and the state is unchanged. A leaf's first word shows changes; the
 * pivots that end a slot and the previous slot are 15 and 16 words below the slot. With the thread
 * sanitizer the library does this instead, and reports to it that the entry was stored earlier.
 */
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

	if (!mas->node || SHEAF_TSAN)
		return NULL;
	at = mas->at;
	stop = mas->stop;
	start = __MT_AT(__mas_entry, mas->node) + 16;
	if (at == (up ? stop : start))
		return NULL;
	at += up ? 1 : -1;
	entry = __atomic_load_n(at, __ATOMIC_ACQUIRE);
	border = __mas_pivot(at, up ? 16 : 15);
	if (entry) { /* the border may have moved already; the first word changes later */
		if (border != (up ? mas->last : mas->index - 1))
			return NULL;
	} else { /* a gap: the next slot has an entry, or the gap has several slots */
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

/* Iterate over the entries from mas->index up to max (rev: down to min), as by mas_find(). */
#define mas_for_each(mas, entry, max)                                                              \
	while (__MT_ENTRY(entry, __mas_for_each_next((mas), (max))) != NULL)
#define mas_for_each_rev(mas, entry, min)                                                          \
	while (__MT_ENTRY(entry, __mas_for_each_prev((mas), (min))) != NULL)

/*
 * Store an entry at mas->index ... mas->last. mas_store() allocates with GFP_NOWAIT and returns the
 * entry that was at index; mas_error() returns the error. mas_store_gfp() allocates with the flags
 * gfp and returns 0, -EINVAL or -ENOMEM. The store happens completely or not at all. After a store
 * of NULL, index ... last is the whole resulting gap. O(log n), plus O(nodes below) for nodes that
 * the range covers.
 */
void *mas_store(struct ma_state *mas, void *entry) SHEAF_SYMBOL(mas_store);
int mas_store_gfp(struct ma_state *mas, void *entry, gfp_t gfp) SHEAF_SYMBOL(mas_store_gfp);

/*
 * Like mtree_erase(), at mas->index; index ... last becomes the whole resulting gap, or stays if
 * there is no entry.
 */
void *mas_erase(struct ma_state *mas) SHEAF_SYMBOL(mas_erase);

/*
 * Allocate exactly the nodes needed to store this entry, so that mas_store_prealloc() cannot fail
 * if the tree does not change in between. Returns 0, -EINVAL or -ENOMEM. O(log n).
 */
int mas_preallocate(struct ma_state *mas, void *entry, gfp_t gfp) SHEAF_SYMBOL(mas_preallocate);
void mas_store_prealloc(struct ma_state *mas, void *entry) SHEAF_SYMBOL(mas_store_prealloc);

/*
 * Call this after mas_store(). If that failed for lack of memory, release the tree's own lock,
 * allocate the nodes with the flags gfp, take the lock again and return true: the caller should try
 * again. Otherwise, or if there is still no memory, return false. O(missing nodes).
 */
bool mas_nomem(struct ma_state *mas, gfp_t gfp) SHEAF_SYMBOL(mas_nomem);

/*
 * mas_nomem() with GFP_KERNEL | __GFP_NOFAIL: wait until there is memory, without the tree's own
 * lock (one of the caller's stays locked). Returns false only if the store did not fail for lack of
 * memory.
 */
static inline bool mas_nomem_nofail(struct ma_state *mas)
{
	return mas_nomem(mas, GFP_KERNEL | __GFP_NOFAIL);
}

/* Return preallocated nodes. Call this after mas_preallocate() or mas_nomem(). O(preallocated
 * nodes). */
void mas_destroy(struct ma_state *mas) SHEAF_SYMBOL(mas_destroy);

/*
 * Find the lowest (rev: highest) `size` consecutive free indices in min ... max, and set index ...
 * last to them. Returns 0, -EBUSY or -EINVAL, like mtree_alloc_range(). The tree needs
 * MT_FLAGS_ALLOC_RANGE, and the lock must be held as for a store. O(log n), and once more for each
 * leaf whose longest gap was filled since the last search in it.
 */
int mas_empty_area(struct ma_state *mas, unsigned long min, unsigned long max, unsigned long size)
	SHEAF_SYMBOL(mas_empty_area);
int mas_empty_area_rev(struct ma_state *mas, unsigned long min, unsigned long max,
		       unsigned long size) SHEAF_SYMBOL(mas_empty_area_rev);

/* Like mtree_alloc_cyclic(), but the caller must hold the lock. */
int mas_alloc_cyclic(struct ma_state *mas, unsigned long *startp, void *entry,
		     unsigned long range_lo, unsigned long range_hi, unsigned long *next, gfp_t gfp)
	SHEAF_SYMBOL(mas_alloc_cyclic);

/* --- looking at a tree ------------------------------------------------------------------------ */

/*
 * Check the tree's invariants (docs/maple-tree.md). The caller must hold the lock. Returns the
 * number of faults, each of which is reported in one line. O(n).
 */
int mt_validate(struct maple_tree *mt) SHEAF_SYMBOL(mt_validate);

/*
 * Write the tree's nodes to a file descriptor, as text or as an SVG picture. The caller must hold
 * the lock. Return 0 or a negative error number: -ENOMEM, or the error of write(2). Raise no
 * SIGPIPE and no SIGXFSZ. O(n).
 */
int mt_dump(const struct maple_tree *mt, int fd) SHEAF_SYMBOL(mt_dump);
int mt_dump_svg(const struct maple_tree *mt, int fd) SHEAF_SYMBOL(mt_dump_svg);

/* Write a state to a file descriptor, as one line of text. Returns like mt_dump(). O(preallocated
 * nodes). */
int mas_dump(const struct ma_state *mas, int fd) SHEAF_SYMBOL(mas_dump);

/* kmem_cache_shrink() of the cache of nodes, which all trees share. */
void mt_cache_shrink(void) SHEAF_SYMBOL(mt_cache_shrink);

#ifdef __cplusplus
}
#endif

#endif
