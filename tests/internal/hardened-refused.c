/* SPDX-License-Identifier: MIT */
/* Hardened caches that find a wrong object in a sheaf while there is no memory for another one. */
#include <sched.h>
#include <string.h>

#include "cache/cache.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/hooks.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/machine.h"

enum {
	SIZE = 56,
	FEW = 4,
	MOST = 4096 /* objects of a slab, and more */
};

static struct capture captured;
static struct kmem_cache *s;
static void *held[MOST];
static unsigned int nr_held;

/* Of this CPU. */
static struct sheaf *main_sheaf(void)
{
	return slot_of_row(s->sheaf.at.handle, os_row())->main;
}

static bool refuse_all(const char *point)
{
	(void)point;
	return true;
}

static void hold_all(void)
{
	while (nr_held < MOST && (held[nr_held] = kmem_cache_alloc(s, GFP_NOWAIT)) != NULL)
		nr_held++;
	assert_true(nr_held < MOST);
}

static void take_in_bulk(void)
{
	void *objects[FEW];

	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_NOWAIT, FEW, objects), 0);
}

static void take_one_by_one(void)
{
	for (int i = 0; i < FEW; i++)
		if ((held[nr_held] = kmem_cache_alloc(s, GFP_NOWAIT | __GFP_ZERO)) != NULL)
			nr_held++;
}

static void take_prefilled(void)
{
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(s, GFP_NOWAIT, FEW);

	assert_non_null(sheaf);
	assert_int_equal(kmem_cache_sheaf_size(sheaf), FEW - 1);
	kmem_cache_return_sheaf(s, GFP_NOWAIT, sheaf);
}

/* The only free objects are in main, and one of these is wrong. */
static void there_may_be_no_other_object(void **state)
{
	static void (*const takes[])(void) = {take_in_bulk, take_one_by_one, take_prefilled};
	static char nobodys[SIZE];

	(void)state;
	needs(NEED_SHEAVES);
	s = make("mine", SIZE, 0);
	held[nr_held++] = kmem_cache_alloc(s, GFP_KERNEL);
	/* There is a spare from now on. */
	kmem_cache_return_sheaf(s, GFP_KERNEL, kmem_cache_prefill_sheaf(s, GFP_KERNEL, 1));
	hook_fail_by(refuse_all);
	for (unsigned int i = 0; i < sizeof(takes) / sizeof(takes[0]); i++) {
		void **object, *right;

		hold_all();
		for (int n = 0; n < FEW; n++)
			kmem_cache_free(s, held[--nr_held]);
		assert_int_equal(sheaf_size(main_sheaf()), FEW);
		object = &main_sheaf()->objects[1];
		right = *object;
		*object = nobodys;
		capture_begin(&captured);
		takes[i]();
		assert_int_equal(capture_end(&captured), 1);
		assert_non_null(strstr(captured.text, "kmem_cache_alloc(mine): a sheaf holds "));
		slab_give(&s->sheaf.slab, &right, 1, "test");
	}
	hook_fail_by(NULL);
	while (nr_held)
		kmem_cache_free(s, held[--nr_held]);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_may_be_no_other_object),
	};

	pin((unsigned int)sched_getcpu());
	return cmocka_run_group_tests_name("hardened-refused", tests, NULL, NULL);
}
