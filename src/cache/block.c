/* SPDX-License-Identifier: MIT */
/* Which kind of block a pointer leads to, and how it is freed; see block.h. */
#include "cache/block.h"

#include <sheaf/debug.h>

#include "cache/hardened.h"
#include "os/memory.h"

/* Of a block of the boot heap, in use or retired; 0: it is none. */
static size_t boot_size(const void *pointer)
{
	return caches.boot ? caches.boot->size(pointer) : 0;
}

struct block block_of(const void *pointer)
{
	struct slab *slab = page_slab(pointer);
	/* NULL if another thread frees the run meanwhile. */
	struct slab_cache *owner = slab ? os_load_acquire(&slab->cache) : NULL;
	struct kmem_cache *s = owner ? cache_of_slab(owner) : NULL;
	struct mapping mapping;
	size_t size;

	if (s) {
		char *start = slab_object_around(owner, slab, pointer);

		if (!start)
			return (struct block){.kind = BLOCK_NONE};
		/* Of a debug cache's object, only the requested bytes are usable. */
		return (struct block){BLOCK_OBJECT, s, start,
				      cache_is_checked(s) ? debug_size(owner, start)
							  : owner->object_size};
	}
	if (guard_is_ours(pointer)) {
		char *start = guard_find(pointer, &owner, &size);

		return start ? (struct block){BLOCK_OBJECT, cache_of_slab(owner), start, size}
			     : (struct block){.kind = BLOCK_NONE};
	}
	mapping = map_find(pointer);
	if (mapping.address)
		return (struct block){BLOCK_MAPPING, NULL, mapping.address, mapping.size};
	size = boot_size(pointer);
	if (size)
		return (struct block){BLOCK_BOOT, NULL, (char *)(uintptr_t)pointer, size};
	return (struct block){.kind = BLOCK_NONE};
}

/* The ranges cover all addresses that they reserve: no other allocator can own a free address in
 * them. */
SHEAF_PUBLIC bool sheaf_owns(const void *address)
{
	if (address == ZERO_SIZE_PTR || boot_size(address))
		return true;
	if (!os_load_acquire(&caches.ready))
		return false;
	return page_is_ours(address) || guard_is_ours(address) || map_find(address).address;
}

SHEAF_PUBLIC bool kmem_dump_obj(void *object)
{
	return os_load_acquire(&caches.ready) && debug_dump(object);
}

OS_COLD void cache_report_wrong(const void *pointer, const char *call)
{
	struct block block = block_of(pointer);

	if (block.kind != BLOCK_NONE && block.start == pointer)
		os_misuse_pointer_later(
			NULL,
			"%s(%p): the block of %zu bytes was freed or retired before; "
			"ignored. Look for a pointer to it that is used after that",
			call, pointer, block.size);
	else if (block.kind != BLOCK_NONE)
		os_misuse_pointer_later(
			NULL,
			"%s(%p): points %zu bytes into a block of %zu bytes; ignored. Use the "
			"address that was allocated",
			call, pointer, (size_t)((const char *)pointer - block.start), block.size);
	else if (page_is_ours(pointer) || guard_is_ours(pointer))
		os_misuse_pointer_later(
			NULL,
			"%s(%p): not in a block that is in use; ignored. If it was freed before, "
			"look for two owners",
			call, pointer);
	else
		os_misuse_pointer_later(
			NULL,
			"%s(%p): not an object of any cache, and not a large block in "
			"use; ignored. If it was not freed before, free it with the "
			"allocator that it came from",
			call, pointer);
}

/* --- calls that do not free the block --------------------------------------------------------- */

/* Is this object of a slab in use, as far as the library knows? One that was freed into a sheaf
 * has no sign of that, unless its cache is a debug cache or hardened. */
static bool object_is_used(struct kmem_cache *s, void *object, bool retired, const char *call)
{
	struct slab_cache *cache = &s->sheaf.slab;
	struct slab *slab;
	unsigned int index;

	if (cache_is_checked(s))
		return debug_is_used(cache, object, retired, call);
	slab = page_slab(object);
	index = slab ? slab_index(cache, slab, object) : SLAB_NO_OBJECT;
	if (index != SLAB_NO_OBJECT && !slab_has(cache, slab, index) &&
	    hardened_is_used(s, object, retired))
		return true;
	os_misuse_pointer_later(
		s->name,
		"%s(%s, %p): the object is not in use; ignored. If it was freed or retired "
		"before, look for a pointer to it that is used after that",
		call, s->name, object);
	return false;
}

bool cache_find_used(const void *pointer, bool retired, struct block *block, const char *call)
{
	void *object = (void *)(uintptr_t)pointer;

	if (guard_is_ours(pointer) && !guard_is_used(object, retired, call))
		return false;
	*block = block_of(pointer);
	if (block->kind == BLOCK_NONE || block->start != pointer ||
	    (block->kind != BLOCK_OBJECT && !retired && large_waits(pointer))) {
		cache_report_wrong(pointer, call);
		return false;
	}
	return block->kind != BLOCK_OBJECT || guard_is_ours(pointer) ||
	       object_is_used(block->cache, object, retired, call);
}

/* --- frees ------------------------------------------------------------------------------------ */

static void free_owned(struct kmem_cache *s, void *block, const char *call)
{
	if (!cache_freed(s, block, call))
		return;
	if (!section_push(&s->sheaf.at, block))
		cache_free_slow(s, block, call);
}

void cache_free_any(const void *pointer, const char *call)
{
	void *block = (void *)(uintptr_t)pointer;
	struct slab_cache *owner;

	if (ZERO_OR_NULL_PTR(pointer))
		return;
	owner = page_owner(pointer);
	if (guard_is_ours(pointer))
		cache_free_guarded(NULL, block, false, call);
	else if (owner)
		free_owned(cache_of_slab(owner), block, call);
	else if (large_retire(block, call))
		large_free(block);
}

/* The compiler must not drop the clearing as a store that is never read. */
void cache_free_cleared(const void *pointer, size_t most, const char *call)
{
	void *start = (void *)(uintptr_t)pointer;
	struct block block;
	size_t size;

	if (!cache_find_used(pointer, false, &block, call) ||
	    !cache_retire(block.cache, start, call))
		return;
	size = block.size < most ? block.size : most;
	if (block.kind != BLOCK_OBJECT)
		tools_open(start, size); /* those after the requested bytes are closed */
	explicit_bzero(start, size);
	cache_free_waited(1, &start, call);
}

/* Its memory: a checked object has more around it than was requested, a guarded one has pages.
 * Packed samples (debug/guard.h) are counted as if they had pages, too. */
static size_t memory_of_block(const void *pointer)
{
	struct block block = block_of(pointer);
	size_t size = block.kind == BLOCK_OBJECT ? block.cache->sheaf.slab.size : block.size;

	return guard_is_ours(pointer) ? os_round_up(size) : size;
}

const struct rcu_any_ops block_rcu_ops = {memory_of_block, cache_free_waited};
