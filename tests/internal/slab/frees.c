/* SPDX-License-Identifier: MIT */
/*
 * Frees in the slab layer alone: slabs that become empty, many neighbours in one call, which return
 * in stretches, frees that never wait, and what misuse does.
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
#include "kit/objects.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "os/memory_tools.h"
#include "os/options/options.h"
#include "page/object_marks.h"
#include "page/page.h"
#include "slab/drain_marks.h"
#include "slab/owner.h"
#include "slab/partial.h"

enum {
	OBJECTS = 6000
};

static struct capture captured;

/* A node returns empty slabs without a shrink, except those that it keeps. */
static void empty_slabs_go_back(void **state)
{
	struct slab_request request = request_of(1024);
	static void *objects[1024];
	struct slab_cache cache;
	unsigned int n;

	(void)state;
	assert_true(slab_cache_init(&cache, &request));
	n = 20u * cache.oo.objects;
	assert_true(n <= 1024);
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, n), n);
	for (unsigned int i = 0; i < n; i++)
		slab_give(&cache, objects + i, 1, "test");
	assert_int_equal(count_in_use(&cache), 0);
	assert_int_equal(cache.nodes[0]->nr_slabs, cache.min_partial);
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

/* Empty slabs that a node kept are returned over time, also if its list has grown since. */
static void kept_slabs_go_from_a_long_list(void **state)
{
	struct slab_request request = request_of(1024);
	static void *objects[1024];
	struct slab_cache cache;
	unsigned int a_slab, n;

	(void)state;
	assert_true(slab_cache_init(&cache, &request));
	a_slab = cache.oo.objects;
	n = 20 * a_slab;
	cache.min_partial = 5;
	assert_true(n <= 1024);
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, n), n);
	for (unsigned int i = 0; i < n; i++)
		if (i / a_slab < cache.min_partial || i % a_slab == 0)
			slab_give(&cache, objects + i, 1, "test");
	assert_int_equal(cache.nodes[0]->nr_partial, 20);
	assert_int_equal(cache.nodes[0]->nr_unused, cache.min_partial);
	slab_free_kept(&cache);
	assert_int_equal(cache.nodes[0]->nr_slabs, 20 - cache.min_partial);
	for (unsigned int i = 0; i < n; i++)
		if (i / a_slab >= cache.min_partial && i % a_slab != 0)
			slab_give(&cache, objects + i, 1, "test");
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

/* A free that set the last bit, but has not yet subtracted from the count, still uses the slab
 * (SLAB-B3). */
static void empty_by_count(void **state)
{
	struct slab_request request = request_of(1024);
	void *objects[64];
	struct slab_cache cache;
	struct slab *slab;
	unsigned int n;

	(void)state;
	assert_true(slab_cache_init(&cache, &request));
	cache.min_partial = 0;
	n = cache.oo.objects;
	assert_true(n <= 64);
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, n), n);
	slab = page_slab(objects[0]);
	os_lock(&cache.nodes[0]->lock);
	for (unsigned int i = 1; i < n; i++)
		slab_give_nolock(&cache, objects[i], "test");
	os_unlock(&cache.nodes[0]->lock);
	os_fetch_or(&slab->bits, UINT64_C(1) << slab_index(&cache, slab, objects[0]));
	slab_list_deferred(&cache);
	assert_int_equal(cache.nodes[0]->nr_slabs, 1);
	assert_true(slab->state & SLAB_LISTED);
	assert_int_equal(slab_shrink(&cache), 1);
	os_fetch_sub(&slab->state, 1);
	partial_stray(&cache, cache.nodes[0], slab);
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

/* The second owner of an object gives it while another thread takes it, between that thread's two
 * steps (SLAB-B2): the count does not run below zero, into the words that are constructed. */
static void not_below_zero(void **state)
{
	struct slab_request request = request_of(1024);
	struct slab_cache cache;
	struct slab *slab;
	uint64_t before;
	void *object;

	(void)state;
	assert_true(slab_cache_init(&cache, &request));
	cache.min_partial = 1;
	assert_true(cache.oo.objects <= 64);
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, &object, 1), 1);
	slab = page_slab(object);
	slab_give(&cache, &object, 1, "test");
	before = slab->state;
	assert_int_equal(slab_inuse(before), 0);
	for (int nolock = 0; nolock < 2; nolock++) {
		os_fetch_and(&slab->bits, ~(UINT64_C(1) << slab_index(&cache, slab, object)));
		if (nolock)
			slab_give_nolock(&cache, object, "test");
		else
			slab_give(&cache, &object, 1, "test");
		assert_true(slab->state == before);
	}
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

/* No free touches an object: writes to a freed object change nothing else. */
static void nothing_in_free_objects(void **state)
{
	struct slab_request request = request_of(64);
	static void *objects[300], *again[300];
	struct slab_cache cache;

	(void)state;
	assert_true(slab_cache_init(&cache, &request));
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, 300), 300);
	for (int i = 0; i < 300; i++)
		memset(objects[i], 0x5a, 64);
	slab_give(&cache, objects, 299, "test");
	for (int i = 0; i < 64; i++)
		assert_int_equal(((unsigned char *)objects[290])[i], 0x5a);
	memset(objects[290], 0xde, 64);
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, again, 299), 299);
	for (int i = 0; i < 299; i++)
		stamp(&cache, again[i]);
	for (int i = 0; i < 299; i++) {
		assert_ptr_not_equal(again[i], objects[299]);
		assert_ptr_equal(*(void **)again[i], again[i]);
	}
	slab_give(&cache, again, 299, "test");
	slab_give(&cache, objects + 299, 1, "test");
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

/* A double free is found as long as the object is free, whatever is freed in between. */
static void double_frees(void **state)
{
	struct slab_request request = request_of(16);
	static void *objects[256], *two[2];
	struct slab_cache cache;

	(void)state;
	assert_true(slab_cache_init(&cache, &request));
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, 256), 256);
	slab_give(&cache, objects, 250, "test");
	for (int i = 0; i < 250; i++) {
		capture_begin(&captured);
		slab_give(&cache, &objects[i], 1, "test_free");
		assert_int_equal(capture_end_deferred(&captured), 1);
		assert_non_null(strstr(captured.text, "double free"));
	}
	capture_begin(&captured);
	slab_give_nolock(&cache, objects[0], "test_free");
	assert_int_equal(capture_end_deferred(&captured), 1);
	/* The same object twice in one array, at adjacent and at other places. */
	two[0] = two[1] = objects[250];
	capture_begin(&captured);
	slab_give(&cache, two, 2, "test_free");
	assert_int_equal(capture_end_deferred(&captured), 1);
	capture_begin(&captured);
	slab_give(&cache, (void *[]){objects[251], objects[5], objects[252], objects[251]}, 4,
		  "test_free");
	assert_int_equal(capture_end_deferred(&captured), 2);
	assert_int_equal(count_in_use(&cache), 3);
	slab_give(&cache, objects + 253, 3, "test");
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

/* A nolock free needs no lock in any state of the slab; a slab that it cannot list is listed
 * later. */
static void nolock_frees(void **state)
{
	struct slab_request request = request_of(64);
	static void *objects[1024];
	struct slab_cache cache;
	struct slab *slab;
	unsigned int n;

	(void)state;
	assert_true(slab_cache_init(&cache, &request));
	n = cache.oo.objects;
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, n), n);
	slab = page_slab(objects[0]);
	assert_int_equal(slab_free(&cache, slab->state), 0);
	os_lock(&cache.nodes[0]->lock);
	slab_give_nolock(&cache, objects[0], "test");
	assert_true(slab->state & SLAB_HELD);
	assert_true(slab_has_deferred(&cache));
	slab_give_nolock(&cache, objects[1], "test");
	os_unlock(&cache.nodes[0]->lock);
	slab_list_deferred(&cache);
	assert_false(slab_has_deferred(&cache));
	assert_int_equal(count_in_use(&cache), n - 2);
	/* The slab becomes empty, and stays listed. */
	os_lock(&cache.nodes[0]->lock);
	for (unsigned int i = 2; i < n; i++)
		slab_give_nolock(&cache, objects[i], "test");
	os_unlock(&cache.nodes[0]->lock);
	assert_true(slab->state & SLAB_LISTED);
	assert_false(slab_has_deferred(&cache));
	assert_int_equal(count_in_use(&cache), 0);
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

/* A nolock allocation finds objects of a nolock free, if no thread has the lock. */
static void nolock_alone(void **state)
{
	struct slab_request request = request_of(16);
	static void *objects[SLAB_MAX_OBJECTS];
	struct slab_cache cache;
	unsigned int n;

	(void)state;
	assert_true(slab_cache_init(&cache, &request));
	n = cache.oo.objects;
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, n), n);
	/* Of the slab's last word, too. */
	for (unsigned int i = 0; i < n; i += n - 1) {
		slab_give_nolock(&cache, objects[i], "test");
		assert_true(slab_take_try(&cache, 0, &objects[i]));
	}
	assert_int_equal(count_in_use(&cache), n);
	slab_give(&cache, objects, n, "test");
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

/* Strays are looked for again later if a thread has the lock. */
static void strays_behind_a_lock(void **state)
{
	struct slab_request request = request_of(1024);
	static void *objects[128];
	struct slab_cache cache;
	struct slab_node *node;
	unsigned int n;

	(void)state;
	assert_true(slab_cache_init(&cache, &request));
	n = 2u * cache.oo.objects;
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, n), n);
	slab_give(&cache, &objects[0], 1, "test");
	slab_give(&cache, &objects[n - 1], 1, "test");
	node = cache.nodes[0];
	os_lock(&node->lock);
	for (unsigned int i = 1; i < n - 1; i++)
		slab_give_nolock(&cache, objects[i], "test");
	assert_int_equal(node->stray, PARTIAL_STRAYS);
	slab_free_kept(&cache);
	assert_int_equal(node->stray, PARTIAL_STRAYS);
	os_unlock(&node->lock);
	assert_int_equal(slab_count(&cache), 2);
	slab_free_kept(&cache);
	assert_int_equal(slab_count(&cache), 0);
	slab_cache_exit(&cache);
}

/* A slab may be longer than its objects. */
static void behind_the_last_object(void **state)
{
	struct slab_request request = request_of(3000);
	static struct slab_cache cache;
	void *object, *behind;
	struct slab *slab;

	(void)state;
	assert_true(slab_cache_init(&cache, &request));
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, &object, 1), 1);
	slab = page_slab(object);
	behind = slab_object(&cache, slab, slab_order_of(&cache, slab->state).objects);
	if (page_slab(behind) == slab) {
		assert_null(slab_object_around(&cache, slab, behind));
		capture_begin(&captured);
		slab_give(&cache, &behind, 1, "test_free");
		assert_int_equal(capture_end_deferred(&captured), 1);
		assert_non_null(strstr(captured.text, "not in an object that is in use"));
		capture_begin(&captured);
		slab_give(&cache, (void *[]){behind, object, behind}, 3, "test_free");
		assert_int_equal(capture_end_deferred(&captured), 2);
		assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, &object, 1), 1);
	}
	slab_give(&cache, &object, 1, "test_free");
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
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

	/* Nor have they owners. */
	assert_false(owner_make(&cache, theirs, true));
	assert_false(owner_make(&cache, local, true));

	slab_give(&cache, objects, 1, "test_free");
	capture_begin(&captured);
	slab_give(&cache, objects, 1, "test_free");
	assert_int_equal(capture_end_deferred(&captured), 1);
	assert_non_null(strstr(captured.text, "double free"));
	assert_non_null(strstr(captured.text, "test_free"));

	inside = (char *)objects[1] + 8;
	capture_begin(&captured);
	slab_give(&cache, &inside, 1, "test_free");
	assert_int_equal(capture_end_deferred(&captured), 1);
	assert_non_null(strstr(captured.text, "8 bytes into an object"));

	capture_begin(&captured);
	slab_give(&cache, &theirs, 1, "test_free");
	assert_int_equal(capture_end_deferred(&captured), 1);
	assert_non_null(strstr(captured.text, "cache \"other\""));

	capture_begin(&captured);
	slab_give(&cache, &local, 1, "test_free");
	assert_int_equal(capture_end_deferred(&captured), 1);
	assert_non_null(strstr(captured.text, "not an object of any cache"));

	/* All of them in one array, one object twice: the valid ones are freed. */
	{
		void *mixed[] = {objects[1], inside, objects[1], theirs, local, objects[2]};

		capture_begin(&captured);
		slab_give(&cache, mixed, 6, "test_free");
		assert_int_equal(capture_end_deferred(&captured), 4);
	}
	assert_int_equal(count_in_use(&cache), 0);
	assert_int_equal(slab_shrink(&cache), 0);
	slab_give(&other, &theirs, 1, "test_free");
	assert_int_equal(slab_shrink(&other), 0);
}

/* Objects in stretches of varying lengths, upwards or downwards, across words and slabs. */
static void give_stretches(uint32_t size)
{
	static void *objects[OBJECTS], *part[OBJECTS];
	struct slab_request request = request_of(size);
	struct slab_cache cache;

	assert_true(slab_cache_init(&cache, &request));
	for (unsigned int most = 1; most <= OBJECTS; most = most * 3 / 2 + 1) {
		uint64_t seed = size + most;

		assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, OBJECTS), OBJECTS);
		for (unsigned int done = 0, n; done < OBJECTS; done += n) {
			bool down = random_below(&seed, 2);

			n = random_below(&seed, most) + 1;
			n = n < OBJECTS - done ? n : OBJECTS - done;
			for (unsigned int i = 0; i < n; i++)
				part[i] = objects[done + (down ? n - 1 - i : i)];
			slab_give(&cache, part, n, "test");
			assert_int_equal(count_in_use(&cache), OBJECTS - done - n);
		}
	}
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

static void stretches(void **state)
{
	(void)state;
	give_stretches(8);
	give_stretches(64);
	give_stretches(96);
	give_stretches(700);
}

/* Objects of a stretch that are free already, or twice in the array, are each reported. */
static void double_frees_in_stretches(void **state)
{
	struct slab_request request = request_of(16);
	static const unsigned int order[][2] = {{0, 40}, {20, 22}, {40, 70}, {30, 31}, {70, 100}};
	static void *objects[200], *twice[103];
	struct slab_cache cache;

	(void)state;
	assert_true(slab_cache_init(&cache, &request));
	for (int down = 0; down < 2; down++) {
		unsigned int n = 0;

		assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, 200), 200);
		slab_give(&cache, objects + 80, 2, "test");
		for (size_t part = 0; part < sizeof(order) / sizeof(order[0]); part++)
			for (unsigned int i = order[part][0]; i < order[part][1]; i++)
				twice[n++] = objects[down ? 99 - i : i];
		capture_begin(&captured);
		slab_give(&cache, twice, n, "test_free");
		assert_int_equal(capture_end_deferred(&captured), 5);
		assert_int_equal(count_in_use(&cache), 100);
		slab_give(&cache, objects + 100, 100, "test");
	}
	/* The first object of a stretch is not the one that is there twice. */
	assert_int_equal(slab_take(&cache, 0, SLAB_THIS_NODE, objects, 4), 4);
	memcpy(twice, (void *[]){objects[1], objects[3], objects[0], objects[1], objects[2]},
	       5 * sizeof(*twice));
	capture_begin(&captured);
	slab_give(&cache, twice, 5, "test_free");
	assert_int_equal(capture_end_deferred(&captured), 1);
	assert_int_equal(count_in_use(&cache), 0);
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

int test_frees(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_slabs_go_back),
		cmocka_unit_test(kept_slabs_go_from_a_long_list),
		cmocka_unit_test(empty_by_count),
		cmocka_unit_test(not_below_zero),
		cmocka_unit_test(nothing_in_free_objects),
		cmocka_unit_test(double_frees),
		cmocka_unit_test(nolock_frees),
		cmocka_unit_test(nolock_alone),
		cmocka_unit_test(strays_behind_a_lock),
		cmocka_unit_test(behind_the_last_object),
		cmocka_unit_test(misuse),
		cmocka_unit_test(stretches),
		cmocka_unit_test(double_frees_in_stretches),
	};

	return cmocka_run_group_tests_name("slab-frees", tests, setup, NULL);
}
