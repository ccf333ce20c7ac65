/* SPDX-License-Identifier: MIT */
/*
 * How a cache's use is recognised, and how the cache then changes: the direction in which objects
 * flow, the capacity of sheaves, and the budgets of CPUs that have no room for a program's batches:
 * when they grow, when they do not, and how they start over.
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>

#include "cache/paths.h"
#include "internal/kit/ready.h"
#include "kit/cache.h"
#include "kit/clock.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "os/section.h"
#include "percpu/barn/barn.h"
#include "percpu/barn/budget.h"
#include "percpu/sheaf.h"

#define ROW	3
#define OTHERS	4
#define ENOUGH	1000
#define OBJECTS 500

static void see(struct kmem_cache *s, uint32_t filled_by, unsigned int times)
{
	struct sheaf sheaf = {.filled_by = filled_by};

	while (times-- > 0)
		sheaf_flow(&s->sheaf, &sheaf, ROW);
	cache_see_flow(s);
}

static void use(struct kmem_cache *s)
{
	void *objects[OBJECTS];

	for (int i = 0; i < OBJECTS; i++) {
		objects[i] =
			i % 2 ? kmem_cache_alloc(s, GFP_KERNEL) : kmem_cache_zalloc(s, GFP_NOWAIT);
		assert_non_null(objects[i]);
		memset(objects[i], 0x5a, kmem_cache_size(s));
	}
	for (int i = 0; i < OBJECTS; i++)
		kmem_cache_free(s, objects[i]);
	assert_int_equal(kmem_cache_verify(s), 0);
}

static void direction_begins_and_ends(void **state)
{
	struct kmem_cache *s = kmem_cache_create("flow", 64, NULL, SLAB_NO_MERGE);
	uint32_t word = s->words.pop_by;

	(void)state;
	see(s, ROW + 1, 500);
	see(s, 0, 500);
	assert_int_equal(s->sheaf.one_way, 0);
	see(s, OTHERS + 1, 20);
	assert_int_equal(s->sheaf.one_way, 0);
	see(s, OTHERS + 1, ENOUGH);
	assert_int_equal(s->sheaf.one_way, 1);
	if (os.backend == OS_BACKEND_RSEQ && !os.counting && !cache_is_hardened(s))
		assert_int_not_equal(s->words.pop_by, word);
	use(s);
	see(s, ROW + 1, 20);
	assert_int_equal(s->sheaf.one_way, 1);
	see(s, ROW + 1, ENOUGH);
	assert_int_equal(s->sheaf.one_way, 0);
	assert_int_equal(s->words.pop_by, word);
	use(s);
	kmem_cache_destroy(s);
}

/* A CPU whose sheaves come from both CPUs does not write the words that all slow paths read. */
static void a_mixture_is_counted_on_its_cpu(void **state)
{
	struct kmem_cache *s = kmem_cache_create("flow", 64, NULL, SLAB_NO_MERGE);

	(void)state;
	for (int i = 0; i < ENOUGH; i++) {
		see(s, OTHERS + 1, 2);
		assert_int_equal(s->sheaf.flow, 0);
		see(s, ROW + 1, 1);
		assert_int_equal(s->sheaf.flow, 0);
	}
	kmem_cache_destroy(s);
}

/* A thread still uses it by mistake: the cache never stops reporting that it was destroyed. */
static void destroyed_cache_stays_destroyed(void **state)
{
	struct kmem_cache *s = kmem_cache_create("flow", 64, NULL, SLAB_NO_MERGE);
	const struct sheaf_row_words words = s->words;
	const struct cache_calls calls = s->calls;
	struct cache_calls destroyed;

	(void)state;
	cache_refuse_calls(s);
	destroyed = s->calls;
	see(s, OTHERS + 1, ENOUGH);
	assert_int_equal(s->sheaf.one_way, 1);
	assert_memory_equal(&s->calls, &destroyed, sizeof(destroyed));
	assert_int_equal(s->words.pop_by, BY_TABLE);
	see(s, ROW + 1, ENOUGH);
	assert_int_equal(s->sheaf.one_way, 0);
	assert_memory_equal(&s->calls, &destroyed, sizeof(destroyed));
	assert_int_equal(s->words.pop_by, BY_TABLE);
	s->words = words;
	s->calls = calls;
	kmem_cache_destroy(s);
}

static void volume_is_bounded_by_bytes(void **state)
{
	/* Bytes of an object, the default capacity, the largest one. */
	static const unsigned int sizes[][3] = {
		{8, 60, 508}, {256, 28, 252}, {1024, 12, 60}, {4096, 4, 12}, {65536, 1, 1}};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct kmem_cache *s = kmem_cache_create("flow", sizes[i][0], NULL, SLAB_NO_MERGE);

		see(s, ROW + 1, ENOUGH);
		assert_int_equal(sheaf_capacity(&s->sheaf), sizes[i][1]);
		see(s, ROW + 1, ENOUGH);
		assert_int_equal(sheaf_capacity(&s->sheaf), sizes[i][2]);
		use(s);
		kmem_cache_shrink(s);
		assert_int_equal(sheaf_capacity(&s->sheaf), sizes[i][1]);
		kmem_cache_destroy(s);
	}
}

/* Batches that fit into two sheaves, but not into one: the barn is not used. */
static void swaps_are_volume(void **state)
{
	struct kmem_cache *s = kmem_cache_create("flow", 64, NULL, SLAB_NO_MERGE);
	void *objects[100];
	const struct slot *slot;

	(void)state;
	pin(0);
	for (int round = 0; round < 3 * ENOUGH; round++) {
		assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 100, objects), 100);
		kmem_cache_free_bulk(s, 100, objects);
	}
	assert_int_equal(sheaf_capacity(&s->sheaf), 508);
	slot = slot_of_row((char *)s, os_row());
	assert_true(slot->main->capacity == 508 || sheaf_size(slot->main) > 0);
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(kmem_cache_shrink(s), 0);
	kmem_cache_destroy(s);
}

/* A heap that only grows, and one that is then freed completely: sheaves are refilled and flushed.
 */
static void refills_and_flushes_are_volume(void **state)
{
	struct kmem_cache *s = kmem_cache_create("flow", 8, NULL, SLAB_NO_MERGE);
	static void *heap[100 * ENOUGH];
	int n = 0;

	(void)state;
	pin(0);
	for (; n < 30 * ENOUGH; n++)
		heap[n] = kmem_cache_alloc(s, GFP_KERNEL);
	assert_int_equal(sheaf_capacity(&s->sheaf), 60);
	for (; n < 100 * ENOUGH; n++)
		heap[n] = kmem_cache_alloc(s, GFP_KERNEL);
	assert_int_equal(sheaf_capacity(&s->sheaf), 508);
	kmem_cache_shrink(s);
	assert_int_equal(sheaf_capacity(&s->sheaf), 60);
	while (n > 0)
		kmem_cache_free(s, heap[--n]);
	assert_int_equal(sheaf_capacity(&s->sheaf), 508);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
}

static void use_one_by_one(struct kmem_cache *s, void **objects, int n, const struct slot *slot)
{
	const struct sheaf *same = slot ? slot->main : NULL;

	for (int i = 0; i < n; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		assert_non_null(objects[i]);
		if (slot)
			assert_ptr_equal(slot->main, same);
	}
	for (int i = 0; i < n; i++) {
		kmem_cache_free(s, objects[i]);
		if (slot)
			assert_ptr_equal(slot->main, same);
	}
}

/* One larger sheaf replaces two of the old capacity and the barn: there are no more swaps. */
static void small_sheaves_do_not_stay(void **state)
{
	static const int batches[] = {70, 100, 150, 250};
	void *objects[OBJECTS];

	(void)state;
	pin(0);
	for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
		struct kmem_cache *s = kmem_cache_create("flow", 64, NULL, SLAB_NO_MERGE);
		const struct slot *slot = slot_of_row((char *)s, os_row());
		const struct sheaf *spare;

		for (int round = 0; round < 3 * ENOUGH; round++)
			use_one_by_one(s, objects, batches[i], NULL);
		assert_int_equal(slot->main->capacity, 508);
		spare = (struct sheaf *)(slot->pair ^ (uintptr_t)slot->main);
		/* The bootstrap sheaf has no capacity, and counts as no sheaf. */
		assert_true(!spare || !spare->capacity || spare->capacity == 508);
		use_one_by_one(s, objects, batches[i], slot);
		assert_int_equal(kmem_cache_verify(s), 0);
		kmem_cache_destroy(s);
	}
}

/* The objects of a spare sheaf of the old capacity stay on this CPU: it counts as filled by this
 * CPU, whichever CPU filled it before. */
static void renewed_spare_tells_who_filled_it(void **state)
{
	struct kmem_cache *s = kmem_cache_create("flow", 64, NULL, SLAB_NO_MERGE);
	struct sheaf *full, *spare;
	const struct slot *slot;
	void *objects[OBJECTS];
	uint32_t first;
	int i = 0;

	(void)state;
	pin(0);
	for (int n = 0; n < OBJECTS; n++)
		objects[n] = kmem_cache_alloc(s, GFP_KERNEL);
	slot = slot_of_row((char *)s, os_row());
	do {
		kmem_cache_free(s, objects[i++]);
		full = slot->main;
		spare = (struct sheaf *)(slot->pair ^ (uintptr_t)full);
	} while (sheaf_size(full) < full->capacity || !spare ||
		 sheaf_size(spare) == spare->capacity);
	first = full->capacity;
	while (sheaf_capacity(&s->sheaf) == first)
		sheaf_see_volume(&s->sheaf);
	full->filled_by = OTHERS + 1;
	kmem_cache_free(s, objects[i++]);
	assert_ptr_equal(slot->main, spare);
	full = (struct sheaf *)(slot->pair ^ (uintptr_t)slot->main);
	assert_int_equal(full->filled_by, os_row() + 1);
	assert_int_equal(full->capacity, sheaf_capacity(&s->sheaf));
	assert_int_equal(sheaf_size(full), first);
	kmem_cache_free_bulk(s, (size_t)(OBJECTS - i), objects + i);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
}

static void leaves_a_chosen_capacity_alone(void **state)
{
	struct kmem_cache_args args = {.sheaf_capacity = 100};
	struct kmem_cache *s = kmem_cache_create("flow", 64, &args, 0);

	(void)state;
	see(s, OTHERS + 1, 2 * ENOUGH);
	assert_int_equal(sheaf_capacity(&s->sheaf), 100);
	kmem_cache_destroy(s);
	s = kmem_cache_create("flow", 64, NULL, SLAB_NO_MERGE);
	kmem_cache_set_sheaf_capacity(s, 70);
	see(s, OTHERS + 1, 2 * ENOUGH);
	assert_int_equal(sheaf_capacity(&s->sheaf), 70);
	kmem_cache_destroy(s);
}

/* As a new cache does. */
static void starts_over_when_the_library_chooses_again(void **state)
{
	struct kmem_cache *s = kmem_cache_create("flow", 64, NULL, SLAB_NO_MERGE);

	(void)state;
	see(s, ROW + 1, 2 * ENOUGH);
	assert_int_equal(sheaf_capacity(&s->sheaf), 508);
	kmem_cache_set_sheaf_capacity(s, 70);
	see(s, ROW + 1, 2 * ENOUGH);
	assert_int_equal(sheaf_capacity(&s->sheaf), 70);
	sheaf_choose_capacity(&s->sheaf, 60);
	assert_int_equal(sheaf_capacity(&s->sheaf), 60);
	see(s, ROW + 1, ENOUGH);
	assert_int_equal(sheaf_capacity(&s->sheaf), 60);
	see(s, ROW + 1, ENOUGH);
	assert_int_equal(sheaf_capacity(&s->sheaf), 508);
	kmem_cache_destroy(s);
}

struct pipe {
	struct kmem_cache *s;
	void *slots[256];
	size_t head, tail;
};

static void *consume(void *data)
{
	struct pipe *pipe = data;

	pin(1);
	for (size_t i = 0; i < 200000; i++) {
		while (__atomic_load_n(&pipe->tail, __ATOMIC_ACQUIRE) == i)
			sched_yield();
		kmem_cache_free(pipe->s, pipe->slots[i % 256]);
		__atomic_store_n(&pipe->head, i + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* One thread on each of two CPUs; skipped on machines with one CPU. */
static void is_found_between_threads(void **state)
{
	struct pipe pipe = {.s = kmem_cache_create("flow", 64, NULL, SLAB_NO_MERGE)};
	pthread_t thread;

	(void)state;
	if (!pin(1) || !pin(0)) {
		kmem_cache_destroy(pipe.s);
		skip();
	}
	pthread_create(&thread, NULL, consume, &pipe);
	for (size_t i = 0; i < 200000; i++) {
		while (i - __atomic_load_n(&pipe.head, __ATOMIC_ACQUIRE) == 256)
			sched_yield();
		pipe.slots[i % 256] = kmem_cache_alloc(pipe.s, GFP_KERNEL);
		assert_non_null(pipe.slots[i % 256]);
		__atomic_store_n(&pipe.tail, i + 1, __ATOMIC_RELEASE);
	}
	pthread_join(thread, NULL);
	if (os.nr_nodes == 1)
		assert_int_equal(pipe.s->sheaf.one_way, 1);
	assert_int_equal(kmem_cache_verify(pipe.s), 0);
	assert_int_equal(kmem_cache_shrink(pipe.s), 0);
	kmem_cache_destroy(pipe.s);
}

/* --- budgets: one thread, on one CPU ---------------------------------------------------------- */

enum {
	SIZE = 1024,
	BATCH = 1000,
	HEAP = 20000, /* objects: more than the largest budget, and all sheaves */
	ROUNDS = 400, /* enough for budgets to grow to their limit */
	TRIES = 100,
	ALTERNATE = 1000,
};

static struct kmem_cache *s;
static void *objects[HEAP];

/* The default one allows large sheaves for few CPUs only. */
static int set_budget(void **state)
{
	if (setup(state) != 0)
		return -1;
	sheaf_budget_set_limit((size_t)64 << 20);
	return 0;
}

static int reset_budget(void **state)
{
	(void)state;
	sheaf_budget_follow();
	return 0;
}

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
	/* The thread may be preempted in a section, or go on with another row. */
	for (int i = 0; i < TRIES; i++) {
		turns = slot->turns;
		use_batches(BATCH, ROUNDS);
		if (slot->turns == turns)
			return;
	}
	fail_msg("batches come from other shards in each of %d rounds", TRIES);
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
	os_options.sheaf_budget = 64;
	sheaf_budget_follow();
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
	os_options.sheaf_budget = 0;
	sheaf_budget_follow();
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

int test_flow(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(direction_begins_and_ends),
		cmocka_unit_test(a_mixture_is_counted_on_its_cpu),
		cmocka_unit_test(destroyed_cache_stays_destroyed),
		cmocka_unit_test(volume_is_bounded_by_bytes),
		cmocka_unit_test(swaps_are_volume),
		cmocka_unit_test(refills_and_flushes_are_volume),
		cmocka_unit_test(small_sheaves_do_not_stay),
		cmocka_unit_test(renewed_spare_tells_who_filled_it),
		cmocka_unit_test(leaves_a_chosen_capacity_alone),
		cmocka_unit_test(starts_over_when_the_library_chooses_again),
		cmocka_unit_test(is_found_between_threads),
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

	clock_stands =
		true; /* No round of housekeeping changes the limit, or empties the sheaves. */
	return cmocka_run_group_tests(tests, set_budget, reset_budget);
}
