/* SPDX-License-Identifier: MIT */
/*
 * Map and unmap. Every change of a space is one store of one range, space_put():
 *
 *     before      | NULL |      A      | B |    C     |        put P here: [-----]
 *     prepared                                               A' = the left part of A,
 *                                                            C' = the right part of C
 *     the store   | NULL |  A  |    P    |   C   |           its nodes are in hand: cannot fail
 *     exchanged   | NULL |  A' |    P    |   C'  |           same ranges: takes no node
 *     retired       A, B, C
 *
 * Between these steps a reader finds A for an address of A', with the same content.
 */
#include "internal.h"

#include <errno.h>

#define TREE_FLAGS (MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU | MT_FLAGS_LOCK_EXTERN)

void space_init(struct space *space, unsigned long low, unsigned long high)
{
	mt_init_flags(&space->tree, TREE_FLAGS);
	space->low = low;
	space->high = high;
	space->vmas = space->pages = 0;
	space_set_brk(space, low);
}

bool space_has_range(const struct space *space, unsigned long start, unsigned long length)
{
	return length && !((start | length) % SPACE_PAGE) && start >= space->low &&
	       start < space->high && length <= space->high - start;
}

static unsigned long pages_of(const struct vma *vma)
{
	return (vma->end - vma->start) / SPACE_PAGE;
}

/* --- the one change -------------------------------------------------------------------------- */

/* What a store covers. */
struct cut {
	struct vma *replaced;	  /* linked by next */
	struct vma *left, *right; /* what stays of the outermost ones, or NULL */
};

static void find_replaced(struct space *space, unsigned long start, unsigned long end,
			  struct cut *cut, struct vma **first, struct vma **last)
{
	MA_STATE(mas, &space->tree, start, start);
	struct vma *vma;

	*first = *last = NULL;
	mas_for_each(&mas, vma, end - 1)
	{
		if (!*first)
			*first = vma;
		*last = vma;
		vma->next = cut->replaced;
		cut->replaced = vma;
	}
}

static int prepare_cut(struct space *space, unsigned long start, unsigned long end, struct cut *cut)
{
	struct vma *first, *last;

	find_replaced(space, start, end, cut, &first, &last);
	if (first && first->start < start) {
		cut->left = vma_copy_part(first, first->start, start);
		if (!cut->left)
			return -ENOMEM;
	}
	if (last && last->end > end) {
		cut->right = vma_copy_part(last, end, last->end);
		if (!cut->right)
			return -ENOMEM;
	}
	return 0;
}

static void drop_cut(struct cut *cut)
{
	if (cut->left)
		vma_free(cut->left);
	if (cut->right)
		vma_free(cut->right);
}

void space_exchange(struct space *space, struct vma *vma)
{
	MA_STATE(mas, &space->tree, vma->start, vma->end - 1);

	mas_store_gfp(&mas, vma, GFP_NOWAIT);
}

static void count(struct space *space, const struct vma *vma, unsigned long one)
{
	space->vmas += one;
	space->pages += one * pages_of(vma);
}

static void finish_cut(struct space *space, struct cut *cut)
{
	if (cut->left) {
		space_exchange(space, cut->left);
		count(space, cut->left, 1);
	}
	if (cut->right) {
		space_exchange(space, cut->right);
		count(space, cut->right, 1);
	}
	while (cut->replaced) {
		struct vma *vma = cut->replaced;

		cut->replaced = vma->next;
		count(space, vma, -1ul);
		vma_retire(vma);
	}
}

int space_put(struct space *space, unsigned long start, unsigned long end, struct vma *piece)
{
	MA_STATE(mas, &space->tree, start, end - 1);
	struct cut cut = {NULL, NULL, NULL};

	if (prepare_cut(space, start, end, &cut)) {
		drop_cut(&cut);
		return -ENOMEM;
	}
	if (!piece && !cut.replaced)
		return 0;
	if (mas_preallocate(&mas, piece, GFP_KERNEL)) {
		drop_cut(&cut);
		return -ENOMEM;
	}
	mas_store_prealloc(&mas, piece);
	if (piece)
		count(space, piece, 1);
	finish_cut(space, &cut);
	return 0;
}

/* --- neighbours of the same kind -------------------------------------------------------------- */

bool vma_is_alike(const struct vma *vma, const struct vma *piece, unsigned long at)
{
	if (!vma || vma->flags != piece->flags || vma->file != piece->file)
		return false;
	return !vma->file || vma->page + (at - vma->start) / SPACE_PAGE ==
				     piece->page + (at - piece->start) / SPACE_PAGE;
}

int space_put_merged(struct space *space, struct vma *piece)
{
	const struct vma *before = mtree_load(&space->tree, piece->start - 1);
	const struct vma *after = mtree_load(&space->tree, piece->end);

	if (vma_is_alike(after, piece, piece->end))
		piece->end = after->end;
	if (vma_is_alike(before, piece, piece->start)) {
		piece->start = before->start;
		piece->page = before->page;
	}
	if (space_put(space, piece->start, piece->end, piece)) {
		vma_free(piece);
		return -ENOMEM;
	}
	return 0;
}

/* --- calls ------------------------------------------------------------------------------------ */

/* Where a mapping that is not fixed goes. */
static long find_address(struct space *space, const struct space_request *request)
{
	MA_STATE(mas, &space->tree, 0, 0);
	unsigned long wish = request->address;

	if (wish && space_has_range(space, wish, request->length)) {
		mas_set(&mas, wish);
		if (!mas_find(&mas, wish + request->length - 1))
			return (long)wish;
		mas_reset(&mas);
	}
	if (mas_empty_area_rev(&mas, space->low, space->high - 1, request->length))
		return -ENOMEM;
	return (long)mas.index;
}

long space_map(struct space *space, const struct space_request *request)
{
	struct vma *vma;
	long address = (long)request->address;

	if (!request->length || request->length % SPACE_PAGE || request->address % SPACE_PAGE)
		return -EINVAL;
	if (!request->fixed)
		address = find_address(space, request);
	else if (!space_has_range(space, request->address, request->length))
		return -ENOMEM;
	if (address < 0)
		return address;
	vma = vma_alloc();
	if (!vma)
		return -ENOMEM;
	*vma = (struct vma){.start = (unsigned long)address,
			    .end = (unsigned long)address + request->length,
			    .flags = request->flags,
			    .file = request->file,
			    .page = request->file ? request->page : 0,
			    .space = space};
	return space_put_merged(space, vma) ? -ENOMEM : address;
}

int space_unmap(struct space *space, unsigned long start, unsigned long length)
{
	if (!space_has_range(space, start, length))
		return -EINVAL;
	return space_put(space, start, start + length, NULL);
}

const struct vma *space_fault(struct space *space, unsigned long address)
{
	return mtree_load(&space->tree, address);
}
