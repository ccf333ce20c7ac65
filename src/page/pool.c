/* SPDX-License-Identifier: MIT */
/* Blocks for the library itself; see pool.h. */
#include "page/pool.h"

#include <string.h>

#include "os/lock.h"
#include "os/machine.h"
#include "os/options.h"
#include "os/tools.h"
#include "os/tsan.h"
#include "page/page.h"

#define SMALLEST_SHIFT 6
#define NR_SIZES       16 /* 64 bytes to 2 MiB */
#define AREA	       (2 * OS_HUGE)

struct pool_block {
	struct pool_block *next;
};

static struct {
	struct os_lock lock;
	struct pool_block *free[NR_SIZES];
} lists = {.lock = OS_LOCK_INIT(OS_RANK_POOL)};

/* With slab_guard_pools: the pages of the last area that are not yet used for any size. */
static struct {
	char *next;
	size_t left;
} area;

/* Pages away from objects. Each area lies between two inaccessible pages. */
static char *guarded_pages(size_t bytes)
{
	char *pages_of_area = area.next;

	if (area.left < bytes) {
		size_t usable = AREA - 2 * os.page_size;

		pages_of_area = os_reserve(AREA);
		if (!pages_of_area)
			return NULL;
		if (!os_commit(pages_of_area + os.page_size, usable)) {
			os_unreserve(pages_of_area, AREA);
			return NULL;
		}
		pages_of_area += os.page_size;
		area.left = usable;
	}
	area.next = pages_of_area + bytes;
	area.left -= bytes;
	return pages_of_area;
}

static char *pages_among_objects(unsigned int order)
{
	struct slab *slab = page_alloc(os_node(), order);

	for (uint32_t node = 0; !slab && node < os.nr_nodes; node++)
		slab = page_alloc(node, order);
	return slab ? page_address(slab) : NULL;
}

static unsigned int size_index(size_t size)
{
	unsigned int index = 0;

	while (index < NR_SIZES && ((size_t)1 << (SMALLEST_SHIFT + index)) < size)
		index++;
	return index;
}

/* A new run for this size: one block to the caller, the rest to the list. */
static struct pool_block *carve(unsigned int index)
{
	size_t size = (size_t)1 << (SMALLEST_SHIFT + index);
	unsigned int order = size > OS_PAGE ? SMALLEST_SHIFT + index - OS_PAGE_SHIFT : 0;
	char *run = os_options.guard_pools ? guarded_pages(OS_PAGE << order) : NULL;

	if (!run)
		run = pages_among_objects(order);
	if (!run)
		return NULL;
	tools_open(run, OS_PAGE << order);
	tsan_pages_taken(run, OS_PAGE << order);
	tsan_given(run);
	for (size_t at = size; at < OS_PAGE; at += size) {
		struct pool_block *block = (struct pool_block *)(run + at);

		tsan_given(block);
		block->next = lists.free[index];
		lists.free[index] = block;
	}
	return (struct pool_block *)run;
}

void *pool_alloc(size_t size)
{
	unsigned int index = size_index(size);
	struct pool_block *block;

	if (index == NR_SIZES)
		return NULL;
	os_lock(&lists.lock);
	block = lists.free[index];
	if (block)
		lists.free[index] = block->next;
	else
		block = carve(index);
	os_unlock(&lists.lock);
	if (!block)
		return NULL;
	tsan_taken(block);
	memset(block, 0, size);
	tsan_given(block);
	return block;
}

void pool_free(void *pointer, size_t size)
{
	unsigned int index = size_index(size);
	struct pool_block *block = pointer;

	if (!block)
		return;
	tsan_given(block);
	os_lock(&lists.lock);
	block->next = lists.free[index];
	lists.free[index] = block;
	os_unlock(&lists.lock);
}

void pool_lock(void)
{
	os_lock(&lists.lock);
}

void pool_unlock(void)
{
	os_unlock(&lists.lock);
}
