/* SPDX-License-Identifier: MIT */
/*
 * Blocks too large for a cache: runs of 2^n pages, owned by kmalloc_large, and mappings.
 *
 * The state of a run's first descriptor is its order. Freeing begins with an exchange of its owner,
 * so that of two who free a run one is told.
 *
 * Each CPU keeps freed runs in cells: all but the first descriptor's owner stays as it is, so that
 * taking one again costs an exchange and a store. An order's cells together have at most KEPT_BYTES,
 * and one at least, up to KEEP_ORDER: so 3 MiB a CPU at most, which go back with
 * kmem_cache_shrink() and when memory is out.
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

#define KEEP_ORDER 8
#define KEPT_BYTES ((size_t)512 << 10)
#define CELLS	   8 /* of an order at most */
#define STEAL_MAX  8 /* other CPUs looked at */

/* By row; shared, since a thread may be on another CPU by the time it looks. */
static struct {
	struct slab *kept[KEEP_ORDER + 1][CELLS];
	uint64_t unused[8]; /* CPUs do not share a line */
} cells[OS_MAX_ROWS];

static void free_run(struct kmem_cache *s, void *block);

static char name[] = "kmalloc-large";

struct kmem_cache kmalloc_large = {
	.calls = {.free = free_run},
	.name = name,
	.nr_names = 1,
	.sheaf.slab.name = name,
};

static unsigned int order_of(const struct slab *run)
{
	return os_load_relaxed(&run->state) & 0xf;
}

size_t large_size(const struct slab *run)
{
	return OS_PAGE << order_of(run);
}

size_t large_bytes(void)
{
	size_t bytes = 0;

	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		struct slab *slab;

		for (size_t n = page_slabs(node, &slab); n > 0; n--, slab++)
			if (os_load_relaxed(&slab->cache) == &kmalloc_large.sheaf.slab &&
			    !(os_load_relaxed(&slab->state) & SLAB_TAIL))
				bytes += large_size(slab);
	}
	return bytes;
}

static unsigned int nr_cells(unsigned int order)
{
	size_t n = KEPT_BYTES >> OS_PAGE_SHIFT >> order;

	return n > CELLS ? CELLS : n ? (unsigned int)n : 1;
}

/* The run that nobody owns any more: for the next one who needs this order here, or away. */
static void keep_or_free(struct slab *run)
{
	unsigned int order = order_of(run);
	struct slab **kept;

	if (order <= KEEP_ORDER && page_node(page_address(run)) == os_node()) {
		kept = cells[os_row()].kept[order];
		for (unsigned int i = 0; i < nr_cells(order); i++) {
			struct slab *none = NULL;

			if (!os_load_relaxed(&kept[i]) && os_cmpxchg(&kept[i], &none, run))
				return;
		}
	}
	page_free(run, order);
}

static struct slab *take_from(unsigned int row, unsigned int order)
{
	struct slab **kept = cells[row].kept[order], *run = NULL;

	for (unsigned int i = nr_cells(order); i-- > 0 && !run;)
		if (os_load_relaxed(&kept[i]))
			run = os_exchange(&kept[i], NULL);
	return run;
}

/* Of this CPU; or of another one of the node, which frees what this one allocates. */
static struct slab *take_kept(unsigned int order, unsigned int node)
{
	unsigned int mine = os_row(),
		     others = os.nr_cpus - 1 < STEAL_MAX ? os.nr_cpus - 1 : STEAL_MAX;
	struct slab *run = NULL;

	if (order > KEEP_ORDER || os.node_of_row[mine] != node)
		return NULL;
	for (unsigned int i = 0; i <= others && !run; i++) {
		unsigned int row = (mine + i) % os.nr_cpus;

		if (os.node_of_row[row] == node)
			run = take_from(row, order);
	}
	if (run)
		os_store_release(&run->cache, &kmalloc_large.sheaf.slab);
	return run;
}

void large_trim(void)
{
	struct slab *run;

	for (uint32_t row = 0; row < os.nr_cpus; row++)
		for (unsigned int order = 0; order <= KEEP_ORDER; order++)
			/* Not more than there are cells: others may fill them meanwhile. */
			for (unsigned int i = nr_cells(order); i > 0; i--) {
				run = take_from(row, order);
				if (!run)
					break;
				page_free(run, order);
			}
}

void large_free(void *block)
{
	struct slab *run = page_slab(block);
	struct slab_cache *owner = &kmalloc_large.sheaf.slab;

	if (run && page_address(run) != block) {
		os_report_later(
			"kfree(%p): points %zu bytes into a block of %zu; it is left alone. Free "
			"the address that was allocated",
			block, (size_t)((char *)block - page_address(run)), large_size(run));
		return;
	}
	if (!run || !os_cmpxchg(&run->cache, &owner, NULL)) {
		os_report_later(
			"kfree(%p): double free; ignored. Two threads free this block of pages: "
			"look for two owners of it",
			block);
		return;
	}
	tsan_freed(block, large_size(run));
	tsan_pages_given(block, large_size(run));
	keep_or_free(run);
}

static void free_run(struct kmem_cache *s, void *block)
{
	(void)s;
	large_free(block);
	os_report_kept();
}

static void *alloc_run(size_t size, gfp_t flags, unsigned int node)
{
	unsigned int order = (unsigned int)__builtin_ctzll(size) - OS_PAGE_SHIFT;
	struct slab *run = take_kept(order, node);

	if (run)
		return page_address(run);
	run = page_alloc(node, order);
	for (uint32_t i = 1; !run && i < os.nr_nodes && !(flags & __GFP_THISNODE); i++)
		run = page_alloc((node + i) % os.nr_nodes, order);
	if (!run)
		return NULL;
	os_store_relaxed(&run->state, order);
	page_own(run, order, &kmalloc_large.sheaf.slab);
	return page_address(run);
}

/* A run, or where there is none a mapping, unless it would be on a node that was not asked for. */
static void *alloc_block(size_t size, gfp_t flags, unsigned int node)
{
	void *block = size <= RUN_MAX ? alloc_run(size, flags, node) : NULL;
	size_t align = size & -size;

	if (block)
		tsan_pages_taken(block, size);
	if (block && (flags & __GFP_ZERO))
		memset(block, 0, size);
	if (!block && (size > RUN_MAX || !(flags & __GFP_THISNODE)))
		block = map_alloc(size, align < KMALLOC_MAX_SIZE ? align : KMALLOC_MAX_SIZE, node);
	return block;
}

size_t large_roundup(size_t size)
{
	if (size <= RUN_MAX)
		return (size_t)1 << (64 - __builtin_clzll(size - 1));
	return os_round_up(size);
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
