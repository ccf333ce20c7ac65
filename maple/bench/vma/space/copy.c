/* SPDX-License-Identifier: MIT */
/*
 * Whole spaces: copied, replaced, destroyed. Their nodes and VMAs are allocated and freed in bulk.
 * No thread reads a space that is not ready yet or no longer in use, so there is no grace period to
 * wait for.
 */
#include <errno.h>
#include <limits.h>

#include "internal.h"

#define BULK	     32u
#define LEAF_ENTRIES 16u /* that a leaf of a maple tree has at most */

/* --- destroy ---------------------------------------------------------------------------------- */

void space_destroy(struct space *space)
{
	MA_STATE(mas, &space->tree, 0, 0);
	void *vmas[BULK];
	struct vma *vma;
	unsigned int n = 0;

	mt_clear_in_rcu(&space->tree);
	mas_for_each(&mas, vma, ULONG_MAX)
	{
		vmas[n++] = vma;
		if (n == BULK) {
			vma_free_bulk(n, vmas);
			n = 0;
		}
	}
	vma_free_bulk(n, vmas);
	__mt_destroy(&space->tree);
	mt_set_in_rcu(&space->tree);
	space->vmas = space->pages = 0;
	space_set_brk(space, space->low);
}

/* --- fork ------------------------------------------------------------------------------------- */

/* Replace another space's VMAs by new ones, for one leaf of the tree at a time. */
static int copy_entries(void **entries, unsigned int n, void *to)
{
	void *fresh[LEAF_ENTRIES];

	if (vma_alloc_bulk(n, fresh))
		return -ENOMEM;
	for (unsigned int i = 0; i < n; i++) {
		struct vma *vma = fresh[i];

		*vma = *(const struct vma *)entries[i];
		vma->space = to;
		entries[i] = vma;
	}
	return 0;
}

static void free_entries(void **entries, unsigned int n, void *to)
{
	(void)to;
	vma_free_bulk(n, entries);
}

int space_fork(struct space *to, struct space *from)
{
	static const struct mt_dup_ops own_vmas = {copy_entries, free_entries};

	space_init(to, from->low, from->high);
	if (__mt_dup_each(&from->tree, &to->tree, &own_vmas, to, GFP_KERNEL))
		return -ENOMEM;
	to->vmas = from->vmas;
	to->pages = from->pages;
	to->brk_start = from->brk_start;
	to->brk = from->brk;
	return 0;
}

/* --- exec ------------------------------------------------------------------------------------- */

int space_exec(struct space *fresh, struct space *old, const struct space_request *image,
	       unsigned int n)
{
	space_init(fresh, old->low, old->high);
	mt_clear_in_rcu(&fresh->tree);
	for (unsigned int i = 0; i < n; i++) {
		long address = space_map(fresh, &image[i]);

		if (address < 0) {
			space_destroy(fresh);
			return (int)address;
		}
	}
	mt_set_in_rcu(&fresh->tree);
	space_destroy(old);
	return 0;
}
