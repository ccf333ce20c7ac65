/* SPDX-License-Identifier: MIT */
/*
 * Protection and the heap.
 *
 * One store protects a range within one VMA. A range over several VMAs is first split at both its
 * ends. Then other VMAs replace those in it, which takes no node and so cannot stop half-way.
 * Finally neighbours that became alike are joined, as far as there is memory.
 */
#include <errno.h>

#include "internal.h"

#define ACCESS (VMA_READ | VMA_WRITE | VMA_EXEC)

/* The number of VMAs in a range, or 0 if not all of it is mapped. */
static unsigned long mapped_in(struct space *space, unsigned long start, unsigned long end)
{
	MA_STATE(mas, &space->tree, start, start);
	unsigned long n = 0, at = start;
	struct vma *vma;

	mas_for_each(&mas, vma, end - 1)
	{
		if (vma->start > at)
			return 0;
		at = vma->end;
		n++;
	}
	return at >= end ? n : 0;
}

static int protect_one(struct space *space, unsigned long start, unsigned long end,
		       unsigned long flags)
{
	const struct vma *vma = mtree_load(&space->tree, start);
	struct vma *piece;

	if ((vma->flags & ACCESS) == flags)
		return 0;
	piece = vma_copy_part(vma, start, end);
	if (!piece)
		return -ENOMEM;
	piece->flags = (piece->flags & ~(unsigned long)ACCESS) | flags;
	return space_put_merged(space, piece);
}

/* Let a VMA begin at the address. */
static int make_border(struct space *space, unsigned long at)
{
	const struct vma *vma = mtree_load(&space->tree, at);
	struct vma *piece;

	if (!vma || vma->start == at)
		return 0;
	piece = vma_copy_part(vma, at, vma->end);
	if (!piece)
		return -ENOMEM;
	if (space_put(space, at, piece->end, piece)) {
		vma_free(piece);
		return -ENOMEM;
	}
	return 0;
}

/* Join the VMA that begins at the address with the one that ends there. If that is not possible, it
 * is no failure. */
static void remove_border(struct space *space, unsigned long at)
{
	const struct vma *vma = mtree_load(&space->tree, at);
	struct vma *piece;

	if (!vma || vma->start != at || !mtree_load(&space->tree, at - 1))
		return;
	if (!vma_is_alike(mtree_load(&space->tree, at - 1), vma, at))
		return;
	piece = vma_copy_part(vma, at, vma->end);
	if (piece)
		(void)space_put_merged(space, piece);
}

/* Allocate new VMAs for all of a range that begins and ends at borders, linked by next; NULL if
 * there is no memory. */
static struct vma *changed_copies(struct space *space, unsigned long start, unsigned long end,
				  unsigned long flags)
{
	MA_STATE(mas, &space->tree, start, start);
	struct vma *vma, *copies = NULL;

	mas_for_each(&mas, vma, end - 1)
	{
		struct vma *copy = vma_copy_part(vma, vma->start, vma->end);

		if (!copy) {
			while (copies) {
				copy = copies;
				copies = copy->next;
				vma_free(copy);
			}
			return NULL;
		}
		copy->flags = (copy->flags & ~(unsigned long)ACCESS) | flags;
		copy->next = copies;
		copies = copy;
	}
	return copies;
}

static void remove_borders(struct space *space, unsigned long start, unsigned long end)
{
	for (unsigned long at = start; at <= end;) {
		const struct vma *vma;

		remove_border(space, at);
		vma = mtree_load(&space->tree, at);
		if (!vma)
			break;
		at = vma->end;
	}
}

static int protect_several(struct space *space, unsigned long start, unsigned long end,
			   unsigned long flags)
{
	struct vma *copies = NULL, *old;
	int error = make_border(space, start);

	if (!error)
		error = make_border(space, end);
	if (!error) {
		copies = changed_copies(space, start, end, flags);
		error = copies ? 0 : -ENOMEM;
	}
	while (copies) {
		struct vma *copy = copies;

		copies = copy->next;
		old = mtree_load(&space->tree, copy->start);
		space_exchange(space, copy);
		vma_retire(old);
	}
	remove_borders(space, start, end);
	return error;
}

int space_protect(struct space *space, unsigned long start, unsigned long length,
		  unsigned long flags)
{
	unsigned long n;

	if (!space_has_range(space, start, length) || flags & ~(unsigned long)ACCESS)
		return -EINVAL;
	n = mapped_in(space, start, start + length);
	if (n == 0)
		return -ENOMEM;
	if (n == 1)
		return protect_one(space, start, start + length, flags);
	return protect_several(space, start, start + length, flags);
}

/* --- the heap --------------------------------------------------------------------------------- */

void space_set_brk(struct space *space, unsigned long start)
{
	space->brk_start = space->brk = start;
}

static unsigned long whole_pages(unsigned long address)
{
	return (address + SPACE_PAGE - 1) & -SPACE_PAGE;
}

static int grow_heap(struct space *space, unsigned long from, unsigned long to)
{
	struct space_request heap = {
		.address = from, .length = to - from, .flags = VMA_READ | VMA_WRITE, .fixed = true};
	unsigned long at = from;
	long address;

	if (mt_find(&space->tree, &at, to - 1))
		return -ENOMEM;
	address = space_map(space, &heap);
	return address < 0 ? (int)address : 0;
}

long space_brk(struct space *space, unsigned long end)
{
	unsigned long from = whole_pages(space->brk), to = whole_pages(end);
	int error = 0;

	if (end < space->brk_start)
		return (long)space->brk;
	if (end > space->high)
		return -ENOMEM;
	if (to > from)
		error = grow_heap(space, from, to);
	else if (to < from)
		error = space_unmap(space, to, from - to);
	if (error)
		return error;
	space->brk = end;
	return (long)end;
}
