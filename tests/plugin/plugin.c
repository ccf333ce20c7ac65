/* SPDX-License-Identifier: MIT */
/*
 * A plugin that uses the library: a constructor creates its caches, and a destructor frees objects
 * that were allocated there, when other threads may still be inside it.
 */
#include <sheaf/slab.h>
#include <stdint.h>

#include "plugin.h"

#define SHOWN __attribute__((visibility("default")))

enum {
	KEPT = 500,
	AT_A_TIME = 100
};

static struct kmem_cache *kept_cache, *cache;
static uintptr_t *kept[KEPT];
static struct plugin_record *record;

SHOWN plugin_begin_fn plugin_begin;
SHOWN plugin_use_fn plugin_use;

static __attribute__((constructor)) void begin(void)
{
	kept_cache = kmem_cache_create("plugin-kept", 48, NULL, SLAB_NO_MERGE);
	cache = kmem_cache_create("plugin", 64, NULL, SLAB_NO_MERGE);
	for (int i = 0; kept_cache && i < KEPT; i++) {
		kept[i] = kmem_cache_alloc(kept_cache, GFP_KERNEL);
		if (kept[i])
			*kept[i] = (uintptr_t)&kept[i];
	}
}

static __attribute__((destructor)) void end(void)
{
	if (!record)
		return;
	for (int i = 0; i < KEPT; i++) {
		if (!kept[i] || *kept[i] != (uintptr_t)&kept[i])
			record->faults++;
		else
			kmem_cache_free(kept_cache, kept[i]);
	}
	record->faults += kmem_cache_verify(kept_cache) != 0;
	record->faults += kmem_cache_shrink(kept_cache) != 0;
	kmem_cache_destroy(kept_cache);
	record->ended++;
}

void plugin_begin(struct plugin_record *here)
{
	record = here;
}

static unsigned int use_some(void)
{
	uintptr_t *objects[AT_A_TIME];
	unsigned int faults = 0;

	for (int i = 0; i < AT_A_TIME; i++) {
		objects[i] = kmem_cache_alloc(cache, GFP_KERNEL);
		if (objects[i])
			*objects[i] = (uintptr_t)&objects[i];
	}
	for (int i = 0; i < AT_A_TIME; i++) {
		faults += !objects[i] || *objects[i] != (uintptr_t)&objects[i];
		kmem_cache_free(cache, objects[i]);
	}
	return faults;
}

unsigned int plugin_use(unsigned int objects)
{
	unsigned int faults = 0;

	for (; objects > AT_A_TIME; objects -= AT_A_TIME)
		faults += use_some();
	return faults + use_some();
}
