/* SPDX-License-Identifier: MIT */
/* Which operations are in place, and that the others make a call. The linker gives the program's
 * calls to the functions that count them. */
#define SHEAF_INLINE
#include <sheaf/group.h>
#include <sheaf/slab.h>

#include "cache/paths.h"
#include "kit/needs.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "percpu/sheaf.h"

#ifdef SHEAF_HAS_SECTIONS
#define HAS_SECTIONS 1
#else
#define HAS_SECTIONS 0
#endif

enum {
	NR = 20,
	ENOUGH = 1000
};

static unsigned int allocs, frees;

void *__real_sheaf_kmem_cache_alloc(struct kmem_cache *s, gfp_t flags);
void *__wrap_sheaf_kmem_cache_alloc(struct kmem_cache *s, gfp_t flags);
void __real_sheaf_kmem_cache_free(struct kmem_cache *s, void *object);
void __wrap_sheaf_kmem_cache_free(struct kmem_cache *s, void *object);

void *__wrap_sheaf_kmem_cache_alloc(struct kmem_cache *s, gfp_t flags)
{
	allocs++;
	return __real_sheaf_kmem_cache_alloc(s, flags);
}

void __wrap_sheaf_kmem_cache_free(struct kmem_cache *s, void *object)
{
	frees++;
	__real_sheaf_kmem_cache_free(s, object);
}

static void begin(void)
{
	allocs = frees = 0;
}

static void use(struct kmem_cache *s)
{
	void *objects[NR];

	for (int i = 0; i < NR; i++) {
		objects[i] = kmem_cache_alloc(s, i % 2 ? GFP_KERNEL : GFP_NOWAIT);
		assert_non_null(objects[i]);
		for (int j = 0; j < i; j++)
			assert_ptr_not_equal(objects[i], objects[j]);
	}
	for (int i = 0; i < NR; i++)
		kmem_cache_free(s, objects[i]);
}

static bool has_inline(void)
{
	return HAS_SECTIONS && os.backend == OS_BACKEND_RSEQ && !os.counting && !checks_free();
}

/* A section may be aborted now and then, and is then followed by the call. */
static void assert_calls(unsigned int calls, bool made)
{
	if (made)
		assert_int_equal(calls, NR);
	else
		assert_in_range(calls, 0, NR / 2);
}

static void common_operations_make_no_call(void **state)
{
	struct kmem_cache *s = kmem_cache_create("inline", 64, NULL, SLAB_NO_MERGE);

	(void)state;
	needs(NEED_SHEAVES);
	use(s);
	begin();
	use(s);
	assert_calls(allocs, !has_inline());
	assert_calls(frees, !has_inline());
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
}

static void slow_paths_are_reached(void **state)
{
	struct kmem_cache *s = kmem_cache_create("inline", 64, NULL, SLAB_NO_MERGE);
	static void *objects[ENOUGH];

	(void)state;
	for (int i = 0; i < ENOUGH; i++)
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
	for (int i = 0; i < ENOUGH; i++)
		kmem_cache_free(s, objects[i]);
	kmem_cache_free(s, NULL);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
}

static void see_flow(struct kmem_cache *s, uint32_t filled_by)
{
	struct sheaf sheaf = {.filled_by = filled_by};

	for (int i = 0; i < ENOUGH; i++)
		sheaf_flow(&s->sheaf, &sheaf, 3);
	cache_see_flow(s);
}

/* Where objects flow one way, allocations are calls, which prefetch. */
static void one_way_allocations_are_calls(void **state)
{
	struct kmem_cache *s = kmem_cache_create("inline", 64, NULL, SLAB_NO_MERGE);

	(void)state;
	needs(NEED_SHEAVES);
	see_flow(s, 5);
	use(s);
	begin();
	use(s);
	assert_calls(allocs, true);
	assert_calls(frees, !has_inline());
	see_flow(s, 4);
	begin();
	use(s);
	assert_calls(allocs, !has_inline());
	kmem_cache_destroy(s);
}

/* An object that is charged is freed by a call, and its group is charged for nothing then. */
static void charged_objects_are_freed_by_calls(void **state)
{
	struct kmem_cache *s = kmem_cache_create("inline", 64, NULL, SLAB_NO_MERGE);
	struct kmem_group *g = kmem_group_create("inline", NULL, NULL), *before;
	struct kmem_group_stats stats;
	void *object;

	(void)state;
	needs(NEED_SHEAVES);
	assert_non_null(g);
	use(s);
	before = kmem_group_set_current(g);
	object = kmem_cache_alloc(s, GFP_KERNEL_ACCOUNT);
	kmem_group_restore_current(before);
	assert_non_null(object);
	begin();
	kmem_cache_free(s, object);
	use(s);
	see_flow(s, 5);
	see_flow(s, 4);
	use(s);
	assert_int_equal(frees, 2 * NR + 1);
	assert_int_equal(kmem_group_stats(g, &stats), 0);
	assert_int_equal(stats.bytes, 0);
	kmem_group_put(g);
	kmem_cache_destroy(s);
}

/* A cache whose every object is charged, however its flow changes. */
static void accounted_caches_make_calls(void **state)
{
	struct kmem_group *g = kmem_group_create("inline", NULL, NULL);
	struct kmem_cache *s = kmem_cache_create("inline", 64, NULL, SLAB_NO_MERGE | SLAB_ACCOUNT);

	(void)state;
	needs(NEED_SHEAVES);
	assert_non_null(g);
	use(s);
	for (int turn = 0; turn < 2; turn++) {
		begin();
		use(s);
		assert_calls(allocs, true);
		assert_calls(frees, true);
		see_flow(s, 5);
		see_flow(s, 4);
	}
	kmem_group_put(g);
	kmem_cache_destroy(s);
}

static void caches_without_sheaves_make_calls(void **state)
{
	struct kmem_cache *s =
		kmem_cache_create("inline", 64, NULL, SLAB_NO_MERGE | SLAB_NO_SHEAVES);

	(void)state;
	begin();
	use(s);
	assert_calls(allocs, true);
	assert_calls(frees, true);
	kmem_cache_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(common_operations_make_no_call),
		cmocka_unit_test(slow_paths_are_reached),
		cmocka_unit_test(one_way_allocations_are_calls),
		cmocka_unit_test(charged_objects_are_freed_by_calls),
		cmocka_unit_test(accounted_caches_make_calls),
		cmocka_unit_test(caches_without_sheaves_make_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
