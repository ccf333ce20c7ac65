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

/* What a resize is asked for. */
struct resize {
	size_t size, align;
	gfp_t flags;
	int node;
	const struct kmalloc_call *call;
	uint64_t token;
};

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
	if (block->kind != BLOCK_OBJECT) {
		tools_close(block->start + size, block->size - size);
		large_set_asked(block->start, size);
	} else {
		cache_set_size(block->cache, block->start, size);
	}
}

void kmalloc_tell_size(void *pointer, size_t size)
{
	struct block block = block_of(pointer);

	tell_size(&block, size);
}

/* A new block in place of this one, or NULL. */
static void *fresh(const struct block *block, const struct resize *r, gfp_t flags,
		   const struct kmalloc_call *call)
{
	return kmalloc_aligned(set_of(block), r->size, r->align, flags, r->node, call, r->token);
}

/* Move to a block of at most half the bytes, if one is available immediately: a thread never waits
 * to get less memory. */
static void *shrink(struct block *block, const struct resize *r)
{
	gfp_t now = (r->flags & (__GFP_ZERO | __GFP_THISNODE | __GFP_ACCOUNT)) | GFP_NOWAIT |
		    __GFP_NORETRY;
	size_t size = r->size, needed = roundup((size + r->align - 1) & -r->align);
	bool half = needed <= block->size / 2 && (block->kind != BLOCK_OBJECT || set_of(block));
	void *smaller = half ? large_resize(block->start, size, r->align, r->flags) : NULL;

	if (smaller)
		block->size = roundup(size);
	else if (half && (smaller = fresh(block, r, now, &kvmalloc_most)))
		return move(smaller, block, size, r->call->name);
	/* The size requested before is unknown: everything after the new size may have been
	 * written. */
	if (r->flags & __GFP_ZERO) {
		memset(block->start + size, 0, block->size - size);
		tools_wrote(block->start + size, block->size - size);
	}
	tell_size(block, size);
	return block->start;
}

/* Is the block aligned as requested, and on the node? */
static bool is_placed(const struct block *block, const struct resize *r)
{
	bool any_node = r->node == NUMA_NO_NODE || !(r->flags & __GFP_THISNODE) ||
			block->kind != BLOCK_OBJECT || guard_is_ours(block->start);

	return !((uintptr_t)block->start & (r->align - 1)) &&
	       (any_node || (int)page_node(block->start) == r->node);
}

static void *resize(const void *pointer, const struct resize *r)
{
	struct block block = {.kind = BLOCK_NONE};
	void *moved = NULL;

	if (r->size == 0) {
		free_any(pointer, r->call->name);
		return ZERO_SIZE_PTR;
	}
	if (ZERO_OR_NULL_PTR(pointer))
		return fresh(&block, r, r->flags, r->call);
	if (!find_used(pointer, false, &block, r->call->name))
		return NULL;
	if (r->size <= block.size && is_placed(&block, r))
		return shrink(&block, r);
	if (is_secret(&block, r->size, r->call->name))
		return NULL;
	if (r->size > block.size && r->size <= r->call->most) {
		moved = large_reuse(block.size, r->size, r->align, r->flags);
		if (!moved && (moved = large_resize(pointer, r->size, r->align, r->flags)) != NULL)
			return moved;
	}
	if (!moved)
		moved = fresh(&block, r, r->flags, r->call);
	return moved ? move(moved, &block, r->size < block.size ? r->size : block.size,
			    r->call->name)
		     : NULL;
}

static const struct kmalloc_call krealloc_call = {"krealloc", "kvrealloc", KMALLOC_MAX_SIZE};
static const struct kmalloc_call kvrealloc_call = {"kvrealloc", "vrealloc", INT_MAX};

void *kmalloc_resize(const void *block, size_t size, gfp_t flags, const struct kmalloc_call *call,
		     uint64_t token)
{
	return resize(block, &(struct resize){size, 1, flags, NUMA_NO_NODE, call, token});
}

SHEAF_PUBLIC OS_NOINLINE void *krealloc(const void *block, size_t size, gfp_t flags)
{
	return kmalloc_resize(block, size, flags, &krealloc_call, KMALLOC_CALLER);
}

SHEAF_PUBLIC OS_NOINLINE void *kvrealloc(const void *block, size_t size, gfp_t flags)
{
	return kmalloc_resize(block, size, flags, &kvrealloc_call, KMALLOC_CALLER);
}

SHEAF_PUBLIC OS_NOINLINE void *krealloc_node_align(const void *block, size_t size,
						   unsigned long align, gfp_t flags, int node)
{
	if (kmalloc_align_is_wrong(size, align, "krealloc_node_align"))
		return NULL;
	return resize(block,
		      &(struct resize){size, align, flags, node, &krealloc_call, KMALLOC_CALLER});
}

SHEAF_PUBLIC OS_NOINLINE void *kvrealloc_node_align(const void *block, size_t size,
						    unsigned long align, gfp_t flags, int node)
{
	if (kmalloc_align_is_wrong(size, align, "kvrealloc_node_align"))
		return NULL;
	return resize(block,
		      &(struct resize){size, align, flags, node, &kvrealloc_call, KMALLOC_CALLER});
}

SHEAF_PUBLIC OS_NOINLINE void *vrealloc_node_align(const void *block, size_t size,
						   unsigned long align, gfp_t flags, int node)
{
	static const struct kmalloc_call call = {"vrealloc", "", VMALLOC_MOST};
	struct resize r = {size,	  align < OS_PAGE ? OS_PAGE : align, flags, node, &call,
			   KMALLOC_CALLER};
	void *resized;

	if (size > VMALLOC_MOST || kmalloc_align_is_wrong(size, align, "vrealloc_node_align"))
		return NULL;
	resized = resize(block, &r);
	return resized == ZERO_SIZE_PTR ? NULL : resized;
}
