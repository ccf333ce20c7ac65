/* SPDX-License-Identifier: MIT */
/*
 * Sampling (slab_debug=S): how often, in which patterns of use, and that it changes nothing else.
 * Random numbers are seeded; the bounds are five standard deviations.
 */
#include <sheaf/kmalloc.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <signal.h>
#include <string.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/chance.h"
#include "kit/guarded.h"
#include "kit/hooks.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/unit.h"

#define BYTES	 16384 /* slab_sample, in tests/meson.build */
#define EXPECTED 1000  /* samples */
#define MANY	 500

static struct capture captured;
static volatile char sink;
static unsigned int nr_samples;

static struct kmem_cache *make_sampled(unsigned int size)
{
	nr_samples = 0;
	return make("sampled", size, 0);
}

/* Guarded objects have pages of their own, so one look at each of the other pages is enough: it
 * takes four system calls. If a sample came to such a page after all, there would be too few. */
static bool is_sample(const void *object)
{
	static uintptr_t plain[1024];
	uintptr_t page = (uintptr_t)object / 4096, *known = &plain[page % 1024];

	if (*known == page)
		return false;
	if (is_guarded(object))
		return true;
	*known = page;
	return false;
}

static void see(void *object, unsigned int size)
{
	assert_non_null(object);
	memset(object, 1, size);
	nr_samples += is_sample(object);
}

static uint64_t square(int64_t n)
{
	return (uint64_t)(n * n);
}

/* Of n objects of this size. The variance of the number is not above its mean. */
static void were_sampled(uint64_t n, unsigned int size)
{
	int64_t expected = (int64_t)((double)n * sample_chance(size, BYTES));

	assert_true(square((int64_t)nr_samples - expected) <= 25 * (uint64_t)expected);
}

static const unsigned int sizes[] = {8, 64, 200, 1024, 8192};

#define FOR_EACH_SIZE(size)                                                                        \
	for (unsigned int i_ = 0, size;                                                            \
	     i_ < sizeof(sizes) / sizeof(sizes[0]) && (size = sizes[i_]); i_++)

/* No sheaf is ever exchanged. */
static void pairs(void **state)
{
	(void)state;
	FOR_EACH_SIZE(size)
	{
		struct kmem_cache *s = make_sampled(size);
		uint64_t n = (uint64_t)EXPECTED * BYTES / size;

		for (uint64_t i = 0; i < n; i++) {
			void *object = kmem_cache_alloc(s, GFP_KERNEL);

			see(object, 1);
			kmem_cache_free(s, object);
		}
		were_sampled(n, size);
		kmem_cache_destroy(s);
	}
}

/* Each sheaf is used once. */
static void growth(void **state)
{
	static void *objects[20 * MANY];

	(void)state;
	FOR_EACH_SIZE(size)
	{
		struct kmem_cache *s = make_sampled(size);
		unsigned int n = 0, all = 20 * MANY;

		/* As many samples as elsewhere are enough. */
		while (n < 8 * all && (uint64_t)n * size < EXPECTED * BYTES) {
			for (unsigned int i = 0; i < all; i++, n++) {
				objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
				see(objects[i], size);
			}
			assert_int_equal(kmem_cache_verify(s), 0);
			for (unsigned int i = 0; i < all; i++)
				kmem_cache_free(s, objects[i]);
		}
		were_sampled(n, size);
		kmem_cache_destroy(s);
	}
}

static void bulk(void **state)
{
	void *objects[64];

	(void)state;
	FOR_EACH_SIZE(size)
	{
		struct kmem_cache *s = make_sampled(size);
		unsigned int each = size > 1024 ? 1 : 16, n = 0;

		for (; n < 1000u * BYTES / size; n += each) {
			assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, each, objects), each);
			for (unsigned int i = 0; i < each; i++)
				see(objects[i], 1);
			kmem_cache_free_bulk(s, each, objects);
		}
		were_sampled(n, size);
		assert_int_equal(kmem_cache_verify(s), 0);
		kmem_cache_destroy(s);
	}
}

static void blocks(void **state)
{
	(void)state;
	nr_samples = 0;
	for (unsigned int i = 0; i < EXPECTED * BYTES / 64; i++) {
		void *block = kmalloc(60, GFP_KERNEL);

		see(block, 60);
		assert_int_equal(ksize(block), 64);
		kfree(block);
	}
	were_sampled(EXPECTED * BYTES / 64, 64);
}

/* The first object of a cache is as likely a sample as any other. */
static void first_objects(void **state)
{
	unsigned int samples = 0, expected = EXPECTED / 5;
	int64_t off;

	(void)state;
	for (unsigned int i = 0; i < expected * BYTES / 1024; i++) {
		struct kmem_cache *s = make_sampled(1024);
		void *object = kmem_cache_alloc(s, GFP_KERNEL);

		samples += is_sample(object);
		kmem_cache_free(s, object);
		kmem_cache_destroy(s);
	}
	off = (int64_t)samples - expected;
	assert_true(square(off) <= 25 * (uint64_t)expected);
}

/* The calls of plain objects leave these to another one, which must count down, too. */
static void cleared_objects(void **state)
{
	struct kmem_cache *s = make_sampled(64);

	(void)state;
	for (unsigned int i = 0; i < EXPECTED * BYTES / 64; i++) {
		uint64_t *object = kmem_cache_zalloc(s, GFP_KERNEL);

		assert_true(object && !object[0] && !object[7]);
		see(object, 64);
		kmem_cache_free(s, object);
	}
	were_sampled(EXPECTED * BYTES / 64, 64);
	kmem_cache_destroy(s);
}

static void nolock_calls(void **state)
{
	struct kmem_cache *s = make_sampled(64);
	void *first = kmem_cache_alloc(s, GFP_KERNEL);

	(void)state;
	kmem_cache_free_nolock(s, kmem_cache_alloc(s, GFP_KERNEL));
	nr_samples = 0;
	for (unsigned int i = 0; i < EXPECTED * BYTES / 64; i++) {
		void *object = kmem_cache_alloc_nolock(s, 0);

		see(object, 64);
		kmem_cache_free_nolock(s, object);
	}
	were_sampled(EXPECTED * BYTES / 64, 64);
	kmem_cache_free(s, first);
	kmem_cache_destroy(s);
}

/* For any node, and for a preferred one, but never if the node is mandatory. */
static void calls_for_a_node(void **state)
{
	struct kmem_cache *s = make_sampled(64);

	(void)state;
	for (unsigned int i = 0; i < EXPECTED * BYTES / 64; i++) {
		void *object = kmem_cache_alloc_node(s, GFP_KERNEL, i % 2 ? 0 : NUMA_NO_NODE);

		see(object, 64);
		kmem_cache_free(s, object);
	}
	were_sampled(EXPECTED * BYTES / 64, 64);
	nr_samples = 0;
	for (unsigned int i = 0; i < EXPECTED * BYTES / 64; i++) {
		void *object = kmem_cache_alloc_node(s, GFP_KERNEL | __GFP_THISNODE, 0);

		see(object, 64);
		kmem_cache_free(s, object);
	}
	assert_int_equal(nr_samples, 0);
	kmem_cache_destroy(s);
}

/* An interval has no memory: its deviation is its mean (SAMPLE-S1). */
static void intervals(void **state)
{
	struct kmem_cache *s = make_sampled(64);
	uint64_t sum = 0, squares = 0, mean, deviation = 0, last = 0;

	(void)state;
	for (uint64_t i = 0; nr_samples < EXPECTED; i++) {
		void *object = kmem_cache_alloc(s, GFP_KERNEL);

		if (is_sample(object)) {
			nr_samples++;
			sum += i - last;
			squares += (i - last) * (i - last);
			last = i;
		}
		kmem_cache_free(s, object);
	}
	mean = sum / EXPECTED;
	while (deviation * deviation < squares / EXPECTED - mean * mean)
		deviation++;
	assert_in_range(mean, BYTES / 64 * 88 / 100, BYTES / 64 * 112 / 100);
	assert_in_range(deviation, mean * 80 / 100, mean * 120 / 100);
	kmem_cache_destroy(s);
}

static void counts_stay_exact(void **state)
{
	struct kmem_cache *s = make_sampled(64);
	struct kmem_cache_stats stats;
	void *objects[MANY];
	uint64_t n = 0;

	(void)state;
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < MANY; i++, n++)
			see(objects[i] = kmem_cache_alloc(s, GFP_KERNEL), 64);
		assert_int_equal(kmem_cache_stats(s, &stats), 0);
		assert_int_equal(stats.objects_in_use, MANY);
		for (int i = 0; i < MANY; i++)
			kmem_cache_free(s, objects[i]);
	}
	assert_int_equal(kmem_cache_stats(s, &stats), 0);
	assert_int_equal(stats.objects_in_use, 0);
	assert_true(nr_samples > 0);
	assert_int_equal(stats.alloc_fastpath + stats.alloc_slowpath, stats.counted ? n : 0);
	assert_int_equal(stats.free_fastpath + stats.free_slowpath, stats.counted ? n : 0);
	kmem_cache_destroy(s);
}

/* For samples that are left, the library knows who allocated them. */
static void leaks_name_stacks(void **state)
{
	struct kmem_cache *s = make_sampled(1024);
	static void *objects[20 * MANY];

	(void)state;
	for (int i = 0; i < 20 * MANY; i++)
		see(objects[i] = kmem_cache_alloc(s, GFP_KERNEL), 1024);
	assert_true(nr_samples > 0);
	capture_begin(&captured);
	kmem_cache_destroy(s);
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, "libsheaf: LEAK sampled: "));
	assert_non_null(strstr(captured.text, " guarded objects of 1024 bytes in use when it is "
					      "destroyed, by the stack that allocated them:\n"));
	for (int i = 0; i < 20 * MANY; i++)
		kmem_cache_free(s, objects[i]);
}

static void use_freed(void)
{
	struct kmem_cache *s = kmem_cache_create("stale", 64, NULL, 0);

	for (;;) {
		char *object = kmem_cache_alloc(s, GFP_KERNEL);

		kmem_cache_free(s, object);
		sink = *object;
	}
}

static void a_use_after_free_is_found(void **state)
{
	int how;

	(void)state;
	capture_begin(&captured);
	how = in_child(use_freed);
	capture_end(&captured);
	/* cmocka's handler, which in_child() takes away, is in the place of the library's. */
	assert_int_equal(how, SIGSEGV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First: the end of a cache looks at all guarded slots that were ever used. */
		cmocka_unit_test(first_objects),
		cmocka_unit_test(pairs),
		cmocka_unit_test(growth),
		cmocka_unit_test(bulk),
		cmocka_unit_test(blocks),
		cmocka_unit_test(cleared_objects),
		cmocka_unit_test(nolock_calls),
		cmocka_unit_test(calls_for_a_node),
		cmocka_unit_test(intervals),
		cmocka_unit_test(counts_stay_exact),
		cmocka_unit_test(leaks_name_stacks),
		cmocka_unit_test(a_use_after_free_is_found),
	};

	if (!needs_option(has_debug_letter('S'), "slab_debug=S"))
		return SKIPPED;
	/* On another CPU, other sheaves would draw. */
	CHECK(pin((unsigned int)sched_getcpu()));
	hook_seed_samples(12345);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
