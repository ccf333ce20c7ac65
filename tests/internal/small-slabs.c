/* SPDX-License-Identifier: MIT */
/* Slabs of single pages, of a cache whose slabs are larger where there is memory. */
#include <stdint.h>
#include <stdlib.h>

#include "slab/slab.h"

#include "internal/kit/pages.h"
#include "internal/kit/ready.h"
#include "internal/kit/slabs.h"
#include "kit/check.h"
#include "kit/objects.h"
#include "kit/process.h"
#include "kit/sanitizers.h"
#include "kit/unit.h"
#include "os/options/options.h"
#include "page/page.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_slabs),
	};

	return cmocka_run_group_tests_name("small-slabs", tests, setup, NULL);
}
