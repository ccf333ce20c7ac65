/* SPDX-License-Identifier: MIT */
/*
 * malloc() and free() in a handler of signals, wherever it interrupts a thread: in the section, in
 * slow paths that hold locks, in realloc(), and in malloc_trim(). Blocks of a thread are also freed
 * by its handler, and the reverse (MALLOC-M5). Usage: handlers SIGNALS
 *
 * Signals come from another thread, each when the handler of the one before has ended.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>

#include <sheaf/kmalloc.h>
#include <sheaf/slab.h>

#include "check.h"

enum {
	BLOCKS = 256,
	THREADS = 2
};

static const size_t sizes[] = {24, 100, 400, 3000, 30000, 300000, 3 << 20};

static unsigned int handled[THREADS], stop;
static pthread_barrier_t begun;
static __thread unsigned int self;

/* Whoever takes a block out owns it: a thread or a handler. */
static unsigned char *blocks[BLOCKS];

static void check_free(unsigned char *block)
{
	size_t size = block ? sizes[*block] : 0;

	if (!block)
		return;
	CHECK(block[size / 2] == *block && block[size - 1] == *block);
	free(block);
}

static unsigned char *make(unsigned int seed)
{
	unsigned int kind = seed % 97 < 80 ? seed % 3 : seed % 7;
	size_t size = sizes[kind];
	unsigned char *block = seed % 5	  ? malloc(size)
			       : seed % 2 ? calloc(1, size)
					  : aligned_alloc(64, size);

	CHECK(block && malloc_usable_size(block) >= size);
	*block = block[size / 2] = block[size - 1] = (unsigned char)kind;
	return block;
}

static void exchange(unsigned int seed)
{
	for (unsigned int i = 0; i < 50; i++) {
		seed = seed * 1103515245 + 12345;
		check_free(__atomic_exchange_n(&blocks[(seed >> 8) % BLOCKS], make(seed >> 8),
					       __ATOMIC_ACQ_REL));
	}
}

static void on_signal(int number)
{
	int before = errno;
	unsigned int times = handled[self];
	char *block = malloc(HIDDEN((size_t)50));

	(void)number;
	exchange(times * 77);
	CHECK(block);
	block[49] = 7;
	block = realloc(block, 5000);
	CHECK(block && block[49] == 7);
	free(block);
	mallinfo2();
	errno = before;
	__atomic_store_n(&handled[self], times + 1, __ATOMIC_RELEASE);
}

static void *works(void *number)
{
	self = (unsigned int)(uintptr_t)number;
	pthread_barrier_wait(&begun);
	for (unsigned int i = self; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i += THREADS) {
		exchange(i);
		if (i % 16 == 0)
			churn(i, 100);
		if (i % 64 == 0)
			malloc_trim(0);
	}
	return NULL;
}

/* Those that every call may take; its first entry is none. */
static void verify(void)
{
	struct kmem_cache *last = NULL, *s;

	for (unsigned int i = 1; i < SHEAF_KMALLOC_WORDS; i++) {
		s = sheaf_kmalloc_table->by_words[i];
		if (s != sheaf_kmalloc_table->by_words[0] && s != last)
			CHECK(kmem_cache_verify(s) == 0);
		last = s;
	}
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	pthread_t threads[THREADS];
	unsigned int signals;

	CHECK(argc == 2);
	signals = (unsigned int)atoi(argv[1]);
	check_ours();
	pthread_barrier_init(&begun, NULL, THREADS + 1);
	CHECK(!sigaction(SIGUSR1, &action, NULL));
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, works, (void *)i));
	pthread_barrier_wait(&begun);
	for (unsigned int n = 0; n < signals; n++) {
		for (unsigned int i = 0; i < THREADS; i++)
			CHECK(!pthread_kill(threads[i], SIGUSR1));
		for (unsigned int i = 0; i < THREADS; i++)
			while (__atomic_load_n(&handled[i], __ATOMIC_ACQUIRE) <= n)
				sched_yield();
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	for (unsigned int i = 0; i < BLOCKS; i++)
		check_free(blocks[i]);
	verify();
	return 0;
}
