/* SPDX-License-Identifier: MIT */
/* sheaf_trim(): memory is returned to the system immediately. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sheaf/trim.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kit/cache.h"
#include "kit/clock.h"
#include "kit/objects.h"
#include "kit/options.h"
#include "kit/process.h"
#include "kit/unit.h"

enum {
	SIZE = 512,
	OBJECTS = 65536, /* 32 MiB */
	EACH = 2000,
	FEW = 100,
	PAGE_BYTES = 4096,
	HUGE_PAGE = 2 << 20,
	CPUS = 2,
	ROUNDS = 200,
};

static struct kmem_cache *s;
static void *objects[OBJECTS];

static void use_and_free(void)
{
	for (unsigned int i = 0; i < OBJECTS; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		assert_non_null(objects[i]);
		memset(objects[i], 1, SIZE);
	}
	for (unsigned int i = 0; i < OBJECTS; i++)
		kmem_cache_free(s, objects[i]);
}

/* The memory in use other than that of the caches' objects. */
static size_t used(void)
{
	return library().used_bytes;
}

static size_t dirty(void)
{
	return library().free_bytes;
}

static void everything_goes(void **state)
{
	struct sheaf_stats before, after;
	size_t begin, given;
	cpu_set_t all;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	/* Sheaves' own memory stays with the library; another CPU would need more. */
	if (!pin((unsigned int)sched_getcpu()))
		skip();
	clock_stands = true; /* no sheaf becomes idle between two uses */
	for (int i = 0; i < 3; i++) {
		use_and_free();
		sheaf_trim(0);
	}
	begin = used();
	sheaf_stats(&before);
	use_and_free();
	assert_true(used() > begin || is_tiny());
	errno = 77;
	given = sheaf_trim(0);
	assert_int_equal(errno, 77);
	assert_int_equal(used(), begin);
	assert_int_equal(dirty(), 0);
	assert_int_equal(look(s).objects_in_use, 0);
	assert_int_equal(look(s).slabs, 0);
	sheaf_stats(&after);
	assert_true(after.returned_bytes - before.returned_bytes >= (size_t)OBJECTS * SIZE);
	assert_true(given <= after.returned_bytes - before.returned_bytes);
	/* Nothing is left to trim. */
	assert_int_equal(sheaf_trim(0), 0);
	clock_stands = false;
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

static void some_may_stay(void **state)
{
	const size_t keep = (size_t)8 * HUGE_PAGE;

	(void)state;
	use_and_free();
	sheaf_trim(keep);
	assert_true(dirty() <= keep);
	/* No more is returned than must be: whole chunks first. */
	if (!is_tiny())
		assert_true(dirty() > keep - HUGE_PAGE);
	sheaf_trim(SIZE_MAX);
	if (!is_tiny())
		assert_true(dirty() > keep - HUGE_PAGE);
	/* A limit that is not a multiple of pages. */
	if (!is_tiny()) {
		size_t less = dirty() - 1;

		sheaf_trim(less);
		assert_true(dirty() <= less);
	}
	assert_true(sheaf_trim(0) > 0 || is_tiny());
	assert_int_equal(dirty(), 0);
}

/* Free memory of other caches stays: they will need it again. */
static void a_shrink_returns_its_own(void **state)
{
	struct kmem_cache *mine = kmem_cache_create("mine", PAGE_BYTES, NULL, SLAB_NO_MERGE);
	size_t before, held, returned;

	(void)state;
	assert_non_null(mine);
	clock_stands = true; /* nothing is returned by time */
	sheaf_trim(0);
	use_and_free();
	before = dirty();
	assert_true(before > 0 || is_tiny());
	returned = library().returned_bytes;
	assert_int_equal(kmem_cache_shrink(mine), 0);
	assert_int_equal(dirty(), before);
	assert_int_equal(library().returned_bytes, returned);
	for (unsigned int i = 0; i < FEW; i++) {
		objects[i] = kmem_cache_alloc(mine, GFP_KERNEL);
		assert_non_null(objects[i]);
	}
	for (unsigned int i = 0; i < FEW; i++)
		kmem_cache_free(mine, objects[i]);
	held = look(mine).slab_bytes;
	before = dirty();
	assert_int_equal(kmem_cache_shrink(mine), 0);
	assert_int_equal(look(mine).slabs, 0);
	assert_true(library().returned_bytes >= returned + held);
	/* When the last run of a chunk is freed, all of the chunk is returned. */
	assert_true(dirty() <= before && dirty() + (size_t)3 * HUGE_PAGE > before);
	kmem_cache_destroy(mine);
	clock_stands = false;
}

/* Leave objects in the sheaves of a CPU. */
static void *use_cpu(void *cpu)
{
	void *mine[EACH];

	pin((unsigned int)(uintptr_t)cpu);
	for (unsigned int i = 0; i < EACH; i++)
		mine[i] = kmem_cache_alloc(s, GFP_KERNEL);
	for (unsigned int i = 0; i < EACH; i++)
		kmem_cache_free(s, mine[i]);
	return NULL;
}

static void *trim(void *unused)
{
	(void)unused;
	sheaf_trim(0);
	return NULL;
}

/* By a thread that never used the cache. */
static void every_cpu_is_reached(void **state)
{
	pthread_t threads[CPUS], trimmer;

	(void)state;
	for (uintptr_t i = 0; i < CPUS; i++)
		pthread_create(&threads[i], NULL, use_cpu, (void *)i);
	for (unsigned int i = 0; i < CPUS; i++)
		pthread_join(threads[i], NULL);
	pthread_create(&trimmer, NULL, trim, NULL);
	pthread_join(trimmer, NULL);
	assert_int_equal(look(s).objects_in_use, 0);
	assert_int_equal(look(s).slabs, 0);
	assert_int_equal(dirty(), 0);
}

static atomic_uint at_work;

static void *use_under_trims(void *cpu)
{
	uint64_t *mine[EACH / 10];

	pin((unsigned int)(uintptr_t)cpu);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (unsigned int i = 0; i < EACH / 10; i++) {
			mine[i] = kmem_cache_alloc(s, GFP_KERNEL);
			*mine[i] = (uint64_t)(uintptr_t)&mine[i];
		}
		for (unsigned int i = 0; i < EACH / 10; i++) {
			if (*mine[i] != (uint64_t)(uintptr_t)&mine[i])
				abort();
			kmem_cache_free(s, mine[i]);
		}
	}
	at_work--;
	return NULL;
}

static void others_go_on(void **state)
{
	pthread_t threads[CPUS];

	(void)state;
	at_work = CPUS;
	for (uintptr_t i = 0; i < CPUS; i++)
		pthread_create(&threads[i], NULL, use_under_trims, (void *)i);
	while (at_work)
		sheaf_trim(0);
	for (unsigned int i = 0; i < CPUS; i++)
		pthread_join(threads[i], NULL);
	sheaf_trim(0);
	assert_int_equal(look(s).objects_in_use, 0);
	assert_int_equal(kmem_cache_verify(s), 0);
}

static void body(void)
{
	use_and_free();
	CHECK(sheaf_trim(0) > 0 || is_tiny());
	CHECK(dirty() == 0);
}

static void in_a_child(void **state)
{
	(void)state;
	use_and_free();
	assert_int_equal(in_child(body), 0);
	sheaf_trim(0);
}

static int set_up(void **state)
{
	(void)state;
	/* Nothing to trim before the first use. */
	if (sheaf_trim(0))
		return -1;
	s = make("trim", SIZE, SLAB_NO_USER_FLAGS);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kmem_cache_destroy(s);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_goes),
		cmocka_unit_test(some_may_stay),
		cmocka_unit_test(a_shrink_returns_its_own),
		cmocka_unit_test(every_cpu_is_reached),
		cmocka_unit_test(others_go_on),
		cmocka_unit_test(in_a_child),
	};

	return cmocka_run_group_tests_name("trim", tests, set_up, tear_down);
}
