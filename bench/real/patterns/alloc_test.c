/* SPDX-License-Identifier: MIT */
/*
 * Each thread has places for blocks: a random one is emptied if it is full, and filled if it
 * is empty.
 */
#include "pattern.h"

#define PLACES 16384
#define TURNS  100000

/* Each larger power of two is half as frequent, up to 8 KiB. */
static size_t size_of(uint32_t *state)
{
	size_t order = (size_t)__builtin_ctz(next(state) | 1u << 9);

	return (8u << order) + next(state) % (8u << order);
}

void *alloc_test(void *number)
{
	void **places = calloc(PLACES, sizeof(*places));
	uint32_t state = seed(number);

	if (!places)
		fail("no memory");
	for (size_t i = 0; i < rounds * TURNS; i++) {
		void **at = &places[next(&state) % PLACES];

		if (*at) {
			release(*at);
			*at = NULL;
		} else {
			*at = make(size_of(&state));
		}
	}
	for (int i = 0; i < PLACES; i++)
		release(places[i]);
	free(places);
	return NULL;
}
