/* SPDX-License-Identifier: MIT */
/* Is a freed pointer an object of the cache that it is freed to? This finds kinds of misuse without
 * looking at bytes. */
#include "debug/report.h"
#include "os/atomic.h"

static const char *advice_of(const struct debug_fault *fault)
{
	if (fault->holder)
		return debug_has_object(fault) ? "pass the address that was allocated"
					       : "no object was ever allocated at this address";
	return page_is_ours(fault->pointer)
		       ? "there is no object at this address now; it may have been freed before"
		       : "free it with the allocator that it came from";
}

static void report_pointer(struct slab_cache *cache, void *pointer, struct slab *slab,
			   const char *call)
{
	struct debug_fault fault = debug_fault_of(cache, NULL, call);
	struct slab_cache *holder = slab ? os_load_acquire(&slab->cache) : NULL;

	fault.pointer = pointer;
	fault.holder = holder;
	/* The owner of a page run has no slab layout. */
	if (holder && holder->size)
		fault.object = debug_nearest_object(holder, slab, pointer);
	if (holder && holder != cache)
		debug_report(&fault, "Wrong slab cache",
			     "free it to the cache that it came from, or with kfree()");
	else
		debug_report(&fault, "Invalid object pointer", advice_of(&fault));
}

bool debug_is_object(struct slab_cache *cache, void *pointer, const char *call)
{
	struct slab *slab = page_slab(pointer);
	unsigned int index = SLAB_NO_OBJECT;

	if (slab && os_load_acquire(&slab->cache) == cache)
		index = slab_index(cache, slab, pointer);
	if (__builtin_expect(index != SLAB_NO_OBJECT && slab_is_prepared(cache, slab, index), 1))
		return true;
	report_pointer(cache, pointer, slab, call);
	return false;
}
