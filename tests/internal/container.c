/* SPDX-License-Identifier: MIT */
/*
 * A process whose control group gets a lower or higher limit while it runs: the memory that the
 * library keeps unused follows. Both versions of control groups, invented. A limit of a node's barn
 * is divided among the CPUs whose time the group grants.
 */
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "debug/slab_debug.h"
#include "internal/kit/pages.h"
#include "kit/cache.h"
#include "kit/check.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/file.h"
#include "os/memory.h"
#include "os/options/options.h"
#include "page/page.h"
#include "percpu/barn/barn.h"
#include "percpu/barn/budget.h"

enum {
	MANY = 128, /* runs of 2 MiB */
	FEW = 20,
	OBJECTS = 1000, /* more than a CPU has in its sheaves */
	LARGE = PAGE_MAX_ORDER,
	SMALL = 5,
	SMALL_RUNS = 1024 /* of 128 KiB */
};

#define MiB ((size_t)1 << 20)

static struct {
	const char *list, *path; /* /proc/self/cgroup, and the file with the limit */
	size_t limit;
	unsigned int cpus; /* whose time it grants; 0: all, or the version cannot say */
} group;

/* Replaces the library's function: there is one group, and no other file. */
int os_file_read(const char *path, char *text, size_t size)
{
	if (!strcmp(path, "/proc/self/cgroup"))
		return snprintf(text, size, "%s", group.list);
	if (!strcmp(path, group.path))
		return snprintf(text, size, "%zu\n", group.limit);
	if (group.cpus && !strcmp(path, "/sys/fs/cgroup/box/cpu.max"))
		return snprintf(text, size, "%u00000 100000\n", group.cpus);
	return -1;
}

static struct kmem_cache *s;
static struct slab *runs[MANY], *small[SMALL_RUNS];
static void *objects[OBJECTS];

/* Long enough for the library to read the limit again, in slow calls, but short enough that freed
 * memory still counts as freed a moment ago. */
static void look_again(unsigned int n)
{
	clock_pass_ms(1000);
	for (unsigned int round = 0; round < 40; round++) {
		clock_pass_ms(DECAY_TICK_MS);
		for (unsigned int i = 0; i < n; i++) {
			objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
			CHECK(objects[i]);
		}
		for (unsigned int i = 0; i < n; i++)
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

static void run_in_group(void)
{
	size_t heap = MANY * OS_HUGE;
	/* A guarded object costs several system calls, and each of its calls is a slow one. */
	unsigned int n = os_options_debug_has('S') ? FEW : OBJECTS;

	clock_stands = true;
	group.limit = 4096 * MiB;
	s = kmem_cache_create("contained", 64, NULL, SLAB_NO_MERGE);
	CHECK(s);
	os_options.decay = 10000; /* more than look_again() takes */
	free_heap();
	CHECK(page_usage().dirty >= heap / os.nr_cpu_nodes);
	/* At most an eighth stays. */
	group.limit = 128 * MiB;
	look_again(n);
	CHECK(page_usage().dirty <= group.limit / 8);
	/* For other frees, too. */
	free_heap();
	CHECK(page_usage().dirty <= group.limit / 8);
	group.limit = 4096 * MiB;
	look_again(n);
	free_heap();
	CHECK(page_usage().dirty >= heap / os.nr_cpu_nodes);
}

/* --- parts of chunks -------------------------------------------------------------------------- */

static void free_all_but_each(unsigned int nth)
{
	for (unsigned int i = 0; i < SMALL_RUNS; i++)
		if (small[i] && i % nth) {
			page_free(small[i], SMALL);
			small[i] = NULL;
		}
	pages_decay();
}

static void keep_parts_in_group(void)
{
	clock_stands = true;
	group.limit = 64 * MiB;
	CHECK(kmem_cache_create("begins", 64, NULL, 0));
	for (unsigned int i = 0; i < SMALL_RUNS; i++)
		CHECK((small[i] = page_alloc(0, SMALL)));
	/* Not more of the memory than this. */
	free_all_but_each(2);
	CHECK(page_usage().used >= 64 * MiB);
	CHECK(page_usage().dirty <= group.limit / 8);
	group.limit = 16 * MiB;
	CHECK(os_memory_refresh());
	free_all_but_each(128);
	CHECK(page_usage().used >= MiB);
	CHECK(page_usage().dirty <= group.limit / 8);
}

/* --- quarantine ------------------------------------------------------------------------------- */

static void rest_in_group(void)
{
	char options[256];
	const char *given = getenv("SHEAF_OPTIONS");

	snprintf(options, sizeof(options), "%s;slab_debug=FQ", given ? given : "");
	CHECK(setenv("SHEAF_OPTIONS", options, 1) == 0);
	clock_stands = true;
	group.limit = 4096 * MiB;
	s = kmem_cache_create("rests", 2000, NULL, SLAB_NO_MERGE);
	CHECK(s);
	look_again(OBJECTS);
	CHECK(quarantine_bytes() > 16 * MiB);
	group.limit = 128 * MiB;
	look_again(OBJECTS);
	CHECK(quarantine_bytes() <= group.limit / 32);
}

/* --- limits of barns -------------------------------------------------------------------------- */

enum {
	CAPACITY = 64, /* more than the default */
	SHEAVES = 20   /* in the barn of a node; a quarter is for all CPUs */
};

static void limit_barn(bool later)
{
	struct kmem_cache_args args = {.sheaf_capacity = CAPACITY,
				       .barn_objects = later ? 0 : CAPACITY * SHEAVES};
	unsigned int cells = SHEAVES - SHEAVES / 4, most;

	group.limit = 4096 * MiB;
	group.cpus = 1;
	s = kmem_cache_create("limited", 64, &args, SLAB_NO_MERGE);
	CHECK(s);
	if (later)
		CHECK(kmem_cache_set_barn(s, CAPACITY * SHEAVES, 0) == 0);
	most = barn_shard_cells();
	CHECK(s->sheaf.shard_full == (cells < most ? cells : most));
}

static void limit_at_creation(void)
{
	limit_barn(false);
}

static void limit_later(void)
{
	limit_barn(true);
}

static void in_both_versions(void (*body)(void))
{
	group.list = "0::/box\n";
	group.path = "/sys/fs/cgroup/box/memory.max";
	assert_int_equal(in_child(body), 0);
	group.list = "3:memory:/box\n0::/\n";
	group.path = "/sys/fs/cgroup/memory/box/memory.limit_in_bytes";
	assert_int_equal(in_child(body), 0);
}

static void free_memory(void **state)
{
	(void)state;
	in_both_versions(run_in_group);
}

static void parts_of_chunks(void **state)
{
	(void)state;
	in_both_versions(keep_parts_in_group);
}

static void objects_that_rest(void **state)
{
	(void)state;
	in_both_versions(rest_in_group);
}

/* The first call that sets a limit reads what the group grants: nothing was held before. */
static void limits_of_barns(void **state)
{
	(void)state;
	needs(NEED_SHEAVES);
	group.list = "0::/box\n";
	group.path = "/sys/fs/cgroup/box/memory.max";
	assert_int_equal(in_child(limit_at_creation), 0);
	assert_int_equal(in_child(limit_later), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(free_memory),
		cmocka_unit_test(parts_of_chunks),
		cmocka_unit_test(objects_that_rest),
		cmocka_unit_test(limits_of_barns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
