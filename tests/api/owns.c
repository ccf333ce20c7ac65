/* SPDX-License-Identifier: MIT */
/* sheaf_owns(): which addresses are ours, during and after use, in a handler and while other
 * threads run. */
#include <errno.h>
#include <pthread.h>
#include <sheaf/mempool.h>
#include <sheaf/slab.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "kit/capture.h"
#include "kit/check.h"
#include "kit/random.h"
#include "kit/unit.h"

#define MiB ((size_t)1 << 20)

enum {
	POINTERS = 500,
	ROUNDS = 400
};

/* Samples of its bytes. */
static bool all_owned(const void *block, size_t size)
{
	const char *at = block;

	return sheaf_owns(at) && sheaf_owns(at + 1) && sheaf_owns(at + size / 2) &&
	       sheaf_owns(at + size - 1);
}

static void only_one_pointer_before_first_use(void)
{
	int local;

	CHECK(sheaf_owns(ZERO_SIZE_PTR));
	CHECK(!sheaf_owns(NULL) && !sheaf_owns(&local) && !sheaf_owns((void *)UINTPTR_MAX));
}

static void what_was_allocated(void **state)
{
	const size_t sizes[] = {1, 8, 100, 8192, 8193, 100000, 2 * MiB, 2 * MiB + 1, 9 * MiB};
	struct kmem_cache *s = kmem_cache_create("owned", 3000, NULL, SLAB_NO_MERGE);
	void *object = kmem_cache_alloc(s, GFP_KERNEL);
	mempool_t *pool = mempool_create_slab_pool(1, s);

	(void)state;
	assert_true(all_owned(object, 3000));
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char *block = kvmalloc(sizes[i], GFP_KERNEL);

		assert_true(all_owned(block, ksize(block)));
		kvfree(block);
		assert_int_equal(sheaf_owns(block), sizes[i] <= MiB);
		assert_int_equal(sheaf_owns(block + sizes[i] - 1), sizes[i] <= MiB);
	}
	kmem_cache_free(s, object);
	mempool_destroy(pool);
	kmem_cache_destroy(s);
	assert_true(all_owned(object, 3000));
	assert_true(sheaf_owns(kmalloc(0, GFP_KERNEL)));
}

static void nothing_else(void **state)
{
	struct kmem_cache *s = kmem_cache_create("not-owned", 64, NULL, SLAB_NO_MERGE);
	void *heap = malloc(100),
	     *map = mmap(NULL, 4 * MiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *block = kvmalloc(3 * MiB, GFP_KERNEL);

	(void)state;
	errno = 77;
	assert_false(sheaf_owns(NULL));
	assert_false(sheaf_owns(heap));
	assert_false(sheaf_owns(map));
	assert_false(sheaf_owns(&s));
	assert_false(sheaf_owns(s));
	assert_false(sheaf_owns((void *)(uintptr_t)nothing_else));
	assert_false(sheaf_owns(block - 1));
	assert_false(sheaf_owns(block + 3 * MiB));
	assert_false(sheaf_owns((void *)UINTPTR_MAX));
	/* Below all mappings, also valgrind's, and above. */
	for (unsigned int bit = 0; bit < 64; bit++)
		if ((bit < 22 || bit >= 56) && (void *)((uintptr_t)1 << bit) != ZERO_SIZE_PTR)
			assert_false(sheaf_owns((void *)((uintptr_t)1 << bit)));
	assert_int_equal(errno, 77);
	kvfree(block);
	munmap(map, 4 * MiB);
	free(heap);
	kmem_cache_destroy(s);
}

/* The way a program chooses the right call to free with when kernel code and other code meet. */
static void who_frees_what(void **state)
{
	static void *p[POINTERS];
	struct capture captured;
	uint64_t seed = 21;

	(void)state;
	capture_begin(&captured);
	for (int i = 0; i < POINTERS; i++)
		switch (random_below(&seed, 8)) {
		case 0:
			p[i] = kvmalloc(2 * MiB + random_below(&seed, MiB), GFP_KERNEL);
			break;
		case 1:
			p[i] = malloc(MiB + random_below(&seed, MiB));
			break;
		case 2:
			p[i] = kmalloc(random_below(&seed, 40000), GFP_KERNEL);
			break;
		default:
			p[i] = random_below(&seed, 2)
				       ? malloc(random_below(&seed, 1000))
				       : kmalloc(random_below(&seed, 1000), GFP_KERNEL);
		}
	for (int i = 0; i < POINTERS; i++) {
		unsigned int j = random_below(&seed, POINTERS);
		void *other = p[j];

		p[j] = p[i];
		p[i] = other;
	}
	for (int i = 0; i < POINTERS; i++)
		if (sheaf_owns(p[i]))
			kfree(p[i]);
		else
			free(p[i]);
	assert_int_equal(capture_end(&captured), 0);
}

/* --- in a handler, wherever it interrupts the thread ------------------------------------------ */

static char *stays, *small;
static uint32_t asked, wrong, stop;

static void ask(int signal)
{
	int local;

	(void)signal;
	if (!all_owned(stays, 5 * MiB) || !all_owned(small, 64) || sheaf_owns(&local) ||
	    sheaf_owns(stays + 5 * MiB))
		__atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&asked, 1, __ATOMIC_RELAXED);
}

static void *allocate_and_free(void *unused)
{
	uint64_t seed = (uintptr_t)&seed;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		size_t size = random_below(&seed, 2) ? 2 * MiB + random_below(&seed, 4 * MiB)
						     : random_below(&seed, 20000) + 1;
		char *block = kvmalloc(size, GFP_KERNEL);

		CHECK(block && all_owned(block, size));
		kvfree(block);
	}
	return unused;
}

static void in_a_handler_beside_other_threads(void **state)
{
	const struct sigaction action = {.sa_handler = ask, .sa_flags = SA_RESTART};
	pthread_t threads[2];

	(void)state;
	stays = kvmalloc(5 * MiB, GFP_KERNEL);
	small = kmalloc(64, GFP_KERNEL);
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_free, NULL), 0);
	/* A second signal that arrives while the first is pending is lost. */
	while (__atomic_load_n(&asked, __ATOMIC_RELAXED) < ROUNDS)
		for (int i = 0; i < 2; i++)
			assert_int_equal(pthread_kill(threads[i], SIGUSR1), 0);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(__atomic_load_n(&wrong, __ATOMIC_RELAXED), 0);
	kvfree(stays);
	kfree(small);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_allocated),
		cmocka_unit_test(nothing_else),
		cmocka_unit_test(who_frees_what),
		cmocka_unit_test(in_a_handler_beside_other_threads),
	};

	only_one_pointer_before_first_use();
	return cmocka_run_group_tests_name("owns", tests, NULL, NULL);
}
