/* SPDX-License-Identifier: MIT */
/*
 * A creation that fails because the system refuses memory succeeds when it no longer does: also
 * where it was to begin a row of counters, which other processes read.
 */
#include <sheaf/slab.h>
#include <stdio.h>

#include "kit/refuse_some.h"
#include "kit/unit.h"

enum {
	CACHES = 1500 /* more than there is room for without a call of the system */
};

static void creations_succeed_again(void **state)
{
	struct kmem_cache *s;
	char name[32];

	(void)state;
	kmem_cache_destroy(kmem_cache_create("first", 64, NULL, SLAB_NO_MERGE));
	for (int i = 0; i < CACHES; i++) {
		snprintf(name, sizeof(name), "cache %d", i);
		refuse_begin(100);
		s = kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
		refuse_begin(0);
		if (!s)
			s = kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
		assert_non_null(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(creations_succeed_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
