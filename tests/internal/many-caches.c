/* SPDX-License-Identifier: MIT */
/*
 * Many caches: the cost of one more does not depend on their number, nor on CPUs that do not run.
 * The test counts mappings, and instructions of a child that is single-stepped. Each test runs in
 * children of a process that never used the library.
 */
#include "../../bench/common/count.h"

#include <sheaf/stats.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/list.h"
#include "cache/process.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/clock.h"
#include "kit/options.h"
#include "kit/process.h"
#include "kit/sanitizers.h"
#include "kit/unit.h"
#include "os/counters.h"
#include "os/machine.h"
#include "os/section.h"
#include "page/page.h"
#include "percpu/rows.h"

enum {
	FEW = 16, /* their slots end where those of MANY do in a page, which is filled at once */
	MANY = 10000,
	STEPPED = 2,
	ROW_KIB = 64,
	IN_FILE = 16384, /* caches whose counters other processes see */
};

static struct kmem_cache *made[MANY], *stepped[2 * STEPPED];
static char names[MANY][16];

/* Every second cache may be merged, each with a size that no other cache has. */
static bool make_caches(void *number)
{
	unsigned int n = *(unsigned int *)number;

	caches.warned_name = 1;

	for (unsigned int i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "many-%u", i);
		made[i] = kmem_cache_create(names[i], 8 + 8 * i, NULL, i % 2 ? SLAB_NO_MERGE : 0);
		if (!made[i])
			return false;
	}
	return true;
}

/* Make new caches, and ones that reuse old names; destroy the oldest, which are at the end of the
 * list. */
static void make_and_destroy(void *unused)
{
	(void)unused;
	for (unsigned int i = 0; i < STEPPED; i++) {
		stepped[2 * i] = kmem_cache_create(names[i], 72, NULL, SLAB_NO_MERGE);
		stepped[2 * i + 1] = kmem_cache_create("shared", 8 + 16 * i, NULL, 0);
	}
	for (unsigned int i = 0; i < 2 * STEPPED; i++)
		kmem_cache_destroy(stepped[i]);
	for (unsigned int i = 0; i < STEPPED; i++)
		kmem_cache_destroy(made[i]);
}

static void one_more_costs_the_same(void **state)
{
	unsigned int few = FEW, many = MANY;
	struct counts of_few, of_many;

	(void)state;
	/* The stepped child is killed, and would leave its file for statistics. */
	if (strstr(getenv("SHEAF_OPTIONS") ? getenv("SHEAF_OPTIONS") : "", "stats"))
		skip();
	if (HAS_TSAN) {
		print_message("skipped: nearly all instructions would be the sanitizer's\n");
		skip();
	}
	if (!count_steps(make_caches, make_and_destroy, &few, &of_few))
		skip();
	assert_true(count_steps(make_caches, make_and_destroy, &many, &of_many));
	print_message("instructions: %llu with %u caches, %llu with %u\n", of_few.instructions, few,
		      of_many.instructions, many);
	/* A debug cache that is destroyed looks for its slabs among those of all. */
	assert_true(3 * of_many.instructions <
		    (has_slab_debug() || HAS_ASAN ? 6 : 4) * of_few.instructions);
}

static unsigned int lines_of(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned int n = 0;
	int c;

	CHECK(file);
	while ((c = getc(file)) != EOF)
		n += c == '\n';
	fclose(file);
	return n;
}

/* Memory of this process alone, in KiB, without the pages of the file of slots. */
static size_t own_memory(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	size_t kib = 0;
	char line[128];

	CHECK(file);
	while (fgets(line, sizeof(line), file) && sscanf(line, "RssAnon: %zu", &kib) != 1)
		;
	fclose(file);
	return kib;
}

/* Pretend to have more CPUs than this machine, and use one: another one would need memory, too. */
static void invent_cpus(unsigned int n)
{
	pin((unsigned int)sched_getcpu());
	os_init();
	os.nr_cpus = n;
	os_find_places();
	CHECK(caches_ready());
}

/* KiB of the file that others map; the file is removed. */
static size_t shared_memory(void)
{
	struct stat file = {0};
	char path[64];

	snprintf(path, sizeof(path), "/dev/shm/libsheaf-%d", (int)getpid());
	CHECK(!os.counting || stat(path, &file) == 0);
	remove(path);
	return (size_t)file.st_blocks / 2;
}

/* Its name is known, and a request for its layout gets it, if it may be merged. */
static void check_lookups(unsigned int i)
{
	struct kmem_cache *again;

	os_lock(&caches.lock);
	CHECK(list_has_name(names[i]) && !list_has_name("none of them"));
	os_unlock(&caches.lock);
	again = kmem_cache_create("the same layout", 8 + 8 * i, NULL, 0);
	/* Debug caches are never merged, and hardened ones of 8 bytes take 16 for each object. */
	if (!has_debug_letter('F') && !(checks_double() && i == 0))
		CHECK((again == made[i]) == (i % 2 == 0));
	kmem_cache_destroy(again);
}

static unsigned int other_mappings; /* of a process that never used the library */

static void make_and_use(unsigned int n, unsigned int most_mappings)
{
	struct kmem_cache_stats stats;
	unsigned int mappings;

	CHECK(make_caches(&n));
	mappings = lines_of("/proc/self/maps") - other_mappings;
	if (mappings > most_mappings)
		fprintf(stderr, "%u mappings for %u caches on %u CPUs\n", mappings, n, os.nr_cpus);
	CHECK(mappings <= most_mappings);
	for (unsigned int i = 0; i < n; i += n / 10) {
		void *object = kmem_cache_alloc(made[i], GFP_KERNEL);

		CHECK(object);
		kmem_cache_free(made[i], object);
		CHECK(kmem_cache_verify(made[i]) == 0);
		CHECK(kmem_cache_stats(made[i], &stats) == 0);
		CHECK(!os.counting || stats.alloc_fastpath + stats.alloc_slowpath == 1);
	}
	for (unsigned int i = 0; i < n; i += n / 10)
		check_lookups(i);
	for (unsigned int i = 0; i < n; i += n / 10)
		kmem_cache_destroy(made[i]);
}

static void on_384(void)
{
	invent_cpus(384);
	make_and_use(MANY, 1000);
	CHECK(shared_memory() < 40u * 6 * ROW_KIB);
}

static void on_4096(void)
{
	invent_cpus(OS_MAX_ROWS);
	/* Counters lie at the place of a second area. */
	make_and_use(4100, os.counting ? 20000 : 7000);
	CHECK(shared_memory() < 17u * 6 * ROW_KIB);
}

#if HAS_TSAN /* its runtime has memory of its own for each mapping */
#define OWN_MEMORY_KIB SIZE_MAX
#else
#define OWN_MEMORY_KIB 1024
#endif

/* A cache takes few mappings, and no memory for CPUs that do not use it, not even for counters. */
static void one_on_384(void)
{
	size_t before;

	invent_cpus(384);
	before = own_memory();
	make_and_use(10, 250);
	CHECK(own_memory() - before < OWN_MEMORY_KIB);
	CHECK(shared_memory() < 8 * ROW_KIB);
}

static void mappings_are_few(void **state)
{
	(void)state;
	other_mappings = lines_of("/proc/self/maps");
	assert_int_equal(in_child(on_384), 0);
	assert_int_equal(in_child(on_4096), 0);
	assert_int_equal(in_child(one_on_384), 0);
}

static struct kmem_cache *last_made;

/* Counted from 0 in each process. */
static void use_the_last(void)
{
	struct kmem_cache_stats stats;

	kmem_cache_stats(last_made, &stats);
	CHECK(stats.alloc_fastpath + stats.alloc_slowpath == 0);
	kmem_cache_free(last_made, kmem_cache_alloc(last_made, GFP_KERNEL));
	kmem_cache_stats(last_made, &stats);
	CHECK(!os.counting || stats.alloc_fastpath + stats.alloc_slowpath == 1);
}

/* Other processes see the first ones only, and one line says so. */
static void beyond_the_file(void)
{
	struct capture captured;
	char name[16];

	capture_begin(&captured);
	for (unsigned int i = 0; i < IN_FILE + 2 * SLOTS_PER_ROW; i++) {
		snprintf(name, sizeof(name), "more-%u", i);
		last_made = kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
		CHECK(last_made);
	}
	CHECK(capture_end(&captured) == (os.counting ? 1 : 0));
	CHECK(!os.counting || strstr(captured.text, "the first 16384 caches only"));
	CHECK(!os.counting || os_counters_areas() * SLOTS_PER_ROW == IN_FILE);
	use_the_last();
	CHECK(in_child(use_the_last) == 0);
	kmem_cache_destroy(last_made);
}

/* As for a process that has changed its user or its root directory since it created the file. */
static void cannot_open_the_file_again(void)
{
	struct stat before, after;
	struct capture captured;
	char path[64];
	int file;

	last_made = kmem_cache_create("early", 64, NULL, SLAB_NO_MERGE);
	CHECK(last_made);
	snprintf(path, sizeof(path), "/dev/shm/libsheaf-%d", (int)getpid());
	file = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(!os.counting || (file >= 0 && fstat(file, &before) == 0 && unlink(path) == 0));
	capture_begin(&captured);
	for (unsigned int i = 0; i < 3 * SLOTS_PER_ROW; i++) {
		snprintf(path, sizeof(path), "late-%u", i);
		CHECK(kmem_cache_create(path, 64, NULL, SLAB_NO_MERGE));
	}
	kmem_cache_free(last_made, kmem_cache_alloc(last_made, GFP_KERNEL));
	CHECK(capture_end(&captured) == 0);
	CHECK(!os.counting || (fstat(file, &after) == 0 && after.st_size > before.st_size &&
			       after.st_blocks > before.st_blocks));
}

static void the_file_stays_open(void **state)
{
	(void)state;
	assert_int_equal(in_child(cannot_open_the_file_again), 0);
}

static void any_number_can_be_made(void **state)
{
	(void)state;
	assert_int_equal(in_child(beyond_the_file), 0);
}

/* A slot that is used is open, and knows its home node. */
static void use_one(void)
{
	struct kmem_cache *s = kmem_cache_create("opened", 64, NULL, SLAB_NO_MERGE);
	void *object;

	CHECK(s);
	for (uint32_t row = 0; row < os.nr_rows; row++)
		CHECK(!rows_is_open(slot_of_row((char *)s, row)));
	object = kmem_cache_alloc(s, GFP_KERNEL);
	for (uint32_t row = 0; row < os.nr_rows; row++) {
		struct slot *slot = slot_of_row((char *)s, row);

		CHECK(rows_is_open(slot) == (slot->main != &sheaf_bootstrap));
		if (rows_is_open(slot))
			CHECK(slot->home_size &&
			      page_node((void *)slot->home) == os.node_of_row[row]);
	}
	kmem_cache_free(s, object);
	kmem_cache_destroy(s);
}

static void slots_open_where_they_are_used(void **state)
{
	(void)state;
	/* COUNTERS-O3 */
	if (!pin(0))
		skip();
	assert_int_equal(in_child(use_one), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_more_costs_the_same),
		cmocka_unit_test(mappings_are_few),
		cmocka_unit_test(any_number_can_be_made),
		cmocka_unit_test(the_file_stays_open),
		cmocka_unit_test(slots_open_where_they_are_used),
	};

	clock_stands = true; /* no step is counted of what is due only now and then */
	return cmocka_run_group_tests_name("many-caches", tests, NULL, NULL);
}
