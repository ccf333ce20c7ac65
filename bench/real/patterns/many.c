/* SPDX-License-Identifier: MIT */
/* Very many threads that are alive at once, with a few blocks each: what a thread costs. */
#include <pthread.h>

#include "pattern.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t complete = PTHREAD_COND_INITIALIZER;
static size_t ready;

static void wait_for_all(void)
{
	pthread_mutex_lock(&lock);
	if (++ready == threads)
		pthread_cond_broadcast(&complete);
	while (ready < threads)
		pthread_cond_wait(&complete, &lock);
	pthread_mutex_unlock(&lock);
}

void *many(void *number)
{
	void **blocks = malloc(rounds * sizeof(*blocks));
	uint32_t state = seed(number);

	if (!blocks)
		fail("no memory");
	for (size_t i = 0; i < rounds; i++)
		blocks[i] = make(16 + next(&state) % 496);
	wait_for_all();
	for (size_t i = 0; i < rounds; i++)
		release(blocks[i]);
	free(blocks);
	return NULL;
}
