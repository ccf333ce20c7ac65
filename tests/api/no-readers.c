/* SPDX-License-Identifier: MIT */
/* A program that says it has no readers: its retired objects are free immediately. */
#include <errno.h>
#include <sheaf/rcu.h>
#include <sheaf/stats.h>

#include "kit/by_hand.h"
#include "kit/capture.h"
#include "kit/options.h"
#include "kit/process.h"
#include "kit/unit.h"

enum {
	N = 500,
	MiB = 1 << 20
};

struct item {
	char text[40];
	struct sheaf_rcu_head rcu;
};

static struct capture captured;

static uint64_t in_use(struct kmem_cache *s)
{
	struct kmem_cache_stats stats;

	assert_int_equal(kmem_cache_stats(s, &stats), 0);
	assert_int_equal(stats.rcu_pending_objects, 0);
	return stats.objects_in_use;
}

static void free_after_provider(void)
{
	_exit(sheaf_rcu_register(&by_hand_ops) == 0 && sheaf_rcu_none() == -EBUSY ? 0 : 1);
}

/* Must run first: sheaf_rcu_none() cannot be undone. */
static void not_with_a_provider(void **state)
{
	(void)state;
	/* So that what a first use reports is not captured. */
	kfree(kmalloc(100, GFP_KERNEL));
	capture_begin(&captured);
	assert_int_equal(in_child(free_after_provider), 0);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "sheaf_rcu_none"));
	errno = 4242;
	assert_int_equal(sheaf_rcu_none(), 0);
	assert_int_equal(sheaf_rcu_none(), 0);
	assert_int_equal(errno, 4242);
	capture_begin(&captured);
	assert_int_equal(sheaf_rcu_register(&by_hand_ops), -EBUSY);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "no readers"));
}

static void objects_are_freed_at_once(void **state)
{
	struct kmem_cache *s = KMEM_CACHE(item, SLAB_NO_MERGE);
	static void *p[N];

	(void)state;
	for (int i = 0; i < N; i++) {
		struct item *item = kmem_cache_alloc(s, GFP_KERNEL);

		switch (i % 5) {
		case 3:
			kfree_rcu_nolock(item, rcu);
			break;
		case 4:
			assert_int_equal(kmem_cache_free_rcu_nolock(s, item), 0);
			break;
		case 0:
			kfree_rcu(item, rcu);
			break;
		case 1:
			kmem_cache_free_rcu(s, item);
			break;
		default:
			kfree_rcu_mightsleep(item);
		}
		assert_int_equal(in_use(s), 0);
	}
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, N - 1, p), N - 1);
	kmem_cache_free_bulk_rcu(s, N, p);
	assert_int_equal(in_use(s), 0);
	kvfree_rcu_barrier_on_cache(s);
	kvfree_rcu_barrier();
	assert_int_equal(kmem_cache_verify(s), 0);
	capture_begin(&captured);
	kmem_cache_destroy(s);
	assert_int_equal(capture_end(&captured), 0);
}

static void blocks_are_freed_at_once(void **state)
{
	static const size_t sizes[] = {64, 8192, 100000, 5 * MiB};
	struct sheaf_stats before, after;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct item *item;

		sheaf_stats(&before);
		item = kvmalloc(sizes[i], GFP_KERNEL);
		kvfree_rcu(item, rcu);
		kvfree_rcu_mightsleep(kvmalloc(sizes[i], GFP_KERNEL));
		sheaf_stats(&after);
		assert_int_equal(after.mapped_bytes, before.mapped_bytes);
		assert_int_equal(after.rcu_bytes, 0);
	}
	kvfree_rcu_mightsleep(NULL);
}

static void misuse_is_reported(void **state)
{
	struct kmem_cache *s = KMEM_CACHE(item, SLAB_NO_MERGE);
	struct item foreign;

	(void)state;
	capture_begin(&captured);
	kfree_rcu(&foreign, rcu);
	kmem_cache_free_rcu(s, &foreign);
	kfree_rcu_mightsleep(&foreign);
	assert_true(capture_end(&captured) > 0);
	assert_int_equal(captured_reports(&captured), 3);
	kmem_cache_destroy(s);
}

/* Pages need no grace period either. */
static void typesafe_caches_can_be_made(void **state)
{
	struct kmem_cache *s = KMEM_CACHE(item, SLAB_TYPESAFE_BY_RCU);
	struct kmem_cache_stats stats;
	static void *p[N];

	(void)state;
	assert_non_null(s);
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, N, p), N);
	kmem_cache_free_bulk(s, N, p);
	assert_int_equal(kmem_cache_shrink(s), 0);
	assert_int_equal(kmem_cache_stats(s, &stats), 0);
	assert_int_equal(stats.slabs, 0);
	kmem_cache_destroy(s);
}

static void a_cache_with_a_provider_waits(void **state)
{
	struct kmem_cache_args args = {.rcu = &by_hand_ops};
	struct kmem_cache *s = kmem_cache_create("waits", sizeof(struct item), &args, 0);
	struct kmem_cache_stats stats;

	(void)state;
	kmem_cache_free_rcu(s, kmem_cache_alloc(s, GFP_KERNEL));
	assert_int_equal(kmem_cache_stats(s, &stats), 0);
	/* Objects for which there is no rcu_free sheaf count as in use. */
	assert_int_equal(stats.rcu_pending_objects + stats.objects_in_use, 1);
	assert_int_equal(stats.objects_in_use, has_slab_debug() || is_tiny());
	kvfree_rcu_barrier_on_cache(s);
	assert_int_equal(in_use(s), 0);
	kmem_cache_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(not_with_a_provider),
		cmocka_unit_test(objects_are_freed_at_once),
		cmocka_unit_test(blocks_are_freed_at_once),
		cmocka_unit_test(misuse_is_reported),
		cmocka_unit_test(typesafe_caches_can_be_made),
		cmocka_unit_test(a_cache_with_a_provider_waits),
	};

	return cmocka_run_group_tests_name("no-readers", tests, NULL, NULL);
}
