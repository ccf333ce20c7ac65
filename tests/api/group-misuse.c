/* SPDX-License-Identifier: MIT */
/* A free that is ignored uncharges nothing: the object stays charged to its group (OWNER-O2). */
#include <sheaf/group.h>
#include <sheaf/rcu.h>

#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/process.h"
#include "kit/unit.h"

enum {
	SIZE = 1000,
	LIMIT = 100
};

static struct capture captured;
static struct kmem_group *g;

static uint64_t bytes(void)
{
	struct kmem_group_stats stats;

	assert_int_equal(kmem_group_stats(g, &stats), 0);
	return stats.bytes;
}

static int set_up(void **state)
{
	(void)state;
	g = kmem_group_create("tenant", NULL, NULL);
	assert_non_null(g);
	kmem_group_restore_current(kmem_group_get(g));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	assert_int_equal(bytes(), 0);
	assert_int_equal(kmem_group_verify(), 0);
	kmem_group_restore_current(NULL);
	kmem_group_put(g);
	return 0;
}

/* --- ways to free ----------------------------------------------------------------------------- */

static void free_it(struct kmem_cache *s, void *object)
{
	kmem_cache_free(s, object);
}

static void free_in_bulk(struct kmem_cache *s, void *object)
{
	kmem_cache_free_bulk(s, 1, &object);
}

static void free_any_in_bulk(struct kmem_cache *s, void *object)
{
	(void)s;
	kmem_cache_free_bulk(NULL, 1, &object);
}

static void free_nolock(struct kmem_cache *s, void *object)
{
	kmem_cache_free_nolock(s, object);
}

static void free_block(struct kmem_cache *s, void *object)
{
	(void)s;
	kfree(object);
}

static void free_block_nolock(struct kmem_cache *s, void *object)
{
	(void)s;
	kfree_nolock(object);
}

static void retire(struct kmem_cache *s, void *object)
{
	kmem_cache_free_rcu(s, object);
	by_hand_pass();
	kvfree_rcu_barrier();
}

static void retire_sleeping(struct kmem_cache *s, void *object)
{
	(void)s;
	kvfree_rcu_mightsleep(object);
	by_hand_pass();
	kvfree_rcu_barrier();
}

static void (*const ways[])(struct kmem_cache *s, void *object) = {
	free_it,    free_in_bulk,      free_any_in_bulk, free_nolock,
	free_block, free_block_nolock, retire,		 retire_sleeping,
};

#define NR_WAYS (sizeof(ways) / sizeof(ways[0]))

/* This free is reported, and changes nothing. */
static void is_ignored(unsigned int way, struct kmem_cache *s, char *object, size_t at)
{
	uint64_t before = bytes();

	capture_begin(&captured);
	ways[way](s, object + at);
	kmem_cache_shrink(s);
	assert_true(capture_end(&captured) >= 1);
	assert_int_equal(bytes(), before);
	assert_ptr_equal(kmem_group_of(object), g);
	kmem_group_put(g);
	assert_int_equal(kmem_group_verify(), 0);
}

/* --- pointers into objects -------------------------------------------------------------------- */

static void inside(const char *name, slab_flags_t flags)
{
	struct kmem_cache *s = make(name, SIZE, SLAB_ACCOUNT | flags);
	char *first = kmem_cache_alloc(s, GFP_KERNEL), *object = kmem_cache_alloc(s, GFP_KERNEL);
	struct kmem_cache *other;

	assert_non_null(first);
	assert_non_null(object);
	for (unsigned int way = 0; way < NR_WAYS; way++)
		for (size_t at = 8; at < SIZE; at += 248)
			is_ignored(way, s, object, at);
	/* And to another cache that charges. */
	other = make("other", SIZE, SLAB_ACCOUNT | flags);
	for (unsigned int way = 0; way < NR_WAYS; way++)
		if (ways[way] == free_it || ways[way] == free_in_bulk || ways[way] == free_nolock ||
		    ways[way] == retire)
			is_ignored(way, other, object, 0);
	kmem_cache_destroy(other);
	kmem_cache_free(s, object);
	kmem_cache_free(s, first);
	kmem_cache_destroy(s);
}

/* Letters that check objects: samples are other objects. */
static bool debug_caches(void)
{
	return has_slab_debug() && !has_debug_letter('S');
}

/* Are wrong frees found immediately in all caches? */
static bool all_checked(void)
{
	return debug_caches() || checks_free();
}

static void inside_objects(void **state)
{
	(void)state;
	if (!all_checked()) {
		print_message("no cache is checked\n");
		skip();
	}
	inside("checked", 0);
}

/* Checked without options. */
static void inside_secrets(void **state)
{
	(void)state;
	inside("secret", SLAB_SECRET);
}

/* Found by the slab, whose bits each free reaches directly. */
static void inside_objects_without_sheaves(void **state)
{
	(void)state;
	inside("plain", SLAB_NO_SHEAVES);
}

static void inside_blocks(void **state)
{
	struct kmem_cache *s = make("any", SIZE, 0);
	bool found = all_checked();

	(void)state;
	for (size_t size = 100; size < (size_t)8 << 20; size *= 20) {
		char *block = kmalloc(size, GFP_KERNEL_ACCOUNT);

		assert_non_null(block);
		/* A plain cache finds it later, when its sheaf becomes empty. */
		for (unsigned int way = 2;
		     (found || size > KMALLOC_MAX_CACHE_SIZE) && way < NR_WAYS; way++)
			if (ways[way] != free_nolock && ways[way] != retire)
				is_ignored(way, s, block, 16);
		kfree(block);
		assert_int_equal(bytes(), 0);
	}
	kmem_cache_destroy(s);
}

static void verify_nothing(void)
{
	CHECK(kmem_group_verify() == 0);
}

/* Where nothing checks a free, it may uncharge the object; then the lost charge is found. */
static void ignored_or_found(struct kmem_cache *s, void *object)
{
	struct kmem_group *of = kmem_group_of(object);

	if (of) {
		assert_int_equal(bytes(), look(s).slab_size);
	} else {
		assert_true(kmem_group_verify() > 0);
		/* It might have been in the hand of a thread that vanished. */
		assert_int_equal(in_child(verify_nothing), 0);
	}
	kmem_group_put(of);
}

static void is_found_later(void **state)
{
	struct kmem_cache *s = make("unchecked", SIZE, SLAB_ACCOUNT);
	char *object;

	(void)state;
	for (unsigned int way = 0; way < NR_WAYS; way++) {
		object = kmem_cache_alloc(s, GFP_KERNEL);
		assert_non_null(object);
		capture_begin(&captured);
		ways[way](s, object + 8);
		ignored_or_found(s, object);
		/* Now it has left the sheaf, too. */
		kmem_cache_shrink(s);
		ignored_or_found(s, object);
		assert_true(capture_end(&captured) >= 1);
		kmem_cache_free(s, object);
		assert_int_equal(bytes(), 0);
		assert_int_equal(kmem_group_verify(), 0);
	}
	kmem_cache_destroy(s);
}

/* These have numbers, and then none; they stay in this CPU's sheaves. */
static void use_paid(struct kmem_cache *s)
{
	void *paid[20];

	for (int i = 0; i < 20; i++) {
		paid[i] = kmem_cache_alloc(s, GFP_KERNEL);
		assert_non_null(paid[i]);
	}
	for (int i = 0; i < 20; i++)
		kmem_cache_free(s, paid[i]);
}

/* Objects that were not charged have nothing to uncharge. */
static void nobody_paid(void **state)
{
	struct kmem_cache *s = make("unpaid", SIZE, SLAB_ACCOUNT);
	void *objects[20];
	struct slab_sheaf *sheaf;

	(void)state;
	sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 4);
	assert_non_null(sheaf);
	use_paid(s);
	kmem_group_restore_current(NULL);
	for (int i = 0; i < 20; i += 5) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		objects[i + 1] = kmem_cache_alloc_node(s, GFP_KERNEL, 0);
		objects[i + 2] = kmem_cache_alloc_nolock(s, GFP_NOWAIT);
		objects[i + 3] = kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf);
		assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 1, &objects[i + 4]), 1);
		assert_int_equal(kmem_group_verify(), 0);
	}
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	kmem_cache_free_bulk(s, 20, objects);
	kmem_group_restore_current(kmem_group_get(g));
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 20, objects), 20);
	assert_int_equal(bytes(), 20 * look(s).slab_size);
	assert_int_equal(kmem_group_verify(), 0);
	kmem_cache_free_bulk(s, 20, objects);
	kmem_cache_destroy(s);
}

static void nobody_paid_yet(void **state)
{
	struct kmem_cache *s = make("lent", SIZE, SLAB_ACCOUNT);
	struct slab_sheaf *sheaf;
	void *object, *paid;

	(void)state;
	/* The first charged object of its slab comes later. */
	kmem_group_restore_current(NULL);
	object = kmem_cache_alloc(s, GFP_KERNEL);
	kmem_group_restore_current(kmem_group_get(g));
	paid = kmem_cache_alloc(s, GFP_KERNEL);
	assert_true(object && paid);
	assert_int_equal(kmem_group_verify(), 0);
	use_paid(s);
	sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 4);
	assert_non_null(sheaf);
	assert_int_equal(kmem_group_verify(), 0);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	kmem_cache_free(s, paid);
	kmem_cache_free(s, object);
	kmem_cache_destroy(s);
}

/* Nor do uncharged objects of a cache that charges only on request. */
static void nobody_asked(void **state)
{
	struct kmem_cache *s = make("asked", SIZE, 0);
	void *paid = kmem_cache_alloc(s, GFP_KERNEL_ACCOUNT), *object;

	(void)state;
	assert_non_null(paid);
	kmem_cache_free(s, paid);
	object = kmem_cache_alloc(s, GFP_KERNEL);
	assert_non_null(object);
	assert_int_equal(bytes(), 0);
	assert_int_equal(kmem_group_verify(), 0);
	kmem_cache_free(s, object);
	kmem_cache_destroy(s);
}

/* --- the limit holds -------------------------------------------------------------------------- */

static void the_limit_holds(void **state)
{
	struct kmem_cache *s = make("secret", SIZE, SLAB_ACCOUNT | SLAB_SECRET);
	struct kmem_group_args args = {.hard_limit = LIMIT * look(s).slab_size};
	static char *objects[2 * LIMIT];
	int n = 0;

	(void)state;
	assert_int_equal(kmem_group_set_limits(g, &args), 0);
	capture_begin(&captured);
	while (n < 2 * LIMIT && (objects[n] = kmem_cache_alloc(s, GFP_KERNEL))) {
		kmem_cache_free(s, objects[n] + 8);
		kmem_cache_free_bulk(s, 1, (void *[]){objects[n] + 16});
		n++;
	}
	assert_true(capture_end(&captured) >= 1);
	assert_int_equal(n, LIMIT);
	assert_int_equal(bytes(), LIMIT * look(s).slab_size);
	while (n > 0)
		kmem_cache_free(s, objects[--n]);
	kmem_cache_destroy(s);
}

/* --- objects that wait, or are free ----------------------------------------------------------- */

/* An object that waits for a grace period stays charged until the period has passed, whichever
 * thread frees it meanwhile. */
static void while_in(struct kmem_cache *s)
{
	if (!debug_caches() && !checks_double()) {
		kmem_cache_destroy(s);
		print_message("no cache knows what waits\n");
		skip();
	}
	for (unsigned int way = 0; way < NR_WAYS; way++) {
		void *object = kmem_cache_alloc(s, GFP_KERNEL);

		assert_non_null(object);
		kmem_cache_free_rcu(s, object);
		capture_begin(&captured);
		ways[way](s, object);
		assert_true(capture_end(&captured) >= 1);
		if (ways[way] != retire && ways[way] != retire_sleeping) {
			assert_int_equal(bytes(), look(s).slab_size);
			assert_int_equal(kmem_group_verify(), 0);
		}
		by_hand_pass();
		kvfree_rcu_barrier();
		assert_int_equal(bytes(), 0);
	}
	kmem_cache_destroy(s);
}

static void while_it_waits(void **state)
{
	(void)state;
	while_in(make("waits", SIZE, SLAB_ACCOUNT));
}

static void while_it_waits_without_sheaves(void **state)
{
	(void)state;
	while_in(make("waits too", SIZE, SLAB_ACCOUNT | SLAB_NO_SHEAVES));
}

/* A second free of a free object does not uncharge another object. */
static void twice(void **state)
{
	struct kmem_cache *s = make("twice", SIZE, SLAB_ACCOUNT | SLAB_NO_SHEAVES);
	void *other = kmem_cache_alloc(s, GFP_KERNEL);

	(void)state;
	for (unsigned int way = 0; way < NR_WAYS; way++) {
		void *object = kmem_cache_alloc(s, GFP_KERNEL);

		kmem_cache_free(s, object);
		capture_begin(&captured);
		ways[way](s, object);
		assert_true(capture_end(&captured) >= 1);
		assert_int_equal(bytes(), look(s).slab_size);
		assert_int_equal(kmem_group_verify(), 0);
	}
	kmem_cache_free(s, other);
	kmem_cache_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(inside_objects, set_up, tear_down),
		cmocka_unit_test_setup_teardown(inside_secrets, set_up, tear_down),
		cmocka_unit_test_setup_teardown(inside_objects_without_sheaves, set_up, tear_down),
		cmocka_unit_test_setup_teardown(inside_blocks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(is_found_later, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nobody_paid, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nobody_paid_yet, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nobody_asked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_limit_holds, set_up, tear_down),
		cmocka_unit_test_setup_teardown(while_it_waits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(while_it_waits_without_sheaves, set_up, tear_down),
		cmocka_unit_test_setup_teardown(twice, set_up, tear_down),
	};

	sheaf_rcu_register(&by_hand_ops);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
