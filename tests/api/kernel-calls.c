/* SPDX-License-Identifier: MIT */
/* Calls that kernel code uses beside the usual ones: blocks resized to an alignment and a node,
 * whole pages, copies, lists of strings, sizes that do not wrap, guards, what an address is. */
#include <errno.h>
#include <sheaf/cleanup.h>
#include <sheaf/debug.h>
#include <sheaf/overflow.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <stdint.h>
#include <string.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/hooks.h"
#include "kit/sanitizers.h"
#include "kit/unit.h"

enum {
	MiB = 1 << 20
};

static struct capture captured;
static volatile size_t most = SIZE_MAX, half = (size_t)1 << 63; /* or compilers warn */

/* --- resizing --------------------------------------------------------------------------------- */

static void fill(char *p, size_t from, size_t to)
{
	for (size_t i = from; i < to; i += 1 + i / 64)
		p[i] = (char)(i * 7 + 1);
}

static void check(const char *p, size_t size)
{
	for (size_t i = 0; i < size; i += 1 + i / 64)
		assert_int_equal(p[i], (char)(i * 7 + 1));
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void resized_to_an_alignment(void **state)
{
	static const size_t sizes[] = {24,	100,  8,       40000, 3 * MiB, 300000,
				       5 * MiB, 9000, 9 * MiB, 64,    1};
	static const unsigned long aligns[] = {1, 64, 4096, 8, 65536, MiB, 16ul * MiB, 32};
	char *p = NULL;
	size_t before = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (size_t j = 0; j < sizeof(aligns) / sizeof(aligns[0]); j++) {
			p = kvrealloc_node_align(p, sizes[i], aligns[j], GFP_KERNEL, NUMA_NO_NODE);
			assert_non_null(p);
			assert_int_equal((uintptr_t)p % aligns[j], 0);
			assert_true(ksize(p) >= sizes[i]);
			check(p, least(before, sizes[i]));
			fill(p, 0, sizes[i]);
			before = sizes[i];
		}
	p = krealloc_node(p, 3000, GFP_KERNEL | __GFP_ZERO, NUMA_NO_NODE);
	check(p, before);
	assert_ptr_equal(krealloc_node_align(p, 0, 64, GFP_KERNEL, 0), ZERO_SIZE_PTR);
	p = krealloc_node_align(ZERO_SIZE_PTR, 100, 128, GFP_KERNEL, NUMA_NO_NODE);
	assert_int_equal((uintptr_t)p % 128, 0);
	kfree(p);
}

/* The bytes behind the old ones are zero, where the block moves and where it stays. */
static void zeroed_where_it_grows(void **state)
{
	static const size_t sizes[] = {20, 24, 200, 40, 5000, 2 * MiB, 6 * MiB};
	char *p = kvzalloc_node(10, GFP_KERNEL, NUMA_NO_NODE);
	size_t before = 10;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		p = kvrealloc_node_align(p, sizes[i], 256, GFP_KERNEL | __GFP_ZERO, NUMA_NO_NODE);
		assert_non_null(p);
		for (size_t at = least(before, sizes[i]); at < sizes[i]; at += 1 + at / 64)
			assert_int_equal(p[at], 0);
		memset(p, 0xff, sizes[i]);
		before = sizes[i];
	}
	kvfree_atomic(p);
}

static void wrong_resizes_change_nothing(void **state)
{
	char *p = kmalloc(100, GFP_KERNEL);

	(void)state;
	memset(p, 5, 100);
	errno = 4242;
	capture_begin(&captured);
	assert_null(krealloc_node_align(p, 200, 0, GFP_KERNEL, NUMA_NO_NODE));
	assert_null(krealloc_node_align(p, 0, 96, GFP_KERNEL, NUMA_NO_NODE));
	assert_null(kvrealloc_node_align(p, 200, 1ul << 31, GFP_KERNEL, NUMA_NO_NODE));
	assert_null(vrealloc_node_align(p, 200, 3, GFP_KERNEL, NUMA_NO_NODE));
	assert_null(krealloc_node(p, 5 * MiB, GFP_KERNEL, NUMA_NO_NODE));
	assert_int_equal(capture_end(&captured), 5);
	assert_non_null(strstr(captured.text, "krealloc_node_align(200, 0): invalid align"));
	capture_begin(&captured);
	assert_null(krealloc_node(p + 8, 50, GFP_KERNEL, NUMA_NO_NODE));
	assert_true(capture_end(&captured) > 0);
	assert_null(kvrealloc_node_align(p, most, 64, GFP_KERNEL | __GFP_NOWARN, NUMA_NO_NODE));
	assert_null(vrealloc(p, most, GFP_KERNEL));
	assert_int_equal(errno, 4242);
	for (int i = 0; i < 100; i++)
		assert_int_equal(p[i], 5);
	kfree(p);
}

/* Its blocks stay in its caches, and an aligned one takes a larger class. */
static void of_a_set(void **state)
{
	kmem_buckets *set = kmem_buckets_create("aligned", 0, 0, 0, NULL);
	char *p = kmem_buckets_alloc_track_caller(set, 100, GFP_KERNEL);

	(void)state;
	fill(p, 0, 100);
	for (unsigned long align = 1; align <= 16384; align *= 4) {
		p = krealloc_node_align(p, 100, align, GFP_KERNEL, NUMA_NO_NODE);
		assert_int_equal((uintptr_t)p % align, 0);
		check(p, 100);
		assert_memory_equal(look(hook_cache_of(p)).name, "aligned-", 8);
	}
	kfree(p);
	kmem_buckets_destroy(set);
}

static void on_each_node(void **state)
{
	(void)state;
	for (int node = 0; node < (int)library().nodes; node++) {
		char *p = kmalloc_node_track_caller(50, GFP_KERNEL | __GFP_THISNODE, node);

		fill(p, 0, 50);
		p = krealloc_node(p, 3000, GFP_KERNEL | __GFP_THISNODE, node);
		check(p, 50);
		p = kvrealloc_node(p, 3 * MiB, GFP_KERNEL, node);
		check(p, 50);
		p = kvrealloc_node(p, 20, GFP_KERNEL | __GFP_THISNODE, node);
		check(p, 20);
		kvfree(p);
		p = kvzalloc_node(3 * MiB, GFP_KERNEL, node);
		assert_int_equal(p[3 * MiB - 1], 0);
		kvfree(p);
		vfree(vmalloc_node(10000, node));
		vfree_atomic(vmalloc_huge_node(3 * MiB, GFP_KERNEL, node));
	}
	kfree(kmalloc_track_caller(50, GFP_KERNEL));
}

/* --- whole pages ------------------------------------------------------------------------------ */

static void whole_pages(void **state)
{
	char *zeroed[] = {vzalloc_node(10000, 0), vmalloc_user(10000), vcalloc(100, 100),
			  __vcalloc(2, 2 * MiB, GFP_KERNEL),
			  __vmalloc_node(10000, 65536, GFP_KERNEL | __GFP_ZERO, 0, NULL)};
	char *p = vmalloc_huge(3 * MiB, GFP_KERNEL);

	(void)state;
	assert_int_equal((uintptr_t)p % (2 * MiB), 0);
	vfree(p);
	assert_int_equal((uintptr_t)zeroed[4] % 65536, 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal((uintptr_t)zeroed[i] % 4096, 0);
		for (int j = 0; j < 10000; j++)
			assert_int_equal(zeroed[i][j], 0);
		vfree_atomic(zeroed[i]);
	}
	p = vmalloc_array(10, 1000);
	assert_true(ksize(p) >= 10000 && (HAS_ASAN || ksize(p) % 4096 == 0));
	vfree(p);
	capture_begin(&captured);
	assert_null(vmalloc_array(half, 2));
	assert_null(vcalloc(2, half));
	assert_null(__vmalloc_array(most, most, GFP_NOWAIT));
	assert_null(vmalloc_node(0, 0));
	assert_null(vmalloc_huge(most, GFP_KERNEL));
	assert_int_equal(capture_end(&captured), 0);
	capture_begin(&captured);
	assert_null(__vmalloc_node(100, 96, GFP_KERNEL, NUMA_NO_NODE, NULL));
	assert_int_equal(capture_end(&captured), 1);
}

static void pages_are_resized(void **state)
{
	static const size_t sizes[] = {100, 9000, 3 * MiB, 70 * MiB, 5000, 1};
	char *p = NULL;
	size_t before = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		p = vrealloc(p, sizes[i], GFP_KERNEL);
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % 4096, 0);
		check(p, least(before, sizes[i]));
		fill(p, 0, sizes[i]);
		before = sizes[i];
	}
	p = vrealloc_node_align(p, 10, 65536, GFP_KERNEL, 0);
	assert_int_equal((uintptr_t)p % 65536, 0);
	check(p, 1);
	assert_null(vrealloc_node(p, 0, GFP_KERNEL, 0));
	assert_null(vrealloc(NULL, 0, GFP_KERNEL));
	/* Of any call: what is not at the beginning of a page moves there. */
	p = kmalloc(48, GFP_KERNEL);
	fill(p, 0, 48);
	p = vrealloc(p, 40, GFP_KERNEL);
	assert_int_equal((uintptr_t)p % 4096, 0);
	check(p, 40);
	vfree(p);
}

/* --- copies ----------------------------------------------------------------------------------- */

static void copies(void **state)
{
	static const unsigned short numbers[] = {1, 2, 3};
	static char large[2 * MiB];
	unsigned short *n = kmemdup_array(numbers, 3, sizeof(*n), GFP_KERNEL);
	char *p = kstrdup_and_replace("a/b//c", '/', '!', GFP_KERNEL);

	(void)state;
	assert_memory_equal(n, numbers, sizeof(numbers));
	assert_string_equal(p, "a!b!!c");
	kfree(n);
	kfree(p);
	assert_null(kstrdup_and_replace(NULL, 'a', 'b', GFP_KERNEL));
	assert_null(kmemdup_array(numbers, half, 2, GFP_KERNEL));
	large[2 * MiB - 1] = 7;
	p = kvmemdup(large, sizeof(large), GFP_KERNEL);
	assert_memory_equal(p, large, sizeof(large));
	kvfree(p);
	assert_ptr_equal(kvmemdup(NULL, 0, GFP_KERNEL), ZERO_SIZE_PTR);
	capture_begin(&captured);
	assert_null(kvmemdup(large, most, GFP_KERNEL));
	assert_int_equal(capture_end(&captured), 1);
}

static void lists_of_strings(void **state)
{
	char **list = kasprintf_strarray(GFP_KERNEL, "line", 12);

	(void)state;
	assert_string_equal(list[0], "line-0");
	assert_string_equal(list[11], "line-11");
	assert_null(list[12]);
	kfree(list[3]);
	list[3] = NULL;
	capture_begin(&captured);
	kfree_strarray(list, 12);
	kfree_strarray(NULL, 5);
	list = kasprintf_strarray(GFP_KERNEL, "none", 0);
	assert_null(list[0]);
	kfree_strarray(list, 0);
	assert_null(kasprintf_strarray(GFP_KERNEL, "many", most));
	assert_null(kasprintf_strarray(GFP_KERNEL, "many", most - 1));
	assert_int_equal(capture_end(&captured), 0);
}

/* --- sizes ------------------------------------------------------------------------------------ */

struct text {
	unsigned int length;
	unsigned short characters[];
};

static void sizes_saturate(void **state)
{
	struct text *t = NULL;
	size_t n = 10;

	(void)state;
	assert_int_equal(size_add(n, 5), 15);
	assert_int_equal(size_mul(n, 5), 50);
	assert_int_equal(size_sub(n, 5), 5);
	assert_int_equal(array_size(n, 7), 70);
	assert_int_equal(array3_size(n, 7, 2), 140);
	assert_int_equal(flex_array_size(t, characters, n), 20);
	assert_int_equal(struct_size(t, characters, n), sizeof(*t) + 20);
	assert_int_equal(struct_size_t(struct text, characters, n), sizeof(*t) + 20);
	assert_int_equal(size_add(most - 4, 5), SIZE_MAX);
	assert_int_equal(size_sub(n, 11), SIZE_MAX);
	assert_int_equal(size_sub(most, 11), SIZE_MAX);
	assert_int_equal(array_size(half, 2), SIZE_MAX);
	assert_int_equal(array3_size(half, 2, 0), 0);
	assert_int_equal(flex_array_size(t, characters, half), SIZE_MAX);
	assert_int_equal(struct_size(t, characters, most / 2), SIZE_MAX);
	/* Evaluated once. */
	assert_int_equal(struct_size(t, characters, n++), sizeof(*t) + 20);
	assert_int_equal(n, 11);
	capture_begin(&captured);
	assert_null(kmalloc(struct_size(t, characters, half), GFP_KERNEL));
	assert_null(kvmalloc(array_size(half, 2), GFP_KERNEL | __GFP_NOWARN));
	assert_int_equal(capture_end(&captured), 1);
}

/* --- classes and guards ----------------------------------------------------------------------- */

static int depth, opened;

struct lock {
	int held;
};

DEFINE_GUARD(lock, struct lock *, _T->held++, _T->held--)
DEFINE_CLASS(opened, int, opened -= _T, opened += n, int n)
DEFINE_CLASS(deep, int, depth--, ++depth, void)

static int with_locks(struct lock *a, struct lock *b)
{
	guard(lock)(a);
	guard(lock)(b);
	assert_true(a->held == 1 && b->held == 1);
	scoped_guard(lock, a)
	{
		assert_int_equal(a->held, 2);
		if (opened)
			return -1;
	}
	assert_int_equal(a->held, 1);
	for (int i = 0; i < 3; i++) {
		scoped_guard(lock, b)
		{
			if (i == 1)
				continue;
			assert_int_equal(b->held, 2);
		}
		assert_int_equal(b->held, 1);
	}
	return a->held;
}

static void guards(void **state)
{
	struct lock a = {0}, b = {0};

	(void)state;
	assert_int_equal(with_locks(&a, &b), 1);
	assert_true(!a.held && !b.held);
	{
		CLASS(opened, some)(5);
		CLASS(deep, level)();

		assert_int_equal(some, 5);
		assert_true(level == 1 && depth == 1);
		assert_int_equal(with_locks(&a, &b), -1);
		assert_true(!a.held && !b.held);
	}
	assert_true(!opened && !depth);
}

/* --- other calls ------------------------------------------------------------------------------ */

static void what_an_address_is(void **state)
{
	struct kmem_cache *s = make("dumped", 100, 0);
	char *object = kmem_cache_alloc_lru(s, NULL, GFP_KERNEL), *large = kvmalloc(3 * MiB, 0);

	(void)state;
	assert_true(slab_is_available());
	capture_begin(&captured);
	assert_true(kmem_dump_obj(object + 7));
	assert_true(capture_end(&captured) >= 1);
	assert_non_null(strstr(captured.text, "is 7 bytes into an object"));
	assert_non_null(strstr(captured.text, "dumped"));
	capture_begin(&captured);
	assert_true(kmem_dump_obj(large + 9));
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "is 9 bytes into a large block"));
	capture_begin(&captured);
	assert_false(kmem_dump_obj(&captured));
	assert_false(kmem_dump_obj(NULL));
	assert_false(kmem_dump_obj(ZERO_SIZE_PTR));
	assert_int_equal(capture_end(&captured), 0);
	/* It is no misuse: it is written each time. */
	for (int i = 0; i < 20; i++) {
		capture_begin(&captured);
		assert_true(kmem_dump_obj(object));
		assert_true(capture_end(&captured) >= 1);
	}
	kmem_cache_free(s, object);
	kvfree(large);
	kmem_cache_destroy(s);
}

static void least_sizes(void **state)
{
	(void)state;
	for (size_t size = 1; size <= 64; size++) {
		void *p = kmalloc(size, GFP_KERNEL);

		assert_true(kmalloc_size_roundup(size) >= KMALLOC_MIN_SIZE);
		assert_int_equal((uintptr_t)p % ARCH_KMALLOC_MINALIGN, 0);
		kfree(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resized_to_an_alignment),
		cmocka_unit_test(zeroed_where_it_grows),
		cmocka_unit_test(wrong_resizes_change_nothing),
		cmocka_unit_test(of_a_set),
		cmocka_unit_test(on_each_node),
		cmocka_unit_test(whole_pages),
		cmocka_unit_test(pages_are_resized),
		cmocka_unit_test(copies),
		cmocka_unit_test(lists_of_strings),
		cmocka_unit_test(sizes_saturate),
		cmocka_unit_test(guards),
		cmocka_unit_test(what_an_address_is),
		cmocka_unit_test(least_sizes),
	};

	return cmocka_run_group_tests_name("kernel-calls", tests, NULL, NULL);
}
