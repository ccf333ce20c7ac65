/* SPDX-License-Identifier: MIT */
/* Pointers that are not used objects of their cache: what is wrong with them, for reports. Callers:
 * give.c, and layers above. */
#include "os/atomic.h"
#include "os/report/report.h"
#include "slab/slab.h"

char *slab_object_around(const struct slab_cache *cache, const struct slab *slab,
			 const void *address)
{
	size_t index = ((uintptr_t)address - (uintptr_t)slab_object(cache, slab, 0)) / cache->size;
	unsigned int objects = slab_order_of(cache, os_load_relaxed(&slab->state)).objects;

	return index < objects ? slab_object(cache, slab, (unsigned int)index) : NULL;
}

void slab_report_wrong(struct slab_cache *cache, void *object, const char *call)
{
	struct slab *slab = page_slab(object);
	struct slab_cache *other = slab ? os_load_acquire(&slab->cache) : NULL;
	char *start = other == cache ? slab_object_around(cache, slab, object) : NULL;

	if (other && other != cache)
		os_misuse_pointer_later(
			cache->name,
			"%s(%s, %p): this object belongs to cache \"%s\"; ignored. Free it to "
			"that cache, or with kfree()",
			call, cache->name, object, other->name);
	else if (start)
		os_misuse_pointer_later(
			cache->name,
			"%s(%s, %p): points %zu bytes into an object; ignored. Free the address "
			"that was allocated",
			call, cache->name, object, (size_t)((char *)object - start));
	else
		os_misuse_pointer_later(
			cache->name, "%s(%s, %p): %s", call, cache->name, object,
			page_is_ours(object)
				? "not in an object that is in use; ignored. If it was freed "
				  "before, look for two owners"
				: "not an object of any cache; ignored. Free it with the "
				  "allocator that it came from");
}

void slab_report_double(struct slab_cache *cache, void *object, const char *call)
{
	os_misuse_pointer_later(
		cache->name,
		"%s(%s, %p): double free; ignored. The object is already free: look for two owners",
		call, cache->name, object);
}

unsigned int slab_leave_out_foreign(struct slab_cache *cache, void **objects, unsigned int n,
				    unsigned int newest, const char *call)
{
	for (unsigned int i = n > newest ? n - newest : 0; i < n;) {
		if (os_likely(page_owner(objects[i]) == cache)) {
			i++;
			continue;
		}
		/* This reports what is wrong with the pointer, and ignores it. */
		slab_give(cache, &objects[i], 1, call);
		objects[i] = objects[--n];
	}
	return n;
}
