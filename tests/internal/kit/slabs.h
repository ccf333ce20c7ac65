/* SPDX-License-Identifier: MIT */
/* Caches of the slab layer alone. */
#ifndef SHEAF_TESTS_SLABS_H
#define SHEAF_TESTS_SLABS_H

#include <string.h>

#include "slab/slab.h"

#include "kit/unit.h"
#include "os/machine.h"
#include "page/page.h"

static inline struct slab_request request_of(uint32_t size)
{
	return (struct slab_request){.name = "test", .object_size = size, .align = 8};
}

/* An object that begins with its own address. */
static inline void stamp(struct slab_cache *cache, void *object)
{
	memset(object, 0xa5, cache->object_size);
	*(void **)object = object;
}

static inline unsigned int nr_bits(struct slab_cache *cache, struct slab *slab, uint64_t state)
{
	unsigned int objects = slab_order_of(cache, state).objects, n = 0;
	const uint64_t *words = slab_words(cache, slab);

	for (unsigned int i = 0; i < slab_nr_words(cache, state); i++)
		n += (unsigned int)__builtin_popcountll(words[i]);
	if (objects % 64)
		assert_int_equal(words[objects / 64] >> objects % 64, 0);
	return n;
}

/* Check bits, count and flags of every slab of a quiet cache; return the number of objects in
 * use. */
static inline size_t count_in_use(struct slab_cache *cache)
{
	size_t in_use = 0, nr_slabs = 0, expected = 0;

	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		struct slab *slab;
		size_t n = page_slabs(node, &slab);

		for (; n > 0; n--, slab++) {
			uint64_t state = slab->state;

			if (slab->cache != cache || state & SLAB_TAIL)
				continue;
			assert_int_equal(nr_bits(cache, slab, state), slab_free(cache, state));
			assert_int_equal(slab_inuse(state) + slab_free(cache, state),
					 slab_order_of(cache, state).objects);
			assert_int_equal(!(state & SLAB_LISTED), !slab_free(cache, state));
			assert_false(state & SLAB_HELD);
			in_use += slab_inuse(state);
			nr_slabs++;
		}
		if (cache->nodes[node])
			expected += cache->nodes[node]->nr_slabs;
	}
	assert_int_equal(nr_slabs, expected);
	return in_use;
}

#endif
