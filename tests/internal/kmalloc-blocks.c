/* SPDX-License-Identifier: MIT */
/* Blocks of kmalloc(): what the library takes each size, large block and wrong pointer for. */
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "internal/kit/blocks.h"
#include "kit/capture.h"
#include "kit/clock.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/unit.h"
#include "kmalloc/kmalloc.h"
#include "kmalloc/mempool.h"
#include "os/machine.h"
#include "os/memory_tools.h"
#include "page/map_kept.h"
#include "page/page.h"

enum {
	MiB = 1 << 20
};

static struct capture captured;

static size_t expected_size(size_t size)
{
	size_t run = 16384;

	if (size <= KMALLOC_LARGEST)
		return size ? kmalloc_class(&kmalloc_sizes, size) : 0;
	while (run < size)
		run *= 2;
	return run;
}

static size_t expected_align(size_t size)
{
	size_t whole = expected_size(size);

	return whole & -whole;
}

/* --- sizes ------------------------------------------------------------------------------------ */

static void every_size_goes_round(void **state)
{
	static const char zeros[65536];

	(void)state;
	for (size_t size = 0; size <= 40000; size += size < 9000 ? 1 : 31) {
		char *p = kmalloc(size, GFP_KERNEL);

		assert_non_null(p);
		assert_int_equal(ksize(p), usable(size, expected_size(size)));
		assert_int_equal(kmalloc_size_roundup(size), expected_size(size));
		if (size == 0)
			assert_ptr_equal(p, ZERO_SIZE_PTR);
		else
			assert_int_equal((uintptr_t)p % expected_align(size), 0);
		memset(p, 0x5a, size ? ksize(p) : 0);
		kfree(p);
		p = kzalloc(size, GFP_NOWAIT);
		assert_int_equal(memcmp(p, zeros, size ? ksize(p) : 0), 0);
		memset(p, 0xa5, size ? ksize(p) : 0);
		kfree(p);
	}
}

/* Constants may be requested in words, if the compiler optimises. */
#define CHECK_SIZE(p, size)                                                                        \
	assert_in_range(ksize(p), usable(size, expected_size(size)),                               \
			usable(((size) + 7u) & ~7u, expected_size(size)))

#define CONSTANT(size)                                                                             \
	do {                                                                                       \
		void *p = kmalloc(size, GFP_KERNEL), *q = kmalloc(size, GFP_ATOMIC);               \
                                                                                                   \
		CHECK_SIZE(p, size);                                                               \
		CHECK_SIZE(q, size);                                                               \
		kfree(p);                                                                          \
		kfree(q);                                                                          \
	} while (0)

static void constant_sizes_agree(void **state)
{
	(void)state;
	CONSTANT(0);
	CONSTANT(1);
	CONSTANT(8);
	CONSTANT(9);
	CONSTANT(16);
	CONSTANT(17);
	CONSTANT(32);
	CONSTANT(33);
	CONSTANT(64);
	CONSTANT(65);
	CONSTANT(96);
	CONSTANT(97);
	CONSTANT(128);
	CONSTANT(129);
	CONSTANT(192);
	CONSTANT(193);
	CONSTANT(256);
	CONSTANT(257);
	CONSTANT(512);
	CONSTANT(513);
	CONSTANT(1024);
	CONSTANT(1025);
	CONSTANT(2048);
	CONSTANT(2049);
	CONSTANT(4096);
	CONSTANT(4097);
	CONSTANT(8192);
	CONSTANT(8193);
}

/* Each class has a number of its own, in their order, and the caches of these sizes. */
static void families_with_other_classes(void **state)
{
	static const struct kmalloc_sizes other[] = {{16, 32 << 10, 3, 2}, {8, 4096, 2, 0}};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const struct kmalloc_sizes *sizes = &other[i];
		kmem_buckets *set = kmem_buckets_create("other", 0, 0, 0, NULL);
		unsigned int last = kmalloc_index(sizes, 1);

		set->sizes = *sizes;
		for (size_t size = sizes->least + 1; size <= KMALLOC_LARGEST; size++) {
			unsigned int index = kmalloc_index(sizes, size);
			size_t class = kmalloc_class(sizes, size);
			void *p;

			if (index == last)
				continue;
			assert_in_range(index, last + 1, KMALLOC_CLASSES - 1);
			assert_int_equal(kmalloc_class(sizes, size - 1), size - 1);
			last = index;
			p = kmem_buckets_alloc(set, size, GFP_KERNEL);
			assert_int_equal(ksize(p), usable(size, class));
			kfree(p);
			size = class;
		}
		kmem_buckets_destroy(set);
	}
	assert_int_equal(kmalloc_class(&other[0], 1), 16);
	assert_int_equal(kmalloc_class(&other[1], 1000), 1024);
	assert_int_equal(kmalloc_class(&other[1], 4097), 8192);
}

static void nodes(void **state)
{
	static const size_t sizes[] = {40, 5000, 30000, 3 * MiB};

	(void)state;
	for (int node = 0; node < (int)os.nr_nodes; node++)
		for (int i = 0; i < 3; i++) {
			void *p = kmalloc_node(sizes[i], GFP_KERNEL | __GFP_THISNODE, node);

			assert_non_null(p);
			assert_int_equal(page_node(p), node);
			kfree(p);
			p = kzalloc_node(sizes[i], GFP_KERNEL, NUMA_NO_NODE);
			assert_int_equal(*(char *)p, 0);
			kfree(p);
		}
	kvfree(kvmalloc_node(sizes[3], GFP_KERNEL, 0));
	capture_begin(&captured);
	for (int i = 0; i < 4; i++) {
		assert_null(kvmalloc_node(sizes[i], GFP_KERNEL | __GFP_THISNODE, 999));
		kvfree(kvmalloc_node(sizes[i], GFP_KERNEL, 999));
	}
	assert_int_equal(capture_end(&captured), 1);
}

/* --- resizing --------------------------------------------------------------------------------- */

static void fill(char *p, size_t size)
{
	for (size_t i = 0; i < size; i++)
		p[i] = (char)(i * 7 + 1);
}

static bool is_filled(const char *p, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (p[i] != (char)(i * 7 + 1))
			return false;
	return true;
}

static void krealloc_stays(void **state)
{
	char *p = kmalloc(200, GFP_KERNEL), *q;

	(void)state;
	fill(p, 200);
	q = krealloc(p, 129, GFP_KERNEL);
	assert_ptr_equal(p, q);
	assert_true(is_filled(q, 129));
	p = krealloc(q, usable(129, 144), GFP_KERNEL);
	assert_ptr_equal(p, q);
	assert_int_equal(cache_of(q)->flags & CACHE_KMALLOC, CACHE_KMALLOC);
	assert_ptr_equal(krealloc(q, 0, GFP_KERNEL), ZERO_SIZE_PTR);
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

/* A copy of the block would touch each of its pages, at least 768. An emulator has some hundred
 * faults of its own. */
/* Where addresses are limited, or a tool watches, blocks that grow are copied. */
static bool mappings_move(void)
{
	return !os.tools && os_address_limit() >= os_addresses();
}

/* With some options, no freed block waits either. */
static bool waiting_ones_move(void)
{
	return mappings_move() && !os_options.check_double && !os_options.init_on_free &&
	       !os_options.tiny;
}

static void a_mapping_is_resized_without_a_copy(void **state)
{
	volatile size_t less = 3 * MiB + 5;
	size_t size = 6 * MiB;
	char *p = kvmalloc(size, GFP_KERNEL), *q;
	struct sheaf_stats before, stats;
	long touched;

	(void)state;
	if (!mappings_move())
		skip();
	page_trim(); /* No block waits that would be used instead. */
	sheaf_stats(&before);
	fill(p, size);
	for (; size < 96 * MiB; size *= 2) {
		touched = faults();
		p = kvrealloc(p, 2 * size, GFP_KERNEL);
		assert_non_null(p);
		assert_in_range(faults() - touched, 0, 700);
		assert_int_equal(ksize(p), 2 * size);
		assert_true(is_filled(p, 6 * MiB));
		assert_int_equal(p[2 * size - 1], 0);
		assert_int_equal(block_of(p + 2 * size - 1).start == p, 1);
	}
	sheaf_stats(&stats);
	assert_int_equal(stats.mapped_bytes, before.mapped_bytes + size - 6 * MiB);
	touched = faults();
	q = kvrealloc(p, less, GFP_KERNEL | __GFP_ZERO);
	assert_in_range(faults() - touched, 0, 700);
	assert_ptr_equal(q, p);
	assert_int_equal(ksize(q), 3 * MiB + MiB / 4);
	assert_true(is_filled(q, less));
	assert_int_equal(q[less], 0);
	assert_int_equal(block_of(q + ksize(q)).kind, BLOCK_NONE);
	kvfree(q);
	capture_begin(&captured);
	kvfree(q);
	assert_int_equal(capture_end(&captured), 1);
	sheaf_stats(&stats);
	assert_int_equal(stats.mapped_bytes, before.mapped_bytes - 6 * MiB);
}

/* It is copied, because the pages are there. But a block that grows by little needs few new ones,
 * and moves. */
static void a_mapping_grows_into_one_that_waits(void **state)
{
	char *large, *p, *q;

	(void)state;
	if (!waiting_ones_move())
		skip();
	assert_true(pin((unsigned int)sched_getcpu())); /* The blocks are of one node. */
	page_trim();
	p = kvmalloc(4 * MiB, GFP_KERNEL);
	large = kvmalloc(8 * MiB, GFP_KERNEL);
	fill(p, 4 * MiB);
	memset(large, 7, 8 * MiB);
	kvfree(large);
	q = kvrealloc(p, 8 * MiB, GFP_KERNEL | __GFP_ZERO);
	assert_ptr_equal(q, large);
	assert_true(is_filled(q, 4 * MiB));
	assert_int_equal(q[4 * MiB] + q[8 * MiB - 1], 0);
	assert_int_equal(map_kept_bytes(), 4 * MiB);
	assert_ptr_equal(kvmalloc(4 * MiB, GFP_KERNEL), p);
	kvfree(kvmalloc(9 * MiB, GFP_KERNEL));
	q = kvrealloc(q, 9 * MiB, GFP_KERNEL);
	assert_true(is_filled(q, 4 * MiB));
	assert_int_equal(map_kept_bytes(), 9 * MiB);
	kvfree(p);
	kvfree(q);
}

/* Its pages are there already; what is behind them is new. */
static void a_block_that_waits_grows(void **state)
{
	struct sheaf_stats before, stats;
	char *p;

	(void)state;
	if (!waiting_ones_move())
		skip();
	assert_true(pin((unsigned int)sched_getcpu()));
	page_trim();
	sheaf_stats(&before);
	for (int zero = 0; zero < 2; zero++) {
		/* More would be zeroed by the system, which takes the pages. */
		size_t size = (zero ? 2 : 4) * MiB, more = size / 2 * 3;

		p = kvmalloc(size, GFP_KERNEL);
		memset(p, 7, size);
		kvfree(p);
		assert_int_equal(map_kept_bytes(), size);
		p = kvmalloc(more, zero ? GFP_KERNEL | __GFP_ZERO : GFP_KERNEL);
		assert_int_equal(map_kept_bytes(), 0);
		sheaf_stats(&stats);
		assert_int_equal(stats.mapped_bytes, before.mapped_bytes + more);
		for (size_t at = 0; at < size; at += 1000)
			assert_int_equal(p[at], zero ? 0 : 7);
		assert_int_equal(p[size] + p[more - 1], 0);
		kvfree(p);
		/* Less than half. */
		p = kvmalloc(13 * MiB, GFP_KERNEL);
		assert_int_equal(map_kept_bytes(), more);
		kvfree(p);
		page_trim();
	}
}

/* --- large blocks ----------------------------------------------------------------------------- */

static void blocks_of_pages(void **state)
{
	static char *p[601];
	struct sheaf_stats before, stats;
	size_t some[] = {0, 0}; /* of objects, mappings */

	(void)state;
	sheaf_stats(&before);
	for (size_t n = 9; n <= 600; n += 1 + n / 40) {
		p[n] = kvmalloc(n * OS_PAGE, GFP_KERNEL);
		assert_non_null(p[n]);
		assert_true(ksize(p[n]) >= n * OS_PAGE);
		assert_int_equal((uintptr_t)p[n] % OS_PAGE, 0);
		if (n <= 512 && !(n & (n - 1)))
			assert_int_equal((uintptr_t)p[n] % (n * OS_PAGE), 0);
		some[n * OS_PAGE > KMALLOC_MAX_CACHE_SIZE] += ksize(p[n]);
		memset(p[n], (int)n, n * OS_PAGE);
	}
	sheaf_stats(&stats);
	assert_int_equal(stats.mapped_bytes - before.mapped_bytes, some[1]);
	for (size_t n = 9; n <= 600; n += 1 + n / 40) {
		assert_int_equal(p[n][0], (char)n);
		assert_int_equal(p[n][n * OS_PAGE - 1], (char)n);
		kvfree(p[n]);
	}
	sheaf_stats(&stats);
	assert_int_equal(stats.mapped_bytes, before.mapped_bytes);
}

/* A block that was freed is allocated again with the pages that it has. */
static void large_blocks_keep_their_pages(void **state)
{
	(void)state;
	needs(NEED_SHEAVES);
	pin(0);
	for (size_t size = 2 * kmalloc_sizes.coarse_from; size <= KMALLOC_MAX_CACHE_SIZE;
	     size *= 2) {
		long before = 0;

		for (int i = 0; i < 22; i++) {
			char *p = kmalloc(size, GFP_KERNEL);

			assert_non_null(p);
			memset(p, i, size);
			kfree(p);
			if (i == 1)
				before = faults();
		}
		assert_in_range(faults() - before, 0, (long)(size / os.page_size));
	}
}

/* Eight sizes for each doubling, as long as freed ones may wait; above, whole pages. */
static void sizes_of_mappings(void **state)
{
	(void)state;
	for (size_t size = MiB; size < 64 * MiB; size *= 2)
		for (size_t eighths = 8; eighths < 16; eighths++) {
			size_t from = size / 8 * eighths, to = from + size / 8;
			char *p;

			page_trim(); /* A freed block that waits may be larger. */
			p = kvmalloc(from + 1, GFP_KERNEL);
			assert_int_equal(ksize(p), to);
			assert_int_equal(large_roundup(from + 1), to);
			assert_int_equal(large_roundup(to), to);
			assert_int_equal((uintptr_t)p % (2 * MiB), 0);
			kvfree(p);
		}
	assert_int_equal(large_roundup(64 * MiB + 1), 64 * MiB + os.page_size);
}

/* Each of many mappings is found, in any order of frees. */
static void many_mappings(void **state)
{
	static char *p[150];
	uint64_t seed = 5;

	(void)state;
	for (int i = 0; i < 150; i++) {
		p[i] = kvmalloc(2 * MiB + MiB / 4 * (1 + (size_t)i % 3), GFP_KERNEL);
		assert_non_null(p[i]);
		*(int *)p[i] = i;
	}
	for (int n = 150; n > 0; n--) {
		unsigned int i = random_below(&seed, (unsigned int)n);
		struct block block = block_of(p[i] + MiB);

		assert_int_equal(block.kind, BLOCK_MAPPING);
		assert_ptr_equal(block.start, p[i]);
		assert_int_equal(ksize(p[i]), 2 * MiB + MiB / 4 * (1 + *(unsigned int *)p[i] % 3));
		kvfree(p[i]);
		assert_int_equal(block_of(p[i]).kind, BLOCK_NONE);
		p[i] = p[n - 1];
	}
}

/* --- frees ------------------------------------------------------------------------------------ */

static void any_pointer_of_ours(void **state)
{
	struct kmem_cache *s = kmem_cache_create("any", 72, NULL, SLAB_NO_MERGE);
	void *p[6];

	(void)state;
	for (int i = 0; i < 100; i++)
		kfree(kmem_cache_alloc(s, GFP_KERNEL));
	assert_int_equal(kmem_cache_verify(s), 0);
	p[0] = kmem_cache_alloc(s, GFP_KERNEL);
	p[1] = kmem_cache_alloc(s, GFP_KERNEL);
	p[2] = kmalloc(70, GFP_KERNEL);
	p[3] = kmalloc(MiB + 70000, GFP_KERNEL);
	p[4] = NULL;
	p[5] = kvmalloc(5 * MiB, GFP_KERNEL);
	assert_int_equal(ksize(p[0]), 72);
	assert_int_equal(block_of(p[2]).kind, BLOCK_OBJECT);
	assert_int_equal(block_of(p[3]).kind, BLOCK_MAPPING);
	assert_int_equal(block_of((char *)p[3] + MiB + 69999).kind, BLOCK_MAPPING);
	assert_int_equal(block_of(p[5]).kind, BLOCK_MAPPING);
	assert_int_equal(block_of(&s).kind, BLOCK_NONE);
	kmem_cache_free_bulk(NULL, 6, p);
	assert_int_equal(block_of(p[3]).kind, BLOCK_NONE);
	assert_int_equal(block_of(p[5]).kind, BLOCK_NONE);
	assert_int_equal(kmem_cache_shrink(s), 0);
	kmem_cache_destroy(s);
}

/* One clear line for each call. */
static void reported_once(const void *pointer, const char *what)
{
	capture_begin(&captured);
	kfree(pointer);
	assert_int_equal(capture_end(&captured), 1);
	if (!strstr(captured.text, what) || !strstr(captured.text, "kfree("))
		fail_msg("%s", captured.text);
}

static void wrong_pointers(void **state)
{
	char *foreign = malloc(100), *small, *map;

	(void)state;
	page_trim(); /* A freed block that waits may be larger. */
	small = kmalloc(MiB + 1, GFP_KERNEL);
	map = kvmalloc(9 * MiB, GFP_KERNEL);
	reported_once(foreign, "not an object of any cache");
	reported_once(&map, "not an object of any cache");
	reported_once((void *)17, "not an object of any cache");
	reported_once(pages.base + pages.size - OS_PAGE, "not in a block that is in use");
	reported_once(small + 4096, "points 4096 bytes into a block of 1179648");
	reported_once(map + 8 * MiB, "points 8388608 bytes into a block of 9437184");
	capture_begin(&captured);
	assert_int_equal(ksize(foreign), 0);
	assert_int_equal(ksize(small + 1), 0);
	assert_null(krealloc(foreign, 10, GFP_KERNEL));
	kfree_sensitive(map + 1);
	kvfree_sensitive(map + 1, 100);
	assert_int_equal(capture_end(&captured), 5);
	kfree(small);
	kvfree(map);
	reported_once(small, "not a large block in use");
	reported_once(small + MiB, "not a large block in use");
	reported_once(map, "not an object of any cache");
	/* The call must not write to it: nothing is mapped there any more. */
	capture_begin(&captured);
	kvfree_sensitive(map, 9 * MiB);
	assert_int_equal(capture_end(&captured), 1);
	free(foreign);
}

static void double_free_is_found_in_its_slab(void **state)
{
	void *p = kmalloc_in_slab(1000), *neighbour = kmalloc_in_slab(1000);
	struct kmem_cache *s = cache_of(p);
	uint32_t before = os_reports;

	(void)state;
	kmem_cache_shrink(s);
	kfree(p);
	capture_begin(&captured);
	/* Without sheaves, the second free is reported immediately. */
	kfree(p);
	kmem_cache_shrink(s);
	assert_true(capture_end(&captured) > 0);
	assert_int_equal(os_reports - before, 1);
	assert_non_null(
		strstr(captured.text, cache_is_checked(s) ? "Object already free" : "double free"));
	assert_non_null(strstr(captured.text, "-1k"));
	assert_int_equal(kmem_cache_verify(s), 0);
	kfree(neighbour);
}

static void sensitive_content_is_gone(void **state)
{
	static const size_t sizes[] = {60, 5000, 20000};

	(void)state;
	for (int i = 0; i < 3; i++) {
		char *p = kmalloc_in_slab(sizes[i]);
		size_t size = ksize(p);

		memset(p, 0x77, size);
		kfree_sensitive(p);
		tools_open(p, size);
		/* There may be a link, or memory that was returned; the old contents are gone. */
		for (size_t at = 0; at < size; at++)
			assert_int_not_equal(p[at], 0x77);
	}
	kfree_sensitive(NULL);
	kvfree_sensitive(NULL, 0);
	kvfree_sensitive(kvmalloc(3 * MiB, GFP_KERNEL), 3 * MiB);
}

/* A callback frees what waited; meanwhile another block may be there. */
static void inside_of_another_block(void **state)
{
	char *run = kmalloc(2 * MiB, GFP_KERNEL), *mapping = kvmalloc(6 * MiB, GFP_KERNEL);

	(void)state;
	assert_true(run && mapping);
	capture_begin(&captured);
	large_free_waited(run + OS_PAGE, "kfree");
	large_free_waited(mapping + OS_HUGE, "kfree");
	assert_int_equal(capture_end_deferred(&captured), 2);
	run[OS_PAGE] = mapping[OS_HUGE] = 1;
	kfree(run);
	kvfree(mapping);
}

/* The pool is still there for the threads that wait. */
static void a_pool_in_use_stays(void **state)
{
	mempool_t pool, *made = mempool_create_kmalloc_pool(1, 100);

	(void)state;
	assert_non_null(made);
	assert_int_equal(mempool_init_kmalloc_pool(&pool, 1, 100), 0);
	made->reserve->waiters = pool.reserve->waiters = 1;
	capture_begin(&captured);
	mempool_destroy(made);
	mempool_exit(&pool);
	assert_int_equal(capture_end(&captured), 2);
	assert_non_null(strstr(captured.text, "mempool_destroy("));
	assert_non_null(strstr(captured.text, "1 threads wait for an element"));
	made->reserve->waiters = pool.reserve->waiters = 0;
	mempool_destroy(made);
	mempool_exit(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_size_goes_round),
		cmocka_unit_test(constant_sizes_agree),
		cmocka_unit_test(families_with_other_classes),
		cmocka_unit_test(nodes),
		cmocka_unit_test(krealloc_stays),
		cmocka_unit_test(a_mapping_is_resized_without_a_copy),
		cmocka_unit_test(a_mapping_grows_into_one_that_waits),
		cmocka_unit_test(a_block_that_waits_grows),
		cmocka_unit_test(blocks_of_pages),
		cmocka_unit_test(large_blocks_keep_their_pages),
		cmocka_unit_test(sizes_of_mappings),
		cmocka_unit_test(many_mappings),
		cmocka_unit_test(any_pointer_of_ours),
		cmocka_unit_test(wrong_pointers),
		cmocka_unit_test(double_free_is_found_in_its_slab),
		cmocka_unit_test(sensitive_content_is_gone),
		cmocka_unit_test(inside_of_another_block),
		cmocka_unit_test(a_pool_in_use_stays),
	};

	clock_stands = true; /* Freed mappings stay until the library's time passes. */
	return cmocka_run_group_tests_name("kmalloc-blocks", tests, NULL, NULL);
}
