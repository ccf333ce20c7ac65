/* SPDX-License-Identifier: MIT */
/* A plugin that is loaded for a moment only: unload.c does so many times. Its last operation is one
 * of those that a program may have in place. */
#include <sheaf/kmalloc.h>

#include "plugin.h"

#define SHOWN __attribute__((visibility("default")))

static struct kmem_cache *cache;

SHOWN plugin_use_fn plugin_use;

static __attribute__((constructor)) void begin(void)
{
	cache = kmem_cache_create("passing", 64, NULL, SLAB_NO_MERGE);
}

static __attribute__((destructor)) void end(void)
{
	kmem_cache_destroy(cache);
}

unsigned int plugin_use(unsigned int objects)
{
	unsigned int faults = 0;

	for (; objects; objects--) {
		void *block = kmalloc(100, GFP_KERNEL),
		     *object = kmem_cache_alloc(cache, GFP_KERNEL);

		faults += !block || !object;
		kfree(block);
		kmem_cache_free(cache, object);
	}
	return faults;
}
