/* SPDX-License-Identifier: MIT */
/* kfree_rcu() and related calls, with grace periods that pass when the test says so. */
#include <errno.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/clock.h"
#include "kit/needs.h"
#include "kit/options.h"
#include "kit/process.h"
#include "kit/unit.h"

enum {
	MANY = 1000,
	SHEAVES = 6
};

struct item {
	uint64_t stamp[2];
	struct sheaf_rcu_head rcu;
	uint64_t end[4];
};

static struct capture captured;

static struct kmem_cache *make_items(const char *name, slab_flags_t flags)
{
	pin(0);
	return make(name, sizeof(struct item), flags);
}

static void fill(struct kmem_cache *s, struct item **items, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		items[i] = kmem_cache_alloc(s, GFP_KERNEL);
		assert_non_null(items[i]);
		memset(items[i], 0, sizeof(*items[i]));
		items[i]->stamp[0] = items[i]->end[3] = (uintptr_t)items[i] ^ 0x5a5a;
	}
}

static bool untouched(struct item *const *items, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (items[i]->stamp[0] != ((uintptr_t)items[i] ^ 0x5a5a) ||
		    items[i]->end[3] != items[i]->stamp[0])
			return false;
	return true;
}

static bool is_one_of(struct item *const *items, unsigned int n, const void *object)
{
	for (unsigned int i = 0; i < n; i++)
		if (items[i] == object)
			return true;
	return false;
}

static void destroy(struct kmem_cache *s)
{
	assert_int_equal(kmem_cache_verify(s), 0);
	capture_begin(&captured);
	kmem_cache_destroy(s);
	assert_int_equal(capture_end(&captured), 0);
}

static void nothing_is_used_before_its_grace_period(void **state)
{
	static struct item *items[MANY], *others[MANY];
	struct kmem_cache *s = make_items("rcu-early", 0);

	(void)state;
	needs(NEED_SHEAVES);
	fill(s, items, MANY);
	for (unsigned int i = 0; i < MANY; i++)
		kfree_rcu(items[i], rcu);
	fill(s, others, MANY);
	for (unsigned int i = 0; i < MANY; i++)
		assert_false(is_one_of(items, MANY, others[i]));
	assert_int_equal(kmem_cache_shrink(s), 1);
	assert_true(untouched(items, MANY));
	assert_true(look(s).rcu_pending_objects == MANY);
	assert_true(look(s).rcu_pending_bytes == MANY * look(s).slab_size);
	kmem_cache_free_bulk(s, MANY, (void **)others);
	destroy(s);
}

static void what_has_passed_is_allocated_again(void **state)
{
	static struct item *items[MANY], *again[MANY];
	struct kmem_cache *s = make_items("rcu-again", 0);
	uint64_t slabs, refilled;
	unsigned int reused = 0;

	(void)state;
	needs(NEED_SHEAVES);
	fill(s, items, MANY);
	slabs = look(s).slabs;
	refilled = look(s).sheaf_refill;
	for (unsigned int i = 0; i < MANY; i++)
		kmem_cache_free_rcu(s, items[i]);
	/* Twice: objects retired during the first grace period wait for the next one. */
	by_hand_pass();
	by_hand_pass();
	fill(s, again, MANY - 120);
	for (unsigned int i = 0; i < MANY - 120; i++)
		reused += is_one_of(items, MANY, again[i]);
	/* All except those that were in sheaves before. */
	assert_in_range(reused, MANY - 320, MANY);
	assert_true(look(s).slabs == slabs);
	if (look(s).counted) {
		assert_true(look(s).sheaf_refill == refilled);
		assert_true(look(s).rcu_reuse > 0);
		assert_true(look(s).sheaf_flush == 0);
	}
	kmem_cache_free_bulk(s, MANY - 120, (void **)again);
	destroy(s);
}

static void what_has_passed_is_prefilled(void **state)
{
	static struct item *items[MANY];
	struct kmem_cache *s = make_items("rcu-prefill", 0);
	unsigned int capacity = (unsigned int)look(s).sheaf_capacity, found = 0;
	struct slab_sheaf *sheaves[SHEAVES];
	void *object;

	(void)state;
	needs(NEED_SHEAVES);
	fill(s, items, MANY);
	for (unsigned int i = 0; i < MANY; i++)
		kmem_cache_free_rcu(s, items[i]);
	by_hand_pass();
	by_hand_pass();
	/* The objects of main, spare and the barn come first. */
	for (int i = 0; i < SHEAVES; i++) {
		sheaves[i] = kmem_cache_prefill_sheaf(s, GFP_KERNEL, capacity);
		assert_non_null(sheaves[i]);
	}
	for (int i = 0; i < SHEAVES; i++) {
		while ((object = kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaves[i])) != NULL) {
			found += is_one_of(items, MANY, object);
			kmem_cache_free(s, object);
		}
		kmem_cache_return_sheaf(s, GFP_KERNEL, sheaves[i]);
	}
	assert_true(found >= capacity);
	destroy(s);
}

static void a_barrier_frees_everything(void **state)
{
	static struct item *items[MANY];

	(void)state;
	for (unsigned int n = 0; n < MANY; n = 2 * n + 1) {
		struct kmem_cache *s = make_items("rcu-barrier", 0);

		fill(s, items, n);
		for (unsigned int i = 0; i < n; i++)
			kfree_rcu(items[i], rcu);
		if (n % 2)
			kvfree_rcu_barrier();
		else
			kvfree_rcu_barrier_on_cache(s);
		assert_true(look(s).rcu_pending_objects == 0);
		assert_true(look(s).objects_in_use == 0);
		if (look(s).counted) {
			assert_true(look(s).free_rcu_sheaf + look(s).free_rcu_sheaf_fail == n);
			assert_true(look(s).free_rcu_sheaf == n || !look(s).sheaf_capacity ||
				    has_debug_letter('S'));
			assert_true(look(s).free_fastpath + look(s).free_slowpath >= n);
		}
		assert_int_equal(kmem_cache_shrink(s), 0);
		destroy(s);
	}
}

static void destroy_waits_for_what_is_retired(void **state)
{
	static struct item *items[MANY];
	struct kmem_cache *s = make_items("rcu-destroy", 0);

	(void)state;
	fill(s, items, MANY);
	for (unsigned int i = 0; i < MANY; i++)
		kfree_rcu(items[i], rcu);
	destroy(s);
}

/* A sheaf that never fills is handed over when it is rcu_delay old. */
static void a_partly_filled_sheaf_does_not_stay(void **state)
{
	struct kmem_cache *s = make_items("rcu-partly", 0);
	struct item *items[3];

	(void)state;
	/* GRACE-G6 */
	needs(NEED_SHEAVES);
	fill(s, items, 3);
	for (int i = 0; i < 3; i++)
		kfree_rcu(items[i], rcu);
	by_hand_pass();
	assert_true(look(s).rcu_pending_objects == 3);
	clock_pass_ms(option_number("rcu_delay", 50) - 1);
	by_hand_pass();
	by_hand_pass();
	assert_true(look(s).rcu_pending_objects == 3);
	clock_pass_ms(1);
	by_hand_pass(); /* collects it */
	by_hand_pass(); /* and this was its grace period */
	assert_true(look(s).rcu_pending_objects == 0);
	destroy(s);
}

/* Unused objects return to their slabs, and then there are no more callbacks. */
static void what_is_not_used_goes_back(void **state)
{
	static struct item *items[MANY];
	struct kmem_cache *s = make_items("rcu-idle", 0);
	uint64_t objects;

	(void)state;
	kmem_cache_set_barn(s, 1, 1);
	fill(s, items, MANY);
	for (unsigned int i = 0; i < MANY; i++)
		kfree_rcu(items[i], rcu);
	for (int i = 0; i < 20; i++) {
		by_hand_pass();
		clock_pass_ms(option_number("rcu_delay", 50));
	}
	by_hand_pass();
	objects = look(s).objects;
	assert_in_range(objects, 0, 13 * look(s).sheaf_capacity);
	assert_null(by_hand.first);
	destroy(s);
}

static void pointers_of_any_kind(void **state)
{
	struct kmem_cache *without = make_items("rcu-without", SLAB_NO_SHEAVES);
	struct kmem_cache *s = make_items("rcu-mixed", 0);
	struct item *items[64];
	unsigned int node;

	(void)state;
	for (unsigned int i = 0; i < 64; i++) {
		struct kmem_cache *of = i % 2 ? s : without;

		node = i / 2 % library().nodes;
		items[i] = kmem_cache_alloc_node(of, GFP_KERNEL, (int)node);
		assert_non_null(items[i]);
	}
	for (unsigned int i = 0; i < 64; i++)
		if (i % 3)
			kvfree_rcu(items[i], rcu);
		else
			kfree_rcu_mightsleep(items[i]);
	kfree_rcu((struct item *)NULL, rcu);
	kmem_cache_free_rcu(s, NULL);
	kfree_rcu_mightsleep(NULL);
	assert_int_equal(kmem_cache_verify(s), 0);
	kvfree_rcu_barrier_on_cache(s);
	kvfree_rcu_barrier_on_cache(without);
	kvfree_rcu_barrier();
	assert_true(look(s).objects_in_use == 0);
	assert_true(look(without).objects_in_use == 0);
	destroy(s);
	destroy(without);
}

static void foreign_pointers_are_reported(void **state)
{
	static struct item foreign;

	(void)state;
	capture_begin(&captured);
	kfree_rcu(&foreign, rcu);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "kfree_rcu("));
	capture_begin(&captured);
	kfree_rcu_mightsleep(&foreign);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "kfree_rcu_mightsleep("));
}

static void retire_in_child(void)
{
	struct kmem_cache *s = make_items("rcu-child", 0);
	static struct item *items[MANY];

	fill(s, items, MANY);
	for (unsigned int i = 0; i < MANY; i++)
		kfree_rcu(items[i], rcu);
	kvfree_rcu_barrier();
	CHECK(look(s).objects_in_use == 0);
	CHECK(kmem_cache_verify(s) == 0);
	kmem_cache_destroy(s);
}

static struct kmem_cache *inherited;
static struct item *pending[MANY];

/* The child has a copy of all waiting objects, and of the provider's queue. */
static void finish_in_child(void)
{
	retire_in_child();
	CHECK(untouched(pending, 1) || !look(inherited).rcu_pending_objects);
	kvfree_rcu_barrier_on_cache(inherited);
	CHECK(look(inherited).objects_in_use == 0);
	CHECK(kmem_cache_verify(inherited) == 0);
	kmem_cache_destroy(inherited);
}

static void a_forked_child_goes_on(void **state)
{
	(void)state;
	needs(NEED_SHEAVES);
	inherited = make_items("rcu-fork", 0);
	fill(inherited, pending, MANY);
	for (unsigned int i = 0; i < MANY; i++)
		kfree_rcu(pending[i], rcu);
	assert_int_equal(in_child(finish_in_child), 0);
	assert_true(look(inherited).rcu_pending_objects == MANY);
	assert_true(untouched(pending, MANY));
	destroy(inherited);
}

/* The memory that waits, not the bytes that were requested. */
static void checked_objects_count_whole(void **state)
{
	struct kmem_cache *s = make_items("rcu-checked", SLAB_RED_ZONE | SLAB_STORE_USER);
	static struct item *items[MANY];
	struct sheaf_stats before, after;

	(void)state;
	fill(s, items, MANY);
	sheaf_stats(&before);
	for (unsigned int i = 0; i < MANY; i++)
		kfree_rcu(items[i], rcu);
	sheaf_stats(&after);
	assert_true(look(s).slab_size > 2 * sizeof(struct item));
	assert_true(after.rcu_bytes - before.rcu_bytes >= MANY * look(s).slab_size);
	kvfree_rcu_barrier_on_cache(s);
	sheaf_stats(&after);
	assert_int_equal(after.rcu_bytes, before.rcu_bytes);
	destroy(s);
}

static void each_retired_object_is_counted(void **state)
{
	struct kmem_cache *s = make_items("rcu-each", SLAB_NO_SHEAVES);
	struct item *items[2];

	(void)state;
	fill(s, items, 2);
	kfree_rcu(items[0], rcu);
	kfree_rcu_mightsleep(items[1]);
	if (look(s).counted)
		assert_true(look(s).free_rcu_sheaf_fail == 2);
	destroy(s);
}

/* Readers of such a cache may look at an object that was freed and allocated again. */
static void typesafe_pages_go_late(void **state)
{
	struct kmem_cache *s = make_items("rcu-typesafe", SLAB_TYPESAFE_BY_RCU);
	static struct item *items[MANY];

	(void)state;
	fill(s, items, MANY);
	kmem_cache_free_bulk(s, MANY, (void **)items);
	assert_int_equal(kmem_cache_shrink(s), 1);
	/* The link of a free object is outside, and the pages are still there. */
	assert_true(untouched(items, MANY));
	assert_true(look(s).slabs > 0);
	by_hand_pass();
	by_hand_pass();
	assert_true(look(s).slabs == 0);
	fill(s, items, MANY);
	kmem_cache_free_bulk(s, MANY, (void **)items);
	destroy(s);
}

/* Each call that releases slabs starts a batch for them. */
static void returned_sheaf_starts_batch(void **state)
{
	struct kmem_cache_args args = {.sheaf_capacity = 256};
	struct kmem_cache *s;
	struct slab_sheaf *sheaf;

	(void)state;
	needs(NEED_SHEAVES);
	pin(0);
	s = kmem_cache_create("rcu-returned", 4096, &args, SLAB_TYPESAFE_BY_RCU);
	assert_non_null(s);
	sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 256);
	assert_non_null(sheaf);
	/* The sheaf does not fit any more, and its objects return to the slabs. */
	assert_int_equal(kmem_cache_set_sheaf_capacity(s, 512), 0);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	by_hand_pass();
	assert_true(look(s).slabs <= 10);
	destroy(s);
}

static void use_without_provider(void)
{
	struct kmem_cache *s = kmem_cache_create("rcu-nobody", 64, NULL, SLAB_NO_MERGE);

	kmem_cache_free_rcu(s, kmem_cache_alloc(s, GFP_KERNEL));
}

static void retire_block_without_provider(void)
{
	kvfree_rcu_mightsleep(kvmalloc(3 << 20, GFP_KERNEL));
}

static bool refuse_all(const char *point)
{
	(void)point;
	return true;
}

struct linked {
	struct kvfree_rcu_head rcu;
};

static void retire_linked(struct kmem_cache *s)
{
	static struct linked *objects[MANY];

	CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, MANY, (void **)objects) == MANY);
	hook_fail_by(refuse_all);
	for (int i = 0; i < MANY; i++)
		kfree_rcu(objects[i], rcu);
	hook_fail_by(NULL);
}

/* ANY-K3: objects that are linked while others wait get their number later, and a barrier waits for
 * them, too. */
static void retire_by_one_word(void)
{
	struct kmem_cache *s = kmem_cache_create("word", sizeof(struct linked), NULL,
						 SLAB_NO_MERGE | SLAB_NO_SHEAVES);

	CHECK(sheaf_rcu_register(&by_hand_ops) == 0);
	for (int all = 0; all < 2; all++) {
		retire_linked(s);
		by_hand_pass();
		CHECK(look(s).objects_in_use > 0);
		retire_linked(s);
		all ? kvfree_rcu_barrier() : kvfree_rcu_barrier_on_cache(s);
		CHECK(look(s).objects_in_use == 0);
		CHECK(library().rcu_bytes == 0);
	}
	retire_linked(s);
	kmem_cache_destroy(s);
}

static void one_word_is_enough(void **state)
{
	(void)state;
	capture_begin(&captured);
	assert_int_equal(in_child(retire_by_one_word), 0);
	assert_int_equal(capture_end(&captured), 0);
}

/* Nowhere to store the pointers, except a few hundred: the others are lost. */
static void retire_without_memory(void)
{
	struct kmem_cache *s = kmem_cache_create("lost", 64, NULL, SLAB_NO_MERGE);
	static void *objects[MANY];

	CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, MANY, objects) == MANY);
	CHECK(sheaf_rcu_register(&by_hand_ops) == 0);
	hook_fail_by(refuse_all);
	kmem_cache_free_bulk_rcu(s, MANY, objects);
	hook_fail_by(NULL);
	kvfree_rcu_barrier();
	CHECK(look(s).objects_in_use > 0);
}

static void no_memory_is_reported(void **state)
{
	(void)state;
	capture_begin(&captured);
	assert_int_equal(in_child(retire_without_memory), 0);
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, "kmem_cache_free_rcu(lost, "));
	assert_non_null(strstr(captured.text, "the object is leaked"));
}

static void a_destroyed_cache_takes_none(void **state)
{
	struct kmem_cache *s = kmem_cache_create("gone", 64, NULL, SLAB_NO_MERGE);
	void *block = kmalloc(64, GFP_KERNEL);

	(void)state;
	kmem_cache_destroy(s);
	capture_begin(&captured);
	kmem_cache_free_rcu(s, block);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "this cache was destroyed"));
	kfree(block);
}

static void no_provider_is_fatal(void **state)
{
	struct kmem_cache *s;
	int status;

	(void)state;
	capture_begin(&captured);
	status = in_child(use_without_provider);
	assert_int_equal(capture_end(&captured), 1);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_non_null(strstr(captured.text, "rcu-nobody"));
	assert_non_null(strstr(captured.text, "sheaf_urcu_register(0)"));
	capture_begin(&captured);
	status = in_child(retire_block_without_provider);
	assert_int_equal(capture_end(&captured), 1);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_non_null(strstr(captured.text, "kfree_rcu(large block, "));
	capture_begin(&captured);
	s = kmem_cache_create("rcu-typesafe-nobody", 64, NULL, SLAB_TYPESAFE_BY_RCU);
	assert_int_equal(capture_end(&captured), 1);
	assert_null(s);
}

static const struct sheaf_rcu_ops another = {.size = sizeof(struct sheaf_rcu_ops),
					     .name = "another",
					     .call = by_hand_call,
					     .barrier = by_hand_barrier};

/* The process has no provider, and needs none. */
static void use_own_provider(void)
{
	static struct item *items[MANY];
	struct kmem_cache_args args = {.rcu = &another};
	struct kmem_cache *s = kmem_cache_create("rcu-only-own", sizeof(struct item), &args, 0);

	CHECK(s);
	for (unsigned int i = 0; i < MANY; i++) {
		items[i] = kmem_cache_alloc(s, GFP_KERNEL);
		CHECK(items[i]);
	}
	for (unsigned int i = 0; i < MANY; i++)
		if (i % 2)
			kfree_rcu(items[i], rcu);
		else
			kfree_rcu_mightsleep(items[i]);
	kvfree_rcu_barrier_on_cache(s);
	CHECK(look(s).objects_in_use == 0);
	capture_begin(&captured);
	kmem_cache_destroy(s);
	CHECK(capture_end(&captured) == 0);
}

static void a_provider_of_one_cache_suffices(void **state)
{
	(void)state;
	assert_int_equal(in_child(use_own_provider), 0);
}

static void providers(void **state)
{
	struct kmem_cache_args args = {.rcu = &another};
	struct kmem_cache *s;
	struct item *item;

	(void)state;
	capture_begin(&captured);
	assert_int_equal(sheaf_rcu_register(NULL), -EINVAL);
	assert_int_equal(capture_end(&captured), 1);
	assert_int_equal(sheaf_rcu_register(&by_hand_ops), 0);
	assert_int_equal(sheaf_rcu_register(&by_hand_ops), 0);
	capture_begin(&captured);
	assert_int_equal(sheaf_rcu_register(&another), -EBUSY);
	assert_int_equal(capture_end(&captured), 1);
	/* A provider of one cache. */
	s = kmem_cache_create("rcu-own", sizeof(struct item), &args, 0);
	assert_non_null(s);
	item = kmem_cache_alloc(s, GFP_KERNEL);
	kfree_rcu(item, rcu);
	destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_provider_is_fatal),
		cmocka_unit_test(one_word_is_enough),
		cmocka_unit_test(no_memory_is_reported),
		cmocka_unit_test(a_destroyed_cache_takes_none),
		cmocka_unit_test(a_provider_of_one_cache_suffices),
		cmocka_unit_test(providers),
		cmocka_unit_test(nothing_is_used_before_its_grace_period),
		cmocka_unit_test(what_has_passed_is_allocated_again),
		cmocka_unit_test(what_has_passed_is_prefilled),
		cmocka_unit_test(a_barrier_frees_everything),
		cmocka_unit_test(destroy_waits_for_what_is_retired),
		cmocka_unit_test(a_partly_filled_sheaf_does_not_stay),
		cmocka_unit_test(what_is_not_used_goes_back),
		cmocka_unit_test(pointers_of_any_kind),
		cmocka_unit_test(foreign_pointers_are_reported),
		cmocka_unit_test(a_forked_child_goes_on),
		cmocka_unit_test(checked_objects_count_whole),
		cmocka_unit_test(each_retired_object_is_counted),
		cmocka_unit_test(typesafe_pages_go_late),
		cmocka_unit_test(returned_sheaf_starts_batch),
	};

	clock_stands = true;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
