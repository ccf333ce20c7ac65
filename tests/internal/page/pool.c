/* SPDX-License-Identifier: MIT */
/* The library's own structures: blocks do not overlap, and each node has its own. */
#include "page/pool.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "internal/kit/ready.h"
#include "kit/check.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "page/map.h"
#include "page/page.h"

enum {
	BLOCKS = 3000,
	SIZE = 320, /* eight of them in a page */
	HUGE = 2 << 20,
};

static unsigned char *blocks[BLOCKS];
static size_t sizes[BLOCKS];

/* Move to a CPU of this node; false if there is none. */
static bool go_to(unsigned int node)
{
	for (unsigned int cpu = 0; cpu < os.nr_cpus; cpu++)
		if (os.node_of_row[cpu] == node && pin(cpu))
			return true;
	return false;
}

/* Blocks know the node of their memory unless they are away from objects. */
static bool know_their_node(void)
{
	return os.nr_nodes > 1 && !os_options.guard_pools;
}

static void blocks_do_not_overlap(void **state)
{
	static const size_t some[] = {1, 64, 65, 200, 2048, 4096, 5000, 70000};

	(void)state;
	for (unsigned int i = 0; i < BLOCKS; i++) {
		sizes[i] = some[i % (i % 100 ? 6 : 8)];
		go_to(i % os.nr_nodes);
		blocks[i] = pool_alloc(sizes[i]);
		assert_non_null(blocks[i]);
		assert_int_equal((uintptr_t)blocks[i] % 64, 0);
		for (size_t at = 0; at < sizes[i]; at++)
			assert_int_equal(blocks[i][at], 0);
		memset(blocks[i], (int)(i % 255) + 1, sizes[i]);
	}
	for (unsigned int i = 0; i < BLOCKS; i++)
		for (size_t at = 0; at < sizes[i]; at++)
			assert_int_equal(blocks[i][at], i % 255 + 1);
	for (unsigned int i = 0; i < BLOCKS; i++)
		pool_free(blocks[i], sizes[i]);
	pool_free(NULL, 64);
}

/* It is a mapping, and no block of the program. */
static void a_larger_block(void **state)
{
	size_t before = map_bytes();
	char *block = pool_alloc(HUGE + 1);

	(void)state;
	assert_non_null(block);
	for (size_t at = 0; at <= HUGE; at++)
		assert_int_equal(block[at], 0);
	memset(block, 1, HUGE + 1);
	assert_false(map_retire(block));
	assert_true(map_bytes() > before + HUGE);
	pool_give_back(block, HUGE + 1);
	assert_int_equal(map_bytes(), before);
}

static void a_node_gets_its_own(void **state)
{
	(void)state;
	if (!know_their_node())
		skip();
	for (unsigned int i = 0; i < BLOCKS; i++) {
		unsigned int node = i % os.nr_nodes;

		blocks[i] = NULL;
		if (!go_to(node)) /* it has no CPU */
			continue;
		blocks[i] = pool_alloc(SIZE);
		assert_non_null(blocks[i]);
		assert_int_equal(page_node(blocks[i]), node);
	}
	for (unsigned int i = 0; i < BLOCKS; i++)
		pool_free(blocks[i], SIZE);
}

/* Freed by a CPU of another node. */
static void a_block_goes_home(void **state)
{
	void *block, *other;

	(void)state;
	if (!know_their_node())
		skip();
	go_to(0);
	block = pool_alloc(SIZE);
	go_to(1);
	pool_free(block, SIZE);
	other = pool_alloc(SIZE);
	assert_ptr_not_equal(other, block);
	assert_int_equal(page_node(other), 1);
	pool_free(other, SIZE);
	go_to(0);
	assert_ptr_equal(pool_alloc(SIZE), block);
	pool_free(block, SIZE);
}

/* Blocks that one node allocates and another one frees are used again. */
static void blocks_do_not_become_more(void **state)
{
	size_t before = 0;

	(void)state;
	for (unsigned int round = 0; round < 20; round++) {
		go_to(0);
		for (unsigned int i = 0; i < BLOCKS; i++)
			blocks[i] = pool_alloc(SIZE);
		go_to(os.nr_nodes - 1);
		for (unsigned int i = 0; i < BLOCKS; i++)
			pool_free(blocks[i], SIZE);
		assert_true(!before || page_usage().used == before);
		before = page_usage().used;
	}
}

/* No more memory for this node: blocks of the others are used. */
static void take_from_others(void)
{
	unsigned int of_other = 0;
	size_t n = 0;
	void *block;

	CHECK(go_to(1));
	for (unsigned int i = 0; i < BLOCKS; i++)
		blocks[i] = pool_alloc(SIZE);
	for (unsigned int i = 0; i < BLOCKS; i++)
		pool_free(blocks[i], SIZE);
	CHECK(go_to(0));
	no_more_memory();
	while (of_other < BLOCKS && (block = pool_alloc(SIZE)) != NULL) {
		of_other += page_node(block) == 1;
		/* Valgrind grants memory beyond the limit, up to the end of the range. */
		CHECK(n++ < pages.size / SIZE);
	}
	CHECK(of_other == BLOCKS);
}

static void other_nodes_help_one_without_memory(void **state)
{
	(void)state;
	if (!know_their_node())
		skip();
	assert_int_equal(in_child(take_from_others), 0);
}

/* Of blocks of whole pages. */
static void pages_go_back(void **state)
{
	static const size_t large[] = {OS_PAGE, 5000, 70000, HUGE};
	size_t used = page_usage().used;
	unsigned char resident;

	(void)state;
	for (unsigned int i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
		unsigned char *block = pool_alloc(large[i]);

		assert_non_null(block);
		memset(block, 1, large[i]);
		pool_give_back(block, large[i]);
		assert_true(page_usage().used <= used);
		used = page_usage().used; /* The pool had some block of that size. */
		/* If pools are away from objects, the memory is returned immediately. */
		if (os_options.guard_pools && large[i] == HUGE)
			assert_int_equal(
				mincore(block + HUGE / 2, OS_PAGE, &resident) || resident & 1, 0);
		block = pool_alloc(large[i]);
		for (size_t at = 0; at < large[i]; at++)
			assert_int_equal(block[at], 0);
		pool_give_back(block, large[i]);
	}
	pool_give_back(NULL, HUGE);
	pool_give_back(pool_alloc(SIZE), SIZE);
}

/* Those that a first use needs are in one page. */
static void small_sizes_share_pages(void **state)
{
	size_t used;

	(void)state;
	go_to(0);
	used = page_usage().used;
	for (unsigned int i = 0; i < 5; i++)
		assert_non_null(blocks[i] = pool_alloc((size_t)64 << i));
	assert_in_range(page_usage().used - used, 0, 4096);
	for (unsigned int i = 0; i < 5; i++)
		pool_free(blocks[i], (size_t)64 << i);
}

/* So a fork or a walk that touches structures of one size touches few pages. */
static void a_size_is_close_together(void **state)
{
	unsigned int nr_pages = 0;
	uintptr_t page = 0;

	(void)state;
	go_to(0);
	for (unsigned int i = 0; i < BLOCKS; i++) {
		sizes[i] = i % 2 ? 2048 : 64;
		assert_non_null(blocks[i] = pool_alloc(sizes[i]));
		if (sizes[i] == 64 && page != (uintptr_t)blocks[i] / OS_PAGE) {
			page = (uintptr_t)blocks[i] / OS_PAGE;
			nr_pages++;
		}
	}
	for (unsigned int i = 0; i < BLOCKS; i++)
		pool_free(blocks[i], sizes[i]);
	/* One may have been shared by all sizes. */
	assert_in_range(nr_pages, 0, BLOCKS / 2 * 64 / OS_PAGE + 3);
}

/* Of a list that another thread changes, a call that does not wait gets none. */
static void a_locked_list_gives_none(void **state)
{
	void *block = pool_alloc(SIZE);

	(void)state;
	pool_free(block, SIZE);
	page_lock_all();
	assert_null(pool_alloc_try(SIZE));
	page_unlock_all();
	block = pool_alloc_try(SIZE);
	assert_non_null(block);
	pool_free(block, SIZE);
}

int test_pool(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_sizes_share_pages),
		cmocka_unit_test(a_size_is_close_together),
		cmocka_unit_test(blocks_do_not_overlap),
		cmocka_unit_test(a_larger_block),
		cmocka_unit_test(a_node_gets_its_own),
		cmocka_unit_test(a_block_goes_home),
		cmocka_unit_test(blocks_do_not_become_more),
		cmocka_unit_test(other_nodes_help_one_without_memory),
		cmocka_unit_test(pages_go_back),
		cmocka_unit_test(a_locked_list_gives_none),
	};

	return cmocka_run_group_tests_name("pool", tests, setup, NULL);
}
