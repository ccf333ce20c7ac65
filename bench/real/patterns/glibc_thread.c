/* SPDX-License-Identifier: MIT */
/*
 * Each thread replaces blocks of a small working set, and sizes follow a power law: a block
 * of twice the size is a fraction as frequent.
 */
#include "pattern.h"

#define PLACES 1024
#define TURNS  100000
#define SIZES  8192

static size_t size_of(uint32_t *state)
{
	uint32_t part = 1 + next(state) % 2048;

	return 8 + SIZES / part + next(state) % 24;
}

void *glibc_thread(void *number)
{
	void *places[PLACES] = {NULL};
	uint32_t state = seed(number);

	for (size_t i = 0; i < rounds * TURNS; i++) {
		void **at = &places[next(&state) % PLACES];

		release(*at);
		*at = make(size_of(&state));
	}
	for (int i = 0; i < PLACES; i++)
		release(places[i]);
	return NULL;
}
