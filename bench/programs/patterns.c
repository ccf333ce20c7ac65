/* SPDX-License-Identifier: MIT */
/*
 * Fixed work of threads that call malloc() and free(), by patterns that tests of allocators are
 * known for. Written from descriptions of these:
 *
 *   larson     each thread replaces blocks in an array, and hands that to a new thread
 *   xmalloc    some threads allocate batches, the others free them
 *   mstress    threads keep blocks of all sizes, and exchange some of them through shared places
 *   batch      each thread allocates many blocks, writes them, and frees them in order
 *   handover   a ring of threads: each frees what the one before it allocated
 *
 *   patterns NAME THREADS ROUNDS
 *
 * The work does not depend on time or on the number of CPUs.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_THREADS 64
#define BLOCKS	     1000
#define MORE	     10000
#define PLACES	     256

static size_t threads, rounds;
static _Atomic(void *) places[PLACES];

static uint32_t next(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* As programs do, it is written and read. */
static void *make(size_t size)
{
	char *block = malloc(size);

	if (!block) {
		fprintf(stderr, "patterns: no memory\n");
		exit(1);
	}
	block[0] = block[size - 1] = 1;
	return block;
}

/* Mostly small, seldom large. */
static size_t any_size(uint32_t *state)
{
	uint32_t n = next(state);

	return 8 + (n >> 8) % (8u << (n % 8 == 0 ? n / 8 % 12 : n / 8 % 6));
}

struct larson {
	void *blocks[BLOCKS];
	uint32_t state;
	size_t left;
};

static void *larson(void *data)
{
	struct larson *mine = data;
	pthread_t successor;

	for (int i = 0; i < 20 * BLOCKS; i++) {
		void **at = &mine->blocks[next(&mine->state) % BLOCKS];

		free(*at);
		*at = make(8 + next(&mine->state) % 500);
	}
	if (mine->left-- && !pthread_create(&successor, NULL, larson, mine)) {
		pthread_join(successor, NULL);
		return NULL;
	}
	for (int i = 0; i < BLOCKS; i++)
		free(mine->blocks[i]);
	return NULL;
}

static void *run_larson(void *number)
{
	struct larson mine = {.state = (uint32_t)(uintptr_t)number + 1, .left = rounds};

	return larson(&mine);
}

/* Nobody spins: waiting takes no CPU time. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	void **batches[PLACES];
	size_t n, left; /* left: batches that nobody has taken yet */
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
	void **batch = NULL;

	pthread_mutex_lock(&queue.lock);
	while (!queue.n && queue.left)
		pthread_cond_wait(&queue.changed, &queue.lock);
	if (queue.n) {
		batch = queue.batches[--queue.n];
		queue.left--;
		pthread_cond_broadcast(&queue.changed);
	}
	pthread_mutex_unlock(&queue.lock);
	return batch;
}

static void *run_xmalloc(void *number)
{
	uint32_t state = 7;
	void **batch;

	for (size_t n = 0; (uintptr_t)number % 2 == 0 && n < rounds; n++) {
		batch = make(120 * sizeof(*batch));
		for (int i = 0; i < 120; i++)
			batch[i] = make(16 + next(&state) % 200);
		put(batch);
	}
	while ((uintptr_t)number % 2 && (batch = take()) != NULL) {
		for (int i = 0; i < 120; i++)
			free(batch[i]);
		free(batch);
	}
	return NULL;
}

static void *run_mstress(void *number)
{
	uint32_t state = (uint32_t)(uintptr_t)number + 1;

	for (size_t n = 0; n < rounds; n++) {
		void *kept[MORE] = {NULL};

		for (int i = 0; i < 4 * MORE; i++) {
			void **at = &kept[next(&state) % MORE];

			if (next(&state) % 8 == 0) {
				*at = atomic_exchange(&places[next(&state) % PLACES], *at);
				continue;
			}
			free(*at);
			*at = make(any_size(&state));
		}
		for (int i = 0; i < MORE; i++)
			free(kept[i]);
	}
	return NULL;
}

static void *run_batch(void *number)
{
	void **blocks = make(2 * MORE * sizeof(*blocks));
	uint32_t state = (uint32_t)(uintptr_t)number + 1;

	for (size_t n = 0; n < rounds; n++) {
		for (int i = 0; i < 2 * MORE; i++) {
			size_t size = 16 + next(&state) % 112;

			blocks[i] = make(size);
			memset(blocks[i], i, size);
		}
		for (int i = 0; i < 2 * MORE; i++)
			free(blocks[i]);
	}
	free(blocks);
	return NULL;
}

static pthread_barrier_t all;
static void **handed[MOST_THREADS];

static void *run_handover(void *number)
{
	size_t me = (uintptr_t)number, other = (me + 1) % threads;
	uint32_t state = (uint32_t)me + 1;

	for (size_t n = 0; n < rounds; n++) {
		handed[me] = make(MORE * sizeof(**handed));
		for (int i = 0; i < MORE; i++)
			handed[me][i] = make(16 + next(&state) % 240);
		pthread_barrier_wait(&all);
		for (int i = 0; i < MORE; i++)
			free(handed[other][i]);
		free(handed[other]);
		pthread_barrier_wait(&all);
	}
	return NULL;
}

static const struct {
	const char *name;
	void *(*run)(void *number);
} patterns[] = {{"larson", run_larson},
		{"xmalloc", run_xmalloc},
		{"mstress", run_mstress},
		{"batch", run_batch},
		{"handover", run_handover}};

int main(int argc, char **argv)
{
	pthread_t thread[MOST_THREADS];
	size_t which = 0;

	while (argc == 4 && which < 5 && strcmp(patterns[which].name, argv[1]) != 0)
		which++;
	if (argc != 4 || which == 5)
		return 2;
	threads = strtoul(argv[2], NULL, 10);
	rounds = strtoul(argv[3], NULL, 10);
	if (threads < 2 || threads > MOST_THREADS || threads % 2)
		return 2;
	queue.left = threads / 2 * rounds;
	pthread_barrier_init(&all, NULL, (unsigned int)threads);
	for (uintptr_t i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, patterns[which].run, (void *)i))
			return 1;
	for (size_t i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < PLACES; i++)
		free(atomic_load(&places[i]));
	printf("%s: %zu threads, %zu rounds\n", argv[1], threads, rounds);
	return 0;
}
