/* SPDX-License-Identifier: MIT */
/*
 * What kmem_cache_verify() and kmem_cache_validate() find in the library's own structures, and how
 * long they hold what they look at.
 */
#include <pthread.h>
#include <sched.h>
#include <sheaf/debug.h>
#include <sheaf/kmalloc.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "cache/list.h"
#include "cache/verify.h"
#include "internal/kit/blocks.h"
#include "internal/kit/ready.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/clock.h"
#include "kit/hooks.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/atomic.h"
#include "page/page.h"
#include "percpu/drain.h"

/* These letters, whatever slab_debug gives to others. */
#define FZPU                                                                                       \
	(SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON | SLAB_STORE_USER |                 \
	 SLAB_NO_USER_FLAGS)

enum {
	ROUNDS = 200
};

static struct capture captured;

static struct sheaf *well_filled;

static void remember(void *data, struct sheaf *sheaf, bool waits)
{
	(void)waits;
	(void)data;
	if (sheaf_size(sheaf) >= 2)
		well_filled = sheaf;
}

static int verify_quietly(struct kmem_cache *s)
{
	int faults;

	capture_begin(&captured);
	faults = kmem_cache_verify(s);
	capture_end(&captured);
	return faults;
}

static void verify_finds_planted_faults(void **state)
{
	struct kmem_cache *s = kmem_cache_create("faults", 64, NULL, SLAB_NO_MERGE);
	void *object = kmem_cache_alloc(s, GFP_KERNEL), **place, *kept, *more;
	struct slab *slab = page_slab(object);
	unsigned int used;

	(void)state;
	needs(NEED_SHEAVES);
	more = kmem_cache_alloc(s, GFP_KERNEL);
	kmem_cache_free(s, more);
	assert_int_equal(kmem_cache_verify(s), 0);
	well_filled = NULL;
	sheaf_for_each(&s->sheaf, remember, NULL);
	assert_non_null(well_filled);
	place = &well_filled->objects[0];
	kept = *place;

	*place = well_filled->objects[1]; /* one object twice, another nowhere */
	assert_true(verify_quietly(s) > 0);
	*place = (char *)kept + 8;
	assert_true(verify_quietly(s) > 0);
	*place = &object;
	assert_true(verify_quietly(s) > 0);
	*place = kept;
	assert_int_equal(verify_quietly(s), 0);
	slab->state += UINT64_C(1) << 16; /* one more in use than the slab has */
	assert_true(verify_quietly(s) > 0);
	slab->state -= UINT64_C(1) << 16;
	assert_int_equal(verify_quietly(s), 0);
	used = slab_inuse(slab->state); /* of which sheaves have all but one */
	slab->state -= used;
	assert_true(verify_quietly(s) > 0);
	assert_non_null(strstr(captured.text, "with more objects cached than used"));
	slab->state += used;
	assert_int_equal(verify_quietly(s), 0);
	kmem_cache_free(s, object);
	kmem_cache_destroy(s);
}

static struct kmem_cache *wrong;

static void finds_it_in_child(void)
{
	CHECK(verify_quietly(wrong) > 0);
}

/* A slab that lost an object: neither free nor counted as used. */
static void finds_a_wrong_count(void **state)
{
	struct kmem_cache *s = make("counted", 32, SLAB_NO_SHEAVES | SLAB_NO_USER_FLAGS);
	void *objects[2]; /* the slab must not seem empty, and be returned */
	struct slab *slab;

	(void)state;
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 2, objects), 2);
	slab = page_slab(objects[0]);
	assert_ptr_equal(page_slab(objects[1]), slab);
	slab->state--;
	capture_begin(&captured);
	assert_int_equal(kmem_cache_validate(s), 1);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "neither free nor in use"));
	/* No thread that vanished left it so. */
	wrong = s;
	assert_int_equal(in_child(finds_it_in_child), 0);
	slab->state++;
	assert_int_equal(kmem_cache_validate(s), 0);
	kmem_cache_free_bulk(s, 2, objects);
	kmem_cache_destroy(s);
}

static void finds_bits_beyond_the_last(void **state)
{
	struct kmem_cache *s = make("bits", 200, SLAB_NO_SHEAVES | SLAB_NO_USER_FLAGS);
	void *object = kmem_cache_alloc(s, GFP_KERNEL);
	struct slab *slab = page_slab(object);
	uint64_t *last =
		slab_words(&s->sheaf.slab, slab) + slab_nr_words(&s->sheaf.slab, slab->state) - 1;

	(void)state;
	assert_true(slab_order_of(&s->sheaf.slab, slab->state).objects % 64);
	*last |= UINT64_C(1) << 63;
	capture_begin(&captured);
	assert_int_equal(kmem_cache_validate(s), 1);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "has bits beyond its last object"));
	assert_true(verify_quietly(s) > 0);
	assert_non_null(strstr(captured.text, "begins a slab with bits beyond"));
	*last &= ~(UINT64_C(1) << 63);
	assert_int_equal(verify_quietly(s), 0);
	kmem_cache_free(s, object);
	kmem_cache_destroy(s);
}

/* Found when its cache is destroyed. Another thread may examine it just then, or the cache stays.
 */
static void kept_out_objects_that_return(void **state)
{
	struct kmem_cache *s = make("kept out", 32, FZPU);
	char *object = kmem_cache_alloc(s, GFP_KERNEL), *next;

	(void)state;
	kmem_cache_free(s, object);
	object[1] = 1;
	capture_begin(&captured);
	next = kmem_cache_alloc(s, GFP_KERNEL);
	assert_true(capture_end(&captured) > 0);
	capture_begin(&captured);
	cache_give_leaked(s);
	assert_int_equal(kmem_cache_validate(s), 0);
	cache_give_leaked(s);
	assert_int_equal(capture_end(&captured), 0);
	kmem_cache_free(s, next);
	kmem_cache_destroy(s);
}

/* --- with threads ----------------------------------------------------------------------------- */

static uint32_t stop;

static void *use_blocks(void *unused)
{
	void *blocks[16];

	while (!os_load_relaxed(&stop)) {
		for (int i = 0; i < 16; i++) {
			/* A long gap behind the request, which takes long to check. */
			blocks[i] = kmalloc(4200, GFP_KERNEL);
			blocks[i] = krealloc(blocks[i], 4300, GFP_KERNEL);
			memset(blocks[i], 1, 4300);
			blocks[i] = krealloc(blocks[i], 4250, GFP_KERNEL);
		}
		for (int i = 0; i < 16; i++)
			kfree(blocks[i]);
	}
	return unused;
}

/* A cache of kmalloc(), whose blocks grow and shrink meanwhile. */
static void blocks_are_used_meanwhile(void **state)
{
	pthread_t threads[4];

	(void)state;
	capture_begin(&captured);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, use_blocks, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		void *block = kmalloc(4200, GFP_KERNEL);
		struct kmem_cache *of_kmalloc = cache_of(block);

		for (int n = 0; n < 10; n++)
			CHECK(kmem_cache_validate(of_kmalloc) == 0);
		kfree(block);
	}
	os_store_relaxed(&stop, 1);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(capture_end(&captured), 0);
}

static uint32_t is_held;

static void hold(void *unused, struct slab *slab)
{
	(void)unused, (void)slab;
	os_store_release(&is_held, 1);
	wait_until_first_sleeps();
}

static void *look_at(void *cache)
{
	struct kmem_cache *s = cache;

	CHECK(list_pin(s, "kmem_cache_verify"));
	slab_for_each_held(&s->sheaf.slab, hold, NULL);
	list_unpin(s);
	return NULL;
}

/* As on a question from another process. An empty slab that a thread holds cannot be freed. */
static void destroyed_during_a_look(void **state)
{
	static const slab_flags_t flags[] = {SLAB_NO_USER_FLAGS, FZPU};
	pthread_t thread;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct kmem_cache *s = make("looked at", 32, flags[i]);

		s->sheaf.slab.min_partial = 1; /* the empty slab stays, also with slub_tiny */
		kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
		os_store_relaxed(&is_held, 0);
		pthread_create(&thread, NULL, look_at, s);
		while (!os_load_acquire(&is_held))
			sched_yield();
		capture_begin(&captured);
		kmem_cache_destroy(s);
		pthread_join(thread, NULL);
		assert_int_equal(capture_end(&captured), 0);
	}
}

/* A sanitizer would end the program at the first misuse. */
static int ready(void **state)
{
	int error = setup(state);

	hook_leave_tools();
	return error;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verify_finds_planted_faults),
		cmocka_unit_test(finds_a_wrong_count),
		cmocka_unit_test(finds_bits_beyond_the_last),
		cmocka_unit_test(kept_out_objects_that_return),
		cmocka_unit_test(destroyed_during_a_look),
		cmocka_unit_test(blocks_are_used_meanwhile),
	};

	clock_stands = true; /* or the sheaves of idle CPUs are emptied */
	return cmocka_run_group_tests_name("verify", tests, ready, NULL);
}
