/* SPDX-License-Identifier: MIT */
/* Large blocks: every address in one finds it, no other address does, and if two threads free it,
 * exactly one succeeds. */
#include "page/map.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cache/cache.h"
#include "internal/kit/ready.h"
#include "kit/check.h"
#include "kit/clock.h"
#include "kit/hooks.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/unit.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/memory_tools.h"
#include "page/page.h"

#define MiB ((size_t)1 << 20)

enum {
	BLOCKS = 80,
	ROUNDS = 1000,
	THREADS = 3
};

static void is_none(const void *address)
{
	assert_null(map_find(address).address);
	assert_int_equal(map_find(address).size, 0);
}

static void is_block(char *block, size_t size)
{
	const size_t at[] = {0, 1, OS_HUGE - 1, OS_HUGE, size / 2, size - 1};

	for (unsigned int i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		assert_ptr_equal(map_find(block + at[i]).address, block);
		assert_int_equal(map_find(block + at[i]).size, size);
	}
}

static void each_address_finds_its_block(void **state)
{
	const size_t sizes[] = {2 * MiB + os.page_size, 4 * MiB,
				4 * MiB + os.page_size, 6 * MiB - os.page_size,
				(size_t)1 << 30,	((size_t)9 << 30) + os.page_size};
	size_t before = map_bytes();

	(void)state;
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (size_t align = 1; align <= 64 * MiB; align *= 64) {
			char *block;

			if (sizes[i] > os_address_limit() / 2)
				continue;
			block = map_alloc(sizes[i], align, 0, true);

			assert_non_null(block);
			assert_int_equal((uintptr_t)block % align, 0);
			assert_int_equal((uintptr_t)block % OS_HUGE, 0);
			assert_int_equal(map_bytes(), before + sizes[i]);
			is_block(block, sizes[i]);
			is_none(block - 1);
			is_none(block + sizes[i]);
			assert_false(map_free(block + OS_HUGE));
			assert_false(map_free(block + 1));
			assert_true(map_free(block));
			is_none(block);
			is_none(block + OS_HUGE);
			assert_false(map_free(block));
			assert_int_equal(map_bytes(), before);
		}
}

static void no_other_address_does(void **state)
{
	int local;

	(void)state;
	is_none(NULL);
	is_none(&local);
	is_none((void *)(uintptr_t)is_none);
	is_none(pages.base);
	is_none((void *)UINTPTR_MAX);
	for (unsigned int bit = 0; bit < 64; bit++)
		is_none((void *)((uintptr_t)1 << bit));
	assert_false(map_free(NULL));
	assert_false(map_free((void *)((uintptr_t)1 << 63)));
}

/* Blocks are freed in random order; their neighbours are still found. */
static void many_blocks(void **state)
{
	static struct mapping model[BLOCKS];
	uint64_t seed = 11;
	size_t before = map_bytes(), bytes = before;

	(void)state;
	for (int round = 0; round < 20 * BLOCKS; round++) {
		struct mapping *one = &model[random_below(&seed, BLOCKS)];
		size_t size = os_round_up(2 * MiB + OS_PAGE * (1 + random_below(&seed, 1000)));

		if (one->address) {
			is_block(one->address, one->size);
			assert_true(map_free(one->address));
			bytes -= one->size;
			one->address = NULL;
		} else {
			/* It may be one that was larger. */
			*one = map_find(map_alloc(size, 1, 0, true));
			assert_in_range(one->size, size, 2 * size);
			bytes += one->size;
		}
		assert_int_equal(map_bytes(), bytes);
	}
	for (int i = 0; i < BLOCKS; i++)
		if (model[i].address) {
			is_block(model[i].address, model[i].size);
			assert_true(map_free(model[i].address));
		}
	assert_int_equal(map_bytes(), before);
}

/* --- threads ---------------------------------------------------------------------------------- */

static pthread_barrier_t turn;
static char *shared;
static uint32_t freed;

static void *free_with_others(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&turn);
		os_fetch_add(&freed, map_free(shared));
		pthread_barrier_wait(&turn);
	}
	return unused;
}

static void one_of_many_frees(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	pthread_barrier_init(&turn, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, free_with_others, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		shared = map_alloc(3 * MiB, 1, 0, true);
		os_store_relaxed(&freed, 0);
		pthread_barrier_wait(&turn);
		pthread_barrier_wait(&turn);
		assert_int_equal(os_load_relaxed(&freed), 1);
		is_none(shared);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&turn);
}

static char *moving;		   /* a block that comes and goes */
static uint32_t moves, most, stop; /* most: an emulator may use each address only once */

static void *move(void *unused)
{
	uint64_t seed = 3;

	while (!os_load_relaxed(&stop)) {
		char *block;

		if (os_load_relaxed(&moves) >= os_load_relaxed(&most)) {
			os_sleep_briefly();
			continue;
		}
		block = map_alloc(2 * MiB * (1 + random_below(&seed, 8)) + OS_PAGE, 1, 0, true);
		CHECK(block);
		os_store_release(&moving, block);
		CHECK(map_find(block).address == block);
		CHECK(map_free(block));
		os_fetch_add(&moves, 1);
	}
	return unused;
}

/* A mapping found while others map and unmap contains the address; a block that stays is always
 * found. */
static void others_come_and_go(void **state)
{
	char *stays = map_alloc(9 * MiB, 1, 0, true);
	pthread_t threads[2];
	uint64_t seed = 9;

	(void)state;
	/* MAP-G2 */
	os_store_relaxed(&moves, 0);
	os_store_relaxed(&most, ROUNDS);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, move, NULL), 0);
	while (os_load_relaxed(&moves) < ROUNDS) {
		char *at = os_load_acquire(&moving) + random_below(&seed, 18 * MiB);
		struct mapping found = map_find(at);

		if (found.address)
			assert_true(found.address <= at && at < found.address + found.size);
		assert_ptr_equal(map_find(stays + random_below(&seed, 9 * MiB)).address, stays);
	}
	os_store_relaxed(&stop, 1);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	os_store_relaxed(&stop, 0);
	assert_true(map_free(stays));
}

static char *inherited;

static void use_in_child(void)
{
	size_t before = map_bytes();
	char *own = map_alloc(5 * MiB, 1, 0, true);

	CHECK(own && map_find(own + MiB).address == own);
	CHECK(map_find(inherited + 8 * MiB).address == inherited);
	CHECK(map_free(own) && map_free(inherited) && !map_free(inherited));
	CHECK(map_bytes() == before - 9 * MiB && map_bytes() <= before);
}

static void forked_beside_others(void **state)
{
	pthread_t thread;

	(void)state;
	inherited = map_alloc(9 * MiB, 1, 0, true);
	assert_int_equal(pthread_create(&thread, NULL, move, NULL), 0);
	for (int i = 0; i < 10; i++) {
		os_store_relaxed(&most, os_load_relaxed(&moves) + 50);
		assert_int_equal(in_child(use_in_child), 0);
	}
	os_store_relaxed(&stop, 1);
	pthread_join(thread, NULL);
	os_store_relaxed(&stop, 0);
	assert_true(map_free(inherited));
}

static void use_up(void)
{
	char *block;
	size_t n = 0;

	page_trim();
	block = map_alloc(3 * MiB, 1, 0, true);
	CHECK(block);
	no_more_memory();
	CHECK(map_bytes() == 3 * MiB);
	while (map_alloc((size_t)8 << 30, 1, 0, true))
		n++;
	CHECK(n == 0 && map_bytes() == 3 * MiB);
	CHECK(map_find(block).address == block && map_free(block));
}

static void null_without_memory(void **state)
{
	(void)state;
	assert_int_equal(in_child(use_up), 0);
}

/* Also if one of that size waits, whose memory then goes. */
static void a_large_zeroed_block_is_new(void **state)
{
	size_t size = 64 * MiB, waits;
	unsigned char *resident = calloc(size / OS_PAGE, 1);
	char *block;

	(void)state;
	clock_stands = true;
	page_trim();
	block = map_alloc(size, 1, 0, false);
	assert_true(block && resident);
	memset(block, 7, size);
	assert_true(map_free(block));
	waits = map_usage().waiting;
	block = map_alloc(size, 1, 0, true);
	assert_non_null(block);
	assert_int_equal(map_usage().waiting, 0);
	assert_int_equal(mincore(block, size, resident), 0);
	/* While a tool watches memory, none waited. */
	for (size_t i = 0; waits && i < size / OS_PAGE; i++)
		assert_int_equal(resident[i] & 1, 0);
	assert_int_equal(block[0] + block[size - 1], 0);
	assert_true(map_free(block));
	free(resident);
}

/* One that waits for a grace period is no longer the program's. */
static void what_waits_keeps_its_size(void **state)
{
	char *block = map_alloc(4 * MiB, 1, 0, false);

	(void)state;
	assert_non_null(block);
	assert_true(map_retire(block));
	assert_null(map_resize(block, 8 * MiB, 1));
	assert_int_equal(map_find(block).size, 4 * MiB);
	map_free_retired(block);
}

static unsigned int mappings;

/* After the first mapping, which reserves the addresses. */
static bool refuse_tables(const char *point)
{
	return !strcmp(point, "mmap") && mappings++;
}

/* It needs another part of the table. */
static void no_table_for_more(void **state)
{
	size_t size = (size_t)40 << 30;
	char *block = map_alloc(4 * MiB, 1, 0, false);

	(void)state;
	assert_non_null(block);
	/* A tool sees copies, and so does a process with a limit. */
	if (os.tools || os_address_limit() < os_addresses() || size > os_addresses() / 2)
		skip();
	mappings = 0;
	hook_fail_by(refuse_tables);
	assert_null(map_resize(block, size, 1));
	hook_fail_by(NULL);
	assert_true(mappings > 1);
	assert_int_equal(map_find(block).size, 4 * MiB);
	assert_true(map_free(block));
}

int test_map(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_address_finds_its_block),
		cmocka_unit_test(no_other_address_does),
		cmocka_unit_test(many_blocks),
		cmocka_unit_test(one_of_many_frees),
		cmocka_unit_test(others_come_and_go),
		cmocka_unit_test(forked_beside_others),
		cmocka_unit_test(null_without_memory),
		cmocka_unit_test(a_large_zeroed_block_is_new),
		cmocka_unit_test(what_waits_keeps_its_size),
		cmocka_unit_test(no_table_for_more),
	};

	if (!caches_ready())
		return 1;
	/* It grants memory beyond the limit. */
	if (os.tools & TOOL_MEMCHECK) {
		print_message("skipped: this is valgrind\n");
		return SKIPPED;
	}
	return cmocka_run_group_tests_name("map", tests, setup, NULL);
}
