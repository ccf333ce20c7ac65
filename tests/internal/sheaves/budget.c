/* SPDX-License-Identifier: MIT */
/*
 * The process's budget of barns: what counts, what happens above it, and how sheaves are stored
 * again below it. One thread, on one CPU.
 */
#include "percpu/barn/budget.h"

#include <sched.h>
#include <sheaf/kmalloc.h>
#include <sheaf/stats.h>

#include "cache/cache.h"
#include "kit/cache.h"
#include "kit/clock.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/options/options.h"
#include "page/decay.h"
#include "page/page.h"
#include "percpu/sheaf.h"

enum {
	SIZE = 256,
	CAPACITY = 28,
	SHEAVES = 12, /* of a batch: more than slots hold, less than a barn */
	OBJECTS = SHEAVES * CAPACITY,
	SHEAF = SIZE * CAPACITY, /* bytes */
	ROOM = 2 * CAPACITY,
	BUSY = 1200, /* swaps after which sheaves have grown */
};

static struct kmem_cache *s;
static size_t usual; /* the limit */
static void *objects[OBJECTS];

static size_t bytes(void)
{
	struct sheaf_stats stats;

	sheaf_stats(&stats);
	return stats.sheaf_bytes;
}

static struct kmem_cache *new_cache(unsigned int capacity)
{
	const struct kmem_cache_args args = {.sheaf_capacity = capacity};
	struct kmem_cache *made = kmem_cache_create("budget", SIZE, &args, SLAB_NO_MERGE);

	assert_non_null(made);
	return made;
}

static int set_up(void **state)
{
	(void)state;
	pin((unsigned int)sched_getcpu());
	clock_stands = true; /* No round of housekeeping changes the limit. */
	s = new_cache(CAPACITY);
	usual = (size_t)sheaf_budget.limit;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	sheaf_budget_set_limit(usual);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
	return 0;
}

static void take_batch(void)
{
	for (int i = 0; i < OBJECTS; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		assert_non_null(objects[i]);
	}
}

static void free_batch(void)
{
	for (int i = 0; i < OBJECTS; i++)
		kmem_cache_free(s, objects[i]);
}

/* From now on sheaves must not hold more than they do now. */
static void allow_no_more(void)
{
	sheaf_budget_set_limit(sheaf_budget_used());
}

static void limit_follows_the_program(void **state)
{
	size_t before, more = 64 << 20, memory = os.memory;
	void *block;

	(void)state;
	clock_pass_ms(10000);
	sheaf_budget_follow();
	before = (size_t)sheaf_budget.limit;
	assert_int_equal(before, page_bound());
	block = kvmalloc(more, GFP_KERNEL);
	assert_non_null(block);
	sheaf_budget_follow();
	assert_in_range(sheaf_budget.limit, before + more / 32, before + more / 8);
	/* However much is mapped. */
	os.memory = more / 8;
	sheaf_budget_follow();
	assert_true((size_t)sheaf_budget.limit <= os.memory / 8);
	os.memory = memory;
	kvfree(block);
}

/* What CPUs had not added was little beside the limit before. */
static void a_lower_limit_adds_up_parts(void **state)
{
	(void)state;
	os_options.sheaf_budget = 1024;
	sheaf_budget_follow();
	take_batch();
	free_batch();
	/* BUDGET-J3 */
	assert_true((size_t)sheaf_budget.used != sheaf_budget_used());
	os_options.sheaf_budget = 1;
	sheaf_budget_follow();
	assert_int_equal(sheaf_budget.used, sheaf_budget_used());
	os_options.sheaf_budget = 0;
}

static void the_option_sets_the_limit(void **state)
{
	(void)state;
	os_options.sheaf_budget = 3;
	sheaf_budget_init();
	assert_int_equal(sheaf_budget.limit, 3 << 20);
	os_options.sheaf_budget = 1 << 24;
	sheaf_budget_init();
	assert_true((size_t)sheaf_budget.limit == (size_t)16 << 40);
	os_options.sheaf_budget = 0;
}

/* Wherever they are, and whether they are full. */
static void sheaves_count_from_make_to_free(void **state)
{
	size_t before = bytes();

	(void)state;
	/* BUDGET-J1 */
	take_batch();
	free_batch();
	assert_in_range(bytes() - before, SHEAVES * SHEAF, (SHEAVES + 1) * SHEAF);
	/* They become empty, and soon they are full again. */
	before = bytes();
	take_batch();
	assert_int_equal(bytes(), before);
	free_batch();
	assert_int_equal(bytes(), before);
	kmem_cache_shrink(s);
	assert_true(look(s).objects_in_sheaves == 0);
	assert_true(bytes() <= before - SHEAVES * SHEAF);
}

static void prefilled_sheaves_count(void **state)
{
	size_t before = bytes();
	struct slab_sheaf *lent = kmem_cache_prefill_sheaf(s, GFP_KERNEL, CAPACITY);

	(void)state;
	assert_non_null(lent);
	assert_int_equal(bytes() - before, SHEAF);
	sheaf_budget_set_limit(before);
	kmem_cache_return_sheaf(s, GFP_KERNEL, lent);
	assert_int_equal(look(s).barn_full, 0);
}

/* However many objects a program allocates in one call, barns stay open to all caches. */
static void oversize_sheaves_do_not_count(void **state)
{
	size_t before = bytes();
	struct slab_sheaf *lent = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 4 * OBJECTS);

	(void)state;
	assert_non_null(lent);
	assert_int_equal(bytes(), before);
	sheaf_budget_set_limit(before + (SHEAVES + 2) * SHEAF);
	take_batch();
	free_batch();
	assert_true(look(s).barn_full >= SHEAVES - 2);
	kmem_cache_return_sheaf(s, GFP_KERNEL, lent);
	assert_true(bytes() <= before + (SHEAVES + 4) * SHEAF);
}

/* Its room is the cache's capacity by the time when it returns. */
static void oversize_sheaf_is_never_kept(void **state)
{
	struct slab_sheaf *lent = kmem_cache_prefill_sheaf(s, GFP_KERNEL, ROOM);
	size_t before = bytes();

	(void)state;
	assert_non_null(lent);
	assert_int_equal(kmem_cache_set_sheaf_capacity(s, ROOM), 0);
	/* No more than it has room for. */
	assert_int_equal(kmem_cache_refill_sheaf(s, GFP_KERNEL, &lent, ROOM), 0);
	assert_int_equal(kmem_cache_refill_sheaf(s, GFP_KERNEL, &lent, ROOM + 1), 0);
	assert_in_range(kmem_cache_sheaf_size(lent), ROOM + 1, ROOM + 1);
	kmem_cache_return_sheaf(s, GFP_KERNEL, lent);
	kmem_cache_shrink(s);
	assert_int_equal(look(s).objects_in_sheaves, 0);
	assert_true(bytes() <= before);
}

/* Main and spare are all that this CPU has. */
static void full_sheaves_are_flushed(void **state)
{
	struct kmem_cache_stats stats;
	size_t before = bytes();
	uint64_t made = 0;

	(void)state;
	/* BUDGET-J2 */
	allow_no_more();
	for (int round = 0; round < 3; round++) {
		take_batch();
		free_batch();
		stats = look(s);
		/* They are used again: no others are made and freed all the time. */
		assert_true(!made || stats.sheaf_alloc == made);
		made = stats.sheaf_alloc;
		assert_int_equal(stats.barn_full + stats.barn_empty, 0);
		assert_true(stats.objects_in_sheaves <= 2 * CAPACITY);
		assert_true(bytes() <= before + 2 * SHEAF);
	}
}

/* The budget became smaller, or others used it up, while the barn had sheaves. */
static void barn_goes_down_with_use(void **state)
{
	size_t before = bytes();

	(void)state;
	take_batch();
	free_batch();
	assert_true(look(s).barn_full >= SHEAVES - 2);
	sheaf_budget_set_limit(before);
	take_batch();
	assert_int_equal(look(s).barn_full + look(s).barn_empty, 0);
	free_batch();
	assert_int_equal(look(s).barn_full + look(s).barn_empty, 0);
	assert_true(bytes() <= before + 2 * SHEAF);
}

/* Only what is above it goes. */
static void barn_fills_up_to_the_budget(void **state)
{
	size_t before = bytes(), room = SHEAVES / 2 * SHEAF;

	(void)state;
	sheaf_budget_set_limit(before + room);
	for (int round = 0; round < 3; round++) {
		take_batch();
		free_batch();
		assert_in_range(bytes(), before + room - SHEAF, before + room + 2 * SHEAF);
	}
	sheaf_budget_set_limit(usual);
	take_batch();
	free_batch();
	assert_true(look(s).barn_full >= SHEAVES - 3);
}

/* Empty ones stayed in the barn, which became too large meanwhile. */
static void full_sheaves_take_no_place(void **state)
{
	size_t before = bytes();

	(void)state;
	take_batch();
	free_batch();
	take_batch();
	assert_true(look(s).barn_empty > 2);
	sheaf_budget_set_limit(before);
	free_batch();
	assert_int_equal(look(s).barn_full, 0);
}

static void other_caches_count(void **state)
{
	struct kmem_cache *other = s;
	size_t before = bytes();

	(void)state;
	take_batch();
	free_batch();
	sheaf_budget_set_limit(before + SHEAVES / 2 * SHEAF);
	s = kmem_cache_create("budget-2", SIZE, NULL, SLAB_NO_MERGE);
	assert_non_null(s);
	take_batch();
	free_batch();
	assert_int_equal(look(s).barn_full, 0);
	assert_true(look(other).barn_full >= SHEAVES - 2);
	/* Other caches can use its memory now. */
	kmem_cache_destroy(other);
	take_batch();
	free_batch();
	assert_true(look(s).barn_full > 0);
}

/* A prefilled sheaf that was used in part is not filled again to be stored. */
static void returned_sheaf_is_not_filled(void **state)
{
	struct slab_sheaf *lent = kmem_cache_prefill_sheaf(s, GFP_KERNEL, CAPACITY), *spare;
	void *object;

	(void)state;
	spare = kmem_cache_prefill_sheaf(s, GFP_KERNEL, CAPACITY);
	assert_true(lent && spare);
	object = kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, lent);
	assert_non_null(object);
	kmem_cache_return_sheaf(s, GFP_KERNEL, spare);
	allow_no_more();
	sheaf_budget_set_limit((size_t)sheaf_budget.limit - 1);
	kmem_cache_return_sheaf(s, GFP_KERNEL, lent);
	assert_int_equal(look(s).barn_full + look(s).barn_empty, 0);
	kmem_cache_free(s, object);
}

static void sheaves_grow_when_there_is_room(void **state)
{
	unsigned int first;

	(void)state;
	kmem_cache_destroy(s);
	s = new_cache(0);
	first = sheaf_capacity(&s->sheaf);
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	sheaf_budget_set_limit(0);
	for (int i = 0; i < BUSY; i++)
		sheaf_see_volume(&s->sheaf);
	assert_int_equal(sheaf_capacity(&s->sheaf), first);
	sheaf_budget_set_limit(usual);
	sheaf_see_volume(&s->sheaf);
	assert_true(sheaf_capacity(&s->sheaf) > first);
}

/* Objects of another node: their sheaves are not sent home. */
static void remote_sheaves_are_flushed(void **state)
{
	unsigned int here = os_node();
	size_t before = bytes();
	int other = -1;

	(void)state;
	/* Both nodes use the cache, and would take them: this one, and another one with memory. */
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	for (unsigned int cpu = 0; other < 0 && cpu < os.nr_cpus; cpu++) {
		void *object;

		if (os.node_of_row[cpu] == here || !pin(cpu))
			continue;
		object = kmem_cache_alloc(s, GFP_KERNEL);
		if (page_node(object) == os_node())
			other = (int)here;
		kmem_cache_free(s, object);
	}
	if (other < 0)
		skip();
	for (int over = 0; over < 2; over++) {
		for (int i = 0; i < OBJECTS; i++) {
			objects[i] = kmem_cache_alloc_node(s, GFP_KERNEL, other);
			assert_non_null(objects[i]);
		}
		if (over)
			sheaf_budget_set_limit(before);
		free_batch();
		assert_int_equal(look(s).barn_full > 0, !over);
		assert_true(!over || bytes() <= before + 3 * SHEAF);
		kmem_cache_shrink(s);
	}
}

/* ... and not exchanged for empty ones. */
static void remote_sheaves_take_no_place(void **state)
{
	unsigned int here = os_cpu(), node = os_node();
	size_t before = bytes();

	(void)state;
	if (os.nr_nodes < 2)
		skip();
	take_batch();
	free_batch();
	take_batch();
	assert_true(look(s).barn_empty > 2);
	for (unsigned int cpu = 0; cpu < os.nr_cpus; cpu++)
		if (os.node_of_row[cpu] != node && pin(cpu))
			break;
	sheaf_budget_set_limit(before);
	free_batch();
	assert_int_equal(look(s).barn_full, 0);
	pin(here);
}

/* Another thread has counted the part of its CPU, but not yet added it to the sum. */
static void fork_in_the_middle(void **state)
{
	intptr_t used = sheaf_budget.used;
	pid_t child;

	(void)state;
	/* BUDGET-J3 */
	sheaf_budget.used = used - (intptr_t)usual / 2;
	child = fork();
	if (!child)
		_exit(sheaf_budget.used != used);
	sheaf_budget.used = used;
	assert_int_equal(status_of(child), 0);
}

int test_budget(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(limit_follows_the_program, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_lower_limit_adds_up_parts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_option_sets_the_limit, set_up, tear_down),
		cmocka_unit_test_setup_teardown(sheaves_count_from_make_to_free, set_up, tear_down),
		cmocka_unit_test_setup_teardown(prefilled_sheaves_count, set_up, tear_down),
		cmocka_unit_test_setup_teardown(oversize_sheaves_do_not_count, set_up, tear_down),
		cmocka_unit_test_setup_teardown(oversize_sheaf_is_never_kept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(full_sheaves_are_flushed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(barn_goes_down_with_use, set_up, tear_down),
		cmocka_unit_test_setup_teardown(barn_fills_up_to_the_budget, set_up, tear_down),
		cmocka_unit_test_setup_teardown(full_sheaves_take_no_place, set_up, tear_down),
		cmocka_unit_test_setup_teardown(other_caches_count, set_up, tear_down),
		cmocka_unit_test_setup_teardown(returned_sheaf_is_not_filled, set_up, tear_down),
		cmocka_unit_test_setup_teardown(sheaves_grow_when_there_is_room, set_up, tear_down),
		cmocka_unit_test_setup_teardown(remote_sheaves_are_flushed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(remote_sheaves_take_no_place, set_up, tear_down),
		cmocka_unit_test_setup_teardown(fork_in_the_middle, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
