/* SPDX-License-Identifier: MIT */
/* A chunk's bitmaps against a model with one byte per page. */
#include <stdbool.h>
#include <stdint.h>

#include "page/chunk.h"

#include "kit/random.h"
#include "kit/unit.h"

enum {
	ROUNDS = 20000
};

enum page_state {
	CLEAN,
	DIRTY,
	USED,
	USED_CLEAN, /* it was clean when it was taken */
	DISCARDED   /* taken by chunk_take_dirty() */
};

struct run {
	unsigned int page, order;
};

static enum page_state model[CHUNK_PAGES];
static struct run runs[CHUNK_PAGES];
static unsigned int nr_runs;

static bool model_run_free(unsigned int page, unsigned int order)
{
	for (unsigned int i = 0; i < 1u << order; i++)
		if (model[page + i] > DIRTY)
			return false;
	return true;
}

static int model_largest(void)
{
	for (int order = 9; order >= 0; order--)
		for (unsigned int page = 0; page < CHUNK_PAGES; page += 1u << order)
			if (model_run_free(page, (unsigned int)order))
				return order;
	return -1;
}

static void model_set(unsigned int page, unsigned int length, enum page_state state)
{
	for (unsigned int i = 0; i < length; i++)
		model[page + i] = state;
}

static void model_take(unsigned int page, unsigned int order)
{
	for (unsigned int i = 0; i < 1u << order; i++)
		model[page + i] = model[page + i] == CLEAN ? USED_CLEAN : USED;
}

static void compare(const struct chunk *chunk)
{
	unsigned int nr_free = 0, nr_dirty = 0;

	for (unsigned int i = 0; i < CHUNK_PAGES; i++) {
		assert_int_equal(chunk->free[i / 64] >> i % 64 & 1, model[i] <= DIRTY);
		assert_int_equal(chunk->dirty[i / 64] >> i % 64 & 1,
				 model[i] == DIRTY || model[i] == USED);
		nr_free += model[i] <= DIRTY;
		nr_dirty += model[i] == DIRTY;
	}
	assert_int_equal(chunk->nr_free, nr_free);
	assert_int_equal(chunk->nr_dirty, nr_dirty);
	assert_int_equal(chunk_largest(chunk), model_largest());
}

static void take(struct chunk *chunk, uint64_t *seed)
{
	unsigned int order = random_below(seed, 10), page;

	if ((int)order > chunk_largest(chunk))
		return;
	page = chunk_take(chunk, order);
	assert_int_equal(page % (1u << order), 0);
	assert_true(page + (1u << order) <= CHUNK_PAGES);
	assert_true(model_run_free(page, order));
	model_take(page, order);
	runs[nr_runs++] = (struct run){page, order};
}

static bool model_run_dirty(unsigned int page, unsigned int order)
{
	for (unsigned int i = 0; i < 1u << order; i++)
		if (model[page + i] != DIRTY)
			return false;
	return true;
}

static void take_used(struct chunk *chunk, uint64_t *seed)
{
	unsigned int order = random_below(seed, 10), expected = 0;
	int page = chunk_take_used(chunk, order);

	while (expected < CHUNK_PAGES && !model_run_dirty(expected, order))
		expected += 1u << order;
	assert_int_equal(page, expected < CHUNK_PAGES ? (int)expected : -1);
	if (page < 0)
		return;
	model_take(expected, order);
	runs[nr_runs++] = (struct run){expected, order};
}

/* Returns how many pages are dirty. */
static unsigned int model_give_untouched(struct run run)
{
	unsigned int dirty = 0;

	for (unsigned int i = 0; i < 1u << run.order; i++) {
		dirty += model[run.page + i] == USED;
		model[run.page + i] = model[run.page + i] == USED ? DIRTY : CLEAN;
	}
	return dirty;
}

static void give(struct chunk *chunk, uint64_t *seed)
{
	unsigned int i;
	struct run run;

	if (!nr_runs)
		return;
	i = random_below(seed, nr_runs);
	run = runs[i];
	runs[i] = runs[--nr_runs];
	if (random_below(seed, 4)) {
		chunk_give(chunk, run.page, run.order);
		model_set(run.page, 1u << run.order, DIRTY);
		return;
	}
	assert_int_equal(chunk_give_untouched(chunk, run.page, run.order),
			 model_give_untouched(run));
}

/* True if a whole page of the system is free and partly dirty. */
static bool model_can_go(unsigned int page, unsigned int order)
{
	bool dirty = false;

	for (unsigned int i = 0; i < 1u << order; i++)
		dirty |= model[page + i] == DIRTY;
	return dirty && model_run_free(page, order);
}

static void discard(struct chunk *chunk, uint64_t *seed)
{
	/* System pages of 4, 16 and 64 KiB. */
	unsigned int order = 2 * random_below(seed, 3), step = 1u << order;
	unsigned int from = random_below(seed, CHUNK_PAGES), page, end;
	unsigned int length = chunk_take_dirty(chunk, order, from, CHUNK_PAGES, &page);
	unsigned int expected = (from + step - 1) / step * step;
	bool gone;

	while (expected < CHUNK_PAGES && !model_can_go(expected, order))
		expected += step;
	for (end = expected; end < CHUNK_PAGES && model_can_go(end, order);)
		end += step;
	assert_int_equal(length, end - expected);
	if (!length)
		return;
	assert_int_equal(page, expected);
	model_set(page, length, DISCARDED);
	compare(chunk);
	gone = random_below(seed, 4);
	chunk_give_taken(chunk, page, length, gone);
	model_set(page, length, gone ? CLEAN : DIRTY);
}

static void make_dirty(struct chunk *chunk)
{
	if (!model_run_free(0, 9))
		return;
	chunk_make_dirty(chunk);
	model_set(0, CHUNK_PAGES, DIRTY);
}

static void random_operations(void **state)
{
	uint64_t seed = 20260101;
	struct chunk chunk = {.nr_free = 0};

	(void)state;
	chunk_init(&chunk);
	compare(&chunk);
	for (int round = 0; round < ROUNDS; round++) {
		/* Waves: first mostly takes, then mostly gives. */
		unsigned int bias = round / 500 % 2 ? 3 : 7, what = random_below(&seed, 10);

		if (random_below(&seed, 20) == 0)
			discard(&chunk, &seed);
		else if (random_below(&seed, 20) == 0)
			make_dirty(&chunk);
		else if (what < bias)
			random_below(&seed, 4) ? take(&chunk, &seed) : take_used(&chunk, &seed);
		else
			give(&chunk, &seed);
		compare(&chunk);
	}
}

static void every_order_fills(void **state)
{
	struct chunk chunk = {.nr_free = 0};

	(void)state;
	for (unsigned int order = 0; order <= 9; order++) {
		chunk_init(&chunk);
		for (unsigned int i = 0; i < (unsigned int)CHUNK_PAGES >> order; i++) {
			assert_true(chunk_largest(&chunk) >= (int)order);
			assert_int_equal(chunk_take(&chunk, order), i << order);
		}
		assert_int_equal(chunk_largest(&chunk), -1);
		assert_int_equal(chunk.nr_free, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations),
		cmocka_unit_test(every_order_fills),
	};

	return cmocka_run_group_tests_name("chunk", tests, NULL, NULL);
}
