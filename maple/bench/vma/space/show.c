/* SPDX-License-Identifier: MIT */
/* Print and check a space. The caller holds its lock, or is the one thread that changes it. */
#include <limits.h>

#include "internal.h"

void space_print(struct space *space, FILE *out)
{
	MA_STATE(mas, &space->tree, 0, 0);
	const struct vma *vma;

	mas_for_each(&mas, vma, ULONG_MAX)
	{
		fprintf(out, "%012lx-%012lx %c%c%c%c %08lx", vma->start, vma->end,
			vma->flags & VMA_READ ? 'r' : '-', vma->flags & VMA_WRITE ? 'w' : '-',
			vma->flags & VMA_EXEC ? 'x' : '-', vma->flags & VMA_SHARED ? 's' : 'p',
			vma->page * SPACE_PAGE);
		if (vma->file)
			fprintf(out, " file %lu", vma->file);
		else if (vma->start < space->brk && vma->end > space->brk_start)
			fprintf(out, " [heap]");
		fputc('\n', out);
	}
}

static int fault(const char *what, const struct vma *vma)
{
	fprintf(stderr, "address space: %s: VMA %p, %lx-%lx\n", what, (const void *)vma, vma->start,
		vma->end);
	return 1;
}

int space_validate(struct space *space, bool split)
{
	MA_STATE(mas, &space->tree, 0, 0);
	const struct vma *vma, *before = NULL;
	unsigned long vmas = 0, pages = 0;
	int faults = mt_validate(&space->tree);

	mas_for_each(&mas, vma, ULONG_MAX)
	{
		if (mas.index != vma->start || mas.last != vma->end - 1)
			faults += fault("other range than in the tree", vma);
		if (!space_has_range(space, vma->start, vma->end - vma->start))
			faults += fault("not in the space", vma);
		if (vma->space != space)
			faults += fault("of another space", vma);
		if (!split && before && before->end == vma->start &&
		    vma_is_alike(before, vma, vma->start))
			faults += fault("not joined with the one before", vma);
		before = vma;
		vmas++;
		pages += (vma->end - vma->start) / SPACE_PAGE;
	}
	if (vmas != space->vmas || pages != space->pages) {
		fprintf(stderr, "address space: %lu VMAs, %lu pages; counted %lu, %lu\n", vmas,
			pages, space->vmas, space->pages);
		faults++;
	}
	return faults;
}
