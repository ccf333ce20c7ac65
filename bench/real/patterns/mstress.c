/* SPDX-License-Identifier: MIT */
/*
 * Threads keep blocks of all sizes, exchange some of them through shared places, and free all
 * at once.
 */
#include <stdatomic.h>

#include "pattern.h"

#define KEPT   10000
#define PLACES 256

static _Atomic(void *) places[PLACES];

void *mstress(void *number)
{
	uint32_t state = seed(number);

	for (size_t n = 0; n < rounds; n++) {
		void *kept[KEPT] = {NULL};

		for (int i = 0; i < 4 * KEPT; i++) {
			void **at = &kept[next(&state) % KEPT];

			if (next(&state) % 8 == 0) {
				*at = atomic_exchange(&places[next(&state) % PLACES], *at);
				continue;
			}
			release(*at);
			*at = make(any_size(&state));
		}
		for (int i = 0; i < KEPT; i++)
			release(kept[i]);
	}
	return NULL;
}

void mstress_end(void)
{
	for (int i = 0; i < PLACES; i++)
		release(atomic_load(&places[i]));
}
