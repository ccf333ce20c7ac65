/* SPDX-License-Identifier: MIT */
/*
 * Where the barn takes sheaves from and where it puts them: this CPU's shard first; a sheaf from
 * another CPU's shard moves here, so that no CPU takes the same sheaf from far twice.
 *
 * The tests need no second CPU: they use the shard of a CPU that may not exist.
 */
#include "percpu/barn/barn.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "percpu/sheaf.h"
#include "slab/drain_marks.h"

static struct kmem_cache *s;
static struct sheaf_cache *cache;
static struct sheaf *full, *empty;
static unsigned int here, other;

static uintptr_t *cells_of(unsigned int cpu)
{
	return slot_of_row(cache->at.handle, cpu)->cells;
}

static unsigned int sheaves_in(unsigned int cpu)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < SLOT_CELLS; i++)
		n += cells_of(cpu)[i] != 0;
	return n;
}

static struct barn *barn(void)
{
	return cache->barns[os.node_of_row[here]];
}

/* Pretend that that CPU has used the barn. */
static void use(unsigned int cpu)
{
	unsigned int place = os.place_of[cpu].place;

	barn()->used[place / 64] |= UINT64_C(1) << place % 64;
}

static struct sheaf *new_sheaf(uint32_t size)
{
	struct sheaf *sheaf = aligned_alloc(64, 1024);

	memset(sheaf, 0, 1024);
	sheaf->size = size;
	sheaf->capacity = sheaf_capacity(cache);
	return sheaf;
}

/* The first search only sees a sheaf of another CPU. */
static struct sheaf *begin_full(struct barn_cell *cell)
{
	struct sheaf *found = barn_begin_full(cache, os_node(), cell);

	return found ? found : barn_begin_full(cache, os_node(), cell);
}

/* Empty sheaves in all cells of a shard. */
static struct sheaf *others[SLOT_CELLS];

static void fill_with_empty(unsigned int cpu)
{
	for (unsigned int i = 0; i < SLOT_CELLS; i++)
		cells_of(cpu)[i] = (uintptr_t)(others[i] = new_sheaf(0));
}

static int set_up(void **state)
{
	struct sheaf *displaced;
	struct barn_cell cell;
	cpu_set_t cpu;

	(void)state;
	CPU_ZERO(&cpu);
	CPU_SET(sched_getcpu(), &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
	s = kmem_cache_create("barn", 64, NULL, SLAB_NO_MERGE);
	cache = &s->sheaf;
	full = new_sheaf(sheaf_capacity(cache));
	empty = new_sheaf(0);
	here = os_cpu();
	for (other = 0; other < os.nr_cpus; other++)
		if (other != here && os.node_of_row[other] == os.node_of_row[here])
			break;
	/* There is a barn from now on. */
	assert_true(barn_put_full(cache, os_node(), full, &displaced));
	assert_ptr_equal(barn_begin_full(cache, os_node(), &cell), full);
	barn_finish(cache, &cell, NULL);
	if (other < os.nr_cpus)
		use(other);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (unsigned int cpu = 0; cpu < os.nr_cpus; cpu++)
		memset(cells_of(cpu), 0, SLOT_CELLS * sizeof(uintptr_t));
	for (unsigned int i = 0; i < BARN_BLOCKS; i++)
		if (barn()->blocks[i])
			memset(barn()->blocks[i], 0, sizeof(struct barn_block));
	kmem_cache_destroy(s);
	for (unsigned int i = 0; i < SLOT_CELLS; i++) {
		free(others[i]);
		others[i] = NULL;
	}
	free(full);
	free(empty);
	return 0;
}

static void near_sheaf_changes_places(void **state)
{
	struct sheaf *displaced;
	struct barn_cell cell;

	(void)state;
	assert_true(barn_put_full(cache, os_node(), full, &displaced));
	assert_null(displaced);
	assert_int_equal(sheaves_in(here), 1);
	assert_ptr_equal(barn_begin_full(cache, os_node(), &cell), full);
	barn_finish(cache, &cell, empty);
	assert_int_equal(sheaves_in(here), 1);
	assert_ptr_equal(barn_begin_empty(cache, os_node(), NULL, &cell), empty);
	barn_finish(cache, &cell, full);
	assert_ptr_equal(barn_begin_full(cache, os_node(), &cell), full);
	barn_finish(cache, &cell, NULL);
	assert_int_equal(sheaves_in(here), 0);
}

static void far_sheaf_moves_here(void **state)
{
	struct barn_cell cell;

	(void)state;
	if (other == os.nr_cpus)
		skip();
	cells_of(other)[0] = (uintptr_t)full | BARN_FULL;
	assert_null(barn_begin_full(cache, os_node(), &cell));
	assert_ptr_equal(barn_begin_full(cache, os_node(), &cell), full);
	barn_finish(cache, &cell, empty);
	assert_int_equal(sheaves_in(other), 0);
	assert_int_equal(sheaves_in(here), 1);

	/* A full sheaf stays where the empty one was: that CPU is the one that allocates. */
	cells_of(here)[barn_shard_cells() - 1] = 0;
	cells_of(other)[0] = (uintptr_t)empty;
	assert_null(barn_begin_empty(cache, os_node(), NULL, &cell));
	assert_ptr_equal(barn_begin_empty(cache, os_node(), NULL, &cell), empty);
	barn_finish(cache, &cell, full);
	assert_int_equal(cells_of(other)[0], (uintptr_t)full | BARN_FULL);
	assert_int_equal(sheaves_in(here), 0);
}

/* A thread that sees a drain leaves it where it was: no sign that there is no room here. */
static void far_sheaf_is_put_back(void **state)
{
	uint16_t *turns = &slot_of_row(cache->at.handle, here)->turns;
	struct barn_cell cell;

	(void)state;
	if (other == os.nr_cpus)
		skip();
	cells_of(other)[0] = (uintptr_t)full | BARN_FULL;
	*turns = 0;
	assert_ptr_equal(begin_full(&cell), full);
	barn_finish(cache, &cell, full);
	assert_int_equal(cells_of(other)[0], (uintptr_t)full | BARN_FULL);
	assert_int_equal(*turns, 0);
	assert_ptr_equal(begin_full(&cell), full);
	barn_finish(cache, &cell, NULL);
}

/* The first cells may be full: the CPU that frees takes the empty sheaf, and leaves a full one. */
static void empty_sheaf_may_be_exchanged_where_objects_flow_one_way(void **state)
{
	struct barn_cell cell;

	(void)state;
	for (uint32_t one_way = 0; one_way < 2; one_way++) {
		cache->one_way = one_way;
		assert_true(barn_put_empty(cache, empty));
		assert_ptr_equal(barn_begin_empty(cache, os_node(), NULL, &cell), empty);
		assert_ptr_equal(cell.at, &cells_of(here)[one_way ? 0 : barn_shard_cells() - 1]);
		barn_finish(cache, &cell, NULL);
	}
	cache->one_way = 0;
}

static void far_sheaf_stays_when_there_is_no_room(void **state)
{
	struct barn_cell cell;

	(void)state;
	if (other == os.nr_cpus)
		skip();
	fill_with_empty(here);
	cells_of(other)[0] = (uintptr_t)full | BARN_FULL;
	assert_ptr_equal(begin_full(&cell), full);
	barn_finish(cache, &cell, empty);
	assert_int_equal(cells_of(other)[0], (uintptr_t)empty);
}

/* A CPU that uses its sheaves keeps them, however often others search its shard. */
static void sheaf_in_use_stays(void **state)
{
	struct barn_cell cell;

	(void)state;
	if (other == os.nr_cpus)
		skip();
	for (int i = 0; i < 10; i++) {
		cells_of(other)[0] = (uintptr_t)full | BARN_FULL;
		assert_null(barn_begin_full(cache, os_node(), &cell));
	}
	assert_int_equal(cells_of(other)[0], (uintptr_t)full | BARN_FULL | BARN_SEEN);
	cells_of(other)[0] = 0;
	/* The owner itself takes it, marked or not. */
	cells_of(here)[0] = (uintptr_t)full | BARN_FULL | BARN_SEEN;
	assert_ptr_equal(barn_begin_full(cache, os_node(), &cell), full);
	barn_finish(cache, &cell, NULL);
}

/* Empty sheaves in every cell: they never keep a full one out. */
static void full_sheaf_displaces_an_empty_one(void **state)
{
	struct sheaf *displaced;

	(void)state;
	fill_with_empty(here);
	assert_true(barn_has_room(cache));
	assert_true(barn_put_full(cache, os_node(), full, &displaced));
	assert_ptr_equal(displaced, others[cache->shard_full - 1]);
	assert_int_equal(sheaves_in(here), SLOT_CELLS);
	assert_int_equal(cells_of(here)[cache->shard_full - 1], (uintptr_t)full | BARN_FULL);
}

static void displaced_sheaf_finds_another_place(void **state)
{
	const struct barn_block *block;

	(void)state;
	fill_with_empty(here);
	assert_true(sheaf_put_full(cache, os_node(), full));
	block = barn()->blocks[0];
	assert_non_null(block);
	assert_int_equal(block->cells[BARN_BLOCK_CELLS - 1],
			 (uintptr_t)others[cache->shard_full - 1]);
}

static unsigned int put_all(void)
{
	struct sheaf *displaced, *one;
	unsigned int puts = 0;

	while ((one = new_sheaf(sheaf_capacity(cache))) != NULL &&
	       barn_put_full(cache, os_node(), one, &displaced))
		puts++;
	free(one);
	assert_null(displaced);
	return puts;
}

static void take_all(unsigned int puts)
{
	struct barn_cell cell;

	for (; puts > 0; puts--) {
		struct sheaf *one = begin_full(&cell);

		assert_non_null(one);
		barn_finish(cache, &cell, NULL);
		free(one);
	}
	assert_null(barn_begin_full(cache, os_node(), &cell));
}

/* A sheaf that finds no room here is put into the shard of a CPU that has room. */
static void budget_of_others_is_used(void **state)
{
	unsigned int shards = other < os.nr_cpus ? 2 : 1, puts;

	(void)state;
	assert_true(cache->shard_full >= 2);
	puts = put_all();
	assert_int_equal(puts, shards * cache->shard_full + cache->barn_full);
	assert_false(barn_has_room(cache));
	take_all(puts);
}

static void limits_hold(void **state)
{
	unsigned int puts;

	(void)state;
	sheaf_set_barn(cache, 1, 1);
	assert_int_equal(cache->shard_full, 0);
	puts = put_all();
	assert_int_equal(puts, BARN_FLOOR);
	take_all(puts);
	/* The part of this CPU. */
	sheaf_set_barn(cache, 0, 0);
	assert_true(os.nr_allowed == 1 && barn()->nr_used == 1);
	assert_int_equal(cache->shard_full + cache->barn_full,
			 BARN_CPU_BYTES / cache->slab.size / sheaf_capacity(cache));
	sheaf_set_capacity(cache, 1024);
	assert_int_equal(cache->shard_full, 2);
	assert_int_equal(cache->barn_full, BARN_FLOOR - 2);
}

/* A search for room that ends when all sheaves were taken meanwhile says that there is none. */
static void late_mark_is_forgotten(void **state)
{
	struct sheaf *displaced;
	struct barn_cell cell;

	(void)state;
	/* BARN-N2 */
	/* No shard has room, where frees look in spite of the mark. */
	sheaf_set_barn(cache, 1, 1);
	take_all(put_all());
	barn()->found_none[BARN_ROOM] = 1;
	barn()->found_none[BARN_FULL_SHEAF] = 0;
	assert_null(barn_begin_full(cache, os_node(), &cell));
	assert_true(barn_has_room(cache));
	assert_true(barn_put_full(cache, os_node(), full, &displaced));
	assert_ptr_equal(barn_begin_full(cache, os_node(), &cell), full);
	barn_finish(cache, &cell, NULL);
}

/* Each cell is in one part, and a part in one line. */
static void parts_are_lines(void **state)
{
	unsigned int cell = 0;

	(void)state;
	for (unsigned int part = 0; part < BARN_PARTS; part++) {
		assert_int_equal(barn_part_at(part), cell);
		for (; cell < barn_part_at(part + 1); cell++)
			assert_int_equal(offsetof(struct barn_block, cells[cell]) / 64, part);
	}
	assert_int_equal(cell, BARN_BLOCK_CELLS);
}

/* The thread that set a bit was about to count it, or to set the limits for it. */
static void bits_are_counted_after_fork(void **state)
{
	uint32_t shard_full, barn_full;

	(void)state;
	barn()->nr_used = 1 + (other < os.nr_cpus);
	barn_set_limits(cache);
	shard_full = cache->shard_full;
	barn_full = cache->barn_full;
	for (unsigned int counted = 0; counted < 2; counted++) {
		barn()->nr_used -= !counted;
		cache->shard_full = cache->barn_full = 0;
		assert_int_equal(barn_after_fork(cache), 0);
		assert_int_equal(barn()->nr_used, 1 + (other < os.nr_cpus));
		assert_int_equal(cache->shard_full, shard_full);
		assert_int_equal(cache->barn_full, barn_full);
	}
}

/* The thread that put it there had not yet set the mark. */
static void sheaf_is_marked_after_fork(void **state)
{
	struct sheaf *displaced;

	(void)state;
	assert_true(barn_put_full(cache, os_node(), full, &displaced));
	cache->slab.marks &= (uint16_t)~MARK_SHEAVES;
	assert_int_equal(barn_after_fork(cache), 0);
	assert_true(slab_marks(&cache->slab) & MARK_SHEAVES);
}

/* Of small sheaves a shard may be full; hints about another node do no harm (BARN-N2). */
static void many_small_sheaves(void **state)
{
	static void *objects[4000];
	struct slot *slot;

	(void)state;
	s = kmem_cache_create("small", 64, NULL, SLAB_NO_MERGE);
	assert_int_equal(kmem_cache_set_sheaf_capacity(s, 1), 0);
	assert_int_equal(kmem_cache_set_barn(s, 100000, 100000 * 64), 0);
	slot = slot_of_row(s->sheaf.at.handle, os_cpu());
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 4000; i++) {
			objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
			assert_non_null(objects[i]);
		}
		for (int i = 0; i < 4000; i++) {
			slot->steal[i % 2] = (uint16_t)(UINT16_MAX - i);
			kmem_cache_free(s, objects[i]);
		}
		assert_int_equal(kmem_cache_verify(s), 0);
	}
	kmem_cache_destroy(s);
}

int test_barn(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(near_sheaf_changes_places, set_up, tear_down),
		cmocka_unit_test_setup_teardown(far_sheaf_moves_here, set_up, tear_down),
		cmocka_unit_test_setup_teardown(far_sheaf_is_put_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			empty_sheaf_may_be_exchanged_where_objects_flow_one_way, set_up, tear_down),
		cmocka_unit_test_setup_teardown(far_sheaf_stays_when_there_is_no_room, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(sheaf_in_use_stays, set_up, tear_down),
		cmocka_unit_test_setup_teardown(full_sheaf_displaces_an_empty_one, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(displaced_sheaf_finds_another_place, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(budget_of_others_is_used, set_up, tear_down),
		cmocka_unit_test_setup_teardown(limits_hold, set_up, tear_down),
		cmocka_unit_test_setup_teardown(late_mark_is_forgotten, set_up, tear_down),
		cmocka_unit_test(many_small_sheaves),
		cmocka_unit_test(parts_are_lines),
		cmocka_unit_test_setup_teardown(bits_are_counted_after_fork, set_up, tear_down),
		cmocka_unit_test_setup_teardown(sheaf_is_marked_after_fork, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
