/* SPDX-License-Identifier: MIT */
/* A ring of threads: in turns, all allocate, then each frees what the next one allocated. */
#include <pthread.h>

#include "pattern.h"

#define BLOCKS	     10000
#define MOST_THREADS 64

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_barrier_t all;
static void **handed[MOST_THREADS];

static void prepare(void)
{
	if (threads > MOST_THREADS || pthread_barrier_init(&all, NULL, (unsigned int)threads))
		fail("too many threads");
}

void *handover(void *number)
{
	size_t me = (uintptr_t)number, other = (me + 1) % threads;
	uint32_t state = seed(number);

	pthread_once(&once, prepare);
	for (size_t n = 0; n < rounds; n++) {
		handed[me] = malloc(BLOCKS * sizeof(**handed));
		if (!handed[me])
			fail("no memory");
		for (int i = 0; i < BLOCKS; i++)
			handed[me][i] = make(16 + next(&state) % 240);
		pthread_barrier_wait(&all);
		for (int i = 0; i < BLOCKS; i++)
			release(handed[other][i]);
		free(handed[other]);
		pthread_barrier_wait(&all);
	}
	return NULL;
}
