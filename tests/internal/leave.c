/* SPDX-License-Identifier: MIT */
/* A call that took a slow path does at its end what was deferred until then (cache/paths.h): here,
 * a round of housekeeping that is due. */
#include <sheaf/debug.h>
#include <sheaf/group.h>
#include <sheaf/kmalloc.h>
#include <sheaf/limit.h>
#include <sheaf/trim.h>

#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/clock.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "page/decay.h"

enum {
	SIZE = 200,
	MANY = 300
};

static struct kmem_cache *s;
static struct kmem_group *g;
static void *objects[MANY];
static struct slab_sheaf *sheaf;

/* Time passes in the middle of a call, too. */
static void construct(void *object)
{
	(void)object;
	decay_time.due = 1;
}

static void alloc(void)
{
	objects[0] = kmem_cache_alloc(s, GFP_KERNEL);
}

static void free_it(void)
{
	kmem_cache_free(s, objects[0]);
}

static void alloc_node(void)
{
	objects[0] = kmem_cache_alloc_node(s, GFP_KERNEL | __GFP_THISNODE, 0);
}

static void alloc_charged(void)
{
	objects[0] = kmem_cache_alloc_charged(s, GFP_KERNEL, g);
}

static void alloc_bulk(void)
{
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, MANY, objects), MANY);
}

static void free_bulk(void)
{
	kmem_cache_free_bulk(s, MANY, objects);
}

static void prefill(void)
{
	sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 8);
}

/* Then it has none. */
static void prefill_and_use(void)
{
	prefill();
	for (unsigned int n = kmem_cache_sheaf_size(sheaf); n > 0; n--)
		kmem_cache_free(s, kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf));
}

static void refill(void)
{
	assert_int_equal(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 20), 0);
}

static void refill_oversize(void)
{
	assert_int_equal(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, MANY), 0);
}

static void give_back(void)
{
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
}

static void shrink(void)
{
	kmem_cache_shrink(s);
}

static void verify(void)
{
	assert_int_equal(kmem_cache_verify(s), 0);
}

static void validate(void)
{
	assert_int_equal(kmem_cache_validate(s), 0);
}

static void trim(void)
{
	sheaf_trim(0);
}

static void no_limits(void)
{
	assert_int_equal(sheaf_set_limits(0, 0), 0);
}

static void verify_groups(void)
{
	assert_int_equal(kmem_group_verify(), 0);
}

static void large(void)
{
	objects[0] = kmalloc(4 << 20, GFP_KERNEL);
}

static void mapping(void)
{
	objects[0] = kvmalloc(8 << 20, GFP_KERNEL);
}

static void free_block(void)
{
	kvfree(objects[0]);
}

static void retire(void)
{
	kmem_cache_free_rcu(s, objects[0]);
}

static void alloc_and_retire(void)
{
	alloc();
	retire();
}

static void barrier(void)
{
	kvfree_rcu_barrier();
}

static void barrier_on_cache(void)
{
	kvfree_rcu_barrier_on_cache(s);
}

static void nothing(void)
{
}

/* With these flags: after the first call, the second one; then what is left is freed. */
static const struct {
	const char *name;
	slab_flags_t flags;
	void (*before)(void), (*call)(void), (*after)(void);
} calls[] = {
	{"kmem_cache_alloc", 0, nothing, alloc, free_it},
	{"kmem_cache_alloc, SLAB_NO_SHEAVES", SLAB_NO_SHEAVES, nothing, alloc, free_it},
	{"kmem_cache_free, SLAB_NO_SHEAVES", SLAB_NO_SHEAVES, alloc, free_it, nothing},
	{"kmem_cache_alloc, SLAB_ACCOUNT", SLAB_ACCOUNT, nothing, alloc, free_it},
	{"kmem_cache_free, SLAB_ACCOUNT", SLAB_ACCOUNT | SLAB_NO_SHEAVES, alloc, free_it, nothing},
	{"kmem_cache_alloc_node", SLAB_NO_SHEAVES, nothing, alloc_node, free_it},
	{"kmem_cache_alloc_charged", SLAB_NO_SHEAVES, nothing, alloc_charged, free_it},
	{"kmem_cache_alloc_bulk", 0, nothing, alloc_bulk, free_bulk},
	{"kmem_cache_free_bulk", 0, alloc_bulk, free_bulk, nothing},
	{"kmem_cache_prefill_sheaf", 0, nothing, prefill, give_back},
	{"kmem_cache_refill_sheaf", 0, prefill_and_use, refill, give_back},
	{"kmem_cache_refill_sheaf, oversize", 0, prefill, refill_oversize, give_back},
	{"kmem_cache_shrink", 0, nothing, shrink, nothing},
	{"kmem_cache_verify", 0, nothing, verify, nothing},
	{"kmem_cache_validate", 0, nothing, validate, nothing},
	{"sheaf_trim", 0, nothing, trim, nothing},
	{"sheaf_set_limits", 0, nothing, no_limits, nothing},
	{"kmem_group_verify", 0, nothing, verify_groups, nothing},
	{"kmem_cache_free_rcu", 0, alloc, retire, barrier},
	{"kvfree_rcu_barrier", 0, alloc_and_retire, barrier, nothing},
	{"kvfree_rcu_barrier_on_cache", 0, alloc_and_retire, barrier_on_cache, nothing},
	{"kmalloc, 4 MiB", 0, nothing, large, free_block},
	{"kfree, 4 MiB", 0, large, free_block, nothing},
	{"kvmalloc, 8 MiB", 0, nothing, mapping, free_block},
	{"kvfree, 8 MiB", 0, mapping, free_block, nothing},
};

static void each_does_what_is_due(void **state)
{
	struct kmem_cache_args args = {.ctor = construct};
	unsigned int failed = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		s = kmem_cache_create(calls[i].name, SIZE, &args, calls[i].flags);
		calls[i].before();
		decay_time.due = 1;
		calls[i].call();
		if (decay_time.due) {
			print_message("%s leaves a round\n", calls[i].name);
			failed++;
		}
		calls[i].after();
		kmem_cache_destroy(s);
	}
	assert_int_equal(failed, 0);
}

static int begin(void **state)
{
	(void)state;
	clock_stands = true;
	pin((unsigned int)sched_getcpu());
	kfree(kmalloc(1, GFP_KERNEL));
	g = kmem_group_create("leaves", NULL, NULL);
	return !g || sheaf_rcu_register(&by_hand_ops);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_does_what_is_due),
	};

	return cmocka_run_group_tests_name("leave", tests, begin, NULL);
}
