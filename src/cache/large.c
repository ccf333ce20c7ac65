/* SPDX-License-Identifier: MIT */
/*
 * Blocks too large for a cache: runs of 2^n pages, owned by kmalloc_large, and mappings.
 *
 * The state in a run's first descriptor is its order, and USED until the program frees or retires
 * the block; in the entry of a mapping, MAP_WAITS says the same. Both change by an exchange, so if
 * two threads give up the same block, one of them gets a report. The other one owns it.
 *
 * Locks: none here. Callers: src/cache/.
 */

#include "cache/account.h"
#include "cache/block.h"
#include "os/counters.h"
#include "page/map_kept.h"

#define RUN_MAX (OS_PAGE << PAGE_MAX_ORDER)

static void free_block(struct kmem_cache *s, void *block);

static char name[] = "kmalloc-large";

struct kmem_cache kmalloc_large = {
	.calls = {.free = free_block},
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

/* Each block changes the process's word, so this is done only if others can see it; large_bytes()
 * needs no count. */
static void show_large(int64_t bytes)
{
	uint64_t *word = os.counting ? os_process_word(OS_PROCESS_large_bytes) : NULL;

	if (word)
		os_fetch_add_relaxed(word, (uint64_t)bytes);
}

/* The number of a run's owner is in its descriptor, in place of bits. */
static void disown_large(struct slab *run)
{
	uint64_t state = os_load_relaxed(&run->state);

	if (os_likely(!(state & SLAB_OWNED)))
		return;
	os_store_relaxed(&run->state, state & ~SLAB_OWNED);
	stock_uncharge((uint32_t)os_load_relaxed(&run->bits), large_size(run));
}

bool large_own(void *block, size_t size, gfp_t flags, uint32_t number)
{
	struct slab *run = page_slab(block);

	/* Of a block that waited, the group pays no more than was requested. */
	if (!run && map_find(block).size > os_round_up(size))
		map_resize(block, size, 1);
	size = run ? large_size(run) : map_find(block).size;
	if (!account_charge(flags, size, number))
		return false;
	if (run) {
		os_store_relaxed(&run->bits, number);
		os_store_relaxed(&run->state, os_load_relaxed(&run->state) | SLAB_OWNED);
	} else {
		map_set_owner(block, number);
	}
	return true;
}

void large_for_each_owned(map_look *look, void *data)
{
	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		struct slab *slab;

		for (size_t n = page_slabs(node, &slab); n > 0; n--, slab++) {
			uint64_t state = os_load_relaxed(&slab->state);

			if (os_load_relaxed(&slab->cache) == &kmalloc_large.sheaf.slab &&
			    !(state & SLAB_TAIL) && state & SLAB_OWNED)
				look(data, page_address(slab), large_size(slab),
				     (uint32_t)os_load_relaxed(&slab->bits));
		}
	}
	map_for_each_owned(look, data);
}

static bool retire_run(struct slab *run)
{
	uint64_t state = os_load_relaxed(&run->state);

	return state & SLAB_USED && os_cmpxchg(&run->state, &state, state & ~SLAB_USED);
}

bool large_retire(void *block, const char *call)
{
	struct slab *run = page_slab(block);

	if (run ? page_address(run) == block && retire_run(run) : map_retire(block))
		return true;
	cache_report_wrong(block, call);
	return false;
}

bool large_waits(const void *block)
{
	const struct slab *run = page_slab(block);

	return run ? page_address(run) == block && !(os_load_relaxed(&run->state) & SLAB_USED)
		   : map_waits(block);
}

static void free_mapping(void *block)
{
	uint32_t number = groups_exist() ? map_owner(block) : 0;
	size_t size = map_find(block).size;

	tools_freed(block, size);
	tools_open(block, size); /* whatever is mapped here next */
	map_free_retired(block);
	if (number)
		stock_uncharge(number, size);
}

static void free_run(struct slab *run)
{
	char *block = page_address(run);
	size_t size = large_size(run);

	/* KMALLOC-K3 */
	os_assert(!kmalloc_large.calls.alloc && !os_peek(&kmalloc_large.sheaf.rcu));
	disown_large(run);
	show_large(-(int64_t)size);
	if (os_options.init_on_free) {
		/* Those after the requested ones are closed. */
		tools_open(block, size);
		explicit_bzero(block, size);
	}
	tools_freed(block, size);
	tsan_freed(block, size);
	tsan_release_pages(block, size);
	page_free_named(run, order_of(run));
}

void large_free(void *block, const char *call)
{
	struct slab *run = page_slab(block);

	/* A block that was freed although it waited may be gone, and another one be there. */
	if (!large_waits(block))
		cache_report_wrong(block, call);
	else if (run)
		free_run(run);
	else
		free_mapping(block);
}

static void free_block(struct kmem_cache *s, void *block)
{
	(void)s;
	cache_free_any(block, "kfree");
	cache_leave();
}

static void *alloc_run(size_t size, gfp_t flags, unsigned int node)
{
	unsigned int order = (unsigned int)__builtin_ctzll(size) - OS_PAGE_SHIFT;
	struct slab *run = page_alloc(node, order);

	for (uint32_t i = 1; !run && i < os.nr_nodes && !(flags & __GFP_THISNODE); i++)
		run = page_alloc(os_near(node, i), order);
	if (!run)
		return NULL;
	os_store_relaxed(&run->state, order | SLAB_USED);
	page_own(run, order, &kmalloc_large.sheaf.slab);
	return page_address(run);
}

bool large_is_mapping(size_t size)
{
	return size > RUN_MAX;
}

size_t large_align(size_t size)
{
	size_t align = size & -size;

	return align < KMALLOC_MAX_SIZE ? align : KMALLOC_MAX_SIZE;
}

void *large_take(size_t size, size_t align, gfp_t flags, unsigned int node)
{
	bool zero = (flags & __GFP_ZERO) || os_options.init_on_alloc;
	void *block = size <= RUN_MAX ? alloc_run(size, flags, node) : NULL;

	if (block) {
		show_large((int64_t)size);
		tsan_acquire_pages(block, size);
		tools_open(block, size);
	}
	if (block && zero && !page_was_zero(block, size))
		memset(block, 0, size);
	if (!block && (size > RUN_MAX || !(flags & __GFP_THISNODE)))
		block = map_alloc(size, align > large_align(size) ? align : large_align(size), node,
				  zero);
	if (block)
		tools_taken(block, size, zero);
	return block;
}

size_t large_roundup(size_t size)
{
	unsigned int bits = 64 - (unsigned int)__builtin_clzll((size - 1) | 1);
	size_t step;

	if (size <= RUN_MAX) /* also one that a block shrinks to */
		return (size_t)1 << bits;
	step = (size_t)1 << (bits - 4);
	/* Eight sizes for each doubling, so that a cell can name them (page/map_kept.h). */
	if (size <= MAP_KEPT_MOST)
		return (size + step - 1) & ~(step - 1);
	return os_round_up(size);
}
