/* SPDX-License-Identifier: MIT */
/* Blocks for the library itself; see pool.h. */
#include "page/pool.h"

#include <string.h>

#include "os/assert.h"
#include "os/lock.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/memory_tools.h"
#include "os/options/options.h"
#include "os/should_fail.h"
#include "os/tsan.h"
#include "page/map.h"
#include "page/range.h"

#define SMALLEST_SHIFT 6
#define NR_SIZES       POOL_SIZES
#define AREA	       (2 * OS_HUGE)

struct pool_block {
	struct pool_block *next;
};

/* With slab_guard_pools: an area away from objects, between two inaccessible pages, for runs. */
static void new_area(struct pool *pool)
{
	size_t usable = AREA - 2 * os.page_size;
	char *start = os_reserve(AREA);

	if (!start)
		return;
	if (!os_commit(start + os.page_size, usable)) {
		os_unreserve(start, AREA);
		return;
	}
	pool->area = start + os.page_size;
	pool->area_left = usable;
}

/* The last one of the area; when that is used up, of another one. */
static char *run_of_area(struct pool *pool, size_t size)
{
	char *run = NULL;

	os_lock(&pool->lock);
	if (size > pool->area_left)
		new_area(pool);
	if (size <= pool->area_left) {
		pool->area_left -= size;
		run = pool->area + pool->area_left;
	}
	os_unlock(&pool->lock);
	return run;
}

static char *pages_among_objects(unsigned int node, unsigned int order)
{
	struct slab *slab = page_alloc(node, order);

	for (node = 0; !slab && os_options.guard_pools && node < os.nr_nodes; node++)
		slab = page_alloc(node, order);
	return slab ? page_address(slab) : NULL;
}

/* Nodes whose lists are used. */
static unsigned int nr_pools(void)
{
	return os_options.guard_pools ? 1 : os.nr_nodes;
}

static unsigned int this_pool(void)
{
	return nr_pools() == 1 ? 0 : os_node();
}

/* The pool of this block: that of the node whose memory it is. */
static struct pool *pool_of(const void *block)
{
	return &ranges[nr_pools() == 1 ? 0 : page_node(block)].pool;
}

static unsigned int size_index(size_t size)
{
	unsigned int index = 0;

	while (index < NR_SIZES && ((size_t)1 << (SMALLEST_SHIFT + index)) < size)
		index++;
	return index;
}

static char *new_run(unsigned int node, unsigned int order)
{
	char *run = NULL;

	if (os_options.guard_pools)
		run = run_of_area(&ranges[node].pool, OS_PAGE << order);
	if (!run)
		run = pages_among_objects(node, order);
	if (!run)
		return NULL;
	tools_open(run, OS_PAGE << order);
	tsan_acquire_pages(run, OS_PAGE << order);
	tsan_release(run);
	return run;
}

/*
 * A new run for this size: one block to the caller, the rest to the list. Pages are taken, and
 * touched for the first time, without the lock: other CPUs' sheaves would wait for that. So several
 * CPUs may carve at the same time.
 */
static struct pool_block *carve(unsigned int node, unsigned int index)
{
	struct pool *pool = &ranges[node].pool;
	size_t size = (size_t)1 << (SMALLEST_SHIFT + index);
	unsigned int order = size > OS_PAGE ? SMALLEST_SHIFT + index - OS_PAGE_SHIFT : 0;
	char *run = new_run(node, order);
	struct pool_block *first = NULL, **end = &first;

	for (size_t at = size; run && at < OS_PAGE; at += size) {
		struct pool_block *block = (struct pool_block *)(run + at);

		tsan_release(block);
		*end = block;
		end = &block->next;
	}
	if (first) {
		os_lock(&pool->lock);
		if (pool->rest) {
			*end = pool->free[index];
			pool->free[index] = first;
		} else {
			pool->rest = run + size;
			pool->left = OS_PAGE - size;
		}
		os_unlock(&pool->lock);
	}
	return (struct pool_block *)run;
}

/* The first block of a list, or the last one of what all sizes share. */
static struct pool_block *unlist(struct pool *pool, unsigned int index)
{
	struct pool_block *block = pool->free[index];
	size_t size = (size_t)1 << (SMALLEST_SHIFT + index);

	if (block) {
		pool->free[index] = block->next;
	} else if (size <= pool->left) {
		pool->left -= size;
		block = (void *)(pool->rest + pool->left);
	}
	return block;
}

static struct pool_block *take_block(unsigned int node, unsigned int index)
{
	struct pool *pool = &ranges[node].pool;
	struct pool_block *block;

	os_lock(&pool->lock);
	block = unlist(pool, index);
	os_unlock(&pool->lock);
	return block ? block : carve(node, index);
}

static void *cleared(struct pool_block *block, size_t size)
{
	if (!block)
		return NULL;
	tsan_acquire(block);
	memset(block, 0, size);
	tsan_release(block);
	return block;
}

static void *alloc_mapping(size_t size)
{
	void *block = map_alloc(size, 1, os_node(), true);

	if (block)
		map_retire(block);
	return block;
}

void *pool_alloc(size_t size)
{
	unsigned int index = size_index(size), node = this_pool();
	struct pool_block *block;

	if (os_should_fail("pool_alloc"))
		return NULL;
	if (index == NR_SIZES)
		return alloc_mapping(size);
	block = take_block(node, index);
	for (node = 0; !block && node < nr_pools(); node++)
		block = take_block(node, index);
	return cleared(block, size);
}

void *pool_alloc_try(size_t size)
{
	unsigned int index = size_index(size);
	struct pool *pool = &ranges[this_pool()].pool;
	struct pool_block *block;

	os_assert(index < NR_SIZES);
	if (os_should_fail("pool_alloc") || !os_trylock(&pool->lock))
		return NULL;
	block = unlist(pool, index);
	os_unlock(&pool->lock);
	return cleared(block, size);
}

void pool_free(void *pointer, size_t size)
{
	unsigned int index = size_index(size);
	struct pool_block *block = pointer;
	struct pool *pool;

	if (!block)
		return;
	pool = pool_of(block);
	tsan_release(block);
	os_lock(&pool->lock);
	block->next = pool->free[index];
	pool->free[index] = block;
	os_unlock(&pool->lock);
}

void pool_give_back(void *pointer, size_t size)
{
	size_t bytes = (size_t)1 << (SMALLEST_SHIFT + size_index(size));
	char *block = pointer;

	if (!block || bytes < OS_PAGE) {
		pool_free(block, size);
	} else if (size_index(size) == NR_SIZES) {
		map_free_retired(block);
	} else if (page_is_ours(block)) {
		tsan_release_pages(block, bytes);
		page_free(&pages.slabs[(block - pages.base) >> OS_PAGE_SHIFT],
			  (unsigned int)__builtin_ctzll(bytes) - OS_PAGE_SHIFT);
	} else {
		/* Pages away from objects belong to no range: the block stays, but most of its
		 * memory goes. */
		if (bytes > os.page_size)
			os_discard(block + os.page_size, bytes - os.page_size, false);
		pool_free(block, size);
	}
}
