/* SPDX-License-Identifier: MIT */
/*
 * Explains an address in an error that a tool has found: one that watches each access (os/tools.h).
 * The tool reports where the program made the access; this reports which object of which cache it
 * concerns. And where an address is, as seen from the object that it is in or next to.
 */
#include "debug/report.h"
#include "os/atomic.h"
#include "os/long_report.h"
#include "os/report.h"
#include "os/tools.h"

char *debug_nearest_object(const struct slab_cache *cache, const struct slab *slab,
			   const void *address)
{
	ptrdiff_t before = cache->extra ? (ptrdiff_t)cache->extra->before : 0;
	ptrdiff_t at = (const char *)address - slab_object(cache, slab, 0) + before;
	ptrdiff_t last = slab_order_of(cache, os_load_relaxed(&slab->state)).objects - 1;
	ptrdiff_t index = at < 0 ? 0 : at / (ptrdiff_t)cache->size;

	return slab_object(cache, slab, (unsigned int)(index < last ? index : last));
}

static size_t size_of(const struct slab_cache *cache, const struct slab *slab, const void *object)
{
	if (cache->extra && slab_is_prepared(cache, slab, slab_index(cache, slab, object)))
		return debug_size(cache, object);
	return cache->object_size;
}

void debug_tell_place(struct os_long *report, const char *address, const char *object, size_t size)
{
	if (address < object)
		os_long_add(report, "%td bytes in front of", object - address);
	else if (address >= object + size)
		os_long_add(report, "%td bytes past the end of",
			    address - object - (ptrdiff_t)size);
	else
		os_long_add(report, "%td bytes into", address - object);
}

static void explain_object(struct slab_cache *cache, const struct slab *slab, const void *address)
{
	struct os_long *report = os_long_begin(cache->name, "an error that a tool has found");
	char *object = debug_nearest_object(cache, slab, address);
	struct debug_fault fault = debug_fault_of(cache, object, "");

	os_long_add(report, "libsheaf: %p is ", address);
	debug_tell_place(report, address, object, size_of(cache, slab, object));
	os_long_add(report, " an object of cache %s\n", cache->name);
	if (!cache->extra || slab_is_prepared(cache, slab, slab_index(cache, slab, object)))
		debug_tell_object(report, &fault);
	os_long_end(report);
	os_report_kept();
}

void debug_explain(const void *address)
{
	struct slab *slab = page_slab(address);
	struct slab_cache *cache = slab ? os_load_acquire(&slab->cache) : NULL;

	if (!cache)
		return;
	/* The owner of a page run has no slab layout. */
	if (cache->size)
		explain_object(cache, slab, address);
	else
		os_report("%p is %td bytes into a block of %s", address,
			  (const char *)address - page_address(slab), cache->name);
}
