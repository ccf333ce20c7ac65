/* SPDX-License-Identifier: MIT */
/* A thread is cancelled in a function of the program: the cancellation must wait for the end of the
 * call. */
#include <pthread.h>
#include <sheaf/debug.h>
#include <sheaf/group.h>
#include <sheaf/kmalloc.h>
#include <sheaf/rcu.h>
#include <sheaf/shrinker.h>
#include <sheaf/trim.h>
#include <string.h>

#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/unit.h"

enum {
	MANY = 300
};

static struct kmem_cache *s;
static unsigned int returned; /* calls of functions of the program, from which they returned */
static bool armed;

/* Like any function with a cancellation point. The thread that runs it is cancelled. */
static void be_cancelled(void)
{
	if (!armed)
		return;
	pthread_cancel(pthread_self());
	pthread_testcancel();
	returned++;
}

/* Make a call in a separate thread, which must end after the call, not in it. */
static void *make_call(void *call)
{
	((void (*)(void))call)();
	armed = false;
	pthread_testcancel();
	return NULL;
}

static void check_call(void (*call)(void), unsigned int calls)
{
	pthread_t thread;
	void *end;

	returned = 0;
	armed = true;
	assert_int_equal(pthread_create(&thread, NULL, make_call, (void *)call), 0);
	assert_int_equal(pthread_join(thread, &end), 0);
	assert_ptr_equal(end, PTHREAD_CANCELED);
	assert_false(armed);
	assert_true(returned >= calls);
}

/* --- reports ---------------------------------------------------------------------------------- */

static void report(void *data, const char *text, size_t length)
{
	(void)data, (void)text, (void)length;
	be_cancelled();
}

static void misuse(void)
{
	char object;

	kmem_cache_free(s, &object);
}

static void cancelled_in_a_report(void **state)
{
	(void)state;
	assert_int_equal(sheaf_set_report(report, NULL, NULL), 0);
	check_call(misuse, 1);
	assert_int_equal(sheaf_set_report(NULL, NULL, NULL), 0);
}

/* --- shrinkers -------------------------------------------------------------------------------- */

static unsigned long ask(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker, (void)sc;
	be_cancelled();
	return 1;
}

static void trim(void)
{
	sheaf_trim(0);
}

static void cancelled_in_a_shrinker(void **state)
{
	struct shrinker *shrinker = shrinker_alloc(0, "test");

	(void)state;
	assert_non_null(shrinker);
	shrinker->count_objects = shrinker->scan_objects = ask;
	shrinker_register(shrinker);
	check_call(trim, 2);
	shrinker_free(shrinker); /* does not wait */
}

/* --- groups ----------------------------------------------------------------------------------- */

static struct kmem_group *group;

static bool reclaim(struct kmem_group *g, size_t bytes, void *data)
{
	(void)g, (void)bytes, (void)data;
	be_cancelled();
	return false;
}

static void event(struct kmem_group *g, enum kmem_group_event what, uint64_t bytes, void *data)
{
	(void)g, (void)what, (void)bytes, (void)data;
	be_cancelled();
}

static void exceed(void)
{
	void *object = kmalloc_charged(64 << 10, GFP_KERNEL, group);

	assert_null(object);
}

/* Each callback is called again. */
static void cancelled_in_a_group(void **state)
{
	struct kmem_group_args args = {.hard_limit = 4096, .reclaim = reclaim, .event = event};

	(void)state;
	group = kmem_group_create("small", NULL, &args);
	assert_non_null(group);
	check_call(exceed, 2);
	check_call(exceed, 2);
	kmem_group_put(group);
}

/* --- constructors ----------------------------------------------------------------------------- */

static void construct(void *object)
{
	memset(object, 1, 64);
	be_cancelled();
}

static void take_all(void)
{
	void *objects[MANY];

	for (int i = 0; i < MANY; i++)
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
	for (int i = 0; i < MANY; i++)
		kmem_cache_free(s, objects[i]);
}

static void cancelled_in_a_constructor(void **state)
{
	struct kmem_cache *plain = s;

	(void)state;
	s = kmem_cache_create("built", 64, 0, SLAB_NO_MERGE, construct);
	assert_non_null(s);
	check_call(take_all, MANY);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
	s = plain;
}

/* --- providers of grace periods --------------------------------------------------------------- */

static void retire(void)
{
	void *object = kmem_cache_alloc(s, GFP_KERNEL);

	kmem_cache_free_rcu(s, object);
	kvfree_rcu_barrier();
}

/* All of them pass, also those that the cancelled thread requested. */
static void cancelled_in_a_provider(void **state)
{
	(void)state;
	by_hand.in_call = by_hand.in_barrier = be_cancelled;
	check_call(retire, 2);
	by_hand.in_call = by_hand.in_barrier = NULL;
	retire();
	assert_int_equal(kmem_cache_verify(s), 0);
}

static int set_up(void **state)
{
	(void)state;
	s = kmem_cache_create("callbacks", 64, NULL, SLAB_NO_MERGE);
	return s && sheaf_rcu_register(&by_hand_ops) == 0 ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cancelled_in_a_report),
		cmocka_unit_test(cancelled_in_a_shrinker),
		cmocka_unit_test(cancelled_in_a_group),
		cmocka_unit_test(cancelled_in_a_constructor),
		cmocka_unit_test(cancelled_in_a_provider),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
