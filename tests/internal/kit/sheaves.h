/* SPDX-License-Identifier: MIT */
/* What a cache's sheaves hold. */
#ifndef SHEAF_TESTS_SHEAVES_H
#define SHEAF_TESTS_SHEAVES_H

#include "cache/cache.h"
#include "percpu/drain.h"

static inline void sheaves_count(void *data, struct sheaf *sheaf, bool waits)
{
	(void)waits;
	*(size_t *)data += sheaf_size(sheaf);
}

static inline size_t objects_in_sheaves(struct kmem_cache *s)
{
	size_t n = 0;

	sheaf_for_each(&s->sheaf, sheaves_count, &n);
	return n;
}

#endif
