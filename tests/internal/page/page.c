/* SPDX-License-Identifier: MIT */
/* Page runs: no two overlap, every address finds its run, and free memory returns to the system. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "page/page.h"

#include "cache/cache.h"
#include "internal/kit/pages.h"
#include "internal/kit/ready.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/hooks.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "os/report/report.h"
#include "page/limit.h"
#include "page/range.h"

enum {
	RUNS = 600,
	ROUNDS = 20000
};

static struct {
	struct slab *slab;
	unsigned int order, node;
	uint64_t stamp;
} runs[RUNS];

/* page_own() only stores it, so it need not be a cache. */
static struct slab_cache *const owner = (struct slab_cache *)&runs;

static void fill(unsigned int i, uint64_t stamp)
{
	runs[i].stamp = stamp;
	for (unsigned int page = 0; page < 1u << runs[i].order; page++) {
		uint64_t *words = (uint64_t *)(page_address(runs[i].slab) + page * OS_PAGE);

		words[0] = words[OS_PAGE / 8 - 1] = stamp + page;
	}
}

static void check(unsigned int i)
{
	for (unsigned int page = 0; page < 1u << runs[i].order; page++) {
		char *address = page_address(runs[i].slab) + page * OS_PAGE;
		const uint64_t *words = (const uint64_t *)address;

		assert_int_equal(words[0], runs[i].stamp + page);
		assert_int_equal(words[OS_PAGE / 8 - 1], runs[i].stamp + page);
		assert_ptr_equal(page_slab(address), runs[i].slab);
		assert_ptr_equal(page_slab(address + OS_PAGE - 1), runs[i].slab);
	}
}

static void take(unsigned int i, uint64_t *seed)
{
	unsigned int order = random_below(seed, 100) == 0 ? 9 : random_below(seed, 6);

	runs[i].node = random_below(seed, os.nr_nodes);
	runs[i].order = order;
	runs[i].slab = page_alloc(runs[i].node, order);
	assert_non_null(runs[i].slab);
	assert_int_equal(runs[i].slab->state, 0);
	assert_null(runs[i].slab->cache);
	assert_null(page_slab(page_address(runs[i].slab)));
	assert_int_equal((uintptr_t)page_address(runs[i].slab) % (OS_PAGE << order), 0);
	assert_int_equal(page_node(page_address(runs[i].slab)), runs[i].node);
	page_own(runs[i].slab, order, owner);
	fill(i, random_next(seed));
}

static void give(unsigned int i)
{
	char *address = page_address(runs[i].slab);

	check(i);
	page_free(runs[i].slab, runs[i].order);
	runs[i].slab = NULL;
	for (unsigned int page = 0; page < 1u << runs[i].order; page++)
		assert_null(page_slab(address + page * OS_PAGE));
}

/* True if no page that could be returned is left: only pages that share a system page with one
 * in use. */
static bool only_parts_are_dirty(void)
{
	struct page_usage usage = page_usage();

	return usage.dirty <= usage.used * (os.page_size / OS_PAGE - 1);
}

static void runs_do_not_overlap(void **state)
{
	struct page_usage before = page_usage(), after;
	uint64_t seed = 7;
	size_t used = 0;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		unsigned int i = random_below(&seed, RUNS);

		if (runs[i].slab)
			give(i);
		else
			take(i, &seed);
	}
	for (unsigned int i = 0; i < RUNS; i++)
		if (runs[i].slab)
			used += OS_PAGE << runs[i].order;
	assert_int_equal(page_usage().used, before.used + used);
	for (unsigned int i = 0; i < RUNS; i++)
		if (runs[i].slab)
			give(i);
	pages_let_time_pass();
	pages_free_some(4);
	after = page_usage();
	assert_int_equal(after.used, before.used);
	assert_true(after.dirty <= page_bound());
	page_trim();
	assert_true(only_parts_are_dirty());
	assert_int_equal(page_usage().used, before.used);
}

static void given_back_reads_zero(void **state)
{
	struct slab *slab = page_alloc(0, 9), *keep = page_alloc(0, 0);
	unsigned char resident[OS_HUGE / OS_PAGE];
	char *address = page_address(slab);

	(void)state;
	memset(address, 0xee, OS_HUGE);
	page_free(slab, 9);
	page_trim();
	assert_int_equal(mincore(address, OS_HUGE, resident), 0);
	for (size_t i = 0; i < sizeof(resident); i++)
		assert_int_equal(resident[i] & 1, 0);
	for (size_t at = 0; at < OS_HUGE; at += OS_PAGE / 2)
		assert_int_equal(address[at], 0);
	page_free(keep, 0);
}

static bool is_resident(const char *address)
{
	unsigned char resident;

	assert_int_equal(mincore((void *)(uintptr_t)address, OS_PAGE, &resident), 0);
	return resident & 1;
}

/* Single pages return to the system in any order of frees. */
static void single_pages_go_back(void **state)
{
	enum {
		PAGES = 8 << 8 /* 8 MiB */
	};
	static struct slab *taken[PAGES];
	size_t used = page_usage().used, resident = 0;
	uint64_t seed = 17;

	(void)state;
	for (int i = 0; i < PAGES; i++) {
		taken[i] = page_alloc(0, 0);
		assert_non_null(taken[i]);
		*page_address(taken[i]) = 1;
	}
	for (unsigned int i = 0; i < PAGES; i++) {
		unsigned int j = i + random_below(&seed, PAGES - i);
		struct slab *chosen = taken[j];

		assert_int_equal(*page_address(chosen), 1);
		taken[j] = taken[i];
		taken[i] = chosen;
		page_free(chosen, 0);
	}
	page_trim();
	for (int i = 0; i < PAGES; i++)
		resident += is_resident(page_address(taken[i])) ? OS_PAGE : 0;
	assert_true(only_parts_are_dirty());
	assert_true(resident <= used * (os.page_size / OS_PAGE - 1));
}

/* Single pages return also where huge pages were advised, because much is in use (PAGE-P4). */
static void scattered_pages_go_back(void **state)
{
	enum {
		PAGES = 64 << 8 /* 64 MiB */
	};
	struct slab **pages_of = malloc(PAGES * sizeof(*pages_of));

	(void)state;
	for (unsigned int i = 0; i < PAGES; i++) {
		pages_of[i] = page_alloc(0, 0);
		assert_non_null(pages_of[i]);
	}
	for (unsigned int odd = 0; odd < 2; odd++) {
		for (unsigned int i = 0; i < PAGES; i++)
			if ((uintptr_t)page_address(pages_of[i]) / os.page_size % 2 == odd)
				page_free(pages_of[i], 0);
		pages_let_time_pass();
		/* Single pages are slow. */
		pages_free_some(100);
		/* And a page of each node, which that used. */
		assert_true(page_usage().dirty <= page_bound() + os.nr_nodes * OS_PAGE);
	}
	free(pages_of);
	page_trim();
}

static void foreign_addresses(void **state)
{
	int local;

	(void)state;
	assert_null(page_slab(NULL));
	assert_null(page_slab(&local));
	assert_null(page_slab(pages.base - 1));
	assert_null(page_slab(pages.base + pages.size));
	assert_null(page_slab((void *)UINTPTR_MAX));
	/* Inside the ranges, but in chunks that were never used: their descriptors are
	 * unreadable. */
	assert_null(page_slab(pages.base + pages.size - 1));
	for (uint32_t node = 0; node < os.nr_nodes; node++)
		assert_null(page_slab(pages.base + ((size_t)(node + 1) << pages.range_shift) - 1));
}

/* 16 TiB for each node, where the address space allows it. */
static void a_range_is_large(void **state)
{
	size_t wanted = ((size_t)16 << 40) * os.nr_nodes;
	void *other;

	(void)state;
	if (os_address_limit() < 2 * wanted || os.nr_nodes > 4)
		return;
	other = mmap(NULL, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (other == MAP_FAILED)
		return;
	munmap(other, wanted);
	assert_int_equal(pages.size, wanted);
	assert_int_equal((size_t)1 << pages.range_shift, (size_t)16 << 40);
}

static unsigned int allowed;

static bool refuse_access(const char *point)
{
	return !strcmp(point, "mprotect") && (!allowed || !allowed--);
}

/* P3: descriptors are made readable when they are needed. */
static void grow_beyond_what_is_readable(void)
{
	size_t before = pages.readable;
	struct slab *slab;

	hook_fail_by(refuse_access);
	while (page_alloc(0, 9)) /* chunks that are in use already */
		;
	allowed = 1; /* the new chunk's own descriptions */
	CHECK(!page_alloc(0, 9) && pages.readable == before);
	hook_fail_by(NULL);
	slab = page_alloc(0, 9);
	if (!slab)
		return; /* this system does not overcommit memory */
	CHECK(pages.readable == before + OS_HUGE);
	page_own(slab, 9, owner);
	CHECK(page_address(slab) - pages.base == (ptrdiff_t)before);
	CHECK(page_owner(pages.base + before) == owner);
	CHECK(page_slab(pages.base + before + OS_HUGE - 1) == slab);
	CHECK(!page_slab(pages.base + before + OS_HUGE));
	CHECK(!page_slab(pages.base + pages.size - 1));
}

static void what_is_readable_grows(void **state)
{
	struct capture captured;
	int status;

	(void)state;
	if (pages.readable == pages.size)
		return;
	capture_begin(&captured);
	status = in_child(grow_beyond_what_is_readable);
	assert_int_equal(capture_end(&captured), 0);
	assert_int_equal(status, 0);
}

static void exhausted(void)
{
	unsigned int n = 0;

	no_more_memory();
	while (page_alloc(0, 9))
		n++;
	CHECK(n < 1000);
	CHECK(!page_alloc(0, 9));
}

static void out_of_memory_is_null(void **state)
{
	(void)state;
	assert_int_equal(in_child(exhausted), 0);
}

static void waits_for_nobody(void)
{
	CHECK(!page_is_returning() && !page_sees_last_look());
	page_wait_returning();
}

/* The threads that were returning pages, or looked for the last ones, are not in a child. */
static void returns_end_with_their_threads(void **state)
{
	uint32_t *returning = page_begin_return();

	(void)state;
	page_begin_last_look();
	assert_int_equal(in_child(waits_for_nobody), 0);
	assert_true(page_is_returning() && page_sees_last_look());
	page_end_last_look();
	page_end_return(returning);
}

int test_page(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs_do_not_overlap),
		cmocka_unit_test(given_back_reads_zero),
		cmocka_unit_test(single_pages_go_back),
		cmocka_unit_test(scattered_pages_go_back),
		cmocka_unit_test(foreign_addresses),
		cmocka_unit_test(a_range_is_large),
		cmocka_unit_test(what_is_readable_grows),
		cmocka_unit_test(out_of_memory_is_null),
		cmocka_unit_test(returns_end_with_their_threads),
	};

	return cmocka_run_group_tests_name("page", tests, setup, NULL);
}
