/* SPDX-License-Identifier: MIT */
/*
 * From an address to its object. Is a freed pointer an object of the cache that it is freed to?
 * This finds some kinds of misuse without looking at bytes. And for an error found by a tool that
 * watches each access (os/memory_tools.h): which object of which cache does it concern?
 */
#include "debug/guard_slot.h"
#include "debug/report.h"
#include "os/memory_tools.h"
#include "os/report/record.h"
#include "os/report/report.h"
#include "page/map.h"

/* --- pointers that calls get ------------------------------------------------------------------ */

static const char *advice_of(const struct debug_fault *fault)
{
	if (fault->holder)
		return debug_has_object(fault) ? "pass the address that was allocated"
					       : "no object was ever allocated at this address";
	if (map_find(fault->pointer).address)
		return "it is in a large block: free that with kfree()";
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
	if (holder)
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
	if (os_likely(index != SLAB_NO_OBJECT && slab_is_prepared(cache, slab, index)))
		return true;
	report_pointer(cache, pointer, slab, call);
	return false;
}

/* --- addresses in errors that a tool has found ------------------------------------------------ */

char *debug_nearest_object(const struct slab_cache *cache, const struct slab *slab,
			   const void *address)
{
	ptrdiff_t before = cache->extra ? (ptrdiff_t)cache->extra->before : 0;
	ptrdiff_t at = (const char *)address - slab_object(cache, slab, 0) + before;
	ptrdiff_t last = slab_order_of(cache, os_load_relaxed(&slab->state)).objects - 1;
	ptrdiff_t index = at < 0 ? 0 : at / (ptrdiff_t)cache->size;

	return slab_object(cache, slab, (unsigned int)(index < last ? index : last));
}

void debug_tell_place(struct os_record *report, const char *address, const char *object,
		      size_t size)
{
	ptrdiff_t offset = address - object;
	const char *where = "into";

	if (offset < 0) {
		where = "in front of";
		offset = -offset;
	} else if (offset >= (ptrdiff_t)size) {
		where = "past the end of";
		offset -= (ptrdiff_t)size;
	}
	os_record_add(report, "%p is %td bytes %s an object", address, offset, where);
}

static void explain_object(struct os_record *report, struct slab_cache *cache,
			   const struct slab *slab, const void *address)
{
	char *object = debug_nearest_object(cache, slab, address);
	struct debug_fault fault = debug_fault_of(cache, object, "");
	bool prepared =
		cache->extra && slab_is_prepared(cache, slab, slab_index(cache, slab, object));

	os_record_add(report, "libsheaf: ");
	debug_tell_place(report, address, object,
			 prepared ? debug_size(cache, object) : cache->object_size);
	os_record_add(report, " of cache %s\n", cache->name);
	if (!cache->extra || prepared)
		debug_tell_object(report, &fault);
	os_record_end(report, false);
	os_report_kept();
}

static bool explain(const void *address, bool of_tool)
{
	struct slab *slab = page_slab(address);
	struct slab_cache *cache = slab ? os_load_acquire(&slab->cache) : NULL;
	struct mapping block = map_find(address);

	if (cache)
		explain_object(
			of_tool ? os_record_begin(cache->name, "an error that a tool has found")
				: os_record_claim(false),
			cache, slab, address);
	else if (block.address)
		os_report("%p is %td bytes into a large block", address,
			  (const char *)address - block.address);
	return cache || block.address;
}

void debug_explain(const void *address)
{
	explain(address, true);
}

static bool explain_guarded(const void *address)
{
	const struct guard_slot *slot = guard_is_ours(address) ? guard_place_of(address).in : NULL;
	struct os_record *report = slot ? os_record_claim(false) : NULL;

	if (slot) {
		os_record_add(report, "libsheaf: ");
		debug_tell_place(report, address, slot->object, slot->object_size);
		os_record_add(report, "\n");
		debug_tell_guarded(report, slot);
		os_record_end(report, false);
		os_report_kept();
	}
	return slot;
}

bool debug_dump(const void *address)
{
	return explain_guarded(address) || explain(address, false);
}
