/* SPDX-License-Identifier: MIT */
/*
 * The readers' calls that search. Where a call begins depends on how the previous one ended.
 *
 *     status      index ... last                         mas_find()            mas_next()
 *     start       where to search from                   looks there           continues after it
 *     active      a range of the tree, entry or gap      continues after it    the same
 *     root        0 ... 0, and no node is in the tree    continues after it    the same
 *     none        outside of a tree without nodes        looks there           continues after it
 *     pause       as it was when the state was paused    looks after it        continues after it
 *     overflow    the range that reaches the limit       looks there           continues after it
 *     underflow   the same, downwards                    looks there           looks there
 *     error       any                                    NULL                  NULL
 *
 * The calls downwards are the same with the ends exchanged, but mas_find_rev() also continues from
 * the place of an overflow or underflow. "Looks" means: find the entry that is there, or continue
 * from the gap that is there. So the calls that stop at gaps do not stop at the gap where the
 * search begins, only at later ones.
 *
 * If a state has reached the limit, mas_find() does not change it; the other calls make it overflow
 * or underflow.
 *
 * Called with the lock, or in an RCU read-side section.
 */
#include "tree.h"

/* Nothing is at the index: go from that gap to the next entry. */
static __attribute__((noinline)) void *go_on_from_gap(struct ma_state *mas, unsigned long limit,
						      bool up)
{
	mas_widen_after(mas);
	mas_widen_before(mas);
	if (mas_is_outside(mas, up))
		return NULL;
	if (mas_at_limit(mas, limit, up))
		return mas_ended(mas, up ? ma_overflow : ma_underflow);
	return up ? mas_up(mas, limit) : mas_down(mas, limit);
}

static inline __attribute__((always_inline)) void *
look_at(struct ma_state *mas, unsigned long index, unsigned long limit, bool up)
{
	void *entry = mas_descend(mas, index);

	if (!entry)
		entry = mas_step(mas, limit, up);
	return entry ? entry : go_on_from_gap(mas, limit, up);
}

/* --- find ------------------------------------------------------------------------------------ */

/* From any status but active and root. */
static __attribute__((noinline)) void *find_up(struct ma_state *mas, unsigned long max)
{
	switch (mas->status) {
	case ma_start:
		return mas->index <= max ? look_at(mas, mas->index, max, true) : NULL;
	case ma_none:
		return mas->last < max ? look_at(mas, mas->last, max, true) : NULL;
	case ma_pause:
		return mas->last < max ? look_at(mas, mas->last + 1, max, true) : NULL;
	case ma_overflow:
		return mas->last < max ? look_at(mas, mas->index, max, true) : NULL;
	case ma_underflow:
		return mas->index < max ? look_at(mas, mas->index, max, true)
					: mas_ended(mas, ma_overflow);
	default:
		return NULL;
	}
}

static __attribute__((noinline)) void *find_down(struct ma_state *mas, unsigned long min)
{
	switch (mas->status) {
	case ma_root:
		return mas_ended(mas, ma_none);
	case ma_start:
		return mas->index >= min ? look_at(mas, mas->index, min, false) : NULL;
	case ma_none:
		return mas->index > min ? look_at(mas, mas->index, min, false) : NULL;
	case ma_pause:
		return mas->index > min ? look_at(mas, mas->index - 1, min, false)
					: mas_ended(mas, ma_underflow);
	default:
		return NULL;
	}
}

static inline bool goes_up(const struct ma_state *mas)
{
	return mas->node || mas->status == ma_active || mas->status == ma_root;
}

static inline bool goes_down(const struct ma_state *mas)
{
	return mas->node || mas->status == ma_active || mas->status == ma_overflow ||
	       mas->status == ma_underflow;
}

SHEAF_PUBLIC void *mas_find(struct ma_state *mas, unsigned long max)
{
	void *entry = mas_step(mas, max, true);

	if (likely(entry))
		return entry;
	if (goes_up(mas))
		return mas->last < max ? mas_up(mas, max) : NULL;
	return find_up(mas, max);
}

SHEAF_PUBLIC void *mas_find_range(struct ma_state *mas, unsigned long max)
{
	if (goes_up(mas))
		return mas->last < max ? mas_up_range(mas, max) : NULL;
	return find_up(mas, max);
}

SHEAF_PUBLIC void *mas_find_rev(struct ma_state *mas, unsigned long min)
{
	void *entry = mas_step(mas, min, false);

	if (likely(entry))
		return entry;
	return goes_down(mas) ? mas_down(mas, min) : find_down(mas, min);
}

SHEAF_PUBLIC void *mas_find_range_rev(struct ma_state *mas, unsigned long min)
{
	return goes_down(mas) ? mas_down_range(mas, min) : find_down(mas, min);
}

/* --- next, previous -------------------------------------------------------------------------- */

/*
 * Move to a range of the tree from which to continue. Returns false if the call ends here with the
 * result: the entry there, if the last call ended on the other side.
 */
static __attribute__((noinline)) bool stand(struct ma_state *mas, unsigned long limit, bool up,
					    void **result)
{
	enum maple_status before = mas->status;
	void *entry;

	*result = NULL;
	if (before == ma_error)
		return false;
	if (mas_at_limit(mas, limit, up)) {
		mas_ended(mas, up ? ma_overflow : ma_underflow);
		return false;
	}
	if (before == ma_active || before == ma_root || before == (up ? ma_overflow : ma_underflow))
		return true;
	entry = mas_walk(mas);
	if (!entry)
		return !mas_is_outside(mas, up);
	if (before != (up ? ma_underflow : ma_overflow))
		return true;
	*result = entry;
	return false;
}

SHEAF_PUBLIC void *mas_next(struct ma_state *mas, unsigned long max)
{
	void *entry;

	if (unlikely(!mas->node) && !stand(mas, max, true, &entry))
		return entry;
	entry = mas_step(mas, max, true);
	return likely(entry) ? entry : mas_up(mas, max);
}

SHEAF_PUBLIC void *mas_next_range(struct ma_state *mas, unsigned long max)
{
	void *entry;

	if (!mas->node && !stand(mas, max, true, &entry))
		return entry;
	return mas_up_range(mas, max);
}

SHEAF_PUBLIC void *mas_prev(struct ma_state *mas, unsigned long min)
{
	void *entry;

	if (unlikely(!mas->node) && !stand(mas, min, false, &entry))
		return entry;
	entry = mas_step(mas, min, false);
	return likely(entry) ? entry : mas_down(mas, min);
}

SHEAF_PUBLIC void *mas_prev_range(struct ma_state *mas, unsigned long min)
{
	void *entry;

	if (!mas->node && !stand(mas, min, false, &entry))
		return entry;
	return mas_down_range(mas, min);
}

SHEAF_PUBLIC void mas_pause(struct ma_state *mas)
{
	mas_reset(mas);
	mas->status = ma_pause;
}
