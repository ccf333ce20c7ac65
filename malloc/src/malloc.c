/* SPDX-License-Identifier: MIT */
/*
 * The calls of <stdlib.h> and <malloc.h> that allocate and free. The common case of malloc() and
 * free() is a restartable section in the function itself: no call, no indirect branch. See
 * entry.h.
 */
#include "entry.h"

#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "boot.h"
#include "os/bytes.h"

MALLOC_PUBLIC OS_FAST void *malloc(size_t size)
{
	return malloc_fast(size);
}

MALLOC_PUBLIC OS_FAST void free(void *block)
{
	malloc_free_fast(block);
}

MALLOC_PUBLIC OS_FAST void *calloc(size_t n, size_t size)
{
	size_t bytes;
	void *block;

	if (os_unlikely(__builtin_mul_overflow(n, size, &bytes)))
		return malloc_no_memory();
	if (os_unlikely(!kmalloc_pop(bytes, GFP_KERNEL, &block)))
		return malloc_rest(bytes, GFP_KERNEL | __GFP_ZERO);
	os_zero(block, bytes);
	return block;
}

/* The usable bytes of an object of malloc()'s own family, the one with a family for charged blocks,
 * that needs no check; 0: it does, or is none. */
static inline size_t plain_size(const void *block)
{
	struct slab_cache *owner = page_owner(block);
	const struct kmem_cache *s = owner ? cache_of_slab(owner) : NULL;

	if (os_unlikely(!s || !s->set || !s->set->charged) ||
	    (s->flags & (CACHE_DEBUG | CACHE_HARDENED)))
		return 0;
	return owner->object_size;
}

MALLOC_PUBLIC OS_NOINLINE void *realloc(void *block, size_t size)
{
	size_t old;
	void *to;

	if (os_unlikely(!block))
		return malloc_fast(size);
	if (os_unlikely(!size)) {
		malloc_free_fast(block);
		return NULL;
	}
	old = plain_size(block);
	if (size <= old && (size > old / 2 || old <= 2 * MALLOC_LEAST))
		return block;
	if (!old || os_unlikely(!kmalloc_pop(size, GFP_KERNEL, &to)))
		return malloc_resize(block, size, KMALLOC_CALLER);
	os_copy(to, block, size < old ? size : old);
	malloc_free_fast(block);
	return to;
}

/* --- aligned ---------------------------------------------------------------------------------- */

static inline bool is_power(size_t n)
{
	return n && !(n & (n - 1));
}

static void *invalid(void)
{
	errno = EINVAL;
	return NULL;
}

MALLOC_PUBLIC OS_NOINLINE void *aligned_alloc(size_t align, size_t size)
{
	return is_power(align) ? malloc_aligned(align, size, KMALLOC_CALLER) : invalid();
}

/* Other alignments are rounded up. */
MALLOC_PUBLIC OS_NOINLINE void *memalign(size_t align, size_t size)
{
	if (align > (size_t)1 << 63)
		return invalid();
	if (!is_power(align))
		align = align ? (size_t)2 << kmalloc_log2(align) : 1;
	return malloc_aligned(align, size, KMALLOC_CALLER);
}

MALLOC_PUBLIC OS_NOINLINE int posix_memalign(void **to, size_t align, size_t size)
{
	OS_KEEP_ERRNO;
	void *block;

	if (!is_power(align) || align % sizeof(void *))
		return EINVAL;
	block = malloc_aligned(align, size, KMALLOC_CALLER);
	if (!block)
		return ENOMEM;
	*to = block;
	return 0;
}

MALLOC_PUBLIC OS_NOINLINE void *valloc(size_t size)
{
	return malloc_aligned((size_t)getpagesize(), size, KMALLOC_CALLER);
}

MALLOC_PUBLIC OS_NOINLINE void *pvalloc(size_t size)
{
	size_t page = (size_t)getpagesize();

	if (size > PTRDIFF_MAX)
		return malloc_no_memory();
	size = (size + page - 1) & -page;
	return malloc_aligned(page, size ? size : page, KMALLOC_CALLER);
}

/* --- sizes ------------------------------------------------------------------------------------ */

MALLOC_PUBLIC size_t malloc_usable_size(void *block)
{
	size_t size = plain_size(block);

	if (os_likely(size))
		return size;
	if (block && !boot_size(block) && malloc_is_elsewhere(block))
		return malloc_next.malloc_usable_size(block);
	return block_of(block).size;
}

MALLOC_PUBLIC void free_sized(void *block, size_t size)
{
	if (os_unlikely(os_load_relaxed(&malloc_checks_sizes)))
		malloc_check_size(block, size, 1, true, "free_sized");
	malloc_free_fast(block);
}

MALLOC_PUBLIC void free_aligned_sized(void *block, size_t align, size_t size)
{
	if (os_unlikely(os_load_relaxed(&malloc_checks_sizes)))
		malloc_check_size(block, size, align, true, "free_aligned_sized");
	malloc_free_fast(block);
}
