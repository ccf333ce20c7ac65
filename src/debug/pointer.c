/* SPDX-License-Identifier: MIT */
/* Is a freed pointer an object of the cache that it is freed to? This finds kinds of misuse without
 * looking at bytes. */
#include "debug/report.h"
#include "os/atomic.h"

static void report_pointer(struct slab_cache *cache, void *pointer, struct slab *slab,
			   const char *call)
{
	struct debug_fault fault = debug_fault_of(cache, NULL, call);
	struct slab_cache *holder = slab ? os_load_acquire(&slab->cache) : NULL;

	fault.pointer = pointer;
	fault.holder = holder;
	fault.fix = "the call was ignored";
	/* The owner of a page run has no slab layout. */
	if (holder && holder->size)
		fault.object = debug_nearest_object(holder, slab, pointer);
	fault.what = holder && holder != cache ? "Wrong slab cache" : "Invalid object pointer";
	if (holder && holder != cache)
		fault.advice = "free it to the cache that it came from, or with kfree()";
	else if (holder && !debug_has_object(&fault))
		fault.advice = "no object was ever allocated at this address";
	else if (holder)
		fault.advice = "pass the address that was allocated";
	else if (page_is_ours(pointer))
		fault.advice =
			"there is no object at this address now; it may have been freed before";
	else
		fault.advice = "free it with the allocator that it came from";
	debug_report(&fault);
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
