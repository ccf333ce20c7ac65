/* SPDX-License-Identifier: MIT */
/* A node's full and empty sheaves, last in, first out. Counts are read without the lock first. */
#include "os/atomic.h"
#include "scale/src/kernel/kernel.h"

static struct kernel_sheaf *pop(struct kernel_sheaf **list, unsigned int *n)
{
	struct kernel_sheaf *sheaf = *list;

	if (sheaf) {
		*list = sheaf->next;
		--*n;
	}
	return sheaf;
}

static void push(struct kernel_sheaf **list, unsigned int *n, struct kernel_sheaf *sheaf)
{
	sheaf->next = *list;
	*list = sheaf;
	++*n;
}

struct kernel_sheaf *kernel_barn_get_empty(struct kernel_barn *barn)
{
	struct kernel_sheaf *empty;

	if (!os_load_relaxed(&barn->nr_empty))
		return NULL;
	os_lock(&barn->lock);
	empty = pop(&barn->empty, &barn->nr_empty);
	os_unlock(&barn->lock);
	return empty;
}

struct kernel_sheaf *kernel_barn_replace_empty(struct kernel_barn *barn, struct kernel_sheaf *empty)
{
	struct kernel_sheaf *full;

	if (!os_load_relaxed(&barn->nr_full))
		return NULL;
	os_lock(&barn->lock);
	full = pop(&barn->full, &barn->nr_full);
	if (full)
		push(&barn->empty, &barn->nr_empty, empty);
	os_unlock(&barn->lock);
	return full;
}

struct kernel_sheaf *kernel_barn_replace_full(struct kernel_barn *barn, struct kernel_sheaf *full,
					      bool *too_big)
{
	struct kernel_sheaf *empty;

	*too_big = os_load_relaxed(&barn->nr_full) >= KERNEL_BARN;
	if (*too_big || !os_load_relaxed(&barn->nr_empty))
		return NULL;
	os_lock(&barn->lock);
	empty = pop(&barn->empty, &barn->nr_empty);
	if (empty)
		push(&barn->full, &barn->nr_full, full);
	os_unlock(&barn->lock);
	return empty;
}

void kernel_barn_put(struct kernel_barn *barn, struct kernel_sheaf *sheaf)
{
	os_lock(&barn->lock);
	if (sheaf->size)
		push(&barn->full, &barn->nr_full, sheaf);
	else
		push(&barn->empty, &barn->nr_empty, sheaf);
	os_unlock(&barn->lock);
}

bool kernel_barn_put_full(struct kernel_barn *barn, struct kernel_sheaf *full)
{
	if (os_load_relaxed(&barn->nr_full) >= KERNEL_BARN)
		return false;
	kernel_barn_put(barn, full);
	return true;
}

bool kernel_barn_put_empty(struct kernel_barn *barn, struct kernel_sheaf *empty)
{
	if (os_load_relaxed(&barn->nr_empty) >= KERNEL_BARN)
		return false;
	kernel_barn_put(barn, empty);
	return true;
}
