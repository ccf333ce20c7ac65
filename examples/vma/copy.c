/* SPDX-License-Identifier: MIT */
/*
 * Whole spaces: copied, replaced, destroyed. Their nodes and VMAs come and go in bulk, for nobody reads
 * a space that is not ready yet, or not in use any more: there is no grace period to wait for.
 */
#include <errno.h>
#include <limits.h>

#include "internal.h"

#define BULK 32u

/* --- destroy ---------------------------------------------------------------------------------- */

/* Free the first n VMAs, then the tree. */
static void free_all(struct space *space, unsigned long n)
{
	MA_STATE(mas, &space->tree, 0, 0);
	struct vma *vmas[BULK];
	unsigned int k = 0;

	mt_clear_in_rcu(&space->tree);
	while (n-- > 0) {
		vmas[k++] = mas_find(&mas, ULONG_MAX);
		if (k == BULK || n == 0) {
			vma_free_bulk(k, vmas);
			k = 0;
		}
	}
	__mt_destroy(&space->tree);
	mt_set_in_rcu(&space->tree);
	space->vmas = space->pages = 0;
}

void space_destroy(struct space *space)
{
	free_all(space, space->vmas);
	space_set_brk(space, space->low);
}

/* --- fork ------------------------------------------------------------------------------------- */

/* Put own VMAs in the place of another space's. On failure *done of them are own. */
static int own_vmas(struct space *space, unsigned long *done)
{
	MA_STATE(mas, &space->tree, 0, 0);
	struct vma *fresh[BULK], *vma;
	unsigned int left = 0;

	mas_for_each(&mas, vma, ULONG_MAX)
	{
		if (left == 0) {
			unsigned long n = space->vmas - *done;

			left = n < BULK ? (unsigned int)n : BULK;
			if (vma_alloc_bulk(left, fresh))
				return -ENOMEM;
		}
		*fresh[--left] = *vma;
		fresh[left]->space = space;
		mas_store_gfp(&mas, fresh[left], GFP_NOWAIT);
		++*done;
	}
	return 0;
}

int space_fork(struct space *to, struct space *from)
{
	unsigned long done = 0;

	space_init(to, from->low, from->high);
	if (__mt_dup(&from->tree, &to->tree, GFP_KERNEL))
		return -ENOMEM;
	to->vmas = from->vmas;
	to->pages = from->pages;
	to->brk_start = from->brk_start;
	to->brk = from->brk;
	mt_clear_in_rcu(&to->tree);
	if (own_vmas(to, &done)) {
		free_all(to, done);
		return -ENOMEM;
	}
	mt_set_in_rcu(&to->tree);
	return 0;
}

/* --- exec ------------------------------------------------------------------------------------- */

int space_exec(struct space *fresh, struct space *old, const struct space_request *image,
	       unsigned int n)
{
	space_init(fresh, old->low, old->high);
	for (unsigned int i = 0; i < n; i++) {
		long address = space_map(fresh, &image[i]);

		if (address < 0) {
			space_destroy(fresh);
			return (int)address;
		}
	}
	space_destroy(old);
	return 0;
}
