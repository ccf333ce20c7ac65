/* SPDX-License-Identifier: MIT */
/*
 * The heap profile (profile=4096): is what it says true? Four places in the program allocate in a
 * fixed pattern, by each kind of call; each must have its share of the samples. With the trylock
 * backend on one CPU nothing is left to chance, and the bounds are four standard errors; sections
 * may be aborted, so with rseq they are six.
 */
#include <pthread.h>
#include <sched.h>
#include <sheaf/group.h>
#include <sheaf/kmalloc.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <stdio.h>
#include <string.h>

#include "cache/housekeeping.h"
#include "cache/paths.h"
#include "cache/sampling.h"
#include "debug/sample.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/chance.h"
#include "kit/hooks.h"
#include "kit/process.h"
#include "kit/sanitizers.h"
#include "kit/unit.h"
#include "os/counters.h"

enum {
	SAMPLES = 40000,
	MANY = 2000000, /* objects so small that fewer samples must do */
	DRAWS = 1 << 22,
	SITES = 4,
	PATTERN = 16,
	MOST = 64, /* objects of one call */
	MEAN = 4096,
	LARGE = 65536,
	HUGE = 2 << 20,
	HELD = 1000, /* calls whose objects are in use together */
};

/* A way to allocate objects of one size, and to free them. */
struct kind {
	const char *name;
	unsigned int size;
	uint32_t mean;
	unsigned int (*take)(void **objects);
	void (*give)(void **objects, unsigned int n);
	unsigned int held; /* calls before any frees */
};

struct site {
	const void *ip;
	uint64_t objects; /* allocated there */
};

static const unsigned char pattern[PATTERN] = {0, 3, 3, 1, 3, 2, 3, 2, 3, 2, 3, 1, 3, 2, 3, 3};
static const struct kind *kind;
static struct site sites[SITES];
static const void *caller;
static struct kmem_cache *small, *middle, *bare;
static struct kmem_group *group;
static void *held[HELD][MOST];

/* --- kinds of calls --------------------------------------------------------------------------- */

static void free_each(void **objects, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		kfree(objects[i]);
}

static void free_bulk(void **objects, unsigned int n)
{
	kmem_cache_free_bulk(NULL, n, objects);
}

#define TAKES_ONE(name, call)                                                                      \
	static unsigned int name(void **objects)                                                   \
	{                                                                                          \
		objects[0] = call;                                                                 \
		return 1;                                                                          \
	}

TAKES_ONE(alloc, kmem_cache_alloc(small, GFP_KERNEL))
TAKES_ONE(zalloc, kmem_cache_zalloc(middle, GFP_KERNEL))
TAKES_ONE(alloc_node, kmem_cache_alloc_node(middle, GFP_KERNEL, 0))
TAKES_ONE(alloc_nolock, kmem_cache_alloc_nolock(middle, 0))
TAKES_ONE(alloc_bare, kmem_cache_alloc(bare, GFP_KERNEL))
TAKES_ONE(alloc_charged, kmem_cache_alloc_charged(middle, GFP_KERNEL, group))
TAKES_ONE(alloc_block, kmalloc(1000, GFP_KERNEL))
TAKES_ONE(alloc_large, kmalloc(HUGE, GFP_KERNEL))

static unsigned int bulk(struct kmem_cache *s, void **objects, unsigned int n)
{
	return (unsigned int)kmem_cache_alloc_bulk(s, GFP_KERNEL, n, objects);
}

static unsigned int bulk_small(void **objects)
{
	return bulk(small, objects, 48);
}

static unsigned int bulk_of_one(void **objects)
{
	return bulk(small, objects, 1);
}

static unsigned int bulk_middle(void **objects)
{
	return bulk(middle, objects, 17);
}

/* All that the sheaf has is allocated where it is filled. */
static unsigned int prefilled(void **objects)
{
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(middle, GFP_KERNEL, 5);
	unsigned int n = kmem_cache_sheaf_size(sheaf);

	assert_in_range(n, 5, MOST);
	for (unsigned int i = 0; i < n / 2; i++)
		objects[i] = kmem_cache_alloc_from_sheaf(middle, GFP_KERNEL, sheaf);
	kmem_cache_return_sheaf(middle, GFP_KERNEL, sheaf);
	for (unsigned int i = n / 2; i < n; i++)
		objects[i] = NULL;
	return n;
}

static const struct kind kinds[] = {
	{"pairs", 64, MEAN, alloc, free_each, 1},
	{"growth", 64, MEAN, alloc, free_each, HELD},
	{"zeroed", 1024, MEAN, zalloc, free_each, 1},
	{"of a node", 1024, MEAN, alloc_node, free_each, 1},
	{"nolock", 1024, MEAN, alloc_nolock, free_each, 1},
	{"without sheaves", 1024, MEAN, alloc_bare, free_each, 1},
	{"charged", 1024, MEAN, alloc_charged, free_each, 1},
	{"blocks", 1024, MEAN, alloc_block, free_each, HELD},
	{"bulk", 64, MEAN, bulk_small, free_bulk, HELD},
	{"bulk of one", 64, MEAN, bulk_of_one, free_bulk, HELD},
	{"bulk of more", 1024, MEAN, bulk_middle, free_bulk, 1},
	{"prefilled", 1024, MEAN, prefilled, free_each, 1},
	{"large blocks", HUGE, 4 * HUGE, alloc_large, free_each, 1},
};

/* --- sites ------------------------------------------------------------------------------------ */

static __attribute__((noinline)) unsigned int take(void **objects)
{
	unsigned int n = kind->take(objects);

	caller = __builtin_return_address(0);
	return n;
}

#define SITE(i)                                                                                    \
	static __attribute__((noinline)) unsigned int site_##i(void **objects)                     \
	{                                                                                          \
		unsigned int n = take(objects);                                                    \
                                                                                                   \
		sites[i].objects += n;                                                             \
		sites[i].ip = caller;                                                              \
		return n;                                                                          \
	}

SITE(0)
SITE(1)
SITE(2)
SITE(3)

static unsigned int (*const calls[SITES])(void **) = {site_0, site_1, site_2, site_3};

/* --- rows ------------------------------------------------------------------------------------- */

struct rows {
	uint64_t all, live, freed, asked;
};

static bool has(const struct profile_row *row, const void *ip)
{
	for (uint32_t i = 0; i < row->n; i++)
		if (row->ip[i] == (uintptr_t)ip)
			return true;
	return false;
}

/* Of the stacks through this place. */
static struct rows rows_of(const void *ip)
{
	struct rows rows = {0, 0, 0, 0};

	for (struct profile_row *row = profile_next(NULL); row; row = profile_next(row)) {
		if (!has(row, ip))
			continue;
		rows.all += row->all.samples;
		rows.live += row->live.samples;
		rows.freed += row->freed;
		rows.asked += row->all.bytes;
	}
	return rows;
}

/* --- tests ------------------------------------------------------------------------------------ */

static uint64_t nr_objects(void)
{
	uint64_t n = 0;

	for (int i = 0; i < SITES; i++)
		n += sites[i].objects;
	return n;
}

static void run(uint64_t objects)
{
	unsigned int n[HELD], next = 0;

	memset(sites, 0, sizeof(sites));
	while (nr_objects() < objects) {
		for (unsigned int i = 0; i < kind->held; i++)
			n[i] = calls[pattern[next++ % PATTERN]](held[i]);
		for (unsigned int i = 0; i < kind->held; i++)
			kind->give(held[i], n[i]);
	}
}

static void is_near(const char *what, uint64_t samples, double objects, double chance)
{
	double off = (double)samples - objects * chance, bound = is_trylock() ? 4 : 6;

	if (off * off > bound * bound * objects * chance * (1 - chance))
		fail_msg("%s, %s: %llu samples, not %.0f", kind->name, what,
			 (unsigned long long)samples, objects * chance);
}

static void each_place_has_its_share(void **state)
{
	(void)state;
	for (unsigned int k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		uint64_t all = 0;
		double chance;

		kind = &kinds[k];
		chance = sample_chance(kind->size, kind->mean);
		assert_true(profile_begin(kind->mean));
		run((uint64_t)(SAMPLES / chance));
		for (int i = 0; i < SITES; i++) {
			static uint64_t before[SITES];
			struct rows rows = rows_of(sites[i].ip);
			uint64_t samples = rows.all - before[i];
			char what[] = "place 0";

			what[6] += (char)i;
			assert_int_equal(rows.live, 0);
			assert_int_equal(rows.freed, rows.all);
			is_near(what, samples, (double)sites[i].objects, chance);
			all += samples;
			before[i] = rows.all;
		}
		is_near("all", all, (double)nr_objects(), chance);
		assert_int_equal(profile_left_out(), 0);
	}
	assert_true(profile_begin(MEAN));
}

/* Where each allocation draws for itself, also if a sample is very unlikely. */
static void rare_samples(void **state)
{
	static const struct kind rare = {"rare", 8, 1 << 19, NULL, NULL, 0};
	uint64_t taken = 0, first = 0;

	(void)state;
	kind = &rare;
	assert_true(profile_begin(rare.mean));
	for (unsigned int i = 0; i < DRAWS; i++) {
		taken += sample_is_taken(rare.size);
		first += sample_pops(rare.size) == 1;
	}
	is_near("taken", taken, DRAWS, sample_chance(rare.size, rare.mean));
	is_near("the first pop", first, DRAWS, sample_chance(rare.size, rare.mean));
	assert_true(profile_begin(MEAN));
}

/* Of all rows: the samples in use, or all there were. */
static struct profile_sum sum(bool live)
{
	struct profile_sum sum = {0, 0};

	for (struct profile_row *row = profile_next(NULL); row; row = profile_next(row)) {
		sum.samples += live ? row->live.samples : row->all.samples;
		sum.bytes += live ? row->live.bytes : row->all.bytes;
	}
	return sum;
}

static void has_live(uint64_t samples, uint64_t bytes)
{
	assert_int_equal(sum(true).samples, samples);
	assert_int_equal(sum(true).bytes, bytes);
}

/* The bytes that are asked for, from the smallest blocks to the largest. */
static void sizes(void **state)
{
	static const struct kind each = {"sizes", 0, MEAN, NULL, NULL, 0};

	(void)state;
	kind = &each;
	for (size_t size = 8; size <= 1 << 30; size *= 8) {
		double chance = sample_chance(size, MEAN);
		uint64_t n = size < 64 ? MANY : size < LARGE ? (uint64_t)(SAMPLES / chance) : 3;
		struct profile_sum before = sum(false), after;
		char what[20];

		for (uint64_t i = 0; i < n; i++) {
			void *block = kvmalloc(size - 1, GFP_KERNEL);

			assert_non_null(block);
			kvfree(block);
		}
		after = sum(false);
		snprintf(what, sizeof(what), "%zu bytes", size);
		assert_int_equal(after.bytes - before.bytes,
				 (after.samples - before.samples) * (size - 1));
		if (size < LARGE)
			is_near(what, after.samples - before.samples, (double)n, chance);
		else
			assert_int_equal(after.samples - before.samples, n);
		has_live(0, 0);
	}
}

/* Each of these blocks is a sample, and stays one, however it is aligned, resized and moved. */
static void resized_blocks(void **state)
{
	static const size_t steps[] = {300000,	310000,	 65600, 3 << 20, 40 << 20, 39 << 20,
				       2 << 20, 1 << 30, 70000, 1100000, 80000};
	void *block = kvmalloc_node_align(200000, 4096, GFP_KERNEL, NUMA_NO_NODE);

	(void)state;
	assert_int_equal((uintptr_t)block % 4096, 0);
	has_live(1, 200000);
	for (unsigned int i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		block = kvrealloc(block, steps[i], GFP_KERNEL);
		assert_non_null(block);
		has_live(1, steps[i]);
	}
	kvfree(block);
	has_live(0, 0);
	/* A small block in a large mapping. */
	block = kvmalloc_node_align(100, 4 << 20, GFP_KERNEL, NUMA_NO_NODE);
	assert_int_equal((uintptr_t)block % (4 << 20), 0);
	kvfree(block);
	has_live(0, 0);
}

static uint64_t peak_of(const struct profile_run *run)
{
	uint64_t peak = 0;

	for (struct profile_row *row = profile_next(NULL); row; row = profile_next(row))
		peak += row->run == run ? profile_peak(row)->bytes : 0;
	return peak;
}

/* Each of these objects is a sample. (PROFILE-J3) */
static void the_peak_is_exact(void **state)
{
	static const unsigned int in_use[] = {300, 100, 305, 50, 1000, 0};
	struct kmem_cache *s = make("large", LARGE, 0);
	static void *objects[1000];
	uint64_t most = 0;

	(void)state;
	for (unsigned int i = 0, n = 0; i < sizeof(in_use) / sizeof(in_use[0]); i++) {
		while (n < in_use[i])
			objects[n++] = kmem_cache_alloc(s, GFP_KERNEL);
		while (n > in_use[i])
			kmem_cache_free(s, objects[--n]);
		most = most > in_use[i] ? most : in_use[i];
		assert_int_equal(peak_of(profile_run()), most * LARGE);
	}
	kmem_cache_destroy(s);
}

/* Samples of another mean neither lift a peak nor hide one, whenever they are freed. */
static void each_mean_has_its_peak(void **state)
{
	struct kmem_cache *s = make("peaks", LARGE, 0);
	struct profile_run *first = profile_run(), *second;
	uint64_t before = peak_of(first);
	void *old[10], *new[40];

	(void)state;
	assert_true(before > 40 * LARGE);
	for (int i = 0; i < 10; i++)
		old[i] = kmem_cache_alloc(s, GFP_KERNEL);
	assert_true(profile_begin(MEAN + 1));
	second = profile_run();
	assert_ptr_not_equal(second, first);
	for (int i = 0; i < 40; i++)
		new[i] = kmem_cache_alloc(s, GFP_KERNEL);
	assert_int_equal(peak_of(second), 40 * LARGE);
	for (int i = 0; i < 10; i++)
		kmem_cache_free(s, old[i]);
	assert_int_equal(first->live, 0);
	assert_true(profile_begin(MEAN));
	assert_ptr_equal(profile_run(), first);
	for (int i = 0; i < 40; i++)
		kmem_cache_free(s, new[i]);
	assert_int_equal(first->live, 0);
	assert_int_equal(second->live, 0);
	assert_int_equal(peak_of(first), before);
	kmem_cache_destroy(s);
}

static void shows(enum os_process_word word, uint64_t bytes)
{
	assert_int_equal(os_load_relaxed(os_process_word(word)), bytes);
}

/* SHOW-W1: an object of 64 KiB, and one of less, which keeps its memory. */
static void others_see_samples(void **state)
{
	struct kmem_cache *s[] = {make("shown", LARGE, 0), make("shown, too", LARGE / 2, 0)};
	struct sheaf_stats stats;

	(void)state;
	if (!os_process_word(OS_PROCESS_used_bytes))
		skip();
	for (int i = 0; i < 4; i++) {
		void *object = kmem_cache_alloc(s[i % 2], GFP_KERNEL);

		for (int freed = 0; freed < 2; freed++) {
			sheaf_stats(&stats);
			shows(OS_PROCESS_used_bytes, stats.used_bytes);
			shows(OS_PROCESS_committed_bytes, stats.committed_bytes);
			kmem_cache_free(s[i % 2], freed ? NULL : object);
		}
	}
	kmem_cache_destroy(s[0]);
	kmem_cache_destroy(s[1]);
}

extern uint16_t sheaf_otel_memory_alloc_semaphore;

/* The first thread waits for the lock that this one has, to switch the profile on for a tracer. */
static void *switch_before(void *unused)
{
	wait_until_first_sleeps();
	os_store_relaxed(&os_options.profile, PROFILE_WANTED);
	housekeeping_unlock();
	return unused;
}

/* What another process began at the same time stays on when the tracer is gone. */
static void tracers_come_late(void **state)
{
	pthread_t thread;

	(void)state;
	sampling_end();
	housekeeping_lock();
	sheaf_otel_memory_alloc_semaphore = 1;
	assert_int_equal(pthread_create(&thread, NULL, switch_before, NULL), 0);
	sampling_see_tracers();
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(os_options.profile, PROFILE_WANTED);
	sheaf_otel_memory_alloc_semaphore = 0;
	sampling_see_tracers();
	assert_int_equal(os_options.profile, PROFILE_WANTED);
	assert_true(sampling_begin(MEAN, PROFILE_WANTED));
}

/* A thread may find that a sample is due when another one has just switched samples off. */
static void late_samples(void **state)
{
	void *object;

	(void)state;
	object = cache_alloc_guarded(small);
	assert_non_null(object);
	kmem_cache_free(small, object);
	os_store_relaxed(&os_options.profile, 0);
	assert_null(cache_alloc_guarded(small));
	os_store_relaxed(&os_options.profile, PROFILE_WANTED);
}

static bool refuse_chunks(const char *point)
{
	static unsigned int n;

	return !strcmp(point, "mprotect") && ++n % 3 == 0;
}

/* Of 512 chunks, no thread uses one. Their tables, by two calls, come before their memory. */
static void refused_chunks_are_not_lost(void **state)
{
	struct kmem_cache *s = make("refused", 600 << 10, 0);
	static struct capture captured;
	uint64_t before = profile_left_out();

	(void)state;
	/* A slab. */
	kmem_cache_free(s, kmem_cache_alloc_node(s, GFP_KERNEL | __GFP_THISNODE, 0));
	capture_begin(&captured);
	hook_fail_by(refuse_chunks);
	for (unsigned int i = 0; i < 600; i++)
		kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	hook_fail_by(NULL);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "or there is no memory for them; "));
	assert_int_equal(profile_left_out() - before, 600);
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	assert_int_equal(profile_left_out() - before, 600);
	kmem_cache_destroy(s);
}

/* As many as have room in one half of the memory; the others have a row together. (PROFILE-J5) */
static void groups_leave_room(void **state)
{
	uintptr_t ip[PROFILE_DEPTH] = {1};
	uint64_t before = profile_left_out(), n = 0;
	struct profile_row *row, *shared;
	char group[PROFILE_GROUP];

	(void)state;
	do {
		snprintf(group, sizeof(group), "group %u", (unsigned int)++n);
		row = profile_allocated(NULL, "groups", group, 8, 8, ip, PROFILE_DEPTH);
		assert_non_null(row);
	} while (!strcmp(row->group, group));
	assert_in_range(n, 1000, 8 << 10);
	assert_string_equal(row->group, "");
	shared = profile_allocated(NULL, "groups", "another", 8, 8, ip, PROFILE_DEPTH);
	assert_ptr_equal(shared, row);
	row = profile_allocated(NULL, "groups", "group 1", 8, 8, ip, PROFILE_DEPTH);
	assert_string_equal(row->group, "group 1");
	assert_int_equal(row->live.samples, 2);
	assert_int_equal(profile_left_out(), before);
}

/* Without room for a row, a sample is counted, and is an object like any other. The first one is
 * reported. (PROFILE-J2) */
static void what_has_no_room_is_counted(void **state)
{
	static struct capture captured;
	uintptr_t ip[PROFILE_DEPTH] = {1};
	uint64_t before = profile_left_out();
	struct kmem_cache *s;
	void *object;

	(void)state;
	capture_begin(&captured);
	while (profile_allocated(NULL, "full", "", 8, 8, ip, PROFILE_DEPTH))
		ip[0]++;
	while (profile_allocated(NULL, "full", "", 8, 8, ip, 1))
		ip[0]++;
	assert_int_equal(profile_left_out() - before, 2);
	s = make("late", LARGE, 0);
	object = kmem_cache_alloc(s, GFP_KERNEL);
	assert_int_equal(profile_left_out() - before, 3);
	memset(object, 1, LARGE);
	kmem_cache_free(s, object);
	kmem_cache_destroy(s);
	assert_int_equal(capture_end(&captured), 1);
	assert_string_equal(captured.text,
			    "libsheaf: profile: the 16 MiB for stacks are full; samples of further "
			    "stacks are left out, so figures are too low. Start the program with a "
			    "larger mean, profile=N: fewer samples have fewer stacks\n");
}

/* What was on stays on, if there is no memory for another mean. */
static void another_mean_has_no_room(void **state)
{
	uint32_t mean = 10 * MEAN;

	(void)state;
	while (sampling_begin(mean, PROFILE_WANTED))
		assert_true(++mean < 10 * MEAN + 10);
	assert_int_equal(os_options.profile, PROFILE_WANTED);
	assert_int_not_equal(profile_mean(), mean);
	assert_true(sampling_begin(MEAN, PROFILE_WANTED));
	assert_int_equal(profile_mean(), MEAN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_place_has_its_share),
		cmocka_unit_test(rare_samples),
		cmocka_unit_test(the_peak_is_exact),
		cmocka_unit_test(sizes),
		cmocka_unit_test(resized_blocks),
		cmocka_unit_test(each_mean_has_its_peak),
		cmocka_unit_test(others_see_samples),
		cmocka_unit_test(tracers_come_late),
		cmocka_unit_test(late_samples),
		cmocka_unit_test(refused_chunks_are_not_lost),
		cmocka_unit_test(groups_leave_room),
		cmocka_unit_test(what_has_no_room_is_counted),
		cmocka_unit_test(another_mean_has_no_room),
	};
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	small = make("small", 64, 0);
	middle = make("middle", 1024, 0);
	bare = make("bare", 1024, SLAB_NO_SHEAVES);
	group = kmem_group_create("group", NULL, NULL);
	hook_seed_samples(12345);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
