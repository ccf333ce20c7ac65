/* SPDX-License-Identifier: MIT */
/* Blocks of any kind: free, size, resize. */
#include <limits.h>

#include "kmalloc/kmalloc.h"

static OS_COLD void free_any(const void *pointer, const char *call)
{
	cache_free_any(pointer, call);
	cache_leave();
}

SHEAF_PUBLIC OS_FAST void kfree(const void *block)
{
	struct slab_cache *owner = page_owner(block);

	if (os_unlikely(!owner))
		free_any(block, "kfree");
	else
		cache_free_found(cache_of_slab(owner), (void *)(uintptr_t)block);
}

/* As cache_find_used(), for a call that then may use all bytes of the block; of a debug cache's
 * object only the requested ones. */
static bool find_used(const void *pointer, bool retired, struct block *block, const char *call)
{
	if (!cache_find_used(pointer, retired, block, call)) {
		cache_leave();
		return false;
	}
	if (block->kind != BLOCK_OBJECT)
		tools_open(pointer, block->size);
	return true;
}

SHEAF_PUBLIC size_t ksize(const void *pointer)
{
	struct block block;

	if (ZERO_OR_NULL_PTR(pointer) || !find_used(pointer, true, &block, "ksize"))
		return 0;
	return block.size;
}

/* The size of a block for this request. */
static size_t roundup(size_t size)
{
	if (size > KMALLOC_LARGEST)
		return large_roundup(size);
	return size ? kmalloc_class(&kmalloc_sizes, size) : 0;
}

SHEAF_PUBLIC size_t kmalloc_size_roundup(size_t size)
{
	return size <= KMALLOC_MAX_SIZE ? roundup(size) : size;
}

static void wipe_and_free(const void *block, size_t most, const char *call)
{
	if (ZERO_OR_NULL_PTR(block))
		return;
	cache_free_cleared(block, most, call);
	cache_leave();
}

SHEAF_PUBLIC void kfree_sensitive(const void *block)
{
	wipe_and_free(block, SIZE_MAX, "kfree_sensitive");
}

SHEAF_PUBLIC void kvfree_sensitive(const void *block, size_t size)
{
	wipe_and_free(block, size, "kvfree_sensitive");
}

static void *move(void *to, const struct block *block, size_t bytes, const char *call)
{
	os_copy(to, block->start, bytes);
	tools_wrote(to, bytes);
	free_any(block->start, call);
	return to;
}

/* The family of an object; NULL: kmalloc() has no cache for it. */
static kmem_buckets *set_of(const struct block *block)
{
	return block->kind == BLOCK_OBJECT ? block->cache->set : NULL;
}

/* No other cache is as the program wants it for secrets. */
static bool is_secret(const struct block *block, size_t size, const char *call)
{
	if (block->kind != BLOCK_OBJECT || !(block->cache->flags & SLAB_SECRET))
		return false;
	os_misuse(block->cache->name,
		  "%s(%p, %zu): the object is of cache \"%s\" with SLAB_SECRET, and a larger block "
		  "would not be locked in memory; NULL is returned. Allocate a larger one from "
		  "another such cache, copy, and free this one",
		  call, (void *)block->start, size, block->cache->name);
	return true;
}

/* In a debug cache, a red zone follows the requested bytes; the rest of a large block is closed.
 */
static void tell_size(const struct block *block, size_t size)
{
	if (block->kind != BLOCK_OBJECT)
		tools_close(block->start + size, block->size - size);
	else if (cache_is_checked(block->cache))
		debug_set_size(&block->cache->sheaf.slab, block->start, size);
}

void kmalloc_tell_size(void *pointer, size_t size)
{
	struct block block = block_of(pointer);

	tell_size(&block, size);
}

/* Move to a block of at most half the bytes, if one is available immediately: a thread never waits
 * to get less memory. */
static void *shrink(struct block *block, size_t size, gfp_t flags, const struct kmalloc_call *call,
		    uint64_t token)
{
	gfp_t now = (flags & (__GFP_ZERO | __GFP_THISNODE | __GFP_ACCOUNT)) | GFP_NOWAIT |
		    __GFP_NORETRY;
	bool half =
		roundup(size) <= block->size / 2 && (block->kind != BLOCK_OBJECT || set_of(block));
	void *smaller = half ? large_resize(block->start, size, flags) : NULL;

	if (smaller)
		block->size = roundup(size);
	else if (half && (smaller = kmalloc_from(set_of(block), size, now, NUMA_NO_NODE,
						 &kvmalloc_most, token)))
		return move(smaller, block, size, call->name);
	/* The size requested before is unknown: everything after the new size may have been
	 * written. */
	if (flags & __GFP_ZERO) {
		memset(block->start + size, 0, block->size - size);
		tools_wrote(block->start + size, block->size - size);
	}
	tell_size(block, size);
	return block->start;
}

static void *resize(const void *pointer, size_t size, gfp_t flags, const struct kmalloc_call *call,
		    uint64_t token)
{
	struct block block;
	void *larger;

	if (size == 0) {
		free_any(pointer, call->name);
		return ZERO_SIZE_PTR;
	}
	if (ZERO_OR_NULL_PTR(pointer))
		return kmalloc_from(NULL, size, flags, NUMA_NO_NODE, call, token);
	if (!find_used(pointer, false, &block, call->name))
		return NULL;
	if (size <= block.size)
		return shrink(&block, size, flags, call, token);
	if (is_secret(&block, size, call->name))
		return NULL;
	larger = size <= call->most ? large_reuse(block.size, size, flags) : NULL;
	if (larger)
		return move(larger, &block, block.size, call->name);
	larger = size <= call->most ? large_resize(pointer, size, flags) : NULL;
	if (larger)
		return larger;
	larger = kmalloc_from(set_of(&block), size, flags, NUMA_NO_NODE, call, token);
	return larger ? move(larger, &block, block.size, call->name) : NULL;
}

SHEAF_PUBLIC OS_NOINLINE void *krealloc(const void *block, size_t size, gfp_t flags)
{
	static const struct kmalloc_call call = {"krealloc", "kvrealloc", KMALLOC_MAX_SIZE};

	return resize(block, size, flags, &call, KMALLOC_CALLER);
}

SHEAF_PUBLIC OS_NOINLINE void *kvrealloc(const void *block, size_t size, gfp_t flags)
{
	static const struct kmalloc_call call = {"kvrealloc", "vmalloc", INT_MAX};

	return resize(block, size, flags, &call, KMALLOC_CALLER);
}
