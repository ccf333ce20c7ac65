/* SPDX-License-Identifier: MIT */
/*
 * Threads that live shortly: each allocates lists of blocks, keeps some for who comes after
 * it, and ends. An allocator with memory of threads must find again what ended threads had.
 */
#include <pthread.h>

#include "pattern.h"

#define BLOCKS 2000
#define LEFT   16 /* one block in so many is for the next thread */

struct work {
	uint32_t state;
	void *left[BLOCKS / LEFT];
};

static void *live(void *data)
{
	struct work *work = data;
	void *blocks[BLOCKS];

	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = make(16 + next(&work->state) % 1000);
	for (int i = 0; i < BLOCKS; i++) {
		if (i % LEFT) {
			release(blocks[i]);
			continue;
		}
		release(work->left[i / LEFT]);
		work->left[i / LEFT] = blocks[i];
	}
	return NULL;
}

void *mleak(void *number)
{
	struct work work = {.state = seed(number)};
	pthread_t thread;

	for (size_t n = 0; n < rounds; n++) {
		if (pthread_create(&thread, NULL, live, &work))
			fail("no thread");
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < BLOCKS / LEFT; i++)
		release(work.left[i]);
	return NULL;
}
