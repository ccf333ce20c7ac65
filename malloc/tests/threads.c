/* SPDX-License-Identifier: MIT */
/*
 * Threads that allocate, hand blocks to each other and end while these are in use: many at once,
 * in waves, of which none needs more memory than the one before; and then one after another. Keys
 * of threads whose destructors allocate and free in each round. Usage: threads NUMBER
 */
#include <limits.h>
#include <malloc.h>
#include <pthread.h>

#include "check.h"

enum {
	MOST = 2000,
	EACH = 40,
	WAVES = 8, /* without reuse, they need more than the limit below */
	ONE_BY_ONE = 200,
	SHEAVES = 2 << 20,     /* bytes that sheaves may hold, */
	SHEAVES_EACH = 3 << 20 /* and for each CPU: what they do depends on where threads run */
};

static size_t nr_threads;
static pthread_barrier_t barrier;
static pthread_key_t key;
static pthread_t threads[MOST];
static unsigned char *passed[MOST][EACH];
static __thread int rounds;

/* The C library calls it again while there is a value. */
static void of_key(void *value)
{
	free(value);
	churn(3, 50);
	if (++rounds < PTHREAD_DESTRUCTOR_ITERATIONS)
		CHECK(!pthread_setspecific(key, malloc(HIDDEN((size_t)rounds * 100))));
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
	pthread_barrier_wait(&barrier);
	for (size_t i = 0; i < EACH; i++) {
		size_t other = (self + i) % nr_threads;

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

/* Returns the bytes that the library holds while all blocks are in use. */
static size_t wave(const pthread_attr_t *small)
{
	struct mallinfo2 info;
	void *block;

	for (size_t i = 0; i < nr_threads; i++)
		CHECK(!pthread_create(&threads[i], small, at_once, (void *)i));
	pthread_barrier_wait(&barrier);
	info = mallinfo2();
	pthread_barrier_wait(&barrier);
	for (size_t i = 0; i < nr_threads; i++) {
		CHECK(!pthread_join(threads[i], &block) && block);
		free(block);
	}
	return info.arena + info.hblkhd;
}

int main(int argc, char **argv)
{
	pthread_attr_t small;
	void *block = NULL;
	size_t most;

	CHECK(argc == 2);
	nr_threads = (size_t)atoi(argv[1]);
	CHECK(nr_threads && nr_threads <= MOST);
	check_ours();
	pthread_key_create(&key, of_key);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 256 << 10);
	pthread_barrier_init(&barrier, NULL, (unsigned int)nr_threads + 1);
	most = wave(&small);
	most += most / 4 + SHEAVES + SHEAVES_EACH * (size_t)sysconf(_SC_NPROCESSORS_CONF);
	for (int i = 1; i < WAVES; i++) {
		size_t held = wave(&small);

		if (held > most)
			fprintf(stderr, "wave %d holds %zu bytes, at most %zu may be\n", i, held,
				most);
		CHECK(held <= most);
	}
	for (size_t i = 0; i < ONE_BY_ONE; i++) {
		CHECK(!pthread_create(&threads[0], &small, after_another, block));
		CHECK(!pthread_join(threads[0], &block));
	}
	free(block);
	return 0;
}
