/* SPDX-License-Identifier: MIT */
/* The current group of a thread: scopes in scopes, and functions of the program inside calls. */
#include <errno.h>
#include <sheaf/debug.h>
#include <sheaf/group.h>
#include <sheaf/limit.h>
#include <sheaf/mempool.h>
#include <sheaf/rcu.h>
#include <sheaf/shrinker.h>

#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/unit.h"

enum {
	SIZE = 1000,
	ODD = 4711, /* an error number that no call sets */
	DEEP = 5
};

static struct kmem_group *group(const char *name, const struct kmem_group_args *args)
{
	struct kmem_group *g = kmem_group_create(name, NULL, args);

	assert_non_null(g);
	return g;
}

static struct kmem_group_stats stats_of(struct kmem_group *g)
{
	struct kmem_group_stats stats;

	assert_int_equal(kmem_group_stats(g, &stats), 0);
	return stats;
}

/* --- set and restore -------------------------------------------------------------------------- */

/* Code with its own group, which calls more such code. */
static void in_a_scope(int depth)
{
	struct kmem_group *mine = group("mine", NULL), *of;
	struct kmem_group *before = kmem_group_set_current(mine);
	void *block;

	kmem_group_put(mine);
	if (depth)
		in_a_scope(depth - 1);
	block = kmalloc(100, GFP_KERNEL_ACCOUNT);
	assert_non_null(block);
	of = kmem_group_of(block);
	assert_ptr_equal(of, mine);
	kmem_group_put(of);
	kfree(block);
	assert_int_equal(stats_of(mine).references, 1);
	kmem_group_restore_current(before);
}

/* The group of the outermost scope has no other reference than those of its thread and of the
 * scopes inside. */
static void scopes_in_scopes(void **state)
{
	struct kmem_group *query = group("query", NULL), *of;
	void *block;

	(void)state;
	assert_null(kmem_group_set_current(query));
	kmem_group_put(query);
	in_a_scope(DEEP);
	block = kmalloc(100, GFP_KERNEL_ACCOUNT);
	assert_non_null(block);
	of = kmem_group_of(block);
	assert_ptr_equal(of, query);
	kfree(block);
	assert_int_equal(stats_of(query).references, 2);
	kmem_group_restore_current(NULL);
	assert_int_equal(stats_of(query).references, 1);
	kmem_group_put(of);
	assert_int_equal(kmem_group_verify(), 0);
}

/* A pointer that is no group changes nothing, nor does restoring it afterwards. */
static void a_wrong_group(void **state)
{
	struct kmem_group *mine = group("mine", NULL), *gone = group("gone", NULL), *before;

	(void)state;
	kmem_group_put(gone);
	assert_null(kmem_group_set_current(mine));
	assert_int_equal(stats_of(mine).references, 2);
	before = kmem_group_set_current(gone);
	assert_ptr_equal(before, mine);
	assert_int_equal(stats_of(mine).references, 3);
	kmem_group_restore_current(gone);
	assert_int_equal(stats_of(mine).references, 3);
	kmem_group_restore_current(before);
	assert_int_equal(stats_of(mine).references, 2);
	kmem_group_restore_current(NULL);
	kmem_group_put(mine);
}

/* --- functions of the program ----------------------------------------------------------------- */

static struct kmem_group *own, *other, *tenant;
static unsigned int nr_called;
static void *charged[100];

/* They allocate, make another group current and change errno. The thread's own group pays. */
static void called(void)
{
	struct kmem_group *before, *of;

	if (nr_called == sizeof(charged) / sizeof(charged[0]))
		return;
	charged[nr_called] = kmalloc(10, GFP_KERNEL_ACCOUNT);
	assert_non_null(charged[nr_called]);
	of = kmem_group_of(charged[nr_called++]);
	assert_ptr_equal(of, own);
	kmem_group_put(of);
	before = kmem_group_set_current(other);
	assert_ptr_equal(before, own);
	kmem_group_restore_current(before);
	errno = EIO;
}

/* Functions of the program have run since the last call, and changed nothing. */
static void were_called(void)
{
	assert_int_equal(errno, ODD);
	assert_true(nr_called > 0);
	while (nr_called)
		kfree(charged[--nr_called]);
}

static void construct(void *object)
{
	*(int *)object = 1;
	called();
}

static void event(struct kmem_group *g, enum kmem_group_event event, uint64_t bytes, void *data)
{
	(void)g, (void)event, (void)bytes, (void)data;
	called();
}

static bool reclaim(struct kmem_group *g, size_t bytes, void *data)
{
	(void)g, (void)bytes, (void)data;
	called();
	return false;
}

static unsigned long count(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker, (void)sc;
	called();
	return 1;
}

static unsigned long scan(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker, (void)sc;
	called();
	return SHRINK_STOP;
}

static void report(void *data, const char *text, size_t length)
{
	(void)data, (void)text, (void)length;
	called();
}

static int set_up(void **state)
{
	(void)state;
	own = group("own", NULL);
	other = group("other", NULL);
	tenant = group("tenant", NULL);
	nr_called = 0;
	assert_null(kmem_group_set_current(own));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kmem_group_restore_current(NULL);
	assert_int_equal(kmem_group_verify(), 0);
	assert_int_equal(stats_of(own).bytes, 0);
	assert_int_equal(stats_of(own).references, 1);
	kmem_group_put(tenant);
	kmem_group_put(other);
	kmem_group_put(own);
	return 0;
}

static void allocate_for_the_tenant(struct kmem_cache *s, gfp_t flags)
{
	void *object = kmem_cache_alloc_charged(s, flags, tenant);

	if (!object)
		return;
	assert_ptr_equal(kmem_group_of(object), tenant);
	kmem_group_put(tenant);
	kmem_cache_free(s, object);
}

static void in_constructors(void **state)
{
	struct kmem_cache_args args = {.ctor = construct};
	struct kmem_cache *s = kmem_cache_create("constructed", SIZE, &args, SLAB_NO_MERGE);
	void *objects[100];

	(void)state;
	errno = ODD;
	allocate_for_the_tenant(s, GFP_KERNEL);
	were_called();
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL_ACCOUNT, 100, objects), 100);
	were_called();
	kmem_cache_free_bulk(s, 100, objects);
	kmem_cache_destroy(s);
}

static void in_callbacks_of_groups(void **state)
{
	struct kmem_cache *s = make("charged", SIZE, SLAB_ACCOUNT);
	struct kmem_group_args args = {.high = 1, .event = event};

	(void)state;
	assert_int_equal(kmem_group_set_limits(tenant, &args), 0);
	errno = ODD;
	allocate_for_the_tenant(s, GFP_KERNEL);
	were_called();
	args = (struct kmem_group_args){.hard_limit = 1, .reclaim = reclaim};
	kmem_group_verify(); /* no bytes are in stocks */
	assert_int_equal(kmem_group_set_limits(tenant, &args), 0);
	allocate_for_the_tenant(s, GFP_KERNEL);
	were_called();
	args.event = event;
	assert_int_equal(kmem_group_set_limits(tenant, &args), 0);
	allocate_for_the_tenant(s, GFP_NOWAIT);
	were_called();
	kmem_cache_destroy(s);
}

static void in_shrinkers(void **state)
{
	struct kmem_cache *s = make("shrunk", SIZE, SLAB_ACCOUNT);
	struct shrinker *shrinker = shrinker_alloc(0, "charges");

	(void)state;
	shrinker->count_objects = count;
	shrinker->scan_objects = scan;
	shrinker_register(shrinker);
	sheaf_set_limits(1, 0);
	errno = ODD;
	allocate_for_the_tenant(s, GFP_KERNEL);
	were_called();
	sheaf_set_limits(0, 0);
	shrinker_free(shrinker);
	kmem_cache_destroy(s);
}

static void in_reports(void **state)
{
	struct kmem_cache *s = make("captured", SIZE, SLAB_ACCOUNT);
	void *object = kmem_cache_alloc(s, GFP_KERNEL);

	(void)state;
	assert_int_equal(sheaf_set_report(report, NULL, NULL), 0);
	errno = ODD;
	kmem_cache_free(s, kmem_cache_alloc_charged(s, GFP_KERNEL | 1u << 31, tenant));
	were_called();
	assert_int_equal(sheaf_set_report(NULL, NULL, NULL), 0);
	kmem_cache_free(s, object);
	kmem_cache_destroy(s);
}

static void in_providers(void **state)
{
	struct kmem_cache *s = make("retired", SIZE, SLAB_ACCOUNT);

	(void)state;
	by_hand.in_call = called;
	errno = ODD;
	kmem_cache_free_rcu(s, kmem_cache_alloc(s, GFP_KERNEL));
	kvfree_rcu_barrier();
	were_called();
	by_hand.in_call = NULL;
	kmem_cache_destroy(s);
}

static void *pool_alloc_fn(gfp_t gfp, void *data)
{
	errno = EIO;
	return kmem_cache_alloc(data, gfp);
}

static void pool_free_fn(void *element, void *data)
{
	kmem_cache_free(data, element);
	called();
}

static void in_pools(void **state)
{
	struct kmem_cache *s = make("pooled", SIZE, 0);
	mempool_t *pool = mempool_create(1, pool_alloc_fn, pool_free_fn, s);

	(void)state;
	assert_non_null(pool);
	errno = ODD;
	mempool_free(mempool_alloc(pool, GFP_KERNEL), pool);
	were_called();
	mempool_destroy(pool);
	were_called();
	kmem_cache_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scopes_in_scopes),
		cmocka_unit_test(a_wrong_group),
		cmocka_unit_test_setup_teardown(in_constructors, set_up, tear_down),
		cmocka_unit_test_setup_teardown(in_callbacks_of_groups, set_up, tear_down),
		cmocka_unit_test_setup_teardown(in_shrinkers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(in_reports, set_up, tear_down),
		cmocka_unit_test_setup_teardown(in_providers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(in_pools, set_up, tear_down),
	};

	sheaf_rcu_register(&by_hand_ops);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
