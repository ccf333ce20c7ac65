/* SPDX-License-Identifier: MIT */
/* The current group of a thread: scopes in scopes. */
#include <sheaf/group.h>

#include "kit/unit.h"

enum {
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

/* Code that has a group of its own, and calls more such code. */
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

/* What is no group changes nothing, and what restores it afterwards neither. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scopes_in_scopes),
		cmocka_unit_test(a_wrong_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
