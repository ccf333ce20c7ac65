/* SPDX-License-Identifier: MIT */
/* The slab layer alone: layout rules, take and give against a model, and what misuse does. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "slab/slab.h"

#include "cache/cache.h"
#include "kit/check.h"
#include "kit/objects.h"
#include "kit/pages.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/ready.h"
#include "kit/told.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "os/options.h"
#include "page/page.h"
#include "slab/freelist.h"

enum {
	OBJECTS = 6000
};

static struct told told;

static unsigned int log2_of(uint32_t value)
{
	return 31 - (unsigned int)__builtin_clz(value);
}

static struct slab_request request_of(uint32_t size)
{
	return (struct slab_request){.name = "test", .object_size = size, .align = 8};
}

/* kernel rules: from the order of the wanted objects on, the least order of little waste. */
static unsigned int expected_order(uint32_t stride)
{
	unsigned int wanted = 4 * (log2_of(os_nr_cpus()) + 2), most = 3;

	if (wanted > (OS_PAGE << most) / stride)
		wanted = (unsigned int)((OS_PAGE << most) / stride);
	for (unsigned int part = 16; wanted && part >= 2; part /= 2)
		for (unsigned int order = 0; order <= most; order++) {
			size_t bytes = OS_PAGE << order;

			if (bytes / stride >= wanted && bytes % stride * part <= bytes)
				return order;
		}
	for (unsigned int order = 0;; order++)
		if (OS_PAGE << order >= stride)
			return order;
}

static void layout(void **state)
{
	static const uint32_t sizes[] = {1,	7,     8,      16,     24,   64,    96,
					 100,	192,   256,    512,    700,  1024,  1500,
					 2048,	4096,  5000,   8192,   9000, 20000, 32768,
					 40000, 65536, 300000, 1048576};
	struct slab_cache cache;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct slab_request request = request_of(sizes[i]);
		uint32_t stride = (sizes[i] + 7) & ~7u;

		assert_true(slab_cache_init(&cache, &request));
		assert_int_equal(cache.size, stride);
		assert_int_equal(cache.object_size, sizes[i]);
		assert_int_equal(cache.offset, sizes[i] / 2 & ~7u);
		assert_int_equal(cache.oo.order, expected_order(stride));
		assert_int_equal(cache.oo.objects, (OS_PAGE << cache.oo.order) / stride);
		assert_true(OS_PAGE << cache.min.order >= stride);
		assert_true(cache.min.order == 0 || OS_PAGE << (cache.min.order - 1) < stride);
		assert_int_equal(cache.min.objects, (OS_PAGE << cache.min.order) / stride);
		if (sizes[i] == 8 || sizes[i] == 4096 || sizes[i] == 1048576)
			assert_int_equal(cache.min_partial, sizes[i] == 8      ? 5
							    : sizes[i] == 4096 ? 6
									       : 10);
		slab_cache_exit(&cache);
	}
}

/* Computed by hand, for two or three CPUs: at least 12 objects are wanted. */
static void layout_of_two_cpus(void **state)
{
	static const struct {
		uint32_t size;
		struct slab_order oo;
	} table[] = {
		{8, {0, 512}},	 {192, {0, 21}}, {256, {0, 16}}, {512, {1, 16}},  {700, {2, 23}},
		{1024, {2, 16}}, {4096, {3, 8}}, {5000, {3, 6}}, {20000, {3, 1}}, {40000, {4, 1}},
	};
	struct slab_cache cache;

	(void)state;
	if (os_nr_cpus() < 2 || os_nr_cpus() > 3)
		skip();
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct slab_request request = request_of(table[i].size);

		assert_true(slab_cache_init(&cache, &request));
		assert_int_equal(cache.oo.order, table[i].oo.order);
		assert_int_equal(cache.oo.objects, table[i].oo.objects);
		slab_cache_exit(&cache);
	}
}

static void touch(void *object)
{
	*(char *)object = 1;
}

static void free_pointer_place(void **state)
{
	struct slab_request request = {.name = "ctor", .object_size = 20, .align = 32};
	struct slab_cache cache;

	(void)state;
	request.ctor = touch;
	assert_true(slab_cache_init(&cache, &request));
	assert_int_equal(cache.offset, 24);
	assert_int_equal(cache.size, 32);
	slab_cache_exit(&cache);
	request.use_freeptr_offset = true;
	request.freeptr_offset = 8;
	assert_true(slab_cache_init(&cache, &request));
	assert_int_equal(cache.offset, 8);
	slab_cache_exit(&cache);
}

static unsigned int freelist_length(struct slab_cache *cache, struct slab *slab, uint64_t state)
{
	uint64_t index = slab_head(state);
	unsigned int n = 0;

	for (; index != SLAB_NO_OBJECT; n++) {
		assert_true(index < slab_order_of(cache, state).objects);
		assert_true(n < slab_order_of(cache, state).objects);
		index = freelist_next(cache, slab_object(cache, slab, (unsigned int)index));
	}
	return n;
}

static unsigned int not_yet_fresh(struct slab_cache *cache, struct slab *slab, uint64_t state)
{
	unsigned int n = 0;

	for (unsigned int i = slab_fresh(state); i < slab_fresh_end(cache, state); i++)
		n += slab_fresh_index(cache, slab, state, i) != SLAB_NO_OBJECT;
	return n;
}

/* Invariant B4 in every slab; how many objects are in use in all. */
static size_t count_in_use(struct slab_cache *cache)
{
	size_t in_use = 0, nr_slabs = 0, expected = 0;

	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		struct slab *slab;
		size_t n = page_slabs(node, &slab);

		for (; n > 0; n--, slab++) {
			uint64_t state = slab->state;

			if (slab->cache != cache || state & SLAB_TAIL)
				continue;
			assert_int_equal(slab_inuse(state) + freelist_length(cache, slab, state) +
						 not_yet_fresh(cache, slab, state),
					 slab_order_of(cache, state).objects);
			assert_int_equal(!(state & SLAB_PARTIAL), slab_exhausted(cache, state));
			assert_false(state & SLAB_HELD);
			in_use += slab_inuse(state);
			nr_slabs++;
		}
		if (cache->nodes[node])
			expected += cache->nodes[node]->nr_slabs;
	}
	assert_int_equal(nr_slabs, expected);
	return in_use;
}

static void stamp(struct slab_cache *cache, void *object)
{
	memset(object, 0xa5, cache->object_size);
	*(void **)object = object;
}

static void take_and_give(uint32_t size)
{
	static void *objects[OBJECTS];
	struct slab_request request = request_of(size);
	unsigned int n = 0, most = size > 1024 ? 500 : OBJECTS;
	struct slab_cache cache;
	uint64_t seed = size;

	assert_true(slab_cache_init(&cache, &request));
	for (int round = 0; round < 1500; round++) {
		unsigned int max = random_below(&seed, 70) + 1;
		unsigned int node = random_below(&seed, os.nr_nodes), got;

		if (round / 200 % 2 == (random_below(&seed, 4) == 0) && n + max <= most) {
			got = slab_take(&cache, node, SLAB_THIS_NODE, objects + n, max);
			assert_int_equal(got, max);
			for (unsigned int i = n; i < n + got; i++) {
				assert_int_equal(page_node(objects[i]), node);
				stamp(&cache, objects[i]);
			}
			n += got;
		} else {
			got = n < max ? n : max;
			for (unsigned int i = 0; i < got; i++) {
				unsigned int from = n - 1 - i, j = random_below(&seed, n - i);
				void *object = objects[j];

				assert_ptr_equal(*(void **)object, object);
				*(void **)object = NULL;
				objects[j] = objects[from];
				objects[from] = object;
			}
			n -= got;
			slab_give(&cache, objects + n, got, "test");
		}
		if (round % 20 == 0)
			assert_int_equal(count_in_use(&cache), n);
	}
	assert_int_equal(count_in_use(&cache), n);
	slab_give(&cache, objects, n, "test");
	assert_int_equal(count_in_use(&cache), 0);
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

static void model(void **state)
{
	(void)state;
	take_and_give(8);
	take_and_give(24);
	take_and_give(700);
	take_and_give(5000);
	take_and_give(40000);
}

/* In a child whose node has single pages only. */
static void fallback_order(void)
{
	static void *objects[200];
	struct slab_request request = request_of(512);
	struct slab_cache cache;
	unsigned int n;

	CHECK(slab_cache_init(&cache, &request));
	/* The node's part is made while there is memory. */
	CHECK(slab_take(&cache, 0, SLAB_THIS_NODE, objects, 1) == 1);
	slab_give(&cache, objects, 1, "test");
	slab_shrink(&cache);
	CHECK(cache.oo.order > cache.min.order);
	/* qsort() needs some, too, and has it from now on. */
	qsort(objects, 200, sizeof(void *), by_address);
	leave_single_pages(0);
	for (n = 0; n < 200; n++) {
		CHECK(slab_take(&cache, 0, SLAB_THIS_NODE, objects + n, 1) == 1);
		CHECK(page_slab(objects[n])->state & SLAB_SMALL);
	}
	/* Eight a page, each once: so the pages were all used up, one after the other. */
	CHECK(cache.nodes[0]->nr_slabs == 200 / 8);
	qsort(objects, n, sizeof(void *), by_address);
	for (n = 0; n < 200; n++) {
		CHECK((uintptr_t)objects[n] % 512 == 0);
		CHECK(n == 0 || objects[n] != objects[n - 1]);
		CHECK((char *)objects[n] < page_address(page_slab(objects[n])) + OS_PAGE);
	}
	slab_give(&cache, objects, 200, "test");
	CHECK(slab_shrink(&cache) == 0);
}

static void small_slabs(void **state)
{
	(void)state;
	assert_int_equal(in_child(fallback_order), 0);
}

#ifdef SHEAF_BENCH
static unsigned int constructed;

static void count_constructed(void *object)
{
	(void)object;
	constructed++;
}

/* Every object of a new slab is constructed and linked before the first is taken, in either order. */
static void prebuilt_freelist(void **state)
{
	struct slab_request request = request_of(64);
	struct slab_cache cache;

	(void)state;
	request.ctor = count_constructed;
	os_options.prebuilt_freelist = 1;
	for (os_options.random = 0; os_options.random < 2; os_options.random++) {
		void *objects[256];
		unsigned int most;
		struct slab *slab;

		assert_true(slab_cache_init(&cache, &request));
		most = cache.oo.objects;
		assert_true(most <= 256);
		constructed = 0;
		assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, 1), 1);
		slab = page_slab(objects[0]);
		assert_int_equal(constructed, most);
		assert_int_equal(slab_fresh(slab->state), slab_fresh_end(&cache, slab->state));
		assert_int_not_equal(slab_head(slab->state), SLAB_NO_OBJECT);
		assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects + 1, most - 1),
				 most - 1);
		assert_true(slab_exhausted(&cache, slab->state));
		for (unsigned int i = 0; i < most; i++) {
			assert_ptr_equal(page_slab(objects[i]), slab);
			for (unsigned int j = 0; j < i; j++)
				assert_ptr_not_equal(objects[i], objects[j]);
		}
		assert_int_equal(constructed, most);
		slab_give(&cache, objects, most, "test");
		assert_int_equal(slab_shrink(&cache), 0);
		slab_cache_exit(&cache);
	}
	os_options.prebuilt_freelist = os_options.random = 0;
}
#endif

static void hardened_links(void **state)
{
	struct slab_request request = request_of(64);
	static struct slab_cache cache; /* its slabs stay */
	void *objects[2];
	uint64_t link;

	(void)state;
	assert_true(slab_cache_init(&cache, &request));
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, 2), 2);
	slab_give(&cache, &objects[0], 1, "test");
	slab_give(&cache, &objects[1], 1, "test");
	link = *(uint64_t *)((char *)objects[1] + cache.offset);
	assert_int_equal(freelist_next(&cache, objects[1]),
			 slab_index(&cache, page_slab(objects[0]), objects[0]));
	assert_int_equal(link > SLAB_NO_OBJECT, os_options.hardened);
	/* The same link at another place does not read the same. */
	*(uint64_t *)((char *)objects[0] + cache.offset) = link;
	assert_int_equal(freelist_next(&cache, objects[0]) == freelist_next(&cache, objects[1]),
			 !os_options.hardened);
}

static void corrupted_link(void **state)
{
	struct slab_request request = request_of(64);
	static struct slab_cache cache; /* its slabs stay */
	void *objects[10], *more[100];
	int lines;

	(void)state;
	assert_true(slab_cache_init(&cache, &request));
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, 10), 10);
	slab_give(&cache, objects, 9, "test");
	/* Use after free. */
	memset(objects[4], 0xde, 64);
	told_begin(&told);
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, more, 100), 100);
	lines = told_end_kept(&told);
	assert_int_equal(lines, 1);
	assert_non_null(strstr(told.text, "corrupted"));
	for (int i = 0; i < 100; i++) {
		assert_ptr_not_equal(more[i], objects[9]);
		stamp(&cache, more[i]);
	}
	for (int i = 0; i < 100; i++)
		assert_ptr_equal(*(void **)more[i], more[i]);
	slab_give(&cache, more, 100, "test");
}

static void misuse(void **state)
{
	struct slab_request request = request_of(64);
	static struct slab_cache cache, other;
	void *objects[3], *inside, *theirs, *local = &request;

	(void)state;
	assert_true(slab_cache_init(&cache, &request));
	request.name = "other";
	assert_true(slab_cache_init(&other, &request));
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, 3), 3);
	assert_int_equal(slab_take(&other, 0, SLAB_THIS_NODE, &theirs, 1), 1);

	slab_give(&cache, objects, 1, "test_free");
	told_begin(&told);
	slab_give(&cache, objects, 1, "test_free");
	assert_int_equal(told_end_kept(&told), 1);
	assert_non_null(strstr(told.text, "double free"));
	assert_non_null(strstr(told.text, "test_free"));

	inside = (char *)objects[1] + 8;
	told_begin(&told);
	slab_give(&cache, &inside, 1, "test_free");
	assert_int_equal(told_end_kept(&told), 1);
	assert_non_null(strstr(told.text, "8 bytes into an object"));

	told_begin(&told);
	slab_give(&cache, &theirs, 1, "test_free");
	assert_int_equal(told_end_kept(&told), 1);
	assert_non_null(strstr(told.text, "cache \"other\""));

	told_begin(&told);
	slab_give(&cache, &local, 1, "test_free");
	assert_int_equal(told_end_kept(&told), 1);
	assert_non_null(strstr(told.text, "not an object of any cache"));

	/* All of them in one array, twice the same object too: what is right is freed. */
	{
		void *mixed[] = {objects[1], inside, objects[1], theirs, local, objects[2]};

		told_begin(&told);
		slab_give(&cache, mixed, 6, "test_free");
		assert_int_equal(told_end_kept(&told), 4);
	}
	assert_int_equal(count_in_use(&cache), 0);
	assert_int_equal(slab_shrink(&cache), 0);
	slab_give(&other, &theirs, 1, "test_free");
	assert_int_equal(slab_shrink(&other), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layout),
		cmocka_unit_test(layout_of_two_cpus),
		cmocka_unit_test(free_pointer_place),
		cmocka_unit_test(model),
		cmocka_unit_test(small_slabs),
#ifdef SHEAF_BENCH
		cmocka_unit_test(prebuilt_freelist),
#endif
		cmocka_unit_test(hardened_links),
		cmocka_unit_test(corrupted_link),
		cmocka_unit_test(misuse),
	};

	return cmocka_run_group_tests_name("slab", tests, setup, NULL);
}
