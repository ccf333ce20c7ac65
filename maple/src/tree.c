/* SPDX-License-Identifier: MIT */
/*
 * The calls without an ma_state: they take the tree's lock, make a state and use the mas_ calls.
 * With MT_FLAGS_LOCK_EXTERN the caller holds its own lock, and no lock is taken here.
 */
#include <errno.h>
#include <pthread.h>

#include "tree.h"

/* Zeros are PTHREAD_MUTEX_INITIALIZER: tests/tree/words.c. */
_Static_assert(sizeof(pthread_mutex_t) <= sizeof(((struct maple_tree *)NULL)->ma_lock) &&
		       _Alignof(pthread_mutex_t) <= _Alignof(unsigned long),
	       "a mutex fits the tree's words for it");

static pthread_mutex_t *mutex_of(struct maple_tree *mt)
{
	return (pthread_mutex_t *)mt->ma_lock;
}

/* --- the tree -------------------------------------------------------------------------------- */

SHEAF_PUBLIC void mt_init_flags(struct maple_tree *mt, unsigned int flags)
{
	mt->ma_root = NULL;
	mt->__ma_unjoined = 0;
	mt->ma_flags = flags;
	mt->ma_external_lock = NULL;
	pthread_mutex_init(mutex_of(mt), NULL);
}

SHEAF_PUBLIC void mt_init(struct maple_tree *mt)
{
	mt_init_flags(mt, 0);
}

SHEAF_PUBLIC void mtree_lock(struct maple_tree *mt)
{
	pthread_mutex_lock(mutex_of(mt));
	mt->ma_owner = (uintptr_t)pthread_self();
}

SHEAF_PUBLIC void mtree_unlock(struct maple_tree *mt)
{
	mt->ma_owner = 0;
	pthread_mutex_unlock(mutex_of(mt));
}

static void lock(struct maple_tree *mt)
{
	if (!mt_external_lock(mt))
		mtree_lock(mt);
}

static void unlock(struct maple_tree *mt)
{
	if (!mt_external_lock(mt))
		mtree_unlock(mt);
}

SHEAF_PUBLIC void mt_set_in_rcu(struct maple_tree *mt)
{
	mt->ma_flags |= MT_FLAGS_USE_RCU;
}

SHEAF_PUBLIC void mt_clear_in_rcu(struct maple_tree *mt)
{
	mt->ma_flags &= ~MT_FLAGS_USE_RCU;
}

SHEAF_PUBLIC bool mt_in_rcu(const struct maple_tree *mt)
{
	return in_rcu(mt);
}

SHEAF_PUBLIC bool mt_external_lock(const struct maple_tree *mt)
{
	return (mt->ma_flags & MT_FLAGS_LOCK_MASK) == MT_FLAGS_LOCK_EXTERN;
}

SHEAF_PUBLIC void mt_set_external_lock(struct maple_tree *mt, void *mutex)
{
	if (mt_external_lock(mt))
		mt->ma_external_lock = mutex;
	else
		say("libsheaf: mt_set_external_lock: maple tree %p has a lock of its own; make "
		    "it with MT_FLAGS_LOCK_EXTERN",
		    (void *)mt);
}

SHEAF_PUBLIC bool mtree_empty(const struct maple_tree *mt)
{
	return !load_relaxed(&mt->ma_root);
}

SHEAF_PUBLIC unsigned int mt_height(const struct maple_tree *mt)
{
	const void *root = load_relaxed(&mt->ma_root);

	return is_node(root) ? level_of((enode_t)root) + 1 : 0;
}

/* --- stores ---------------------------------------------------------------------------------- */

SHEAF_PUBLIC int mtree_store_range(struct maple_tree *mt, unsigned long first, unsigned long last,
				   void *entry, gfp_t gfp)
{
	MA_STATE(mas, mt, first, last);
	int error;

	lock(mt);
	error = mas_store_gfp(&mas, entry, gfp);
	unlock(mt);
	return error;
}

SHEAF_PUBLIC int mtree_store(struct maple_tree *mt, unsigned long index, void *entry, gfp_t gfp)
{
	return mtree_store_range(mt, index, index, entry, gfp);
}

/* Store only where nothing is stored yet. The lock is held. */
static int insert(struct maple_tree *mt, unsigned long first, unsigned long last, void *entry,
		  gfp_t gfp)
{
	MA_STATE(mas, mt, first, first);

	if (first > last || is_reserved(entry))
		return -EINVAL;
	if (mas_descend(&mas, first) || (mas.last < last && mas_find(&mas, last)))
		return -EEXIST;
	mas.index = first;
	mas.last = last;
	return mas_store_gfp(&mas, entry, gfp);
}

SHEAF_PUBLIC int mtree_insert_range(struct maple_tree *mt, unsigned long first, unsigned long last,
				    void *entry, gfp_t gfp)
{
	int error;

	lock(mt);
	error = insert(mt, first, last, entry, gfp);
	unlock(mt);
	return error;
}

SHEAF_PUBLIC int mtree_insert(struct maple_tree *mt, unsigned long index, void *entry, gfp_t gfp)
{
	return mtree_insert_range(mt, index, index, entry, gfp);
}

SHEAF_PUBLIC void *mtree_erase(struct maple_tree *mt, unsigned long index)
{
	MA_STATE(mas, mt, index, index);
	void *entry;

	lock(mt);
	entry = mas_erase(&mas);
	unlock(mt);
	return entry;
}

/* --- free indices ---------------------------------------------------------------------------- */

typedef int area_call(struct ma_state *mas, unsigned long min, unsigned long max,
		      unsigned long size);

static int alloc_area(struct maple_tree *mt, area_call *find, unsigned long *startp, void *entry,
		      unsigned long size, unsigned long min, unsigned long max, gfp_t gfp)
{
	MA_STATE(mas, mt, 0, 0);
	int error;

	if (!entry)
		return -EINVAL;
	lock(mt);
	error = find(&mas, min, max, size);
	if (!error)
		error = mas_store_gfp(&mas, entry, gfp);
	if (!error)
		*startp = mas.index;
	unlock(mt);
	return error;
}

SHEAF_PUBLIC int mtree_alloc_range(struct maple_tree *mt, unsigned long *startp, void *entry,
				   unsigned long size, unsigned long min, unsigned long max,
				   gfp_t gfp)
{
	return alloc_area(mt, mas_empty_area, startp, entry, size, min, max, gfp);
}

SHEAF_PUBLIC int mtree_alloc_rrange(struct maple_tree *mt, unsigned long *startp, void *entry,
				    unsigned long size, unsigned long min, unsigned long max,
				    gfp_t gfp)
{
	return alloc_area(mt, mas_empty_area_rev, startp, entry, size, min, max, gfp);
}

SHEAF_PUBLIC int mas_alloc_cyclic(struct ma_state *mas, unsigned long *startp, void *entry,
				  unsigned long range_lo, unsigned long range_hi,
				  unsigned long *next, gfp_t gfp)
{
	unsigned long from = *next > range_lo ? *next : range_lo;
	struct maple_tree *mt = mas->tree;
	bool wrapped = mt->ma_flags & MT_FLAGS_ALLOC_WRAPPED;
	int error = -EBUSY;

	if (!entry || range_lo > range_hi)
		return -EINVAL;
	if (from <= range_hi)
		error = mas_empty_area(mas, from, range_hi, 1);
	if (error == -EBUSY && from > range_lo) {
		wrapped = true;
		error = mas_empty_area(mas, range_lo, from - 1 < range_hi ? from - 1 : range_hi, 1);
	}
	if (!error)
		error = mas_store_gfp(mas, entry, gfp);
	if (error)
		return error;
	*startp = mas->index;
	*next = mas->index + 1;
	mt->ma_flags &= ~MT_FLAGS_ALLOC_WRAPPED;
	if (*next == 0)
		mt->ma_flags |= MT_FLAGS_ALLOC_WRAPPED;
	return wrapped;
}

SHEAF_PUBLIC int mtree_alloc_cyclic(struct maple_tree *mt, unsigned long *startp, void *entry,
				    unsigned long range_lo, unsigned long range_hi,
				    unsigned long *next, gfp_t gfp)
{
	MA_STATE(mas, mt, 0, 0);
	int result;

	lock(mt);
	result = mas_alloc_cyclic(&mas, startp, entry, range_lo, range_hi, next, gfp);
	unlock(mt);
	return result;
}

/* --- searches -------------------------------------------------------------------------------- */

SHEAF_PUBLIC void *mt_find(struct maple_tree *mt, unsigned long *index, unsigned long max)
{
	MA_STATE(mas, mt, *index, *index);
	void *entry;

	do
		entry = mas_find(&mas, max);
	while (unlikely(xa_is_zero(entry)));
	if (entry)
		*index = mas.last + 1;
	return entry;
}

SHEAF_PUBLIC void *mt_find_after(struct maple_tree *mt, unsigned long *index, unsigned long max)
{
	return *index ? mt_find(mt, index, max) : NULL;
}

SHEAF_PUBLIC void *mt_next(struct maple_tree *mt, unsigned long index, unsigned long max)
{
	MA_STATE(mas, mt, index, index);

	return mas_next(&mas, max);
}

SHEAF_PUBLIC void *mt_prev(struct maple_tree *mt, unsigned long index, unsigned long min)
{
	MA_STATE(mas, mt, index, index);

	return mas_prev(&mas, min);
}
