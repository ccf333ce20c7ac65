/* SPDX-License-Identifier: MIT */
/* kmalloc() and kfree() in any context: see src/cache/nolock.c. */
#include "cache/paths.h"
#include "kmalloc/kmalloc.h"

static unsigned int wanted_node(int node)
{
	return node >= 0 && (uint32_t)node < os.nr_nodes ? (unsigned int)node : os_node();
}

/* With several sets of caches, the caller's own may never have been filled: then from any other. */
static void *take_from_sets(unsigned int index, size_t size, gfp_t gfp, int node, uint64_t token)
{
	kmem_buckets *set;
	void *block = NULL;

	for (unsigned int turn = 0; !block && (set = kmalloc_set(token, gfp, turn)); turn++) {
		struct kmem_cache *s = buckets_made(set, index, size);

		/* Not before there is a cache: until then nothing knows of CPUs and nodes. */
		block = s ? cache_alloc_try(s, gfp, wanted_node(node)) : NULL;
		if (block)
			cache_set_size(s, block, size);
	}
	return block;
}

/* If a cache has no object available, or was never needed, a larger one often has one. */
SHEAF_PUBLIC OS_NOINLINE void *kmalloc_nolock(size_t size, gfp_t gfp, int node)
{
	uint64_t token = KMALLOC_CALLER;
	void *block = NULL;

	if (!size)
		return ZERO_SIZE_PTR;
	if (size > KMALLOC_LARGEST)
		return NULL;
	for (unsigned int n = 0, index = kmalloc_index(&kmalloc_sizes, size);
	     !block && n <= KMALLOC_EACH && index + n < KMALLOC_CLASSES; n++)
		block = take_from_sets(index + n, size, gfp, node, token);
	return block;
}

SHEAF_PUBLIC void kfree_nolock(const void *block)
{
	struct slab_cache *owner;

	if (ZERO_OR_NULL_PTR(block))
		return;
	if (guard_is_ours(block)) {
		cache_free_guarded(NULL, (void *)(uintptr_t)block, false, "kfree_nolock");
		os_report_kept_nowait();
		return;
	}
	owner = page_owner(block);
	if (owner) {
		kmem_cache_free_nolock(cache_of_slab(owner), (void *)(uintptr_t)block);
		return;
	}
	os_misuse_later(
		NULL,
		"kfree_nolock(%p): not an object of any cache; ignored. Free a large block with "
		"kfree()",
		block);
	os_report_kept_nowait();
}
