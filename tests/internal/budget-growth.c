/* SPDX-License-Identifier: MIT */
/*
 * Budgets grow when a CPU has no room for a program's batches: when they grow, when they do not,
 * and how they start over. One thread, on one CPU.
 */

#include "cache/cache.h"
#include "kit/cache.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "percpu/barn/barn.h"
#include "percpu/barn/budget.h"
#include "percpu/barn/limits.h"
#include "percpu/sheaf.h"

enum {
	SIZE = 1024,
	BATCH = 1000,
	HEAP = 20000, /* objects: more than the largest budget, and all sheaves */
	ROUNDS = 400, /* enough for budgets to grow to their limit */
	ALTERNATE = 1000,
};

static struct kmem_cache *s;
static void *objects[HEAP];

static int set_up(void **state)
{
	(void)state;
	pin(0);
	s = kmem_cache_create("growth", SIZE, NULL, SLAB_NO_MERGE);
	assert_non_null(s);
	/* A handle's next cache finds the hints of the last one. */
	slot_of_row((char *)s, os_cpu())->turns = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
	return 0;
}

static void take(size_t n)
{
	for (size_t i = 0; i < n; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		assert_non_null(objects[i]);
	}
}

static void give(size_t n)
{
	for (size_t i = 0; i < n; i++)
		kmem_cache_free(s, objects[i]);
}

static void use_batches(size_t n, int rounds)
{
	while (rounds-- > 0) {
		take(n);
		give(n);
	}
}

static size_t part(void)
{
	return barn_cpu_bytes(&s->sheaf);
}

/* Each sheaf that is exchanged then comes from the CPU's shard. */
static void batches_find_room(void **state)
{
	const struct slot *slot = slot_of_row((char *)s, os_cpu());
	unsigned int turns;

	(void)state;
	use_batches(BATCH, ROUNDS);
	assert_true(part() > BARN_CPU_BYTES);
	assert_true(part() <= 4 * SIZE * BATCH);
	assert_true(sheaf_capacity(&s->sheaf) > 60);
	turns = slot->turns;
	use_batches(BATCH, ROUNDS);
	assert_int_equal(slot->turns, turns);
}

/* Objects go to slabs and come from them, and no sheaf is ever exchanged. */
static void arrays_find_room(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 3 * BATCH, objects),
				 3 * BATCH);
		kmem_cache_free_bulk(s, 3 * BATCH, objects);
	}
	assert_true(part() > BARN_CPU_BYTES);
}

static void small_batches_need_none(void **state)
{
	(void)state;
	use_batches(100, 20 * ROUNDS);
	assert_int_equal(part(), BARN_CPU_BYTES);
}

static void a_heap_does_not_count(void **state)
{
	(void)state;
	for (int heaps = 0; heaps < 2; heaps++) {
		take(HEAP);
		assert_int_equal(part(), BARN_CPU_BYTES);
		give(HEAP);
		assert_int_equal(part(), BARN_CPU_BYTES);
	}
}

/* Nor does a CPU that only allocates, or only frees, however often it finds its shard empty. */
static void one_direction_is_not_counted(void **state)
{
	const struct slot *slot = slot_of_row((char *)s, os_cpu());

	(void)state;
	for (int i = 0; i < ALTERNATE; i++)
		barn_note_imbalance(&s->sheaf, os_cpu(), false);
	assert_int_equal(slot->turns, 0);
	for (int i = 0; i < ALTERNATE; i++)
		barn_note_imbalance(&s->sheaf, os_cpu(), true);
	assert_int_equal(slot->turns, 1);
	assert_int_equal(part(), BARN_CPU_BYTES);
}

static void alternate(int times)
{
	while (times-- > 0) {
		barn_note_imbalance(&s->sheaf, os_cpu(), true);
		barn_note_imbalance(&s->sheaf, os_cpu(), false);
	}
}

static void budgets_are_bounded(void **state)
{
	(void)state;
	alternate(ALTERNATE);
	assert_int_equal(part(), (size_t)4 << 20);
	assert_true(s->sheaf.shard_full >= 2);
	assert_true((size_t)sheaf_capacity(&s->sheaf) * s->sheaf.slab.size <= part() / 2);
}

/* A shard with all cells in use needs no larger budget. */
static void small_objects_need_less(void **state)
{
	struct kmem_cache *kib = s;

	(void)state;
	s = kmem_cache_create("room-small", 32, NULL, SLAB_NO_MERGE);
	alternate(ALTERNATE);
	assert_int_equal(sheaf_capacity(&s->sheaf), 508);
	assert_int_equal(s->sheaf.shard_full, barn_shard_cells());
	assert_true(part() < (size_t)4 << 20);
	assert_int_equal(tear_down(state), 0);
	s = kib;
}

static void settings_stay(void **state)
{
	uint32_t shard, full;

	(void)state;
	assert_int_equal(kmem_cache_set_sheaf_capacity(s, 70), 0);
	assert_int_equal(kmem_cache_set_barn(s, 0, (size_t)2 << 20), 0);
	shard = s->sheaf.shard_full;
	full = s->sheaf.barn_full;
	use_batches(3 * BATCH, ROUNDS);
	alternate(ALTERNATE);
	assert_int_equal(sheaf_capacity(&s->sheaf), 70);
	assert_int_equal(s->sheaf.shard_full, shard);
	assert_int_equal(s->sheaf.barn_full, full);
	assert_int_equal(kmem_cache_set_barn(s, 0, 0), 0);
	alternate(ALTERNATE);
	assert_true(part() > BARN_CPU_BYTES);
	assert_int_equal(sheaf_capacity(&s->sheaf), 70);
}

static void half_of_the_process_is_for_others(void **state)
{
	size_t limit = (size_t)sheaf_budget.limit;

	(void)state;
	use_batches(BATCH, 1);
	sheaf_budget_set_limit(2 * sheaf_budget_used() - 1);
	alternate(ALTERNATE);
	assert_int_equal(part(), BARN_CPU_BYTES);
	sheaf_budget_set_limit((size_t)sheaf_budget.limit + 1);
	alternate(ALTERNATE);
	assert_true(part() > BARN_CPU_BYTES);
	sheaf_budget_set_limit(limit);
}

static void shrinking_starts_over(void **state)
{
	uint32_t shard = s->sheaf.shard_full, capacity = sheaf_capacity(&s->sheaf);

	(void)state;
	for (int again = 0; again < 2; again++) {
		use_batches(BATCH, ROUNDS);
		assert_true(part() > BARN_CPU_BYTES);
		kmem_cache_shrink(s);
		assert_int_equal(part(), BARN_CPU_BYTES);
		assert_int_equal(s->sheaf.shard_full, shard);
		assert_int_equal(sheaf_capacity(&s->sheaf), capacity);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(batches_find_room),
		TEST(arrays_find_room),
		TEST(small_batches_need_none),
		TEST(a_heap_does_not_count),
		TEST(one_direction_is_not_counted),
		TEST(budgets_are_bounded),
		TEST(small_objects_need_less),
		TEST(settings_stay),
		TEST(half_of_the_process_is_for_others),
		TEST(shrinking_starts_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
