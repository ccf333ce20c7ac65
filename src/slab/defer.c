/* SPDX-License-Identifier: MIT */
/* Lists of deferred objects; see defer.h. */
#include "slab/defer.h"

#include "os/machine.h"
#include "os/report.h"
#include "slab/freelist.h"
#include "slab/partial.h"

static uintptr_t *link_of(const struct slab_cache *cache, void *object)
{
	return (uintptr_t *)((char *)object + cache->offset);
}

void slab_defer(struct slab_cache *cache, void *object)
{
	struct slab_node *node = cache->nodes[page_node(object)];
	uintptr_t *link = link_of(cache, object);
	void *first = os_load_relaxed(&node->deferred);

	do
		*link = (uintptr_t)first ^ freelist_mask(cache, link);
	while (!os_cmpxchg(&node->deferred, &first, object));
	os_exchange(&cache->deferred, 1);
}

/* The one that follows; NULL at the end, and after a report if something wrote to the object. */
static void *next_deferred(const struct slab_cache *cache, void *object)
{
	uintptr_t *link = link_of(cache, object), next = *link ^ freelist_mask(cache, link);

	if (!next || page_is_ours((void *)next))
		return (void *)next;
	os_misuse_later(cache->name,
			"cache \"%s\": object %p was written to after it was freed; objects that "
			"kmem_cache_free_nolock() freed before it are leaked",
			cache->name, object);
	return NULL;
}

void slab_give_deferred(struct slab_cache *cache)
{
	os_exchange(&cache->deferred, 0);
	for (uint32_t i = 0; i < os.nr_nodes; i++) {
		struct slab_node *node = os_load_acquire(&cache->nodes[i]);
		void *object, *next;

		if (!node || !os_load_relaxed(&node->deferred))
			continue;
		for (object = os_exchange(&node->deferred, NULL); object; object = next) {
			next = next_deferred(cache, object);
			slab_give(cache, &object, 1, "kmem_cache_free_nolock");
		}
	}
}

void slab_defer_after_fork(struct slab_cache *cache)
{
	for (uint32_t i = 0; i < os.nr_nodes; i++)
		if (cache->nodes[i] && cache->nodes[i]->deferred)
			cache->deferred = 1;
}
