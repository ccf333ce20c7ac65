/* SPDX-License-Identifier: MIT */
/* Freed mappings are kept for reuse: which ones, for whom, how many, and when they are unmapped. */
#include "page/map_kept.h"

#include <pthread.h>
#include <sheaf/kmalloc.h>
#include <sheaf/limit.h>
#include <sheaf/shrinker.h>
#include <stdint.h>
#include <string.h>

#include "internal/decay/calls.h"
#include "internal/kit/pages.h"
#include "internal/kit/ready.h"
#include "kit/check.h"
#include "kit/hidden.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/unit.h"
#include "os/atomic.h"
#include "os/memory_tools.h"
#include "os/options/options.h"
#include "page/limit.h"
#include "page/page.h"

#define MiB ((size_t)1 << 20)

enum {
	CELLS = 256, /* of a node */
	THREADS = 4,
	ROUNDS = 3000
};

static char *blocks[2 * CELLS];

/* From now on no freed block is kept, and the clock stands still. */
static int begin(void **state)
{
	(void)state;
	os.tools = 0; /* while a sanitizer watches, nothing would wait */
	clock_stands = true;
	page_trim();
	return 0;
}

/* For tests whose blocks are all of the node of one CPU. */
static cpu_set_t every_cpu;

static int begin_on_one_cpu(void **state)
{
	sched_getaffinity(0, sizeof(every_cpu), &every_cpu);
	pin((unsigned int)sched_getcpu());
	return begin(state);
}

static int end_on_one_cpu(void **state)
{
	(void)state;
	return sched_setaffinity(0, sizeof(every_cpu), &every_cpu);
}

static bool is_mapped(const char *address)
{
	unsigned char resident;

	return mincore((void *)(uintptr_t)address, os.page_size, &resident) == 0;
}

static void free_at_once(char *block)
{
	assert_true(map_free(block));
	assert_false(is_mapped(block));
	assert_int_equal(map_kept_bytes(), 0);
}

/* Each block is as large as it was requested, where it was allocated, and none is used again. */
static void nothing_waits_while_a_tool_watches(void **state)
{
	char *block, *pages;

	(void)state;
	os.tools = TOOL_MEMCHECK;
	block = kvmalloc(4 * MiB, GFP_KERNEL);
	pages = __vmalloc(5000, GFP_KERNEL);
	assert_ptr_equal(kvmalloc_node_align(0, 4096, GFP_KERNEL, NUMA_NO_NODE), ZERO_SIZE_PTR);
	block[0] = 7;
	block = kvrealloc(block, 16 * MiB, GFP_KERNEL);
	assert_non_null(block);
	assert_int_equal(block[0], 7);
	assert_non_null(pages);
	kvfree(block);
	vfree(pages);
	assert_int_equal(map_kept_bytes(), 0);
	os.tools = 0;
}

/* Of the two options, this one counts. */
static void decay_never_counts_more_than_no_time(void **state)
{
	uint32_t decay = os_options.decay;
	size_t kept;

	(void)state;
	os_options.decay = 0;
	os_options.decay_never = 1;
	kvfree(kvmalloc(4 * MiB, GFP_KERNEL));
	clock_pass_ms(1000);
	for (uint32_t node = 0; node < os.nr_nodes; node++)
		page_decay(node);
	kept = map_kept_bytes();
	os_options.decay_never = 0;
	kvfree(kvmalloc(4 * MiB, GFP_KERNEL));
	os_options.decay = decay;
	assert_int_equal(kept, 4 * MiB);
	assert_int_equal(map_kept_bytes(), 0);
}

static void a_block_waits(void **state)
{
	size_t bytes = map_bytes(), held, dirty;
	char *block = map_alloc(3 * MiB, 1, 0, false);

	(void)state;
	held = page_limit.held;
	dirty = page_usage().dirty;
	memset(block, 7, 3 * MiB);
	assert_true(map_free(block));
	assert_false(map_free(block));
	assert_null(map_find(block).address);
	assert_int_equal(map_bytes(), bytes);
	assert_int_equal(map_kept_bytes(), 3 * MiB);
	assert_int_equal(page_usage().dirty, dirty + 3 * MiB);
	assert_int_equal(page_limit.held, held);
	assert_ptr_equal(map_alloc(3 * MiB, 1, 0, false), block);
	assert_int_equal(block[3 * MiB - 1], 7);
	assert_int_equal(map_find(block + 3 * MiB - 1).size, 3 * MiB);
	assert_true(map_free(block));
	assert_ptr_equal(map_alloc(3 * MiB, 1, 0, true), block);
	assert_int_equal(block[0] + block[3 * MiB - 1], 0);
	assert_true(map_free(block));
}

/* The smallest that is large enough is used whole; one more than twice as large is not. */
static void the_best_fit_is_taken(void **state)
{
	const size_t sizes[] = {16 * MiB, 5 * MiB, 12 * MiB, 8 * MiB, 3 * MiB};
	char *block, *other;

	(void)state;
	for (int i = 0; i < 5; i++)
		blocks[i] = map_alloc(sizes[i], 1, 0, false);
	for (int i = 0; i < 5; i++) {
		memset(blocks[i], 7, sizes[i]);
		assert_true(map_free(blocks[i]));
	}
	block = map_alloc(6 * MiB, 1, 0, false);
	assert_ptr_equal(block, blocks[3]);
	assert_int_equal(map_find(block + 8 * MiB - 1).size, 8 * MiB);
	assert_int_equal(map_kept_bytes(), 36 * MiB);
	other = map_alloc(6 * MiB, 1, 0, false);
	assert_ptr_equal(other, blocks[2]);
	assert_true(map_free(block) && map_free(other));
	other = map_alloc(6 * MiB + os.page_size, 1, 0, true);
	assert_ptr_equal(other, blocks[3]);
	for (size_t i = 0; i < 8 * MiB; i++)
		assert_int_equal(other[i], 0);
	assert_true(map_free(other));
	/* The smallest is 3 MiB, the largest 16. */
	other = map_alloc(3 * MiB / 2 - os.page_size, 1, 0, false);
	for (int i = 0; i < 5; i++)
		assert_true(other != blocks[i]);
	assert_true(map_free(other));
	other = map_alloc(17 * MiB, 1, 0, false);
	for (int i = 0; i < 5; i++)
		assert_true(other != blocks[i]);
	assert_true(map_free(other));
	page_trim();
	assert_int_equal(map_kept_bytes(), 0);
}

/* It grows in place to the whole block, of which every byte is zero or as the program left it. */
static void the_program_has_the_whole_block(void **state)
{
	char *block = kvmalloc(8 * MiB, GFP_KERNEL), *larger;

	(void)state;
	memset(block, 7, 8 * MiB);
	kvfree(block);
	larger = kvzalloc(5 * MiB, GFP_KERNEL);
	assert_ptr_equal(larger, block);
	assert_int_equal(ksize(larger), 8 * MiB);
	larger[5 * MiB - 1] = 1;
	larger = kvrealloc(larger, 8 * MiB, GFP_KERNEL | __GFP_ZERO);
	assert_ptr_equal(larger, block);
	assert_int_equal(larger[5 * MiB - 1], 1);
	for (size_t i = 5 * MiB; i < 8 * MiB; i++)
		assert_int_equal(larger[i], 0);
	/* A block that grows into one that waits: the rest of that is zero, too. */
	block = kvmalloc(12 * MiB, GFP_KERNEL);
	memset(block, 7, 12 * MiB);
	kvfree(block);
	larger = hidden(kvrealloc(larger, 10 * MiB, GFP_KERNEL | __GFP_ZERO));
	assert_ptr_equal(larger, block);
	assert_int_equal(ksize(larger), 12 * MiB);
	for (size_t i = 8 * MiB; i < 12 * MiB; i++)
		assert_int_equal(larger[i], 0);
	/* Half of it is free again. */
	larger = kvrealloc(larger, 6 * MiB, GFP_KERNEL);
	assert_int_equal(ksize(larger), 6 * MiB);
	kvfree(larger);
	page_trim();
}

#if !OS_ASAN
/* Like the leak sanitizer, which ends a program that unregisters a region that it has not
 * registered. */
void __lsan_register_root_region(const void *at, size_t bytes);
void __lsan_unregister_root_region(const void *at, size_t bytes);
static size_t reported_bytes;

void __lsan_register_root_region(const void *at, size_t bytes)
{
	(void)at;
	os_fetch_add(&reported_bytes, bytes);
}

void __lsan_unregister_root_region(const void *at, size_t bytes)
{
	(void)at;
	CHECK(os_fetch_sub(&reported_bytes, bytes) >= bytes);
}

/* Not while they are kept: memory that only they point to has leaked. */
static void leaks_are_found_in_used_blocks(void **state)
{
	size_t before = reported_bytes;

	(void)state;
	for (int i = 0; i < 3; i++) {
		char *block = map_alloc(3 * MiB, 1, 0, false);

		assert_int_equal(reported_bytes, before + 3 * MiB);
		assert_true(map_free(block));
		assert_int_equal(map_kept_bytes(), 3 * MiB);
		assert_int_equal(reported_bytes, before);
	}
}

static void leaks_are_found_in_resized_blocks(void **state)
{
	size_t before = reported_bytes;
	char *block = map_alloc(3 * MiB, 1, 0, false);

	(void)state;
	block = map_resize(block, 30 * MiB, 1);
	assert_int_equal(reported_bytes, before + 30 * MiB);
	block = map_resize(block, 6 * MiB, 1);
	assert_int_equal(reported_bytes, before + 6 * MiB);
	assert_true(map_free(block));
	assert_int_equal(reported_bytes, before);
}
#endif

static void alignment_counts(void **state)
{
	size_t align = 1024 * MiB;
	char *block = map_alloc(4 * MiB, 1, 0, false), *other;

	(void)state;
	assert_true(map_free(block));
	other = map_alloc(4 * MiB, align, 0, false);
	assert_int_equal((uintptr_t)other % align, 0);
	assert_true(other == block || !((uintptr_t)block % align == 0));
	assert_true(map_free(other));
}

static void each_node_has_its_own(void **state)
{
	char *block = map_alloc(3 * MiB, 1, os.nr_nodes - 1, false), *other;

	(void)state;
	if (os.nr_nodes < 2)
		skip();
	assert_true(map_free(block));
	other = map_alloc(3 * MiB, 1, 0, false);
	assert_true(other != block);
	assert_true(map_free(other));
	assert_ptr_equal(map_alloc(3 * MiB, 1, os.nr_nodes - 1, false), block);
	assert_true(map_free(block));
}

static void what_does_not_wait(void **state)
{
	uint32_t decay = os_options.decay;

	(void)state;
	/* MAP_KEPT-J2 */
	/* Too large, and no class. */
	free_at_once(map_alloc(MAP_KEPT_MOST + 8 * MiB, 1, 0, false));
	free_at_once(map_alloc(3 * MiB + os.page_size, 1, 0, false));
	os_options.decay = 0;
	free_at_once(map_alloc(3 * MiB, 1, 0, false));
	os_options.decay = decay;
	os_options.init_on_free = 1;
	free_at_once(map_alloc(3 * MiB, 1, 0, false));
	os_options.init_on_free = 0;
	page_set_limits(1, 0);
	free_at_once(map_alloc(3 * MiB, 1, 0, false));
	page_set_limits(0, 0);
}

/* The oldest one goes when there is no cell left, or too many bytes would wait. */
static void the_oldest_goes(void **state)
{
	size_t memory = os.memory;

	(void)state;
	os.memory = (size_t)1 << 40;
	for (int i = 0; i < CELLS + 2; i++)
		blocks[i] = map_alloc(3 * MiB, 1, 0, false);
	for (int i = 0; i < CELLS + 2; i++) {
		clock_pass_ms(1);
		assert_true(map_free(blocks[i]));
	}
	assert_int_equal(map_kept_bytes(), CELLS * 3 * MiB);
	assert_true(!is_mapped(blocks[0]) && !is_mapped(blocks[1]));
	for (int i = 2; i < CELLS + 2; i++)
		assert_true(is_mapped(blocks[i]));
	page_trim();
	os.memory = 8 * 11 * MiB * os.nr_cpu_nodes;
	for (int i = 0; i < 4; i++)
		blocks[i] = map_alloc(3 * MiB, 1, 0, false);
	for (int i = 0; i < 4; i++) {
		clock_pass_ms(1);
		assert_true(map_free(blocks[i]));
	}
	assert_int_equal(map_kept_bytes(), 9 * MiB);
	assert_false(is_mapped(blocks[0]));
	page_trim();
	/* As much went as may in one call: now there is room. */
	os.memory = 8 * (PAGE_DISCARD_MAX + MiB) * os.nr_cpu_nodes;
	blocks[0] = map_alloc(PAGE_DISCARD_MAX, 1, 0, false);
	blocks[1] = map_alloc(3 * MiB, 1, 0, false);
	assert_true(map_free(blocks[0]));
	clock_pass_ms(1);
	assert_true(map_free(blocks[1]));
	assert_int_equal(map_kept_bytes(), 3 * MiB);
	os.memory = memory;
}

/* What was in use recently stays; then the oldest ones go, PAGE_DISCARD_MAX in a round. */
static void they_go_by_time(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		blocks[i] = map_alloc(PAGE_DISCARD_MAX / 2, 1, 0, false);
	for (int i = 0; i < 3; i++) {
		clock_pass_ms(1);
		assert_true(map_free(blocks[i]));
	}
	clock_pass_ms(os_options.decay - 3);
	assert_true(page_decay(0));
	assert_int_equal(map_kept_bytes(), 3 * PAGE_DISCARD_MAX / 2);
	/* It was counted in the round before. */
	clock_pass_ms(2 * os_options.decay);
	for (int i = 0; i < 3; i++)
		page_decay(0);
	assert_true(map_kept_bytes() <= page_bound());
	assert_true(!is_mapped(blocks[0]) && !is_mapped(blocks[1]));
}

/* What is in use and what waits is no more than what was in use recently, and the bound. */
static void they_go_when_more_is_in_use(void **state)
{
	const unsigned int nr_runs = 8;
	struct slab *runs[8];
	char *block;

	(void)state;
	for (unsigned int i = 0; i < nr_runs; i++) {
		runs[i] = page_alloc(0, PAGE_MAX_ORDER);
		assert_non_null(runs[i]);
	}
	assert_true(map_free(map_alloc(32 * MiB, 1, 0, false)));
	for (unsigned int i = 0; i < nr_runs; i++)
		page_free(runs[i], PAGE_MAX_ORDER);
	page_decay(0);
	assert_int_equal(map_kept_bytes(), 32 * MiB);
	assert_true(page_usage().dirty >= 48 * MiB);
	/* None of both serves it. */
	block = map_alloc(40 * MiB, 1, 0, false);
	page_decay(0);
	assert_true(page_usage().dirty <= 8 * MiB + page_bound());
	assert_true(page_usage().dirty >= 8 * MiB);
	assert_true(map_free(block));
}

/* Another thread may have read the clock before the block was freed. */
static void a_young_block_is_not_old(void **state)
{
	size_t memory = os.memory;

	(void)state;
	for (int i = 0; i < 2; i++)
		blocks[i] = map_alloc(3 * MiB, 1, 0, false);
	assert_true(map_free(blocks[0]));
	clock_pass_ms(os_options.decay / 2);
	assert_true(map_free(blocks[1]));
	os.memory = 8 * 4 * MiB * os.nr_cpu_nodes;
	map_decay(0, os_now_ms() - 1);
	os.memory = memory;
	assert_int_equal(map_kept_bytes(), 3 * MiB);
	assert_true(is_mapped(blocks[1]));
	page_trim();
}

static void they_go_when_memory_is_short(void **state)
{
	size_t returned = page_usage().returned, keep;

	(void)state;
	for (int i = 0; i < 3; i++)
		blocks[i] = map_alloc(3 * MiB, 1, 0, false);
	for (int i = 0; i < 3; i++)
		assert_true(map_free(blocks[i]));
	keep = page_usage().dirty - 4 * MiB;
	page_trim_to(keep);
	assert_int_equal(map_kept_bytes(), 3 * MiB);
	assert_true(page_usage().returned >= returned + 6 * MiB);
	page_set_limits(1, 0);
	page_decay(0);
	assert_int_equal(map_kept_bytes(), 0);
	page_set_limits(0, 0);
	/* Below a hard limit, they make room for others. */
	blocks[0] = map_alloc(8 * MiB, 1, 0, false);
	assert_true(map_free(blocks[0]));
	page_set_limits(0, page_limit.held << OS_PAGE_SHIFT);
	blocks[0] = map_alloc(7 * MiB, 1, 0, false);
	assert_non_null(blocks[0]);
	assert_null(map_alloc(7 * MiB, 1, 0, false));
	page_set_limits(0, 0);
	assert_true(map_free(blocks[0]));
}

/* They make room for pages, too, and immediately: a call that must not wait trims nothing. */
static void they_make_room_for_pages(void **state)
{
	char *block = map_alloc(4 * MiB, 1, 0, false);
	struct slab *runs[2];

	(void)state;
	assert_true(map_free(block));
	page_set_limits(0, page_limit.held << OS_PAGE_SHIFT);
	for (int i = 0; i < 2; i++) {
		runs[i] = page_alloc(0, PAGE_MAX_ORDER);
		assert_non_null(runs[i]);
	}
	assert_int_equal(map_kept_bytes(), 0);
	assert_null(page_alloc(0, PAGE_MAX_ORDER));
	page_set_limits(0, 0);
	for (int i = 0; i < 2; i++)
		page_free(runs[i], PAGE_MAX_ORDER);
}

/* The process may have no more memory than now. */
static void limit_memory(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;
	struct rlimit limit;

	CHECK(file && fscanf(file, "%*u %*u %*u %*u %*u %lu", &pages) == 1);
	fclose(file);
	limit.rlim_cur = limit.rlim_max = pages * os.page_size;
	CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
}

static void use_what_waits(void)
{
	CHECK(map_free(map_alloc(32 * MiB, 1, 0, false)));
	CHECK(map_kept_bytes() == 32 * MiB);
	limit_memory();
	CHECK(map_alloc(20 * MiB, 1, 0, false));
	CHECK(map_kept_bytes() == 0);
	CHECK(!map_alloc(20 * MiB, 1, 0, false));
}

static void they_make_room_where_the_system_has_none(void **state)
{
	(void)state;
	assert_int_equal(in_child(use_what_waits), 0);
}

/* --- a block is freed while it grows ---------------------------------------------------------- */

static char *freed_meanwhile;

static void free_meanwhile(void)
{
	assert_true(map_free(freed_meanwhile));
}

/* Below the hard limit, a block that waits makes room for one that grows. */
static void freed_while_it_grows(void **state)
{
	char *block = map_alloc(8 * MiB, 1, 0, false), *waits = map_alloc(16 * MiB, 1, 0, false);
	size_t bytes = map_bytes();

	(void)state;
	assert_true(block && waits && map_free(waits));
	page_set_limits(0, page_limit.held << OS_PAGE_SHIFT);
	freed_meanwhile = block;
	meanwhile = free_meanwhile;
	assert_null(map_resize(block, 24 * MiB, 1));
	assert_null(meanwhile);
	page_set_limits(0, 0);
	page_trim();
	assert_int_equal(map_bytes(), bytes - 24 * MiB);
	assert_int_equal(page_limit.held << OS_PAGE_SHIFT,
			 page_usage().used + page_usage().dirty + map_bytes());
}

/* --- threads ---------------------------------------------------------------------------------- */

/* No two threads have the same block, and its size is right. */
static void *use_blocks(void *seed_of)
{
	uint64_t seed = *(const uint64_t *)seed_of;
	char *mine[4] = {NULL};
	size_t sizes[4] = {0};

	for (unsigned int i = 0; i < ROUNDS; i++) {
		unsigned int k = random_below(&seed, 4);

		if (mine[k]) {
			CHECK(*(uint64_t *)(void *)mine[k] == *(const uint64_t *)seed_of + k);
			CHECK(map_find(mine[k]).size >= sizes[k]);
			CHECK(map_find(mine[k]).size <= 2 * sizes[k]);
			CHECK(map_free(mine[k]));
			mine[k] = NULL;
			continue;
		}
		sizes[k] = 2 * MiB + (1 + random_below(&seed, 3)) * MiB / 4;
		mine[k] = map_alloc(sizes[k], 1, 0, false);
		CHECK(mine[k] != NULL);
		*(uint64_t *)(void *)mine[k] = *(const uint64_t *)seed_of + k;
		if (i % 64 == 0)
			map_trim(3 * MiB);
	}
	for (unsigned int k = 0; k < 4; k++)
		CHECK(!mine[k] || map_free(mine[k]));
	return NULL;
}

static void threads_share_them(void **state)
{
	static uint64_t seeds[THREADS] = {100, 200, 300, 400};
	size_t bytes = map_bytes(), held = page_limit.held, leaf;
	pthread_t threads[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use_blocks, &seeds[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(map_bytes(), bytes);
	page_trim();
	assert_int_equal(map_kept_bytes(), 0);
	/* Blocks beyond the addresses of a leaf of the table need another leaf. It stays, and so
	 * do those in the pool that other threads made at the same time. All are smaller than a
	 * block. */
	leaf = ((sizeof(uint64_t) + sizeof(uint32_t)) << MAP_LEAF_BITS) >> OS_PAGE_SHIFT;
	assert_true(page_limit.held <= held + THREADS * leaf);
}

/* --- limits ----------------------------------------------------------------------------------- */

/* Free pages that were not returned are held already: the limit refuses none of them, even if clean
 * ones are found first (LIMIT-H2). */
static void held_pages_serve_at_the_limit(void)
{
	struct slab *first, *run;

	first = page_alloc(0, PAGE_MAX_ORDER);
	run = page_alloc(0, 0);
	CHECK(first && run);
	page_free(first, PAGE_MAX_ORDER);
	/* slub_tiny returns all pages immediately. */
	if (page_usage().dirty < 2 * MiB)
		return;
	CHECK(sheaf_set_limits(0, page_limit.held << OS_PAGE_SHIFT) == 0);
	for (unsigned int order = 3; order < PAGE_MAX_ORDER; order++)
		CHECK(page_alloc(0, order));
	while (page_alloc(0, 0))
		;
	CHECK(page_usage().dirty == 0);
	CHECK(page_limit.held == page_limit.hard);
	sheaf_set_limits(0, 0);
}

static void *taken;

static unsigned long some(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker;
	(void)sc;
	return 1000;
}

static unsigned long takes_a_block(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker;
	(void)sc;
	if (!taken)
		taken = kvmalloc(8 * MiB, GFP_NOWAIT);
	return SHRINK_STOP;
}

/* A block that waits, and into which another one may grow, is taken by another thread: there is no
 * room for two, but there is for the part by which it grows. */
static void a_block_grows_without_the_one_that_waits(void)
{
	struct shrinker *shrinker = shrinker_alloc(0, "takes");
	char *p = kvmalloc(4 * MiB, GFP_KERNEL), *q;

	CHECK(shrinker);
	shrinker->count_objects = some;
	shrinker->scan_objects = takes_a_block;
	shrinker_register(shrinker);
	memset(p, 7, 4 * MiB);
	kvfree(kvmalloc(8 * MiB, GFP_KERNEL));
	page_set_limits(1, page_limit.held * OS_PAGE + 4 * MiB);
	q = kvrealloc(p, 8 * MiB, GFP_KERNEL);
	CHECK(q && q[0] == 7 && q[4 * MiB - 1] == 7);
	page_set_limits(0, 0);
	kvfree(q);
	kvfree(taken);
	shrinker_free(shrinker);
}

static void held_pages_serve_at_the_limit_in_child(void **state)
{
	(void)state;
	assert_int_equal(in_child(held_pages_serve_at_the_limit), 0);
}

static void a_block_grows_without_the_one_that_waits_in_child(void **state)
{
	(void)state;
	assert_int_equal(in_child(a_block_grows_without_the_one_that_waits), 0);
}

int test_freed_mappings(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_waits_while_a_tool_watches, begin),
		cmocka_unit_test_setup(decay_never_counts_more_than_no_time, begin),
		cmocka_unit_test_setup(a_block_waits, begin),
		cmocka_unit_test_setup(the_best_fit_is_taken, begin),
		cmocka_unit_test_setup_teardown(the_program_has_the_whole_block, begin_on_one_cpu,
						end_on_one_cpu),
#if !OS_ASAN
		cmocka_unit_test_setup(leaks_are_found_in_used_blocks, begin),
		cmocka_unit_test_setup(leaks_are_found_in_resized_blocks, begin),
#endif
		cmocka_unit_test_setup(alignment_counts, begin),
		cmocka_unit_test_setup(each_node_has_its_own, begin),
		cmocka_unit_test_setup(what_does_not_wait, begin),
		cmocka_unit_test_setup(the_oldest_goes, begin),
		cmocka_unit_test_setup(they_go_by_time, begin),
		cmocka_unit_test_setup(they_go_when_more_is_in_use, begin),
		cmocka_unit_test_setup(a_young_block_is_not_old, begin),
		cmocka_unit_test_setup(they_go_when_memory_is_short, begin),
		cmocka_unit_test_setup(they_make_room_for_pages, begin),
		cmocka_unit_test_setup(they_make_room_where_the_system_has_none, begin),
		cmocka_unit_test_setup(freed_while_it_grows, begin),
		cmocka_unit_test_setup(threads_share_them, begin),
		cmocka_unit_test(held_pages_serve_at_the_limit_in_child),
		cmocka_unit_test_setup_teardown(a_block_grows_without_the_one_that_waits_in_child,
						begin_on_one_cpu, end_on_one_cpu),
	};

	if (!caches_ready())
		return 1;
	if (os_options.tiny || os_options.check_double || os_options.init_on_free) {
		print_message("skipped: with these options no freed block waits\n");
		return SKIPPED;
	}
	/* If begin() stopped the calls to it, it would take what the library writes for errors. */
	if (os.tools & TOOL_MEMCHECK) {
		print_message("skipped: no freed block waits while valgrind watches\n");
		return SKIPPED;
	}
	return cmocka_run_group_tests_name("freed-mappings", tests, setup, NULL);
}
