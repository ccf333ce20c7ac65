/* SPDX-License-Identifier: MIT */
/*
 * The trylock backend while a preempted thread has locked the CPU's slot: other threads on that CPU
 * continue with stand-in slots, and do not move a whole sheaf for one object.
 */
#include <sched.h>
#include <stdint.h>
#include <string.h>

#include "cache/cache.h"
#include "cache/process.h"
#include "internal/kit/shown.h"
#include "kit/cache.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "os/section.h"
#include "page/page.h"
#include <sheaf/stats.h>

#define BATCH  10
#define ROUNDS 1000
#define PAIRS  ((uint64_t)BATCH * ROUNDS)

static struct kmem_cache *s;

static struct slot *slot_of(unsigned int row)
{
	return slot_of_row((char *)s, row);
}

/* Lock this CPU's slot and this many stand-ins, as if their holders never continued. */
static void set_locks(unsigned int stand_ins, uint32_t locked)
{
	slot_of(os_row())->lock = locked;
	for (unsigned int i = 0; i < stand_ins; i++)
		slot_of(os_stand_in(os_node(), i))->lock = locked;
}

static struct kmem_cache_stats look_and_check(void)
{
	check_shown(s);
	return look(s);
}

static void use(void)
{
	void *objects[BATCH];

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < BATCH; i++) {
			objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
			assert_non_null(objects[i]);
			memset(objects[i], 0x5a, 64);
		}
		for (int i = 0; i < BATCH; i++)
			kmem_cache_free(s, objects[i]);
	}
}

static int set_up(void **state)
{
	(void)state;
	s = kmem_cache_create("locked", 64, NULL, SLAB_NO_MERGE);
	return !s || !pin(sched_getcpu());
}

static int tear_down(void **state)
{
	(void)state;
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(kmem_cache_shrink(s), 0);
	kmem_cache_destroy(s);
	return 0;
}

/* Each of them in its turn; the sheaves of each are filled once, and hold this node's objects. */
static void others_stand_in(void **state)
{
	unsigned int most = 3 * sheaf_capacity(&s->sheaf);

	(void)state;
	use();
	for (unsigned int n = 0; n < os.nr_stand_ins; n++) {
		struct kmem_cache_stats before = look_and_check(), after;
		const struct slot *slot = slot_of(os_stand_in(os_node(), n));

		assert_false(rows_is_open(slot));
		set_locks(n, 1);
		use();
		set_locks(n, 0);
		after = look_and_check();
		assert_true(rows_is_open(slot));
		assert_int_equal(page_node((void *)slot->home), os_node());
		assert_in_range(after.sheaf_refill - before.sheaf_refill, 0, most);
		assert_int_equal(after.sheaf_flush, before.sheaf_flush);
		assert_int_equal(after.alloc_fastpath - before.alloc_fastpath, PAIRS);
		assert_int_equal(after.free_fastpath - before.free_fastpath, PAIRS);
	}
}

static void none_is_left(void **state)
{
	struct kmem_cache_stats before, after;

	(void)state;
	use();
	before = look_and_check();
	set_locks(os.nr_stand_ins, 1);
	use();
	set_locks(os.nr_stand_ins, 0);
	after = look_and_check();
	assert_int_equal(after.sheaf_refill, before.sheaf_refill);
	assert_int_equal(after.sheaf_flush, before.sheaf_flush);
	assert_int_equal(after.alloc_slowpath - before.alloc_slowpath, PAIRS);
	assert_int_equal(after.free_slowpath - before.free_slowpath, PAIRS);
}

int test_locked_slots(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(others_stand_in, set_up, tear_down),
		cmocka_unit_test_setup_teardown(none_is_left, set_up, tear_down),
	};

	if (!caches_ready())
		return 1;
	if (!needs_option(os.backend == OS_BACKEND_TRYLOCK && os.counting,
			  "'backend=trylock;stats=live'"))
		return SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
