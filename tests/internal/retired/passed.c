/* SPDX-License-Identifier: MIT */
/* Which retired objects allocations get when their grace period has passed, and what barriers leave
 * to them; providers that can be polled. */
#include <sheaf/group.h>
#include <sheaf/slab.h>
#include <stdbool.h>

#include "cache/cache.h"
#include "grace/grace.h"
#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/clock.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/options/options.h"
#include "percpu/barn/budget.h"
#include "percpu/sheaf.h"
#include "rcu/rcu_free.h"

enum {
	CAPACITY = 12, /* the smallest for this size */
	SIZE = 1024,
	SHEAVES = 6, /* queued of each group */
	GROUP = (SHEAVES + 1) * CAPACITY,
	FULL_GROUPS = 8 /* more than fill the barn */
};

static struct kmem_cache *make_small(const char *name)
{
	struct kmem_cache_args args = {.sheaf_capacity = CAPACITY};
	struct kmem_cache *s;

	needs(NEED_SHEAVES);
	s = kmem_cache_create(name, SIZE, &args, SLAB_NO_MERGE);
	assert_non_null(s);
	assert_int_equal(kmem_cache_set_barn(s, 1, 1), 0);
	clock_stands = true;
	pin(0);
	return s;
}

static void fill(struct kmem_cache *s, void **objects)
{
	for (unsigned int i = 0; i < GROUP; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		assert_non_null(objects[i]);
	}
}

static void retire(struct kmem_cache *s, void *const *objects)
{
	for (unsigned int i = 0; i < GROUP; i++)
		kmem_cache_free_rcu(s, objects[i]);
	by_hand_pass();
	by_hand_pass();
}

/* Where an allocation gets a sheaf if slot and barn are empty. */
static bool next_is_of(struct kmem_cache *s, void *const *objects)
{
	struct sheaf *sheaf = rcu_take(sheaf_rcu_of(&s->sheaf), 0, false);
	bool found = false;

	assert_non_null(sheaf);
	for (unsigned int i = 0; i < GROUP; i++)
		found |= objects[i] == sheaf->objects[0];
	sheaf_hand_over(&s->sheaf, sheaf);
	return found;
}

static uint64_t passed(struct kmem_cache *s)
{
	uint64_t waiting, n;

	sheaf_rcu_count(&s->sheaf, &waiting, &n);
	return n;
}

static void destroy(struct kmem_cache *s)
{
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
	by_hand_pass();
	assert_null(by_hand.first);
}

static void the_newest_is_used_unless_the_oldest_is_old(void **state)
{
	struct kmem_cache *s = make_small("rcu-order");
	void *first[GROUP], *second[GROUP], *third[GROUP];

	(void)state;
	/* The time of the first batch is known from now on. */
	fill(s, first);
	retire(s, first);
	kvfree_rcu_barrier();
	assert_true(passed(s) == 0);
	fill(s, first);
	fill(s, second);
	fill(s, third);
	retire(s, first);
	retire(s, second);
	assert_true(next_is_of(s, second));
	clock_pass_ms(20);
	retire(s, third);
	assert_true(next_is_of(s, first));
	destroy(s);
}

/* Those that would be left over move on, as after any grace period. */
static void a_barrier_leaves_what_allocations_take(void **state)
{
	struct kmem_cache *s = make_small("rcu-left");
	void *objects[GROUP];

	(void)state;
	fill(s, objects);
	retire(s, objects);
	kvfree_rcu_barrier();
	assert_true(passed(s) == 0);
	if (sheaf_rcu_of(&s->sheaf)->passed) {
		destroy(s);
		print_message("skipped: with these options a barrier leaves nothing\n");
		skip();
	}
	for (int i = 0; i < 2; i++) {
		fill(s, objects);
		retire(s, objects);
	}
	fill(s, objects);
	for (unsigned int i = 0; i < GROUP; i++)
		kmem_cache_free_rcu(s, objects[i]);
	kvfree_rcu_barrier();
	assert_true(passed(s) >= CAPACITY);
	assert_true(look(s).rcu_pending_objects == 0);
	assert_true(look(s).objects_in_use == 0);
	for (int i = 0; i < 30; i++) {
		by_hand_pass();
		clock_pass_ms(os_options.rcu_delay);
	}
	assert_true(passed(s) == 0);
	by_hand_pass();
	assert_null(by_hand.first);
	destroy(s);
}

static void a_barrier_frees_all_if_too_much_is_retired(void **state)
{
	struct kmem_cache *s = make_small("rcu-left-limit");
	unsigned int limit = os_options.rcu_limit;
	void *objects[GROUP];

	(void)state;
	for (int i = 0; i < 2; i++) {
		fill(s, objects);
		retire(s, objects);
	}
	assert_true(passed(s) > 0);
	os_options.rcu_limit = 0;
	grace_retired(sheaf_rcu_of(&s->sheaf)->user.grace, 1 << 20);
	kvfree_rcu_barrier();
	grace_reused(sheaf_rcu_of(&s->sheaf)->user.grace, 1 << 20);
	os_options.rcu_limit = limit;
	assert_true(passed(s) == 0);
	destroy(s);
}

/* From now on the cache is busy. */
static void exchange_often(struct kmem_cache *s)
{
	void *objects[GROUP];

	for (int i = 0; i < 200; i++) {
		fill(s, objects);
		kmem_cache_free_bulk(s, GROUP, objects);
	}
}

/* Wait for all that is retired. */
static struct kmem_cache_stats all_is_freed(struct kmem_cache *s)
{
	kvfree_rcu_barrier();
	assert_true(passed(s) == 0);
	assert_true(look(s).objects_in_use == 0);
	return look(s);
}

/* The barn takes sheaves of the cache's capacity only. */
static void a_barrier_divides_larger_sheaves(void **state)
{
	struct kmem_cache *s = make_small("rcu-parts");
	void *objects[GROUP];
	struct kmem_cache_stats before, after;

	(void)state;
	exchange_often(s);
	assert_true(sheaf_retired_capacity(&s->sheaf) > CAPACITY);
	fill(s, objects);
	retire(s, objects);
	before = look(s);
	after = all_is_freed(s);
	/* From each sheaf, the objects that fill no other one. */
	if (after.counted)
		assert_in_range(after.rcu_flush - before.rcu_flush, 0,
				(GROUP / sheaf_retired_capacity(&s->sheaf) + 1) * CAPACITY);
	assert_int_equal(kmem_cache_verify(s), 0);
	destroy(s);
}

static struct sheaf_cache *grows, *has_none;

struct sheaf *__real_sheaf_take_empty(struct sheaf_cache *cache, unsigned int node,
				      uint16_t *place);
struct sheaf *__wrap_sheaf_take_empty(struct sheaf_cache *cache, unsigned int node,
				      uint16_t *place);

/* Another thread may change the capacity before; or there is no memory. */
struct sheaf *__wrap_sheaf_take_empty(struct sheaf_cache *cache, unsigned int node, uint16_t *place)
{
	if (cache == has_none)
		return NULL;
	if (cache == grows)
		os_store_relaxed(&cache->capacities, sheaf_capacities(0, GROUP + 1));
	return __real_sheaf_take_empty(cache, node, place);
}

/* It has more room than the larger sheaf has objects, and goes back. */
static void a_part_may_be_larger_still(void **state)
{
	size_t before = sheaf_budget_used();
	struct kmem_cache *s = make_small("rcu-grown");
	void *objects[GROUP];

	(void)state;
#ifdef CALLS_ARE_BOUND
	print_message("skipped: with link-time optimisation no other function takes a sheaf\n");
	skip();
#endif
	exchange_often(s);
	fill(s, objects);
	retire(s, objects);
	grows = &s->sheaf;
	all_is_freed(s);
	grows = NULL;
	assert_int_equal(sheaf_capacity(&s->sheaf), GROUP + 1);
	destroy(s);
	assert_int_equal(sheaf_budget_used(), before);
}

/* Then all of them go to slabs. */
static void no_memory_for_a_part(void **state)
{
	struct kmem_cache *s = make_small("rcu-no-part");
	struct kmem_cache_stats before, after;
	void *objects[GROUP];

	(void)state;
#ifdef CALLS_ARE_BOUND
	print_message("skipped: with link-time optimisation no other function takes a sheaf\n");
	skip();
#endif
	exchange_often(s);
	assert_true(sheaf_retired_capacity(&s->sheaf) > CAPACITY);
	fill(s, objects);
	retire(s, objects);
	before = look(s);
	has_none = &s->sheaf;
	after = all_is_freed(s);
	has_none = NULL;
	if (after.counted)
		assert_int_equal(after.rcu_flush - before.rcu_flush, GROUP);
	destroy(s);
}

/* What the barn has no room for goes to slabs, and no object is lost on the way. */
static void a_full_barn_takes_no_part(void **state)
{
	struct kmem_cache *s = make_small("rcu-full");
	void *objects[FULL_GROUPS][GROUP];
	struct kmem_cache_stats before, after;

	(void)state;
	exchange_often(s);
	for (unsigned int i = 0; i < FULL_GROUPS; i++)
		fill(s, objects[i]);
	for (unsigned int i = 0; i < FULL_GROUPS; i++)
		retire(s, objects[i]);
	before = look(s);
	after = all_is_freed(s);
	if (after.counted)
		assert_true(after.barn_put_fail > before.barn_put_fail &&
			    after.rcu_flush - before.rcu_flush >= GROUP);
	assert_int_equal(kmem_cache_verify(s), 0);
	destroy(s);
}

/* The program chose a small capacity. Retired objects of a busy cache need fewer sheaves. */
static void a_busy_cache_retires_larger_sheaves(void **state)
{
	struct kmem_cache *s = make_small("rcu-larger");
	void *objects[GROUP];
	uint64_t made;

	(void)state;
	exchange_often(s);
	for (int i = 0; i < 4; i++) {
		made = look(s).sheaf_alloc;
		fill(s, objects);
		retire(s, objects);
	}
	assert_in_range(sheaf_retired_capacity(&s->sheaf), 4 * CAPACITY, GROUP);
	assert_true(look(s).sheaf_capacity == CAPACITY);
	assert_true(passed(s) >= 4 * CAPACITY);
	assert_in_range(sheaf_rcu_of(&s->sheaf)->queues[0].top->capacity, 4 * CAPACITY, GROUP);
	/* The spare is the next one. */
	if (look(s).counted)
		assert_true(look(s).sheaf_alloc - made <= 2);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_shrink(s);
	assert_true(sheaf_retired_capacity(&s->sheaf) == CAPACITY);
	destroy(s);
}

/* What has passed in one cache is still charged, and makes room for another one of the group. */
static void what_has_passed_makes_room_at_a_limit(void **state)
{
	struct kmem_group_args limits = {.hard_limit = 256 << 10};
	struct kmem_cache_args args = {0};
	struct kmem_cache *a, *b;
	struct kmem_group *group;
	static void *objects[2048];
	struct kmem_group_stats stats;
	unsigned int n = 0;
	void *object;

	(void)state;
	needs(NEED_SHEAVES);
	group = args.group = kmem_group_create("tenant", NULL, &limits);
	a = kmem_cache_create("passed", 256, &args, SLAB_NO_MERGE);
	b = kmem_cache_create("fails", 512, &args, SLAB_NO_MERGE);
	while ((objects[n] = kmem_cache_alloc(a, GFP_KERNEL)) != NULL)
		assert_true(++n < 2048);
	assert_null(kmem_cache_alloc(b, GFP_KERNEL));
	for (unsigned int i = 0; i < n; i++)
		kmem_cache_free_rcu(a, objects[i]);
	assert_null(kmem_cache_alloc(b, GFP_KERNEL));
	by_hand_pass();
	by_hand_pass();
	/* A caller that may not wait does not search for it. */
	assert_null(kmem_cache_alloc(b, GFP_NOWAIT));
	object = kmem_cache_alloc(b, GFP_KERNEL);
	assert_non_null(object);
	kmem_group_stats(group, &stats);
	assert_true(stats.bytes < limits.hard_limit / 2);
	kmem_cache_free(b, object);
	kmem_cache_destroy(a);
	kmem_cache_destroy(b);
	kmem_group_put(group);
}

/* --- a provider that can be polled, with late callbacks --------------------------------------- */

static uint64_t moments, passed_to; /* noted; and up to which a grace period has passed */

static void start_poll(struct sheaf_rcu_poll *state)
{
	state->words[0] = ++moments;
}

static int poll(const struct sheaf_rcu_poll *state)
{
	return state->words[0] <= passed_to;
}

static const struct sheaf_rcu_ops polled_ops = {.size = sizeof(struct sheaf_rcu_ops),
						.name = "polled",
						.call = by_hand_call,
						.barrier = by_hand_barrier,
						.start_poll = start_poll,
						.poll = poll};

/* Only one moment is noted at a time: those of batches that begin meanwhile are noted after it. */
static void polls_for_every_batch(void **state)
{
	struct kmem_cache_args args = {.rcu = &polled_ops};
	struct kmem_cache *s = kmem_cache_create("polled", 64, &args, SLAB_TYPESAFE_BY_RCU);
	struct grace *grace = grace_of(&polled_ops);
	uint64_t begun;

	(void)state;
	assert_non_null(s);
	begun = grace_now(grace);
	grace_start(grace);
	grace_start(grace);
	grace_start(grace);
	grace_poll(grace);
	assert_false(grace_passed(grace, begun));
	passed_to = moments;
	grace_poll(grace);
	assert_true(grace_passed(grace, begun));
	assert_false(grace_passed(grace, begun + 1));
	passed_to = moments;
	grace_poll(grace);
	assert_true(grace_passed(grace, begun + 2));
	by_hand_pass();
	kmem_cache_destroy(s);
}

int test_passed(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(polls_for_every_batch),
		cmocka_unit_test(the_newest_is_used_unless_the_oldest_is_old),
		cmocka_unit_test(a_barrier_leaves_what_allocations_take),
		cmocka_unit_test(a_barrier_frees_all_if_too_much_is_retired),
		cmocka_unit_test(a_barrier_divides_larger_sheaves),
		cmocka_unit_test(a_part_may_be_larger_still),
		cmocka_unit_test(no_memory_for_a_part),
		cmocka_unit_test(a_full_barn_takes_no_part),
		cmocka_unit_test(a_busy_cache_retires_larger_sheaves),
		cmocka_unit_test(what_has_passed_makes_room_at_a_limit),
	};

	if (sheaf_rcu_register(&by_hand_ops))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
