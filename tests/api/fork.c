/* SPDX-License-Identifier: MIT */
/* fork() and vfork() during everything that other threads do. */
#include <pthread.h>
#include <sheaf/slab.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/cache.h"
#include "kit/check.h"
#include "kit/options.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/sanitizers.h"
#include "kit/unit.h"

enum {
	THREADS = 3,
	HELD = 200,
	FORKS = 40,
	VFORKS = 20,
	CACHES = 1000,
	MOST_PAGES = 150 /* 290 if each cache and sheaf is written as well */
};

#if HAS_TSAN || HAS_ASAN
#define COUNTS_PAGES false /* their runtimes write memory of their own */
#else
#define COUNTS_PAGES true
#endif

static struct kmem_cache *small, *large;
static int running;

static void churn(struct kmem_cache *s, void **p, unsigned int rounds, uint64_t *seed)
{
	for (unsigned int i = 0; i < rounds; i++) {
		unsigned int at = random_below(seed, HELD);

		if (p[at])
			p[at] = (kmem_cache_free(s, p[at]), NULL);
		else
			p[at] = kmem_cache_alloc(s, GFP_KERNEL);
		if (i % 100 == 0) {
			void *bulk[70];

			if (kmem_cache_alloc_bulk(s, GFP_KERNEL, 70, bulk) == 70)
				kmem_cache_free_bulk(s, 70, bulk);
		}
	}
}

static void *hammer(void *number)
{
	uint64_t seed = (uintptr_t)number + 1;
	void *p[2][HELD] = {{NULL}};

	while (__atomic_load_n(&running, __ATOMIC_RELAXED)) {
		churn(small, p[0], 500, &seed);
		churn(large, p[1], 50, &seed);
		if (seed % 8 == 0)
			kmem_cache_shrink(small);
		if (seed % 16 == 0) {
			struct kmem_cache *s = kmem_cache_create("brief", 40, NULL, SLAB_NO_MERGE);

			kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
			kmem_cache_destroy(s);
		}
	}
	kmem_cache_free_bulk(small, HELD, p[0]);
	kmem_cache_free_bulk(large, HELD, p[1]);
	return NULL;
}

/* Objects of vanished threads stay in use; everything else must work, and each object must be in
 * one place. */
static void in_the_child(void)
{
	struct kmem_cache *own = kmem_cache_create("child", 64, NULL, SLAB_NO_MERGE);
	void *p[HELD] = {NULL};
	uint64_t seed = 99;
	pid_t grandchild;
	int status;

	CHECK(own);
	CHECK(kmem_cache_verify(small) == 0);
	CHECK(kmem_cache_verify(large) == 0);
	churn(small, p, 2000, &seed);
	kmem_cache_free_bulk(small, HELD, p);
	memset(p, 0, sizeof(p));
	churn(own, p, 2000, &seed);
	kmem_cache_free_bulk(own, HELD, p);
	kmem_cache_shrink(small);
	CHECK(kmem_cache_verify(small) == 0);
	CHECK(kmem_cache_shrink(own) == 0);
	grandchild = fork();
	if (grandchild == 0) {
		memset(p, 0, sizeof(p));
		churn(large, p, 200, &seed);
		CHECK(kmem_cache_verify(large) == 0);
		_exit(0);
	}
	CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
	kmem_cache_destroy(own);
}

static void start(pthread_t *threads)
{
	__atomic_store_n(&running, 1, __ATOMIC_RELAXED);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, hammer, (void *)i);
}

static void stop(pthread_t *threads)
{
	__atomic_store_n(&running, 0, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(kmem_cache_verify(small), 0);
	assert_int_equal(kmem_cache_verify(large), 0);
	assert_int_equal(kmem_cache_shrink(small), 0);
	assert_int_equal(kmem_cache_shrink(large), 0);
}

static void forks_while_threads_hammer(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	start(threads);
	for (int i = 0; i < FORKS; i++)
		assert_int_equal(in_child(in_the_child), 0);
	stop(threads);
}

/* A vfork child may only exec: until then it uses its parent's memory. */
static void vfork_child_execs(void **state)
{
	pthread_t threads[THREADS];
	static void *p[HELD];
	static uint64_t seed = 3;

	(void)state;
	start(threads);
	for (int i = 0; i < VFORKS; i++) {
		pid_t child = vfork();
		int status;

		if (child == 0) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(127);
		}
		churn(small, p, 100, &seed);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	kmem_cache_free_bulk(small, HELD, p);
	stop(threads);
}

/* Pages of its own that a child has when it begins. */
static unsigned int pages_of_a_child(void)
{
	int ends[2], status;
	unsigned int pages = 0;
	struct rusage usage;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		getrusage(RUSAGE_SELF, &usage);
		pages = (unsigned int)usage.ru_minflt;
		_exit(write(ends[1], &pages, sizeof(pages)) != sizeof(pages));
	}
	assert_int_equal(read(ends[0], &pages, sizeof(pages)), sizeof(pages));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(ends[0]);
	close(ends[1]);
	return pages;
}

/* The library's handlers write only what changes: of a cache, the lock of a node's list. */
static void child_copies_few_pages(void **state)
{
	static struct kmem_cache *caches_made[CACHES];
	static void *object[CACHES];
	unsigned int pages = pages_of_a_child(), more;
	char name[32];

	(void)state;
	if (!COUNTS_PAGES || library().counted || has_slab_debug())
		skip();
	for (unsigned int i = 0; i < CACHES; i++) {
		snprintf(name, sizeof(name), "many-%u", i);
		caches_made[i] = kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
		assert_non_null(caches_made[i]);
		object[i] = kmem_cache_alloc(caches_made[i], GFP_KERNEL);
		assert_non_null(object[i]);
	}
	more = pages_of_a_child();
	for (unsigned int i = 0; i < CACHES; i++) {
		kmem_cache_free(caches_made[i], object[i]);
		kmem_cache_destroy(caches_made[i]);
	}
	printf("pages copied by a child: %u, with %u caches %u\n", pages, CACHES, more);
	assert_in_range(more, 0, pages + MOST_PAGES);
}

static int setup(void **state)
{
	(void)state;
	small = kmem_cache_create("small", 64, NULL, SLAB_NO_MERGE);
	large = kmem_cache_create("large", 3000, NULL, SLAB_NO_MERGE);
	return small && large ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forks_while_threads_hammer),
		cmocka_unit_test(vfork_child_execs),
		cmocka_unit_test(child_copies_few_pages),
	};

	return cmocka_run_group_tests_name("fork", tests, setup, NULL);
}
