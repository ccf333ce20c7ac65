/* SPDX-License-Identifier: MIT */
/* The calls on a cache and its objects: their promises, and the effects of misuse. */

#include <errno.h>
#include <pthread.h>
#include <sheaf/stats.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/clock.h"
#include "kit/guarded.h"
#include "kit/needs.h"
#include "kit/objects.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/unit.h"

static struct capture captured;

struct thing {
	uint64_t a, b, c;
};

/* --- objects -----------------------------------------------------------------------------------
 */

enum {
	MANY = 3000
};

#define CONSTRUCTED UINT64_C(0xc0257ac7ed000000)

static unsigned int nr_constructed;

static void construct(void *object)
{
	struct thing *thing = object;

	thing->a = CONSTRUCTED;
	thing->b = (uintptr_t)object;
	nr_constructed++;
}

/* It would undo the constructor. */
static void constructed_objects_are_not_cleared(void **state)
{
	struct kmem_cache *s = kmem_cache_create("ctor", sizeof(struct thing), 0, 0, construct);
	struct capture captured;
	struct thing *thing;

	(void)state;
	for (int i = 0; i < 2; i++) {
		capture_begin(&captured);
		thing = kmem_cache_zalloc(s, GFP_KERNEL);
		assert_int_equal(capture_end(&captured), 1);
		assert_non_null(strstr(captured.text, "kmem_cache_alloc(ctor): __GFP_ZERO"));
		assert_non_null(thing);
		assert_int_equal(thing->a, CONSTRUCTED);
		kmem_cache_free(s, thing);
	}
	kmem_cache_destroy(s);
}

static void constructor(void **state)
{
	static struct thing *things[MANY];
	struct kmem_cache *s = kmem_cache_create("ctor", sizeof(struct thing), 0, 0, construct);
	uint64_t seed = 3;
	unsigned int first;

	(void)state;
	nr_constructed = 0;
	for (int i = 0; i < MANY; i++) {
		things[i] = kmem_cache_alloc(s, i % 2 ? GFP_KERNEL : GFP_NOWAIT);
		assert_non_null(things[i]);
		assert_int_equal(things[i]->a, CONSTRUCTED);
		assert_int_equal(things[i]->b, (uintptr_t)things[i]);
		things[i]->a++;
	}
	/* Once for each object: those in the user's hands and those waiting in sheaves. */
	first = nr_constructed;
	assert_true(first >= MANY && first < MANY + 4096);
	/* Half of the objects stay allocated, so that no slab becomes empty: nothing may be
	 * constructed again. */
	for (int round = 0; round < 20000; round++) {
		unsigned int i = random_below(&seed, MANY / 2) * 2;

		if (things[i]) {
			things[i]->a--;
			kmem_cache_free(s, things[i]);
			things[i] = NULL;
		} else {
			things[i] = kmem_cache_alloc(s, GFP_KERNEL);
			assert_int_equal(things[i]->a, CONSTRUCTED);
			assert_int_equal(things[i]->b, (uintptr_t)things[i]);
			things[i]->a++;
		}
	}
	/* A guarded object has pages of its own, which it returns. */
	assert_true(nr_constructed <= first + 4096 || is_guarded(things[1]));
	capture_begin(&captured);
	things[0] = things[0] ? things[0] : kmem_cache_zalloc(s, GFP_KERNEL);
	capture_end(&captured);
	assert_int_not_equal(things[0]->a, 0);
	for (int i = 0; i < MANY; i++)
		kmem_cache_free(s, things[i]);
	assert_int_equal(kmem_cache_shrink(s), 0);
	kmem_cache_destroy(s);
}

static void zalloc(void **state)
{
	struct kmem_cache *s = kmem_cache_create("zero", 100, NULL, SLAB_NO_MERGE);
	static const char zero[100];
	void *p[200];

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 200; i++) {
			p[i] = kmem_cache_zalloc(s, i % 2 ? GFP_KERNEL : GFP_NOWAIT);
			assert_memory_equal(p[i], zero, 100);
			memset(p[i], 0xff, 100);
		}
		kmem_cache_free_bulk(s, 200, p);
		assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL | __GFP_ZERO, 200, p), 200);
		for (int i = 0; i < 200; i++) {
			assert_memory_equal(p[i], zero, 100);
			memset(p[i], 0xff, 100);
		}
		kmem_cache_free_bulk(s, 200, p);
	}
	kmem_cache_destroy(s);
}

/* Code for the kernel's calls before 7.2, and since. */
static void bulk_results_of_both_kinds(void **state)
{
	struct kmem_cache *s = kmem_cache_create("results", 64, NULL, SLAB_NO_MERGE);
	static void *p[300];
	bool filled = kmem_cache_alloc_bulk(s, GFP_KERNEL, 256, p);
	int n = kmem_cache_alloc_bulk(s, GFP_KERNEL, 1, p + 256);

	(void)state;
	assert_true(filled);
	assert_int_equal(n, 1);
	assert_false(kmem_cache_alloc_bulk(s, GFP_KERNEL, 0, p));
	kmem_cache_free_bulk(s, 257, p);
	kmem_cache_destroy(s);
}

static void unknown_gfp_flag(void **state)
{
	struct kmem_cache *s = kmem_cache_create("gfp", 64, NULL, SLAB_NO_MERGE);
	void *object;

	(void)state;
	capture_begin(&captured);
	object = kmem_cache_alloc(s, GFP_KERNEL | 0x100000u);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "0x100000"));
	assert_non_null(object);
	kmem_cache_free(s, object);
	kmem_cache_destroy(s);
}

/* Flags that kernel code passes but that have no effect here: no report, and the fast path. */
static void harmless_flags(void **state)
{
	const gfp_t flags = GFP_USER | GFP_HIGHUSER_MOVABLE | __GFP_NOLOCKDEP | __GFP_NOMEMALLOC |
			    __GFP_COMP | __GFP_RECLAIMABLE | __GFP_WRITE | GFP_DMA | GFP_DMA32 |
			    GFP_TRANSHUGE;
	struct kmem_cache *s = kmem_cache_create(
		"harmless", 64, NULL,
		SLAB_NOLEAKTRACE | SLAB_NO_USER_FLAGS | SLAB_TEMPORARY | SLAB_CACHE_DMA |
			SLAB_CACHE_DMA32 | SLAB_DEBUG_OBJECTS | SLAB_KASAN | SLAB_SKIP_KFENCE);
	void *object;

	(void)state;
	assert_int_equal((flags | __GFP_NOLOCKDEP) & ~SHEAF_GFP_PLAIN, 0);
	capture_begin(&captured);
	object = kmem_cache_alloc(s, flags);
	assert_int_equal(capture_end(&captured), 0);
	assert_non_null(object);
	kmem_cache_free(s, object);
	kmem_cache_destroy(s);
}

static void who_may_block(void **state)
{
	(void)state;
	assert_true(gfpflags_allow_blocking(GFP_KERNEL));
	assert_true(gfpflags_allow_blocking(GFP_NOFS | __GFP_ZERO));
	assert_false(gfpflags_allow_blocking(GFP_NOWAIT));
	assert_false(gfpflags_allow_blocking(GFP_ATOMIC | __GFP_ZERO));
	assert_false(gfpflags_allow_blocking(0));
	assert_true(gfpflags_allow_blocking(GFP_TRANSHUGE));
	assert_false(gfpflags_allow_blocking(GFP_TRANSHUGE_LIGHT));
	assert_true(gfpflags_allow_spinning(GFP_NOWAIT) && gfpflags_allow_spinning(GFP_KERNEL));
	assert_false(gfpflags_allow_spinning(__GFP_ZERO));
	assert_true(gfp_has_io_fs(GFP_KERNEL) && gfp_has_io_fs(GFP_USER));
	assert_false(gfp_has_io_fs(GFP_NOFS) || gfp_has_io_fs(GFP_NOIO) || gfp_has_io_fs(__GFP_FS));
}

#define FLAGS_OF(what, ...) default_gfp(__VA_ARGS__)

static void flags_are_optional(void **state)
{
	gfp_t flags = GFP_NOWAIT;

	(void)state;
	assert_int_equal(default_gfp(), GFP_KERNEL);
	assert_int_equal(default_gfp(0u), 0);
	assert_int_equal(default_gfp(flags | __GFP_ZERO), GFP_NOWAIT | __GFP_ZERO);
	assert_int_equal(default_gfp(flags ? flags : GFP_NOIO), GFP_NOWAIT);
	assert_int_equal(FLAGS_OF(1, ), GFP_KERNEL);
	assert_int_equal(FLAGS_OF(1, GFP_NOFS), GFP_NOFS);
	/* Flags, and a program's own bits above them. */
	assert_int_equal((GFP_KERNEL | ~SHEAF_GFP_PLAIN) & ~__GFP_BITS_MASK, ~0u << 24);
	assert_int_equal(__GFP_ACCOUNT & ~__GFP_BITS_MASK, 0);
}

static void nodes(void **state)
{
	struct kmem_cache *s = kmem_cache_create("nodes", 64, NULL, SLAB_NO_MERGE);
	void *object;

	(void)state;
	for (int node = 0; node < (int)library().nodes; node++)
		for (int i = 0; i < 200; i++) {
			gfp_t flags = i % 2 ? GFP_KERNEL : GFP_NOWAIT | __GFP_THISNODE;

			object = kmem_cache_alloc_node(s, flags, node);
			assert_non_null(object);
			kmem_cache_free(s, object);
		}
	capture_begin(&captured);
	for (int i = 0; i < 3; i++) {
		object = kmem_cache_alloc_node(s, GFP_KERNEL, i ? 999 : -7);
		assert_non_null(object);
		kmem_cache_free(s, object);
	}
	assert_int_equal(capture_end(&captured), 1);
	assert_int_equal(kmem_cache_shrink(s), 0);
	kmem_cache_destroy(s);
}

static void bulk_of(slab_flags_t flags)
{
	struct kmem_cache *s = kmem_cache_create("bulk", 72, NULL, SLAB_NO_MERGE | flags);
	static void *p[20000];

	for (size_t n = 0; n <= 300; n++) {
		p[n] = &p;
		assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, n, p), (int)n);
		assert_ptr_equal(p[n], &p);
		for (size_t i = 0; i < n; i++)
			memset(p[i], (int)n, 72);
		qsort(p, n, sizeof(void *), by_address);
		for (size_t i = 1; i < n; i++)
			assert_true((char *)p[i] - (char *)p[i - 1] >= 72);
		kmem_cache_free_bulk(n % 3 ? s : NULL, n, p);
	}
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_NOWAIT, 20000, p), 20000);
	p[77] = (kmem_cache_free(s, p[77]), NULL);
	kmem_cache_free_bulk(s, 20000, p);
	capture_begin(&captured);
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, (size_t)1 << 31, p), 0);
	assert_int_equal(capture_end(&captured), 1);
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(kmem_cache_shrink(s), 0);
	kmem_cache_destroy(s);
}

static void bulk(void **state)
{
	(void)state;
	bulk_of(0);
	bulk_of(SLAB_NO_SHEAVES);
}

static void bulk_without_a_cache(void **state)
{
	struct kmem_cache *a = kmem_cache_create("bulk-a", 64, NULL, SLAB_NO_MERGE);
	struct kmem_cache *b = kmem_cache_create("bulk-b", 200, NULL, SLAB_NO_MERGE);
	int local;
	void *p[41];

	(void)state;
	for (int i = 0; i < 40; i++)
		p[i] = kmem_cache_alloc(i % 3 ? a : b, GFP_KERNEL);
	p[7] = (kmem_cache_free(a, p[7]), NULL);
	p[40] = &local;
	capture_begin(&captured);
	kmem_cache_free_bulk(NULL, 41, p);
	assert_int_equal(capture_end(&captured), 1);
	assert_int_equal(kmem_cache_shrink(a), 0);
	assert_int_equal(kmem_cache_shrink(b), 0);
	kmem_cache_destroy(a);
	kmem_cache_destroy(b);
}

/* --- changes to a living cache ---------------------------------------------------------------- */

static void churn(struct kmem_cache *s, void **p, unsigned int n, uint64_t *seed)
{
	for (int round = 0; round < 2000; round++) {
		unsigned int i = random_below(seed, n);

		if (p[i])
			p[i] = (kmem_cache_free(s, p[i]), NULL);
		else
			p[i] = kmem_cache_alloc(s, GFP_KERNEL);
	}
}

static void settings_change(void **state)
{
	static const unsigned int capacities[] = {1, 2, 3, 60, 7, 4096, 28, 1, 512, 5};
	struct kmem_cache *s = kmem_cache_create("change", 48, NULL, SLAB_NO_MERGE);
	static void *p[1000];
	uint64_t seed = 11;

	(void)state;
	needs(NEED_SHEAVES);
	for (size_t i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++) {
		assert_int_equal(kmem_cache_set_sheaf_capacity(s, capacities[i]), 0);
		churn(s, p, 1000, &seed);
		assert_int_equal(kmem_cache_verify(s), 0);
		assert_int_equal(kmem_cache_set_barn(s, i % 2 ? 0 : 100000, i % 3 ? 1 : 1 << 20),
				 0);
		churn(s, p, 1000, &seed);
		assert_int_equal(kmem_cache_verify(s), 0);
	}
	capture_begin(&captured);
	assert_int_equal(kmem_cache_set_sheaf_capacity(s, 0), -EINVAL);
	assert_int_equal(kmem_cache_set_sheaf_capacity(s, 4097), -EINVAL);
	assert_int_equal(capture_end(&captured), 2);
	kmem_cache_free_bulk(s, 1000, p);
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(kmem_cache_shrink(s), 0);
	kmem_cache_destroy(s);
}

static void no_sheaves(void **state)
{
	struct kmem_cache *s = kmem_cache_create("bare", 64, NULL, SLAB_NO_SHEAVES | SLAB_NO_MERGE);
	static void *p[500];
	uint64_t seed = 5;

	(void)state;
	churn(s, p, 500, &seed);
	assert_int_equal(look(s).objects_in_sheaves, 0);
	assert_int_equal(kmem_cache_verify(s), 0);
	capture_begin(&captured);
	/* Of each misuse the first five are written, and the tenth. */
	for (int i = 0; i < 5; i++) {
		assert_int_equal(kmem_cache_set_sheaf_capacity(s, 10), -ENOTSUP);
		assert_int_equal(kmem_cache_set_barn(s, 10, 10), -ENOTSUP);
	}
	assert_int_equal(capture_end(&captured), 6);
	kmem_cache_free_bulk(s, 500, p);
	assert_int_equal(kmem_cache_shrink(s), 0);
	kmem_cache_destroy(s);
}

static void *churn_elsewhere(void *cache)
{
	void *p[300] = {NULL};
	uint64_t seed = (uintptr_t)p;

	for (unsigned int i = 0; i < 20; i++) {
		pin(i % 2);
		churn(cache, p, 300, &seed);
	}
	kmem_cache_free_bulk(cache, 300, p);
	return NULL;
}

static void shrink_reaches_every_cpu(void **state)
{
	struct kmem_cache *s = kmem_cache_create("everywhere", 64, NULL, SLAB_NO_MERGE);
	pthread_t threads[4];
	void *object;

	(void)state;
	needs(NEED_SHEAVES);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, churn_elsewhere, s);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_true(look(s).objects_in_sheaves > 0);
	object = kmem_cache_alloc(s, GFP_KERNEL);
	assert_int_equal(kmem_cache_shrink(s), 1);
	kmem_cache_free(s, object);
	assert_int_equal(kmem_cache_shrink(s), 0);
	assert_int_equal(look(s).objects_in_sheaves, 0);
	kmem_cache_destroy(s);
}

static void destroy_with_parked_objects(void **state)
{
	struct kmem_cache *s = kmem_cache_create("parked", 64, NULL, SLAB_NO_MERGE);
	void *p[500];

	(void)state;
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 500, p), 500);
	kmem_cache_free_bulk(s, 500, p);
	capture_begin(&captured);
	kmem_cache_destroy(s);
	assert_int_equal(capture_end(&captured), 0);
}

static void destroy_with_live_objects(void **state)
{
	struct kmem_cache *s = kmem_cache_create("alive", 64, NULL, SLAB_NO_MERGE);
	struct kmem_cache_stats stats;
	char line[64];
	void *p[30];

	(void)state;
	needs(NEED_SHEAVES);
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 30, p), 30);
	kmem_cache_free_bulk(s, 27, p);
	assert_int_equal(kmem_cache_stats(s, &stats), 0);
	assert_int_equal(stats.objects_in_use, 3);
	capture_begin(&captured);
	kmem_cache_destroy(s);
	assert_int_equal(capture_end(&captured), 4);
	for (int i = 27; i < 30; i++) {
		snprintf(line, sizeof(line), "object %p is still in use", p[i]);
		assert_non_null(strstr(captured.text, line));
		memset(p[i], 1, 64);
	}
	assert_non_null(strstr(captured.text, "3 objects still in use"));
	/* The cache was leaked, so these can still be freed. */
	kmem_cache_free_bulk(s, 3, p + 27);
}

static void errno_is_preserved(void **state)
{
	struct kmem_cache *s;
	void *p[200];

	(void)state;
	errno = 77;
	capture_begin(&captured);
	errno = 77;
	s = kmem_cache_create("errno", 5000, NULL, SLAB_NO_MERGE);
	assert_int_equal(errno, 77);
	kmem_cache_create("errno", 0, NULL, 0);
	assert_int_equal(errno, 77);
	p[0] = kmem_cache_alloc(s, GFP_KERNEL);
	assert_int_equal(errno, 77);
	kmem_cache_free(s, p[0]);
	kmem_cache_free(s, &p);
	assert_int_equal(errno, 77);
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 200, p), 200);
	assert_int_equal(errno, 77);
	kmem_cache_free_bulk(s, 200, p);
	assert_int_equal(errno, 77);
	p[0] = kmem_cache_alloc_node(s, GFP_KERNEL, 999);
	kmem_cache_free_bulk(NULL, 1, p);
	assert_int_equal(errno, 77);
	kmem_cache_set_sheaf_capacity(s, 3);
	kmem_cache_set_barn(s, 3, 3);
	assert_int_equal(errno, 77);
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(errno, 77);
	assert_int_equal(kmem_cache_shrink(s), 0);
	assert_int_equal(errno, 77);
	kmem_cache_destroy(s);
	assert_int_equal(errno, 77);
	capture_end(&captured);
}

/* --- verify ------------------------------------------------------------------------------------
 */

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(constructor),
		cmocka_unit_test(constructed_objects_are_not_cleared),
		cmocka_unit_test(zalloc),
		cmocka_unit_test(bulk_results_of_both_kinds),
		cmocka_unit_test(unknown_gfp_flag),
		cmocka_unit_test(harmless_flags),
		cmocka_unit_test(who_may_block),
		cmocka_unit_test(flags_are_optional),
		cmocka_unit_test(nodes),
		cmocka_unit_test(bulk),
		cmocka_unit_test(bulk_without_a_cache),
		cmocka_unit_test(settings_change),
		cmocka_unit_test(no_sheaves),
		cmocka_unit_test(shrink_reaches_every_cpu),
		cmocka_unit_test(destroy_with_parked_objects),
		cmocka_unit_test(destroy_with_live_objects),
		cmocka_unit_test(errno_is_preserved),
	};

	clock_stands = true; /* or the sheaves of idle CPUs are emptied */
	return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
