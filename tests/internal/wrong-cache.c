/* SPDX-License-Identifier: MIT */
/*
 * Blocks of one cache that are freed to another one. The fast path does not check; a thread that
 * hands a sheaf over checks its newest objects, and one that empties a sheaf into slabs checks all
 * of them. Debug caches check every free: debug.c.
 */
#include <sched.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <stdint.h>
#include <string.h>

#include "cache/cache.h"
#include "kit/by_hand.h"
#include "kit/capture.h"
#include "kit/clock.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "os/report/report.h"
#include "os/section.h"
#include "percpu/drain.h"
#include "percpu/sheaf.h"

enum {
	CAPACITY = 60, /* for objects of this size */
	EVERY = 7,     /* right ones after each wrong one: one of eight is wrong */
	OWN = 3 * CAPACITY,
	WRONG = (OWN + EVERY - 1) / EVERY,
	SMALL = 32,
	LARGE = 200
};

static struct capture captured;
static struct kmem_cache *s;
static void *own[OWN];
static char *wrong[WRONG];

static void setup(void)
{
	pin((unsigned int)sched_getcpu());
	s = kmem_cache_create("large", LARGE, NULL, SLAB_NO_MERGE);
	assert_non_null(s);
	for (unsigned int i = 0; i < OWN; i++) {
		own[i] = kmem_cache_alloc(s, GFP_KERNEL);
		assert_non_null(own[i]);
	}
	for (unsigned int i = 0; i < WRONG; i++) {
		wrong[i] = kmalloc(SMALL, GFP_KERNEL);
		assert_non_null(wrong[i]);
		memset(wrong[i], (int)i + 1, SMALL);
	}
}

/* Their owner still has them, and no other thread got one. */
static void wrong_ones_are_as_before(void)
{
	for (unsigned int i = 0; i < OWN; i++) {
		own[i] = kmem_cache_alloc(s, GFP_KERNEL);
		assert_non_null(own[i]);
		memset(own[i], 0xaa, LARGE);
	}
	for (unsigned int i = 0; i < WRONG; i++) {
		for (unsigned int j = 0; j < SMALL; j++)
			assert_int_equal(wrong[i][j], (int)i + 1);
		kfree(wrong[i]);
	}
	for (unsigned int i = 0; i < OWN; i++)
		kmem_cache_free(s, own[i]);
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(kmem_cache_shrink(s), 0);
	kmem_cache_destroy(s);
}

static void says_what_is_wrong(int lines)
{
	assert_true(lines > 0);
	assert_non_null(strstr(captured.text, "(large, "));
	assert_non_null(strstr(captured.text, "belongs to cache \"kmalloc-32\""));
}

/* Each call writes its reports before it returns: there may be no later one. */
static void free_all(void (*free_one)(struct kmem_cache *cache, void *object))
{
	for (unsigned int i = 0; i < OWN; i++) {
		if (i % EVERY == 0)
			free_one(s, wrong[i / EVERY]);
		free_one(s, own[i]);
		assert_int_equal(os_reports_kept, 0);
	}
}

/*
 * More than main and spare hold, but too few to overflow the barn: no sheaf is flushed meanwhile.
 */
static void an_exchange_looks(void **state)
{
	(void)state;
	setup();
	capture_begin(&captured);
	free_all(kmem_cache_free);
	says_what_is_wrong(capture_end(&captured));
	/* The rest: objects popped before any slow path would have been handed out. */
	capture_begin(&captured);
	kmem_cache_shrink(s);
	capture_end_deferred(&captured);
	wrong_ones_are_as_before();
}

static void an_exchange_of_nolock_looks(void **state)
{
	(void)state;
	setup();
	/* kmem_cache_free_nolock() makes no sheaves: without these, each object would go to its
	 * slab. */
	for (int i = 0; i < 2; i++)
		assert_true(sheaf_put_empty(&s->sheaf, sheaf_new(&s->sheaf)));
	capture_begin(&captured);
	free_all(kmem_cache_free_nolock);
	says_what_is_wrong(capture_end(&captured));
	capture_begin(&captured);
	kmem_cache_shrink(s);
	capture_end_deferred(&captured);
	wrong_ones_are_as_before();
}

/* A full rcu_free sheaf is handed over to its queue. */
static void retired_ones_are_looked_at(void **state)
{
	(void)state;
	setup();
	capture_begin(&captured);
	free_all(kmem_cache_free_rcu);
	says_what_is_wrong(capture_end(&captured));
	capture_begin(&captured);
	kvfree_rcu_barrier();
	kmem_cache_shrink(s);
	capture_end_deferred(&captured);
	wrong_ones_are_as_before();
}

/* An rcu_free sheaf that is not full is handed over when it has waited long enough. */
static void collected_ones_are_looked_at(void **state)
{
	(void)state;
	setup();
	capture_begin(&captured);
	for (unsigned int i = 0; i < EVERY; i++)
		kmem_cache_free_rcu(s, i == 3 ? (void *)wrong[0] : own[i]);
	clock_pass_ms(os_options.rcu_delay);
	by_hand_pass();
	assert_int_equal(capture_end_deferred(&captured), 1);
	assert_non_null(strstr(captured.text, "an earlier kfree_rcu(large, "));
	own[EVERY - 1] = own[3];
	for (unsigned int i = EVERY - 1; i < OWN; i++)
		kmem_cache_free(s, own[i]);
	kvfree_rcu_barrier();
	wrong_ones_are_as_before();
}

/* A full spare sheaf goes to the barn when it is too small. */
static void a_renewed_spare_is_looked_at(void **state)
{
	const struct slot *slot;
	unsigned int i = 0;
	struct sheaf *m, *spare;

	(void)state;
	setup();
	slot = slot_of_row((char *)s, os_row());
	do {
		kmem_cache_free(s, own[i++]);
		m = slot->main;
		spare = (struct sheaf *)(slot->pair ^ (uintptr_t)m);
	} while (sheaf_size(m) + 1 != m->capacity || !spare ||
		 sheaf_size(spare) == spare->capacity);
	kmem_cache_free(s, wrong[0]);
	assert_int_equal(sheaf_size(m), m->capacity);
	while (sheaf_capacity(&s->sheaf) == m->capacity)
		sheaf_see_volume(&s->sheaf);
	capture_begin(&captured);
	kmem_cache_free(s, own[i++]);
	assert_int_equal(capture_end_deferred(&captured), 1);
	assert_non_null(strstr(captured.text, "an earlier free(large, "));
	while (i < OWN)
		kmem_cache_free(s, own[i++]);
	wrong_ones_are_as_before();
}

/* Only wrong ones: the sheaf is empty afterwards, and no object waits. */
static void a_sheaf_of_wrong_ones(void **state)
{
	const struct kmem_cache_args args = {.sheaf_capacity = 4};
	struct kmem_cache *few = kmem_cache_create("few", 8192, &args, SLAB_NO_MERGE);
	char *blocks[9];
	uint32_t before;

	(void)state;
	assert_non_null(few);
	pin((unsigned int)sched_getcpu());
	for (unsigned int i = 0; i < 9; i++)
		blocks[i] = kmalloc(SMALL, GFP_KERNEL);
	capture_begin(&captured);
	before = os_reports;
	for (unsigned int i = 0; i < 9; i++)
		kmem_cache_free_rcu(few, blocks[i]);
	kvfree_rcu_barrier();
	/* All of a sheaf are looked at if they are few. */
	kmem_cache_free_rcu(few, blocks[0]);
	kvfree_rcu_barrier();
	kmem_cache_shrink(few);
	assert_true(capture_end_deferred(&captured) > 0);
	assert_int_equal(os_reports - before, 10);
	for (unsigned int i = 0; i < 9; i++)
		kfree(blocks[i]);
	assert_int_equal(kmem_cache_verify(few), 0);
	kmem_cache_destroy(few);
}

/* A retired object that is freed, too, and whose slab returns meanwhile. */
static void a_sheaf_without_its_object(void **state)
{
	struct kmem_cache *few = kmem_cache_create("few", 8192, NULL, SLAB_NO_MERGE);
	void *object;

	(void)state;
	assert_non_null(few);
	pin((unsigned int)sched_getcpu());
	object = kmem_cache_alloc(few, GFP_KERNEL);
	assert_non_null(object);
	kmem_cache_free_rcu(few, object);
	kmem_cache_free(few, object);
	sheaf_drain(&few->sheaf);
	assert_int_equal(slab_shrink(&few->sheaf.slab), 0);
	capture_begin(&captured);
	kvfree_rcu_barrier();
	assert_int_equal(capture_end_deferred(&captured), 1);
	assert_non_null(strstr(captured.text, "an earlier kfree_rcu(few, "));
	assert_int_equal(kmem_cache_verify(few), 0);
	kmem_cache_destroy(few);
}

/* Objects on their way to their node are looked at when their sheaf is full. */
static void a_sheaf_for_another_node(void **state)
{
	struct kmem_cache *few = kmem_cache_create("few", SMALL, NULL, SLAB_NO_MERGE),
			  *owner = kmem_cache_create("owner", SMALL, NULL, SLAB_NO_MERGE);
	void *objects[20];

	(void)state;
	if (os.nr_nodes == 1)
		skip();
	pin((unsigned int)sched_getcpu());
	assert_int_equal(kmem_cache_set_sheaf_capacity(few, 4), 0);
	for (unsigned int i = 0; i < 20; i++) {
		objects[i] = kmem_cache_alloc_node(owner, GFP_KERNEL, !os_node());
		assert_non_null(objects[i]);
	}
	capture_begin(&captured);
	for (unsigned int i = 0; i < 20; i++)
		kmem_cache_free(few, objects[i]);
	kmem_cache_shrink(few);
	assert_true(capture_end_deferred(&captured) > 0);
	for (unsigned int i = 0; i < 20; i++)
		kmem_cache_free(owner, objects[i]);
	assert_int_equal(kmem_cache_verify(few), 0);
	assert_int_equal(kmem_cache_verify(owner), 0);
	kmem_cache_destroy(few);
	kmem_cache_destroy(owner);
}

/* The library's own memory belongs to no cache, except where the fast path takes pointers for
 * objects. */
static void blocks_of_the_library(void **state)
{
	struct slab_sheaf *sheaf;

	(void)state;
	setup();
	sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 2 * WRONG);
	assert_non_null(sheaf);
	for (unsigned int i = 0; i < WRONG; i++)
		kfree(wrong[i]);
	for (unsigned int i = 0; i < WRONG; i++)
		wrong[i] = (char *)sheaf + i * sizeof(void *);
	capture_begin(&captured);
	free_all(kmem_cache_free);
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, "an earlier free(large, "));
	assert_non_null(strstr(captured.text, "not in an object that is in use"));
	capture_begin(&captured);
	kmem_cache_shrink(s);
	capture_end_deferred(&captured);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(kmem_cache_shrink(s), 0);
	kmem_cache_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_exchange_looks),
		cmocka_unit_test(an_exchange_of_nolock_looks),
		cmocka_unit_test(retired_ones_are_looked_at),
		cmocka_unit_test(collected_ones_are_looked_at),
		cmocka_unit_test(a_renewed_spare_is_looked_at),
		cmocka_unit_test(a_sheaf_of_wrong_ones),
		cmocka_unit_test(a_sheaf_without_its_object),
		cmocka_unit_test(a_sheaf_for_another_node),
		cmocka_unit_test(blocks_of_the_library),
	};

	sheaf_rcu_register(&by_hand_ops);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
