/* SPDX-License-Identifier: MIT */
/*
 * The sequence in which a slab hands out objects. Without slab_freelist_random it is by address.
 * With it, words begin at a random one, and the objects of a word are in random order.
 *
 * Nothing is stored for this: all numbers follow from the cache's secret one, the slab's address
 * and the bits of free objects.
 *
 * Locks: none. Callers: src/slab/take.c.
 */
#ifndef SHEAF_SLAB_SHUFFLE_H
#define SHEAF_SLAB_SHUFFLE_H

#include "slab/slab.h"

/* Where the random order begins in a slab; nobody can guess it without the cache's random
 * number. */
static inline uint64_t shuffle_start(const struct slab_cache *cache, const struct slab *slab)
{
	return ((uintptr_t)slab ^ cache->random) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

/* The word of bits at this position of the slab's sequence. */
static inline unsigned int shuffle_word(const struct slab_cache *cache, const struct slab *slab,
					unsigned int position, unsigned int nr_words)
{
	if (!cache->random)
		return position;
	return (unsigned int)((shuffle_start(cache, slab) + position) % nr_words);
}

/* The next bit of the order that `random` stands for; changes it for the one after. */
static inline unsigned int shuffle_next_bit(uint64_t bits, uint64_t *random)
{
	unsigned int turn;

	*random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	turn = *random >> 58;
	return ((unsigned int)__builtin_ctzll(bits >> turn | bits << (-turn & 63)) + turn) & 63;
}

/* Where the random order within this word begins; depends on the word's free objects. */
static inline uint64_t shuffle_seed(const struct slab_cache *cache, const struct slab *slab,
				    unsigned int word, uint64_t bits)
{
	return cache->random ^ bits ^ shuffle_start(cache, slab) * (word + 1);
}

/* The first bit of that order, without a loop. */
static inline unsigned int shuffle_bit(const struct slab_cache *cache, const struct slab *slab,
				       unsigned int word, uint64_t bits)
{
	uint64_t random = shuffle_seed(cache, slab, word, bits);

	return shuffle_next_bit(bits, &random);
}

#endif
