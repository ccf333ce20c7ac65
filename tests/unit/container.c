/* SPDX-License-Identifier: MIT */
/*
 * A process whose control group is given less memory, or more, while it runs: what it holds without
 * use follows. Both versions of control groups, invented.
 */
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <stdio.h>
#include <string.h>

#include "kit/cache.h"
#include "kit/check.h"
#include "kit/needs.h"
#include "kit/pages.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/linux/file.h"
#include "os/options.h"
#include "page/page.h"
#include "percpu/budget.h"

enum {
	MANY = 128,	/* runs of 2 MiB */
	OBJECTS = 1000, /* more than a CPU has in its sheaves */
	LARGE = PAGE_MAX_ORDER
};

#define MiB ((size_t)1 << 20)

static struct {
	const char *list, *path; /* /proc/self/cgroup, and the file with the limit */
	size_t limit;
} group;

/* In the place of the library's: there is one group, and no other file. */
int os_file_read(const char *path, char *text, size_t size)
{
	if (!strcmp(path, "/proc/self/cgroup"))
		return snprintf(text, size, "%s", group.list);
	if (!strcmp(path, group.path))
		return snprintf(text, size, "%zu\n", group.limit);
	return -1;
}

static struct kmem_cache *s;
static struct slab *runs[MANY];
static void *objects[OBJECTS];

/* So long that the library looks again, in slow calls, but what was freed still counts as freed a
 * moment ago. */
static void look_again(void)
{
	clock_pass_ms(1000);
	for (unsigned int round = 0; round < 40; round++) {
		clock_pass_ms(DECAY_TICK_MS);
		for (unsigned int i = 0; i < OBJECTS; i++) {
			objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
			CHECK(objects[i]);
		}
		for (unsigned int i = 0; i < OBJECTS; i++)
			kmem_cache_free(s, objects[i]);
	}
}

static void free_heap(void)
{
	for (unsigned int i = 0; i < MANY; i++) {
		runs[i] = page_alloc(0, LARGE);
		CHECK(runs[i]);
	}
	for (unsigned int i = 0; i < MANY; i++)
		page_free(runs[i], LARGE);
}

static size_t budget(void)
{
	struct sheaf_stats stats;

	sheaf_stats(&stats);
	return stats.sheaf_budget;
}

static void run_in_group(void)
{
	size_t heap = MANY * OS_HUGE;

	clock_stands = true;
	group.limit = 4096 * MiB;
	s = kmem_cache_create("contained", 64, NULL, SLAB_NO_MERGE);
	CHECK(s);
	CHECK(budget() == group.limit / BUDGET_PART);
	free_heap();
	CHECK(page_usage().dirty >= heap / os.nr_cpu_nodes);
	/* An eighth stays, and what may always stay; not more in all than a quarter. */
	group.limit = 128 * MiB;
	look_again();
	CHECK(budget() == group.limit / BUDGET_PART);
	CHECK(page_usage().dirty <= group.limit / 4);
	/* For other frees, too. */
	free_heap();
	CHECK(page_usage().dirty <= group.limit / 4);
	group.limit = 4096 * MiB;
	look_again();
	CHECK(budget() == group.limit / BUDGET_PART);
	free_heap();
	CHECK(page_usage().dirty >= heap / os.nr_cpu_nodes);
}

static void unified(void **state)
{
	(void)state;
	group.list = "0::/box\n";
	group.path = "/sys/fs/cgroup/box/memory.max";
	assert_int_equal(in_child(run_in_group), 0);
}

static void separate(void **state)
{
	(void)state;
	group.list = "3:memory:/box\n0::/\n";
	group.path = "/sys/fs/cgroup/memory/box/memory.limit_in_bytes";
	assert_int_equal(in_child(run_in_group), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unified),
		cmocka_unit_test(separate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
