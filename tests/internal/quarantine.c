/* SPDX-License-Identifier: MIT */
/*
 * The quarantine of freed objects (slab_debug=FZPUQ;slab_quarantine=1): how many it holds, for how
 * long, and what happens if they are used meanwhile.
 */
#include <pthread.h>
#include <sched.h>
#include <sheaf/debug.h>
#include <sheaf/kmalloc.h>
#include <sheaf/mempool.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "debug/object.h"
#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/sanitizers.h"
#include "kit/unit.h"
#include "os/machine.h"

#define BYTES ((size_t)1 << 20) /* slab_quarantine, in tests/meson.build */
#define MANY  10000
#define SOME  300 /* that rest together, whatever the nodes */

static struct capture captured;
static void *objects[MANY];

static char *take(struct kmem_cache *s)
{
	char *object = kmem_cache_alloc(s, GFP_KERNEL);

	assert_non_null(object);
	return object;
}

static bool rests(struct kmem_cache *s, const void *object)
{
	return debug_head(&s->sheaf.slab, object)->state == DEBUG_RESTS;
}

/* Other objects until this one has left. */
static void wear_out(struct kmem_cache *s)
{
	struct kmem_cache *other = make("others", 1000, 0);

	while (quarantine_count(&s->sheaf.slab))
		kmem_cache_free(other, take(other));
	kmem_cache_destroy(other);
}

static void was_reported(const char *what)
{
	assert_true(capture_end_deferred(&captured) > 0);
	assert_non_null(strstr(captured.text, what));
}

static void end(struct kmem_cache *s)
{
	capture_begin(&captured);
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(quarantine_count(&s->sheaf.slab), 0);
	kmem_cache_destroy(s);
	assert_int_equal(capture_end(&captured), 0);
}

static void nobody_gets_a_resting_object(void **state)
{
	struct kmem_cache *s = make("rests", 32, 0);
	char *object = take(s);

	(void)state;
	kmem_cache_free(s, object);
	assert_true(rests(s, object));
	for (int i = 0; i < SOME; i++) {
		objects[i] = take(s);
		assert_ptr_not_equal(objects[i], object);
	}
	kmem_cache_free_bulk(s, SOME, objects);
	assert_int_equal(quarantine_count(&s->sheaf.slab), SOME + 1);
	end(s);
}

static void the_oldest_leaves_first(void **state)
{
	struct kmem_cache *s = make("fifo", 32, 0);
	size_t fit = BYTES / os.nr_nodes / s->sheaf.slab.size, n = fit + 100;

	(void)state;
	assert_true(n <= MANY);
	for (size_t i = 0; i < n; i++)
		objects[i] = take(s);
	for (size_t i = 0; i < n; i++)
		kmem_cache_free(s, objects[i]);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(rests(s, objects[i]), i >= n - fit);
	end(s);
}

/* The bound counts for all caches together, whatever is freed in which order. */
static void never_more_than_the_bound(void **state)
{
	static const unsigned int sizes[] = {1, 40, 100, 700, 5000, 70000};
	enum {
		CACHES = sizeof(sizes) / sizeof(sizes[0]),
		HELD = 500
	};
	struct kmem_cache *s[CACHES];
	unsigned int of[HELD];
	uint64_t seed = 5;
	size_t most = 0;

	(void)state;
	quarantine_drain(NULL, false);
	for (unsigned int i = 0; i < CACHES; i++) {
		char name[] = "bound-0";

		name[6] = (char)('0' + i);
		s[i] = make(name, sizes[i], 0);
	}
	memset(objects, 0, sizeof(objects));
	for (int i = 0; i < 50000; i++) {
		unsigned int at = random_below(&seed, HELD);
		size_t bytes = 0;

		if (objects[at]) {
			kmem_cache_free(s[of[at]], objects[at]);
			objects[at] = NULL;
		} else {
			of[at] = random_below(&seed, i % 1000 < 500 ? CACHES : 3);
			objects[at] = take(s[of[at]]);
		}
		for (unsigned int c = 0; c < CACHES; c++)
			bytes +=
				quarantine_count(&s[c]->sheaf.slab) * (size_t)s[c]->sheaf.slab.size;
		assert_int_equal(bytes, quarantine_bytes());
		assert_true(bytes <= BYTES);
		most = bytes > most ? bytes : most;
	}
	/* On one node, and less one large object. */
	assert_true(most > BYTES / os.nr_nodes * 9 / 10);
	for (int i = 0; i < HELD; i++)
		if (objects[i])
			kmem_cache_free(s[of[i]], objects[i]);
	for (unsigned int i = 0; i < CACHES; i++)
		end(s[i]);
	assert_int_equal(quarantine_bytes(), 0);
}

/* Small objects come to the end of the ring before they have used the bytes. */
static void the_ring_comes_round(void **state)
{
	struct kmem_cache *s = kmem_cache_create("tiny", 8, NULL, SLAB_NO_USER_FLAGS | SLAB_POISON);
	size_t places = BYTES / os.nr_nodes / 64;

	(void)state;
	assert_non_null(s);
	debug_switch(&s->sheaf.slab, DEBUG_QUARANTINE, true);
	assert_true(s->sheaf.slab.size < 64);
	for (size_t i = 0; i < 3 * places; i += MANY) {
		for (int n = 0; n < MANY; n++)
			objects[n] = take(s);
		kmem_cache_free_bulk(s, MANY, objects);
		assert_true(quarantine_count(&s->sheaf.slab) <= places);
	}
	assert_int_equal(quarantine_count(&s->sheaf.slab), places);
	/* Switched off, none come, and those there leave as before. */
	debug_switch(&s->sheaf.slab, DEBUG_QUARANTINE, false);
	kmem_cache_free(s, take(s));
	assert_int_equal(quarantine_count(&s->sheaf.slab), places);
	wear_out(s);
	end(s);
}

static void too_large_to_rest(void **state)
{
	struct kmem_cache *s = make("large", BYTES, 0);
	char *object = take(s);

	(void)state;
	kmem_cache_free(s, object);
	assert_false(rests(s, object));
	end(s);
}

static void write_while_it_rests(void **state)
{
	struct kmem_cache *s = make("stale", 32, 0);
	char *object = take(s);

	(void)state;
	kmem_cache_free(s, object);
	object[5] = 'x';
	capture_begin(&captured);
	wear_out(s);
	was_reported("BUG stale: Poison overwritten");
	assert_non_null(strstr(captured.text, "Found by quarantine(stale, "));
	assert_non_null(strstr(captured.text, "@cache=stale size=32, free, in quarantine"));
	/* No thread gets it any more. */
	for (int i = 0; i < SOME; i++) {
		objects[i] = take(s);
		assert_ptr_not_equal(objects[i], object);
	}
	kmem_cache_free_bulk(s, SOME, objects);
	end(s);
}

static struct kmem_cache *shown;
static char *stale;

static void writes(void)
{
	shown = make("written", 32, 0);
	stale = take(shown);
	kmem_cache_free(shown, stale);
	stale[7] = 0;
	capture_begin(&captured);
}

static void write_and_exit(void)
{
	writes();
	capture_end(&captured);
	exit(0);
}

/* The thread that releases it finds that. */
static void all_ways_out_check(void **state)
{
	(void)state;
	writes();
	kmem_cache_destroy(shown);
	was_reported("BUG written: Poison overwritten");
	writes();
	kmem_cache_shrink(shown);
	was_reported("BUG written: Poison overwritten");
	end(shown);
	writes();
	assert_int_equal(kmem_cache_verify(shown), 1);
	was_reported("BUG written: Poison overwritten");
	end(shown);
	writes();
	assert_int_equal(kmem_cache_validate(shown), 1);
	was_reported("Found by quarantine(written, ");
	/* What the report says: nobody gets it any more. */
	assert_int_equal(debug_head(&shown->sheaf.slab, stale)->state, DEBUG_LEAKED);
	end(shown);
	capture_begin(&captured);
	assert_int_equal(in_child(write_and_exit), 0);
	was_reported("BUG written: Poison overwritten");
}

/* Another thread may be releasing it just now. */
static void who_only_looks_leaves_it_alone(void **state)
{
	(void)state;
	writes();
	assert_int_equal(debug_validate(&shown->sheaf.slab, stale, false), 0);
	assert_int_equal(capture_end_deferred(&captured), 0);
	assert_int_equal(stale[7], 0);
	capture_begin(&captured);
	assert_int_equal(quarantine_drain(&shown->sheaf.slab, false), 1);
	was_reported("Found by quarantine(written, ");
	end(shown);
}

static void second_free(void **state)
{
	struct kmem_cache *s = make("twice", 32, 0);
	char *object = take(s);

	(void)state;
	kmem_cache_free(s, object);
	for (int i = 0; i < SOME; i++)
		kmem_cache_free(s, take(s));
	capture_begin(&captured);
	kmem_cache_free(s, object);
	was_reported("BUG twice: Object already free");
	assert_non_null(strstr(captured.text, "Freed "));
	capture_begin(&captured);
	kmem_cache_free_nolock(s, object);
	was_reported("Object already free");
	capture_begin(&captured);
	kmem_cache_free_rcu(s, object);
	was_reported("Object already free");
	end(s);
}

/* An overwritten state cannot show that the object is in quarantine. */
static void second_free_without_a_state(void **state)
{
	struct kmem_cache *s = make("stateless", 32, 0);
	char *object = take(s);

	(void)state;
	kmem_cache_free(s, object);
	debug_head(&s->sheaf.slab, object)->state = 0;
	capture_begin(&captured);
	kmem_cache_free(s, object);
	was_reported("BUG stateless: Object metadata overwritten");
	assert_int_equal(quarantine_count(&s->sheaf.slab), 1);
	assert_true(rests(s, object));
	end(s);
}

/* A reader that keeps an object past its section. */
static void retired_objects_rest(void **state)
{
	struct kmem_cache *s = make("retired", 32, 0);
	char *object = take(s);

	(void)state;
	kmem_cache_free_rcu(s, object);
	assert_false(rests(s, object));
	kvfree_rcu_barrier();
	assert_true(rests(s, object));
	object[0] = 1;
	capture_begin(&captured);
	kmem_cache_shrink(s);
	was_reported("BUG retired: Poison overwritten");
	end(s);
}

static void construct(void *object)
{
	memset(object, 0xc0, 32);
}

static void each_kind_of_free(void **state)
{
	struct kmem_cache *s = kmem_cache_create("made", 32, 8, 0, construct);
	struct kmem_cache *stable = make("stable", 32, SLAB_TYPESAFE_BY_RCU);
	struct slab_sheaf *sheaf;
	mempool_t *pool;
	char *object = take(s);

	(void)state;
	kmem_cache_free_nolock(s, object);
	assert_true(rests(s, object));
	assert_int_equal((unsigned char)object[31], 0xc0);
	sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 5);
	object = kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	assert_int_equal(quarantine_count(&s->sheaf.slab), 5);
	kfree(object);
	assert_true(rests(s, object));
	object = take(stable);
	memset(object, 's', 32);
	kmem_cache_free(stable, object);
	assert_true(rests(stable, object));
	assert_int_equal(object[0], 's');
	pool = mempool_create_slab_pool(3, s);
	object = mempool_alloc(pool, GFP_KERNEL);
	mempool_free(object, pool);
	mempool_destroy(pool);
	end(stable);
	end(s);
}

static void resting_objects_are_free(void **state)
{
	struct kmem_cache *s = make("counted", 32, 0);
	struct kmem_cache_stats stats;
	char *object = take(s);

	(void)state;
	for (int i = 0; i < SOME; i++)
		kmem_cache_free(s, take(s));
	assert_int_equal(kmem_cache_stats(s, &stats), 0);
	assert_int_equal(stats.objects_in_use, 1);
	assert_int_equal(stats.objects, 1);
	assert_int_equal(kmem_cache_validate(s), 0);
	kmem_cache_free(s, object);
	assert_int_equal(kmem_cache_stats(s, &stats), 0);
	assert_int_equal(stats.objects_in_use, 0);
	assert_int_equal(kmem_cache_shrink(s), 0);
	end(s);
}

/* Memory in quarantine is available to every allocation, also to one that may not reclaim. */
static void memory_is_short(void)
{
	struct kmem_cache *a = make("short-a", 64, 0), *b = make("short-b", 900, 0);
	int n = 2 * SOME, of_b = 0;

	for (int i = 0; i < n; i++)
		objects[i] = take(a);
	no_more_memory();
	while (n + of_b < MANY && (objects[n + of_b] = kmem_cache_alloc(b, GFP_NOWAIT)))
		of_b++;
	kmem_cache_free_bulk(a, (size_t)n, objects);
	CHECK(quarantine_count(&a->sheaf.slab) == (uint32_t)n);
	for (int i = 0; i < n; i++)
		CHECK(objects[i] = kmem_cache_alloc(a, GFP_NOWAIT));
	kmem_cache_free_bulk(a, (size_t)n, objects);
	CHECK(objects[0] = kmem_cache_alloc(b, GFP_KERNEL));
	kmem_cache_free(b, objects[0]);
	kmem_cache_free_bulk(b, (size_t)of_b, objects + n);
	CHECK(kmem_cache_verify(a) <= 0 && kmem_cache_verify(b) <= 0);
}

static void out_of_memory(void **state)
{
	(void)state;
#if HAS_TSAN /* its runtime needs memory, too */
	skip();
#endif
	assert_int_equal(in_child(memory_is_short), 0);
}

static void goes_on_in_a_child(void)
{
	CHECK(rests(shown, stale));
	CHECK(quarantine_count(&shown->sheaf.slab) == 1);
	kmem_cache_free(shown, kmem_cache_alloc(shown, GFP_KERNEL));
	capture_begin(&captured);
	stale[1] = 1;
	CHECK(kmem_cache_shrink(shown) == 1); /* the slab of the object that is kept out of use */
	CHECK(capture_end(&captured) > 0);
	CHECK(quarantine_bytes() == 0);
	kmem_cache_destroy(shown);
}

static void fork_copies_it(void **state)
{
	(void)state;
	quarantine_drain(NULL, false);
	shown = make("forked", 32, 0);
	stale = take(shown);
	kmem_cache_free(shown, stale);
	assert_int_equal(in_child(goes_on_in_a_child), 0);
	assert_true(rests(shown, stale));
	end(shown);
}

#define THREADS 4

static struct kmem_cache *shared[2];
static cpu_set_t all_cpus;

static void *churn(void *number)
{
	uint64_t seed = (uintptr_t)number + 1;
	char name[] = "brief-0";
	void *p[200] = {NULL};

	name[6] = (char)('0' + (uintptr_t)number);
	CHECK(sched_setaffinity(0, sizeof(all_cpus), &all_cpus) == 0);

	for (int i = 0; i < 20000; i++) {
		unsigned int at = random_below(&seed, 200);
		struct kmem_cache *s = shared[at % 2];

		if (p[at])
			p[at] = (kmem_cache_free(s, p[at]), NULL);
		else
			p[at] = kmem_cache_alloc(s, GFP_KERNEL);
		if (i % 1000 == 0) {
			struct kmem_cache *own = kmem_cache_create(name, 200, NULL, 0);

			CHECK(own);
			for (int n = 0; n < 10; n++)
				kmem_cache_free(own, kmem_cache_alloc(own, GFP_KERNEL));
			CHECK(kmem_cache_verify(own) == 0);
			kmem_cache_destroy(own);
			CHECK(kmem_cache_validate(s) == 0);
			kmem_cache_shrink(s);
		}
	}
	for (int i = 0; i < 200; i++)
		if (p[i])
			kmem_cache_free(shared[i % 2], p[i]);
	return NULL;
}

/* Caches are destroyed while other threads release their objects from quarantine. */
static void threads(void **state)
{
	pthread_t all[THREADS];
	size_t bytes = 0;

	(void)state;
	capture_begin(&captured);
	shared[0] = make("shared-a", 60, 0);
	shared[1] = make("shared-b", 1500, 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&all[i], NULL, churn, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(all[i], NULL);
	for (int i = 0; i < 2; i++)
		bytes += quarantine_count(&shared[i]->sheaf.slab) *
			 (size_t)shared[i]->sheaf.slab.size;
	assert_int_equal(capture_end_deferred(&captured), 0);
	assert_int_equal(bytes, quarantine_bytes());
	assert_true(bytes <= BYTES);
	end(shared[0]);
	end(shared[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_gets_a_resting_object),
		cmocka_unit_test(the_oldest_leaves_first),
		cmocka_unit_test(never_more_than_the_bound),
		cmocka_unit_test(the_ring_comes_round),
		cmocka_unit_test(too_large_to_rest),
		cmocka_unit_test(write_while_it_rests),
		cmocka_unit_test(all_ways_out_check),
		cmocka_unit_test(who_only_looks_leaves_it_alone),
		cmocka_unit_test(second_free),
		cmocka_unit_test(second_free_without_a_state),
		cmocka_unit_test(retired_objects_rest),
		cmocka_unit_test(each_kind_of_free),
		cmocka_unit_test(resting_objects_are_free),
		cmocka_unit_test(out_of_memory),
		cmocka_unit_test(fork_copies_it),
		cmocka_unit_test(threads),
	};

	sheaf_rcu_register(&by_hand_ops);
	/* A sanitizer would end the program at the first misuse. */
	os.tools = 0;
	/* One node's part, except in threads. */
	if (sched_getaffinity(0, sizeof(all_cpus), &all_cpus))
		return 1;
	pin((unsigned int)sched_getcpu());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
