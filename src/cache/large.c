/* SPDX-License-Identifier: MIT */
/*
 * Blocks too large for a cache: mappings (page/map.h). And those of a boot heap.
 *
 * In the entry of a block, MAP_WAITS says that the program freed or retired it. If two threads give
 * up the same block, one of them gets a report. The other one owns it.
 *
 * The heap profile samples blocks, too (debug/profile.h): the word of a sampled one is the number
 * of its record (debug/guard.h). A block whose mapping is resized is drawn anew.
 *
 * Locks: none here. Callers: src/cache/, src/kmalloc/.
 */

#include "cache/account.h"
#include "cache/block.h"

static char name[] = "kmalloc-large";

struct kmem_cache kmalloc_large = {
	.name = name,
	.nr_names = 1,
	.sheaf.slab.name = name,
};

bool large_own(void *block, size_t size, gfp_t flags, uint32_t number)
{
	/* Of a block that waited, the group pays no more than was requested. */
	if (map_find(block).size > os_round_up(size))
		map_resize(block, size, 1);
	if (!account_charge(flags, map_find(block).size, number))
		return false;
	map_set_owner(block, number);
	return true;
}

/* As with caches, a class has eight sizes for each doubling. */
static size_t class_of_block(size_t size)
{
	size_t step = (size_t)1 << (60 - __builtin_clzll(size));

	return (size + step - 1) & -step;
}

uint32_t large_take_record(void *block)
{
	uint32_t *word = os_unlikely(os_load_relaxed(&guard_range.size)) ? map_word(block) : NULL;

	return word ? os_exchange(word, 0) : 0;
}

void large_put_record(void *block, uint32_t number)
{
	uint32_t *word = number ? map_word(block) : NULL;

	if (word)
		os_store_relaxed(word, number);
	else if (number) /* another thread freed the block, which is a misuse */
		guard_record_end(number);
}

void large_sample(void *block, size_t asked)
{
	size_t class = class_of_block(large_roundup(asked));

	if (os_unlikely(profile_is_on()) && sample_is_taken(class))
		large_put_record(block,
				 guard_record(&kmalloc_large.sheaf.slab,
					      account_group(&kmalloc_large), block, class, asked));
}

void large_set_asked(void *block, size_t asked)
{
	uint32_t number = large_take_record(block);

	if (number)
		guard_record_asked(number, asked);
	large_put_record(block, number);
}

bool large_retire(void *block, const char *call)
{
	uint32_t record;

	if (!map_retire(block) && !(caches.boot && caches.boot->retire(block))) {
		cache_report_wrong(block, call);
		return false;
	}
	record = large_take_record(block);
	if (record)
		guard_record_retired(record);
	large_put_record(block, record);
	return true;
}

void large_free(void *block)
{
	uint32_t record = large_take_record(block), number;
	size_t size;

	if (record)
		guard_record_end(record);
	if (caches.boot && caches.boot->free(block))
		return;
	number = groups_exist() ? map_owner(block) : 0;
	size = number || os.tools ? map_find(block).size : 0;
	tools_freed(block, size);
	tools_open(block, size); /* whatever is mapped here next */
	map_free_retired(block);
	if (number)
		stock_uncharge(number, size);
}

bool large_waits(const void *block)
{
	return map_waits(block) || (caches.boot && caches.boot->waits(block));
}

void large_free_waited(void *block, const char *call)
{
	/* A block that was freed although it waited may be gone, and another one be there. */
	if (large_waits(block))
		large_free(block);
	else
		cache_report_wrong(block, call);
}

void *large_take(size_t size, size_t align, gfp_t flags, unsigned int node)
{
	bool zero = (flags & __GFP_ZERO) || os_options.init_on_alloc;
	size_t natural = large_align(size);
	void *block = map_alloc(size, align > natural ? align : natural, node, zero);

	if (block)
		tools_taken(block, size, zero);
	return block;
}
