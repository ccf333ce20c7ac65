/* SPDX-License-Identifier: MIT */
/* Frees of many neighbours in one call, which the slab layer returns in stretches. */
#include <stdint.h>

#include "kit/capture.h"
#include "slab/slab.h"

#include "internal/kit/ready.h"
#include "internal/kit/slabs.h"
#include "kit/random.h"
#include "kit/unit.h"
#include "page/page.h"

enum {
	OBJECTS = 6000
};

static struct capture captured;

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
	assert_int_equal(slab_shrink(&cache), 0);
	slab_cache_exit(&cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stretches),
		cmocka_unit_test(double_frees_in_stretches),
	};

	return cmocka_run_group_tests_name("stretches", tests, setup, NULL);
}
