/* SPDX-License-Identifier: MIT */
/*
 * Each thread replaces blocks in an array and hands that to a new thread, as servers hand
 * over connections.
 */
#include <pthread.h>

#include "pattern.h"

#define BLOCKS 1000

struct work {
	void *blocks[BLOCKS];
	uint32_t state;
	size_t left;
};

static void *replace(void *data)
{
	struct work *mine = data;
	pthread_t successor;

	for (int i = 0; i < 20 * BLOCKS; i++) {
		void **at = &mine->blocks[next(&mine->state) % BLOCKS];

		release(*at);
		*at = make(8 + next(&mine->state) % 500);
	}
	if (mine->left-- && !pthread_create(&successor, NULL, replace, mine)) {
		pthread_join(successor, NULL);
		return NULL;
	}
	for (int i = 0; i < BLOCKS; i++)
		release(mine->blocks[i]);
	return NULL;
}

void *larson(void *number)
{
	struct work mine = {.state = seed(number), .left = rounds};

	return replace(&mine);
}
