/* SPDX-License-Identifier: MIT */
/*
 * Half of the threads allocate batches, the others free them. Nobody spins: waiting takes no
 * CPU time.
 */
#include <pthread.h>

#include "pattern.h"

#define BATCH  120
#define PLACES 256

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	void **batches[PLACES];
	size_t n, taken;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void put(void **batch)
{
	pthread_mutex_lock(&queue.lock);
	while (queue.n == PLACES)
		pthread_cond_wait(&queue.changed, &queue.lock);
	queue.batches[queue.n++] = batch;
	pthread_cond_broadcast(&queue.changed);
	pthread_mutex_unlock(&queue.lock);
}

/* NULL: all were taken. */
static void **take(void)
{
	size_t all = threads / 2 * rounds;
	void **batch = NULL;

	pthread_mutex_lock(&queue.lock);
	while (!queue.n && queue.taken < all)
		pthread_cond_wait(&queue.changed, &queue.lock);
	if (queue.n) {
		batch = queue.batches[--queue.n];
		queue.taken++;
		pthread_cond_broadcast(&queue.changed);
	}
	pthread_mutex_unlock(&queue.lock);
	return batch;
}

static void allocate(uint32_t state)
{
	for (size_t n = 0; n < rounds; n++) {
		void **batch = malloc(BATCH * sizeof(*batch));

		if (!batch)
			fail("no memory");
		for (int i = 0; i < BATCH; i++)
			batch[i] = make(16 + next(&state) % 200);
		put(batch);
	}
}

void *xmalloc(void *number)
{
	void **batch;

	if ((uintptr_t)number % 2 == 0) {
		allocate(seed(number));
		return NULL;
	}
	while ((batch = take()) != NULL) {
		for (int i = 0; i < BATCH; i++)
			release(batch[i]);
		free(batch);
	}
	return NULL;
}
