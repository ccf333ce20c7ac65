/* SPDX-License-Identifier: MIT */
/*
 * Blocks too large for a cache: runs of 2^n pages, owned by kmalloc_large, and mappings.
 *
 * The state of a run's first descriptor is its order. Freeing begins with an exchange of its owner,
 * so that of two who free a run one is told.
 *
 * Locks: none of its own. Callers: src/cache/.
 */
#include <limits.h>
#include <string.h>

#include "cache/kmalloc.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/options.h"
#include "os/report.h"
#include "page/map.h"

#define RUN_MAX (OS_PAGE << PAGE_MAX_ORDER)

static size_t run_bytes; /* of all runs */

static void free_run(struct kmem_cache *s, void *block);

static char name[] = "kmalloc-large";

struct kmem_cache kmalloc_large = {
	.calls = {.free = free_run},
	.name = name,
	.nr_names = 1,
	.sheaf.slab.name = name,
};

size_t large_size(const struct slab *run)
{
	return OS_PAGE << (os_load_relaxed(&run->state) & 0xf);
}

size_t large_bytes(void)
{
	return os_load_relaxed(&run_bytes);
}

static void free_run(struct kmem_cache *s, void *block)
{
	struct slab *run = page_slab(block);
	struct slab_cache *owner = &s->sheaf.slab;
	size_t size;

	if (run && page_address(run) != block) {
		os_report("kfree(%p): points %zu bytes into a block of %zu; it is left alone. Free "
			  "the address that was allocated",
			  block, (size_t)((char *)block - page_address(run)), large_size(run));
		return;
	}
	size = run ? large_size(run) : 0;
	if (!run || !os_cmpxchg(&run->cache, &owner, NULL)) {
		os_report("kfree(%p): double free; ignored. Two threads free this block of pages: "
			  "look for two owners of it",
			  block);
		return;
	}
	os_fetch_sub(&run_bytes, size);
	page_free(run, (unsigned int)__builtin_ctzll(size) - OS_PAGE_SHIFT);
}

static void *alloc_run(size_t size, gfp_t flags, unsigned int node)
{
	unsigned int order = (unsigned int)__builtin_ctzll(size) - OS_PAGE_SHIFT;
	struct slab *run = page_alloc(node, order);

	for (uint32_t i = 1; !run && i < os.nr_nodes && !(flags & __GFP_THISNODE); i++)
		run = page_alloc((node + i) % os.nr_nodes, order);
	if (!run)
		return NULL;
	os_store_relaxed(&run->state, order);
	os_fetch_add(&run_bytes, size);
	page_own(run, order, &kmalloc_large.sheaf.slab);
	if (flags & __GFP_ZERO)
		memset(page_address(run), 0, size);
	return page_address(run);
}

/* A run, or where there is none a mapping, unless it would be on a node that was not asked for. */
static void *alloc_block(size_t size, gfp_t flags, unsigned int node)
{
	void *block = size <= RUN_MAX ? alloc_run(size, flags, node) : NULL;
	size_t align = size & -size;

	if (!block && (size > RUN_MAX || !(flags & __GFP_THISNODE)))
		block = map_alloc(size, align < KMALLOC_MAX_SIZE ? align : KMALLOC_MAX_SIZE, node);
	return block;
}

size_t large_roundup(size_t size)
{
	if (size <= RUN_MAX)
		return (size_t)1 << (64 - __builtin_clzll(size - 1));
	return (size + OS_PAGE - 1) & ~(OS_PAGE - 1);
}

void *large_alloc(size_t size, gfp_t flags, int node, size_t most, const char *call)
{
	bool may_reclaim = (flags & __GFP_DIRECT_RECLAIM) && !(flags & __GFP_NORETRY);

	if (size > most) {
		if (!(flags & __GFP_NOWARN))
			os_report("%s(%zu bytes): at most %zu at once; NULL returned. kvmalloc() "
				  "gives up to %d",
				  call, size, most, INT_MAX);
		return NULL;
	}
	while (!caches_ready()) {
		if (!(flags & __GFP_NOFAIL))
			return NULL;
		os_yield();
	}
	flags = cache_check_gfp(&kmalloc_large, flags);
	if (!cache_check_node(&kmalloc_large, flags, &node))
		return NULL;
	if (node == NUMA_NO_NODE && os_options.strict_numa)
		node = os_policy_node();
	if (node == NUMA_NO_NODE)
		node = (int)os_node();
	for (int tries = 0;; tries++) {
		void *block = alloc_block(large_roundup(size), flags, (unsigned int)node);

		if (block || (!(flags & __GFP_NOFAIL) && (tries || !may_reclaim)))
			return block;
		kmalloc_reclaim();
		if (tries)
			os_yield();
	}
}
