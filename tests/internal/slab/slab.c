/* SPDX-License-Identifier: MIT */
/*
 * The slab layer alone: layout rules, take and give against a model for every number of objects a
 * slab may have, orders, constructors; slabs of single pages, of a cache whose slabs are larger
 * where there is memory.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kit/capture.h"
#include "slab/slab.h"

#include "cache/cache.h"
#include "internal/kit/pages.h"
#include "internal/kit/ready.h"
#include "internal/kit/slabs.h"
#include "kit/check.h"
#include "kit/objects.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/sanitizers.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "os/memory_tools.h"
#include "os/options/options.h"
#include "page/object_marks.h"
#include "page/page.h"
#include "slab/drain_marks.h"
#include "slab/partial.h"

enum {
	OBJECTS = 6000
};

static struct capture captured;

static unsigned int log2_of(uint32_t value)
{
	return 31 - (unsigned int)__builtin_clz(value);
}

/* The kernel's rule: the lowest order with little waste that holds the wanted number of objects. */
static unsigned int expected_order(uint32_t stride)
{
	unsigned int wanted = 4 * (log2_of(os_nr_cpus()) + 2), most = os_options.max_order;

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
	static const uint32_t sizes[] = {1,	7,     8,      16,	24,	 64,	 96,
					 100,	192,   256,    512,	700,	 1024,	 1500,
					 2048,	4096,  5000,   8192,	9000,	 20000,	 32768,
					 40000, 65536, 300000, 1048576, 2097152, 4194304};
	struct slab_cache cache;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct slab_request request = request_of(sizes[i]);
		uint32_t stride = (sizes[i] + 7) & ~7u;

		if (pages.marks && stride < MARK_BYTES)
			stride = MARK_BYTES;
		assert_true(slab_cache_init(&cache, &request));
		assert_int_equal(cache.size, stride);
		assert_int_equal(cache.object_size, sizes[i]);
		assert_int_equal(cache.oo.order, expected_order(stride));
		assert_int_equal(cache.oo.objects, (OS_PAGE << cache.oo.order) / stride);
		assert_true(OS_PAGE << cache.min.order >= stride);
		assert_true(cache.min.order == 0 || OS_PAGE << (cache.min.order - 1) < stride);
		assert_int_equal(cache.min.objects, (OS_PAGE << cache.min.order) / stride);
		if (os_options.tiny)
			assert_int_equal(cache.min_partial, 0);
		else if (sizes[i] == 8 || sizes[i] == 4096 || sizes[i] >= 1048576)
			assert_int_equal(cache.min_partial, sizes[i] == 8	  ? 5
							    : sizes[i] == 4096	  ? 6
							    : sizes[i] == 1048576 ? 10
										  : 1);
		slab_cache_exit(&cache);
		/* The system locks pages of its own size. */
		request.secret = true;
		assert_true(slab_cache_init(&cache, &request));
		assert_true(OS_PAGE << cache.min.order >= os.page_size);
		assert_true(OS_PAGE << cache.oo.order >= os.page_size);
		assert_int_equal(cache.oo.objects, (OS_PAGE << cache.oo.order) / stride);
		slab_cache_exit(&cache);
	}
}

/* A slab has no more objects than it can count. */
static void most_objects(void **state)
{
	uint32_t max_order = os_options.max_order, min_objects = os_options.min_objects;
	struct slab_request request = request_of(8);
	struct slab_cache cache;

	(void)state;
	os_options.max_order = 9;
	os_options.min_objects = UINT16_MAX;
	assert_true(slab_cache_init(&cache, &request));
	assert_int_equal(cache.oo.objects, SLAB_MAX_OBJECTS);
	slab_cache_exit(&cache);
	os_options.max_order = max_order;
	os_options.min_objects = min_objects;
}

/* Also above the largest order; objects that need more get more. */
static void least_order(void **state)
{
	static const struct {
		uint32_t min_order, size, order;
	} table[] = {{2, 64, 2}, {9, 64, 9}, {2, 2097152, 9}};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct slab_request request = request_of(table[i].size);
		struct slab_cache cache;

		os_options.min_order = table[i].min_order;
		assert_true(slab_cache_init(&cache, &request));
		assert_int_equal(cache.oo.order, table[i].order);
		assert_true(OS_PAGE << cache.min.order <= OS_PAGE << cache.oo.order);
		slab_cache_exit(&cache);
	}
	os_options.min_order = 0;
}

/* Computed by hand for two or three CPUs, where a slab should hold at least 12 objects, and for
 * orders up to 3. */
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
	if (os_nr_cpus() < 2 || os_nr_cpus() > 3 || os_options.max_order != 3)
		skip();
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct slab_request request = request_of(table[i].size);

		if (pages.marks && table[i].size < MARK_BYTES)
			continue;
		assert_true(slab_cache_init(&cache, &request));
		assert_int_equal(cache.oo.order, table[i].oo.order);
		assert_int_equal(cache.oo.objects, table[i].oo.objects);
		slab_cache_exit(&cache);
	}
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

/*
 * Slabs of this order, with every number of objects that sizes allow: take all objects, give some
 * back in random order and take them again, until each object was seen free and used.
 */
static void fill_slab(uint32_t size, unsigned int order)
{
	static void *objects[SLAB_MAX_OBJECTS];
	struct slab_request request = request_of(size);
	struct slab_cache cache;
	unsigned int n, left;
	uint64_t seed = size;

	os_options.min_objects = SLAB_MAX_OBJECTS;
	os_options.max_order = order;
	assert_true(slab_cache_init(&cache, &request));
	assert_int_equal(cache.oo.order, order);
	n = cache.oo.objects;
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, n), n);
	for (unsigned int i = 0; i < n; i++) {
		/* In ascending order of addresses. */
		assert_ptr_equal(page_slab(objects[i]), page_slab(objects[0]));
		if (!os_options.random)
			assert_int_equal(slab_index(&cache, page_slab(objects[i]), objects[i]), i);
		stamp(&cache, objects[i]);
	}
	assert_int_equal(count_in_use(&cache), n);
	for (left = n; left;) {
		unsigned int give = random_below(&seed, left) + 1,
			     again = random_below(&seed, give);

		for (unsigned int i = 0; i < give; i++) {
			unsigned int j = i + random_below(&seed, left - i);
			void *object = objects[j];

			assert_ptr_equal(*(void **)object, object);
			objects[j] = objects[i];
			objects[i] = object;
		}
		slab_give(&cache, objects, give, "test");
		assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, again), again);
		for (unsigned int i = 0; i < again; i++)
			stamp(&cache, objects[i]);
		for (unsigned int i = again; i < left - (give - again); i++)
			objects[i] = objects[i + give - again];
		left -= give - again;
		assert_int_equal(count_in_use(&cache), left);
	}
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

static void every_number_of_objects(void **state)
{
	uint32_t min_objects = os_options.min_objects, max_order = os_options.max_order;

	(void)state;
	for (unsigned int objects = 1; objects <= 512; objects++)
		fill_slab(((uint32_t)OS_PAGE / objects) & ~7u, 0);
	for (unsigned int objects = 513; objects < SLAB_MAX_OBJECTS; objects += objects / 5) {
		unsigned int order = 0;

		while (OS_PAGE << order < objects * 8)
			order++;
		fill_slab((uint32_t)(OS_PAGE << order) / objects & ~7u, order);
	}
	fill_slab(8, 6);
	fill_slab(64, 9);
	os_options.min_objects = min_objects;
	os_options.max_order = max_order;
}

/* With slab_freelist_random, objects come in random order, and in different orders for two
 * slabs. */
static void random_order(void **state)
{
	static void *objects[2][256];
	struct slab_request request = request_of(16);
	unsigned int same = 0, same_in_words = 0, ascending = 0;
	uint32_t random = os_options.random;
	struct slab_cache cache;

	(void)state;
	os_options.random = 1;
	assert_true(slab_cache_init(&cache, &request));
	os_options.random = random;
	for (int slab = 0; slab < 2; slab++) {
		/* In parts, each of which is in random order, too; and one by one. */
		unsigned int n = slab ? 1 : 32;

		for (unsigned int i = 0; i < 256; i += n)
			assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects[slab] + i, n),
					 n);
	}
	for (unsigned int i = 0; i < 256; i++) {
		same += ((uintptr_t)objects[0][i] ^ (uintptr_t)objects[1][i]) % OS_PAGE == 0;
		ascending += i && objects[0][i] == (char *)objects[0][i - 1] + 16;
		ascending += i && objects[1][i] == (char *)objects[1][i - 1] + 16;
	}
	/* One word of bits after the other is used up. */
	for (unsigned int i = 64; i < 256; i++)
		same_in_words +=
			((uintptr_t)objects[0][i] ^ (uintptr_t)objects[0][i - 64]) % 1024 == 0;
	/* The next object after those taken is a likely one: about 34 of 512 are ascending. One
	 * slab in order has 252. */
	assert_true(same < 128);
	assert_true(same_in_words < 128);
	assert_true(ascending < 128);
	slab_give(&cache, objects[0], 256, "test");
	slab_give(&cache, objects[1], 256, "test");
	assert_int_equal(count_in_use(&cache), 0);
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

static unsigned int constructed;

static void construct(void *object)
{
	*(uint64_t *)object = 0xc0;
	constructed++;
}

/* Objects are constructed word by word, each once; a take that may not wait gets only
 * constructed ones. */
static void constructor(void **state)
{
	struct slab_request request = request_of(16);
	static void *objects[320], *first;
	struct slab_cache cache;
	unsigned int n = 0;

	(void)state;
	request.ctor = construct;
	assert_true(slab_cache_init(&cache, &request));
	assert_int_equal(cache.oo.objects, 256);
	page_trim();
	constructed = 0;
	for (; n < 10; n++)
		assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects + n, 1), 1);
	assert_int_equal(constructed, 64);
	assert_int_equal(count_in_use(&cache), 10);
	while (slab_take_try(&cache, 0, &objects[n]))
		n++;
	assert_int_equal(n, 64);
	assert_int_equal(constructed, 64);
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects + n, 256 - n), 256 - n);
	assert_int_equal(constructed, 256);
	for (unsigned int i = 0; i < 256; i++)
		assert_int_equal(*(uint64_t *)objects[i], 0xc0);
	/* Objects that are freed and taken again are not constructed again. */
	slab_give(&cache, objects, 200, "test");
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, 200), 200);
	assert_int_equal(constructed, 256);
	/* A take that may not wait finds them behind a slab that has none. */
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects + 256, 64), 64);
	first = objects[0];
	assert_false(slab_take_try(&cache, 0, &objects[0]));
	slab_give(&cache, &first, 1, "test");
	assert_true(slab_take_try(&cache, 0, &objects[0]));
	assert_ptr_equal(objects[0], first);
	assert_int_equal(constructed, 320);
	assert_int_equal(count_in_use(&cache), 320);
	slab_give(&cache, objects, 320, "test");
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

/* A large take constructs each word of a new slab before it needs another slab. */
static void many_constructed(void **state)
{
	struct slab_request request = request_of(16);
	static void *objects[512];
	struct slab_cache cache;

	(void)state;
	request.ctor = construct;
	assert_true(slab_cache_init(&cache, &request));
	constructed = 0;
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, 500), 500);
	assert_int_equal(constructed, 512);
	assert_int_equal(cache.nodes[0]->nr_slabs, 2);
	assert_int_equal(count_in_use(&cache), 500);
	slab_give(&cache, objects, 500, "test");
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

/* A slab with fewer than 64 objects is constructed once. */
static void constructed_in_part_of_a_word(void **state)
{
	struct slab_request request = request_of(192);
	static void *objects[64];
	struct slab_cache cache;
	unsigned int n;

	(void)state;
	request.ctor = construct;
	assert_true(slab_cache_init(&cache, &request));
	n = cache.oo.objects;
	assert_true(n < 64);
	constructed = 0;
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects + i, 1), 1);
	assert_int_equal(constructed, n);
	/* One stays in use: with slub_tiny no node keeps an empty slab. */
	slab_give(&cache, objects, n - 1, "test");
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, n - 1), n - 1);
	assert_int_equal(constructed, n);
	slab_give(&cache, objects, n, "test");
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

static unsigned int prepared;

static void prepare(const struct slab_cache *cache, void *object)
{
	tools_open((char *)object - cache->extra->before, cache->extra->before);
	memset((char *)object - cache->extra->before, 0x5a, cache->extra->before);
	prepared++;
}

/* Room around objects for a layer above: this layer does not touch it, and no two objects share it.
 */
static void room_around_objects(void **state)
{
	static struct {
		uint32_t object_size, align;
		struct slab_extra extra;
	} cases[] = {
		{1, 8, {8, 0, prepare}},	 {13, 8, {24, 8, prepare}},
		{64, 64, {24, 8, prepare}},	 {700, 8, {312, 8, prepare}},
		{4096, 4096, {312, 8, prepare}}, {8192, 8192, {24, 8, prepare}},
		{1000000, 8, {24, 8, prepare}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct slab_request request = request_of(cases[i].object_size);
		uint32_t before = cases[i].extra.before, after = cases[i].extra.after;
		char *objects[512], *start, *end;
		struct slab_cache cache;
		unsigned int n;

		request.align = cases[i].align;
		request.extra = &cases[i].extra;
		assert_true(slab_cache_init(&cache, &request));
		n = cache.oo.objects;
		assert_true(n >= 1 && n <= 512);
		assert_int_equal(cache.object_size, request.object_size);
		assert_true(cache.size >= before + request.object_size + after);
		assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, (void **)objects, n), n);
		start = page_address(page_slab(objects[0]));
		end = start + (OS_PAGE << cache.oo.order);
		qsort(objects, n, sizeof(objects[0]), by_address);
		for (unsigned int j = 0; j < n; j++) {
			assert_int_equal((uintptr_t)objects[j] % request.align, 0);
			assert_true(objects[j] - before >= start);
			start = objects[j] + request.object_size + after;
			assert_true(start <= end);
			assert_int_equal(slab_index(&cache, page_slab(objects[j]), objects[j]), j);
			assert_int_equal(slab_index(&cache, page_slab(objects[j]), objects[j] - 8),
					 SLAB_NO_OBJECT);
		}
		capture_begin(&captured);
		slab_give(&cache, (void *[]){objects[0] - 8}, 1, "test");
		assert_int_equal(capture_end_deferred(&captured), 1);
		slab_give(&cache, (void **)objects, n, "test");
		assert_int_equal(slab_shrink(&cache), 0);
		slab_cache_exit(&cache);
	}
}

/* Like constructors: word by word, and the caller learns which objects were prepared. */
static void prepared_by_a_layer_above(void **state)
{
	struct slab_extra extra = {8, 0, prepare};
	struct slab_request request = request_of(8);
	static void *objects[256];
	struct slab_cache cache;
	unsigned int n, count = 0;
	struct slab *slab;

	(void)state;
	request.extra = &extra;
	assert_true(slab_cache_init(&cache, &request));
	n = cache.oo.objects;
	assert_int_equal(n, 256);
	prepared = 0;
	for (unsigned int i = 0; i < 65; i++)
		assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects + i, 1), 1);
	assert_int_equal(prepared, 128);
	slab = page_slab(objects[0]);
	for (unsigned int i = 0; i < n; i++)
		count += slab_is_prepared(&cache, slab, i);
	assert_int_equal(count, 128);
	for (unsigned int i = 0; i < 65; i++)
		assert_true(slab_is_prepared(&cache, slab, slab_index(&cache, slab, objects[i])));
	slab_give(&cache, objects, 65, "test");
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

static void check_single_page(struct slab_cache *cache, const void *object)
{
	struct slab *slab = page_slab(object);
	const uint64_t *words = slab_words(cache, slab);

	CHECK(slab->state & SLAB_SMALL);
	CHECK((char *)object < page_address(slab) + OS_PAGE);
	CHECK(((char *)object - page_address(slab)) % cache->size == 0);
	CHECK(words[cache->min.objects / 64] >> cache->min.objects % 64 == 0);
}

/* Run in a child whose node has only single pages. */
static void fall_back(uint32_t size)
{
	static void *objects[800];
	struct slab_request request = request_of(size);
	struct slab_cache cache;
	unsigned int most, n;

	CHECK(slab_cache_init(&cache, &request));
	/* Create the node's structure while there is memory. */
	CHECK(slab_take(&cache, 0, SLAB_THIS_NODE, objects, 1) == 1);
	slab_give(&cache, objects, 1, "test");
	slab_shrink(&cache);
	CHECK(cache.oo.order > cache.min.order);
	CHECK(cache.min.order == 0 && cache.min.objects % 64);
	most = 800 - 800u % cache.min.objects;
	/* qsort() needs memory, too: let it allocate that now. */
	qsort(objects, most, sizeof(void *), by_address);
	leave_single_pages(0);
	for (n = 0; n < most; n++) {
		CHECK(slab_take(&cache, 0, SLAB_THIS_NODE, objects + n, 1) == 1);
		check_single_page(&cache, objects[n]);
	}
	/* Each page was used up before the next one. */
	CHECK(cache.nodes[0]->nr_slabs == most / cache.min.objects);
	qsort(objects, n, sizeof(void *), by_address);
	for (n = 1; n < most; n++)
		CHECK(objects[n] != objects[n - 1]);
	slab_give(&cache, objects, most, "test");
	CHECK(slab_shrink(&cache) == 0);
	/* All in one call, which must take no more from a slab than it holds. */
	CHECK(slab_take(&cache, 0, SLAB_THIS_NODE, objects, most) == most);
	CHECK(cache.nodes[0]->nr_slabs == most / cache.min.objects);
	for (n = 0; n < most; n++)
		check_single_page(&cache, objects[n]);
	slab_give(&cache, objects, most, "test");
	CHECK(slab_shrink(&cache) == 0);
}

static void fall_back_from_a_word(void)
{
	fall_back(512);
}

/* From six words in the table of words to two. */
static void fall_back_from_words(void)
{
	os_options.min_objects = SLAB_MAX_OBJECTS;
	os_options.max_order = 2;
	fall_back(48);
}

/* From three words there to a word there, though it would have room in the descriptor. */
static void fall_back_to_a_word(void)
{
	os_options.min_objects = SLAB_MAX_OBJECTS;
	os_options.max_order = 3;
	fall_back(200);
}

/* Where some of its slabs would begin if they were of the usual order, another cache has a slab of
 * the order that is usual there. */
static void fall_back_beside_another_cache(void)
{
	static void *objects[400], *theirs[400];
	struct slab_request request = request_of(1024);
	struct slab_cache cache, other;
	unsigned int n, most;

	os_options.min_objects = SLAB_MAX_OBJECTS;
	os_options.max_order = 2;
	CHECK(slab_cache_init(&cache, &request));
	os_options.max_order = 0;
	CHECK(slab_cache_init(&other, &request));
	CHECK(slab_take(&cache, 0, SLAB_THIS_NODE, objects, 1) == 1);
	CHECK(slab_take(&other, 0, SLAB_THIS_NODE, theirs, 1) == 1);
	slab_give(&cache, objects, 1, "test");
	slab_give(&other, theirs, 1, "test");
	slab_shrink(&cache);
	slab_shrink(&other);
	most = cache.min.objects;
	CHECK(cache.oo.order == 2 && other.oo.order == 0 && other.oo.objects == most);
	leave_single_pages(0);
	for (n = 0; n + most < 400; n += most) {
		/* Every third page, so that some of them begin where a slab of four pages would. */
		if (n % (2 * most) == 0)
			CHECK(slab_take(&other, 0, SLAB_THIS_NODE, theirs + n / 2, most) == most);
		CHECK(slab_take(&cache, 0, SLAB_THIS_NODE, objects + n, most) == most);
	}
	slab_give(&cache, objects, n, "test");
	CHECK(count_in_use(&cache) == 0);
	slab_give(&other, theirs, (n / most + 1) / 2 * most, "test");
	CHECK(slab_shrink(&cache) == 0 && slab_shrink(&other) == 0);
}

static void small_slabs(void **state)
{
	(void)state;
#if HAS_TSAN /* its runtime needs memory, too */
	skip();
#endif
	assert_int_equal(in_child(fall_back_from_a_word), 0);
	assert_int_equal(in_child(fall_back_from_words), 0);
	assert_int_equal(in_child(fall_back_to_a_word), 0);
	assert_int_equal(in_child(fall_back_beside_another_cache), 0);
}

/* A refill takes the pages of several slabs at once. Those that its cache's limit refuses were not
 * touched: they cost no memory when they are returned. */
static void refused_pages(void)
{
	struct kmem_cache *s = kmem_cache_create("refused", 1024, NULL, SLAB_NO_MERGE);
	static void *objects[OBJECTS];
	struct slab_cache *cache = &s->sheaf.slab;
	size_t bytes = OS_PAGE << cache->oo.order;
	unsigned int n = cache->oo.objects;
	struct page_usage before, after;

	CHECK(slab_take(cache, 0, SLAB_THIS_NODE, objects, n) == n);
	CHECK(kmem_cache_set_limit(s, 3 * bytes) == 0);
	page_trim();
	before = page_usage();
	CHECK(slab_take(cache, 0, SLAB_THIS_NODE, objects + n, 7 * n) == 2 * n);
	after = page_usage();
	CHECK(after.used == before.used + 2 * bytes);
	CHECK(after.dirty <= before.dirty);
	CHECK(after.used + after.dirty <= before.used + before.dirty + 2 * bytes);
	slab_give(cache, objects, 3 * n, "test");
	kmem_cache_destroy(s);
}

/* The bits of an empty slab are not yet seen here: an object of the next one is taken. */
static void bits_seen_later(void **state)
{
	struct slab_request request = request_of(1024);
	static void *objects[128];
	struct slab *first, *second;
	struct slab_cache cache;
	unsigned int n;
	void *object;
	uint64_t bits;

	(void)state;
	assert_true(slab_cache_init(&cache, &request));
	cache.min_partial = 2;
	n = 2u * cache.oo.objects;
	assert_true(cache.oo.objects <= 64);
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, n), n);
	slab_give(&cache, objects, n, "test");
	assert_int_equal(cache.nodes[0]->nr_unused, 2);
	first = partial_slab(cache.nodes[0], cache.nodes[0]->first);
	second = partial_slab(cache.nodes[0], first->next);
	bits = first->bits;
	first->bits = 0;
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, &object, 1), 1);
	first->bits = bits;
	assert_ptr_equal(page_slab(object), second);
	assert_int_equal(cache.nodes[0]->nr_unused, 1);
	assert_int_equal(count_in_use(&cache), 1);
	slab_give(&cache, &object, 1, "test");
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

/* A call that may not wait looks at a few slabs only, however many are listed. */
static void bits_of_many_seen_later(void **state)
{
	struct slab_request request = request_of(1024);
	struct slab *slabs[20], *slab;
	static void *objects[20 * 64];
	struct slab_cache cache;
	uint64_t bits[20];
	unsigned int n;
	void *object;

	(void)state;
	assert_true(slab_cache_init(&cache, &request));
	cache.min_partial = 20;
	n = 20u * cache.oo.objects;
	assert_true(cache.oo.objects <= 64);
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, n), n);
	slab_give(&cache, objects, n, "test");
	slab = partial_slab(cache.nodes[0], cache.nodes[0]->first);
	for (unsigned int i = 0; i < 20; i++) {
		assert_non_null(slab);
		slabs[i] = slab;
		bits[i] = slab->bits;
		slab = partial_slab(cache.nodes[0], slab->next);
	}
	for (unsigned int i = 0; i < 19; i++)
		slabs[i]->bits = 0;
	assert_false(slab_take_try(&cache, 0, &object));
	slabs[1]->bits = bits[1];
	assert_true(slab_take_try(&cache, 0, &object));
	assert_ptr_equal(page_slab(object), slabs[1]);
	slab_give(&cache, &object, 1, "test");
	for (unsigned int i = 0; i < 19; i++)
		slabs[i]->bits = bits[i];
	assert_int_equal(count_in_use(&cache), 0);
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

/* A child of fork() finds the slabs to list by their states, and leaves out full ones. */
static void listed_again(void **state)
{
	struct slab_request request = request_of(1024);
	static void *objects[128];
	struct slab_cache cache;
	unsigned int n;

	(void)state;
	assert_true(slab_cache_init(&cache, &request));
	n = cache.oo.objects + 1u;
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, n), n);
	slab_list_again(&cache, cache.nodes[0]);
	assert_int_equal(cache.nodes[0]->nr_partial, 1);
	assert_int_equal(count_in_use(&cache), n);
	slab_give(&cache, objects, n, "test");
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

static void refused_pages_stay_clean(void **state)
{
	(void)state;
	assert_int_equal(in_child(refused_pages), 0);
}

int test_slab(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layout),
		cmocka_unit_test(most_objects),
		cmocka_unit_test(least_order),
		cmocka_unit_test(layout_of_two_cpus),
		cmocka_unit_test(model),
		cmocka_unit_test(every_number_of_objects),
		cmocka_unit_test(random_order),
		cmocka_unit_test(constructor),
		cmocka_unit_test(room_around_objects),
		cmocka_unit_test(prepared_by_a_layer_above),
		cmocka_unit_test(many_constructed),
		cmocka_unit_test(constructed_in_part_of_a_word),
		cmocka_unit_test(small_slabs),
		cmocka_unit_test(refused_pages_stay_clean),
		cmocka_unit_test(bits_seen_later),
		cmocka_unit_test(bits_of_many_seen_later),
		cmocka_unit_test(listed_again),
	};

	return cmocka_run_group_tests_name("slab", tests, setup, NULL);
}
