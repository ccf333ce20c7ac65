/* SPDX-License-Identifier: MIT */
/* What the fast paths leave: by the state (entry.h), to libsheaf, the boot heap or the next
 * allocator. */
#include "boot.h"
#include "entry.h"

#include <sheaf/debug.h>

static const struct kmalloc_call malloc_call = {"malloc", "", PTRDIFF_MAX};
static const struct kmalloc_call realloc_call = {"realloc", "", PTRDIFF_MAX};

__thread volatile bool malloc_inside;

void *malloc_no_memory(void)
{
	errno = ENOMEM;
	return NULL;
}

/* False: libsheaf is to serve it. */
static OS_COLD bool alloc_elsewhere(size_t align, size_t size, gfp_t flags, void **block)
{
	if (malloc_boots() && (*block = boot_alloc(align, size, BOOT_SERVED)) != NULL)
		return true;
	if (malloc_is_open())
		return false;
	if (os_load_acquire(&malloc_state) == MALLOC_ASIDE) {
		*block = align > MALLOC_LEAST ? malloc_next.memalign(align, size)
			 : flags & __GFP_ZERO ? malloc_next.calloc(1, size)
					      : malloc_next.malloc(size);
		return true;
	}
	malloc_came_here();
	*block = boot_alloc(align, size, BOOT_BYTES);
	if (!*block)
		malloc_no_memory();
	return true;
}

static inline bool is_open(void)
{
	return os_likely(os_load_acquire(&malloc_state) == MALLOC_OPEN);
}

/* By a handler of signals that interrupted a call here. A mapping takes no lock. */
static OS_COLD void *alloc_inside(size_t align, size_t size, gfp_t flags)
{
	size_t rounded = size ? size : 1;
	void *block;

	if (align > MALLOC_LEAST)
		rounded = (rounded + align - 1) & -align;
	block = kmalloc_nolock(rounded, flags, NUMA_NO_NODE);
	if (!block)
		block = large_take(large_roundup(rounded), align, flags, os_node());
	return block ? block : malloc_no_memory();
}

OS_NOINLINE void *malloc_rest(size_t size, gfp_t flags)
{
	void *block;

	if (os_unlikely(size > PTRDIFF_MAX))
		return malloc_no_memory();
	if (!is_open() && alloc_elsewhere(MALLOC_LEAST, size, flags, &block))
		return block;
	if (os_unlikely(malloc_inside))
		return alloc_inside(MALLOC_LEAST, size, flags);
	malloc_inside = true;
	block = kmalloc_rest(size ? size : 1, flags, KMALLOC_CALLER, &malloc_call);
	malloc_inside = false;
	return os_likely(block) ? block : malloc_no_memory();
}

void *malloc_aligned(size_t align, size_t size, uint64_t caller)
{
	void *block;

	if (size > PTRDIFF_MAX || align > PTRDIFF_MAX)
		return malloc_no_memory();
	if (align <= MALLOC_LEAST)
		return malloc_fast(size);
	if (!is_open() && alloc_elsewhere(align, size, GFP_KERNEL, &block))
		return block;
	if (malloc_inside)
		return alloc_inside(align, size, GFP_KERNEL);
	malloc_inside = true;
	block = kmalloc_aligned(NULL, size ? size : 1, align, GFP_KERNEL, NUMA_NO_NODE,
				&malloc_call, caller);
	malloc_inside = false;
	return block ? block : malloc_no_memory();
}

/* --- free ------------------------------------------------------------------------------------- */

/* As alloc_inside(). A large block, which is in no slab, takes no lock. */
static OS_COLD void free_inside(void *block)
{
	if (page_owner(block) || guard_is_ours(block))
		kfree_nolock(block);
	else
		cache_free_any(block, "free");
}

static OS_COLD void free_elsewhere(void *block)
{
	OS_KEEP_ERRNO;

	if (boot_retire(block)) {
		boot_free(block);
		return;
	}
	malloc_is_open(); /* a report says what is wrong, by the options */
	if (malloc_is_elsewhere(block))
		malloc_next.free(block);
	else if (malloc_forks_here() && sheaf_owns(block))
		malloc_free_later(block);
	else if (malloc_inside)
		free_inside(block);
	else {
		malloc_inside = true;
		cache_free_any(block, "free");
		cache_leave();
		malloc_inside = false;
	}
}

OS_NOINLINE void malloc_free_rest(void *block)
{
	struct slab_cache *owner = page_owner(block);

	if (!block)
		return;
	if (os_likely(owner) && os_likely(malloc_open()) && os_likely(!malloc_inside)) {
		malloc_inside = true;
		cache_free_by_word(cache_of_slab(owner), block);
		malloc_inside = false;
	} else
		free_elsewhere(block);
}

/* --- resize ----------------------------------------------------------------------------------- */

static void *resize_elsewhere(void *block, size_t size)
{
	size_t old = boot_size(block);
	void *to;

	if (!old && malloc_is_elsewhere(block))
		return malloc_next.realloc(block, size);
	if (!old)
		old = block_of(block).size;
	if (size <= old)
		return block;
	to = malloc_fast(size);
	if (to) {
		memcpy(to, block, old);
		malloc_free_fast(block);
	}
	return to;
}

void *malloc_resize(void *block, size_t size, uint64_t caller)
{
	void *to;

	if (size > PTRDIFF_MAX)
		return malloc_no_memory();
	if (malloc_inside || (!is_open() && (boot_size(block) || !malloc_is_open())))
		return resize_elsewhere(block, size);
	malloc_inside = true;
	to = kmalloc_resize(block, size, GFP_KERNEL, &realloc_call, caller);
	malloc_inside = false;
	return to ? to : malloc_no_memory();
}

/* --- check_sizes ------------------------------------------------------------------------------ */

/* The bytes of a block of this kind for a request. */
static size_t size_of_request(enum block_kind kind, size_t size, size_t align)
{
	if (kind == BLOCK_MAPPING)
		return large_roundup(size);
	return kmalloc_class(&kmalloc_sizes, (size + align - 1) & -align);
}

/* May this block be one for such a request? Of the boot heap any may. */
static bool size_fits(const struct block *is, size_t size, size_t align, bool resized)
{
	size_t bytes = size_of_request(is->kind, size, align);

	if (is->kind == BLOCK_BOOT || is->size == bytes)
		return true;
	/* One that waited for its next use may have twice the bytes. */
	if (is->kind == BLOCK_MAPPING)
		return bytes < is->size && is->size / 2 <= bytes;
	if (cache_is_checked(is->cache)) /* the bytes requested */
		return is->size - size < align;
	return resized && bytes < is->size && is->size / 2 < bytes;
}

void malloc_check_size(void *block, size_t size, size_t align, bool resized, const char *call)
{
	struct block is = block_of(block);
	size_t asked = size ? size : 1;

	if (is.kind == BLOCK_NONE || is.start != block || size_fits(&is, asked, align, resized))
		return;
	os_misuse(NULL,
		  "%s(%p, %zu): the block has %zu bytes, and a block for %zu bytes has %zu; the "
		  "size is ignored. Pass the size that was allocated, or delete by the type that "
		  "was made",
		  call, block, size, is.size, size, size_of_request(is.kind, asked, align));
}
