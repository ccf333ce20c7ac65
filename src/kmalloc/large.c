/* SPDX-License-Identifier: MIT */
/* Large blocks: the calls for them, their node, and what happens without memory. */
#include <limits.h>

#include "cache/account.h"
#include "cache/reclaim.h"
#include "kmalloc/kmalloc.h"

#define ALIGN_MOST ((size_t)1 << 30)

void *large_alloc(size_t size, size_t align, gfp_t flags, int node, const struct kmalloc_call *call)
{
	uint32_t number = account_wanted(&kmalloc_large, flags);
	size_t rounded;

	if (size > call->most) {
		if (!(flags & __GFP_NOWARN))
			os_misuse(NULL,
				  "%s(%zu bytes): at most %zu bytes; returning NULL. %s() can "
				  "allocate more",
				  call->name, size, call->most, call->larger);
		return NULL;
	}
	if (!kmalloc_ready(flags))
		return NULL;
	if (flags & ~SHEAF_GFP_PLAIN)
		flags = cache_check_gfp(&kmalloc_large, flags);
	if (node != NUMA_NO_NODE && !cache_check_node(&kmalloc_large, flags, &node))
		return NULL;
	if (node == NUMA_NO_NODE && os_options.strict_numa)
		node = os_policy_node();
	if (node == NUMA_NO_NODE)
		node = (int)os_node();
	reclaim_if_above_soft(flags);
	housekeep_if_due();
	rounded = large_roundup(size);
	for (int tries = 0;; tries++) {
		void *block = large_take(rounded, align, flags, (unsigned int)node);

		if (block && number && !large_own(block, rounded, flags, number)) {
			cache_free_any(block, call->name);
			cache_leave();
			return NULL;
		}
		if (block) {
			tools_close((char *)block + size, rounded - size);
			large_sample(block, size);
			return block;
		}
		if (!reclaim_for(NULL, flags, tries)) {
			/* A smaller block was counted when its cache failed. */
			if (size > KMALLOC_LARGEST || align > KMALLOC_LARGEST)
				page_count_failure(rounded >> OS_PAGE_SHIFT);
			return NULL;
		}
	}
}

static size_t align_of(size_t rounded, size_t align)
{
	size_t natural = large_align(rounded);

	return align > natural ? align : natural;
}

void *large_reuse(size_t old, size_t size, size_t align, gfp_t flags)
{
	bool zero = flags & __GFP_ZERO || os_options.init_on_alloc;
	size_t rounded = large_roundup(size);
	struct mapping to;

	/* To fill four pages with a copy costs less than a page fault. */
	if (old <= KMALLOC_LARGEST || rounded < old + old / 4 ||
	    (zero && rounded - old > MAP_CLEAR_MOST) || account_wanted(&kmalloc_large, flags))
		return NULL;
	to = map_reuse(rounded, align_of(rounded, align), os_node());
	old = os_round_down(old); /* an object of a cache may end within a page */
	if (to.address && zero)
		map_clear(to.address + old, to.size - old);
	if (to.address)
		large_sample(to.address, size);
	return to.address;
}

void *large_resize(const void *block, size_t size, size_t align, gfp_t flags)
{
	void *from = (void *)(uintptr_t)block, *to;
	size_t rounded;
	uint32_t record;

	if (size <= KMALLOC_LARGEST || map_find(block).address != block ||
	    account_wanted(&kmalloc_large, flags))
		return NULL;
	rounded = large_roundup(size);
	record = large_take_record(from);
	to = map_resize(from, rounded, align_of(rounded, align));
	if (!to) {
		large_put_record(from, record);
		return NULL;
	}
	if (record)
		guard_record_end(record);
	large_sample(to, size);
	return to;
}

bool kmalloc_align_is_wrong(size_t size, size_t align, const char *call)
{
	if (align && !(align & (align - 1)) && align <= ALIGN_MOST)
		return false;
	os_misuse(NULL,
		  "%s(%zu, %zu): invalid align; returning NULL. Use a power of two up to "
		  "1073741824",
		  call, size, align);
	return true;
}

/* A class for a multiple of the alignment is one, too. */
void *kmalloc_aligned(kmem_buckets *set, size_t size, size_t align, gfp_t flags, int node,
		      const struct kmalloc_call *call, uint64_t token)
{
	size_t rounded = (size + align - 1) & -align;
	void *object;

	if (size > KMALLOC_LARGEST || rounded > KMALLOC_LARGEST)
		return large_alloc(size, align, buckets_flags(set, flags), node, call);
	object = kmalloc_from(set, rounded, flags, node, call, token);
	if (os.tools && !ZERO_OR_NULL_PTR(object))
		kmalloc_tell_size(object, size);
	else
		guard_set_asked(object, size);
	return object;
}

SHEAF_PUBLIC OS_NOINLINE void *__vmalloc_node(size_t size, unsigned long align, gfp_t flags,
					      int node, const void *caller)
{
	static const struct kmalloc_call call = {"vmalloc", "", VMALLOC_MOST};

	if (!size || size > VMALLOC_MOST || kmalloc_align_is_wrong(size, align, "__vmalloc_node"))
		return NULL;
	return kmalloc_aligned(NULL, size, align < OS_PAGE ? OS_PAGE : align, flags, node, &call,
			       caller ? (uintptr_t)caller : KMALLOC_CALLER);
}

SHEAF_PUBLIC OS_NOINLINE void *kvmalloc_node_align(size_t size, unsigned long align, gfp_t flags,
						   int node)
{
	if (kmalloc_align_is_wrong(size, align, "kvmalloc_node_align"))
		return NULL;
	return kmalloc_aligned(NULL, size, align, flags, node, &kvmalloc_most, KMALLOC_CALLER);
}
