/* SPDX-License-Identifier: MIT */
/*
 * Threads that allocate, hand blocks to each other and end while these are in use; 200 at once, and
 * then one after another. Keys of threads whose destructors allocate and free.
 */
#include <pthread.h>

#include "check.h"

enum {
	THREADS = 200,
	EACH = 40
};

static pthread_barrier_t barrier;
static pthread_key_t key;
static unsigned char *passed[THREADS][EACH];

static void of_key(void *value)
{
	free(value);
	churn(3, 50);
}

static void *at_once(void *argument)
{
	size_t self = (size_t)argument;

	CHECK(!pthread_setspecific(key, malloc(HIDDEN((size_t)100))));
	for (size_t i = 0; i < EACH; i++) {
		passed[self][i] = malloc(HIDDEN(((size_t)16) << i % 8));
		CHECK(passed[self][i]);
		*passed[self][i] = (unsigned char)self;
	}
	pthread_barrier_wait(&barrier);
	for (size_t i = 0; i < EACH; i++) {
		size_t other = (self + i) % THREADS;

		CHECK(*passed[other][i] == (unsigned char)other);
		free(passed[other][i]);
	}
	return malloc(HIDDEN((size_t)10));
}

static void *after_another(void *before)
{
	free(before);
	churn(7, 50);
	return malloc(HIDDEN((size_t)10));
}

int main(void)
{
	pthread_t threads[THREADS];
	pthread_attr_t small;
	void *block = NULL;

	check_ours();
	pthread_key_create(&key, of_key);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 256 << 10);
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (size_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], &small, at_once, (void *)i));
	for (size_t i = 0; i < THREADS; i++) {
		CHECK(!pthread_join(threads[i], &block) && block);
		free(block);
	}
	block = NULL;
	for (size_t i = 0; i < THREADS; i++) {
		CHECK(!pthread_create(&threads[i], &small, after_another, block));
		CHECK(!pthread_join(threads[i], &block));
	}
	free(block);
	return 0;
}
