/* SPDX-License-Identifier: MIT */
/* For tests of sheaves. Debug caches have none, and no cache has any with slub_tiny. */
#ifndef SHEAF_TESTS_SHEAVES_H
#define SHEAF_TESTS_SHEAVES_H

#include "cache/cache.h"
#include "kit/unit.h"
#include "os/options.h"
#include "percpu/drain.h"

/* Skip this test if the options leave caches no sheaves. */
static inline void needs_sheaves(void)
{
	if (*os_options.slab_debug || os_options.tiny)
		skip();
}

static inline void sheaves_count(void *data, struct sheaf *sheaf)
{
	*(size_t *)data += sheaf_size(sheaf);
}

static inline size_t objects_in_sheaves(struct kmem_cache *s)
{
	size_t n = 0;

	sheaf_for_each(&s->sheaf, sheaves_count, &n);
	return n;
}

#endif
