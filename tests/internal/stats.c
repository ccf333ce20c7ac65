/* SPDX-License-Identifier: MIT */
/*
 * Statistics: each counter changes with the event it names, sums are conserved, and other processes
 * see the same numbers as the process itself.
 */
#include <pthread.h>
#include <sched.h>
#include <sheaf/stats.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "cache/cache.h"
#include "cache/events.h"
#include "cache/publish.h"
#include "internal/kit/pages.h"
#include "internal/kit/shown.h"
#include "kit/check.h"
#include "kit/held.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "os/section.h"
#include "page/page.h"
#include "percpu/rows.h"
#include "percpu/sheaf.h"

enum {
	SHEAF = 60, /* capacity for 64 bytes */
	MANY = 40 * SHEAF,
	THREADS = 4,
	HELD = 300,
	ROUNDS = 40000
};

/* How much a counter changed since `before`. */
#define MOVED(before, name) (look(s).name - (before).name)

/* Invariants of every quiet cache. */
static void check_sums(struct kmem_cache *cache, uint64_t in_use)
{
	struct kmem_cache_stats stats = look(cache);

	assert_int_equal(kmem_cache_verify(cache), 0);
	check_shown(cache);
	assert_int_equal(stats.objects_in_use, in_use);
	assert_int_equal(stats.objects, stats.objects_in_use + stats.objects_in_sheaves);
	if (!stats.counted)
		return;
	assert_int_equal(stats.alloc_fastpath + stats.alloc_slowpath - stats.free_fastpath -
				 stats.free_slowpath,
			 stats.objects_in_use);
	assert_int_equal(stats.sheaf_refill - stats.sheaf_flush + stats.free_fastpath -
				 stats.alloc_fastpath,
			 stats.objects_in_sheaves);
	assert_int_equal(stats.alloc_slab - stats.free_slab, stats.slabs);
}

static int set_up_without_sheaves(void **state)
{
	(void)state;
	s = kmem_cache_create("no sheaves", 64, NULL,
			      SLAB_NO_MERGE | SLAB_NO_SHEAVES | SLAB_NO_USER_FLAGS);
	return s ? 0 : -1;
}

static void skip_unless_counted(void)
{
	if (!os.counting)
		skip();
}

/* Only with slub_tiny the cache has none. */
static void needs_sheaves(void)
{
	skip_unless_counted();
	if (os_options.tiny) {
		print_message("skipped: with slub_tiny there are no sheaves\n");
		skip();
	}
}

static void first_allocation_refills(void **state)
{
	struct kmem_cache_stats before = look(s), after;

	(void)state;
	needs_sheaves();
	take(1);
	after = look(s);
	assert_int_equal(after.alloc_fastpath - before.alloc_fastpath, 1);
	assert_int_equal(after.alloc_slowpath, before.alloc_slowpath);
	assert_true(after.sheaf_refill >= before.sheaf_refill + SHEAF);
	assert_true(after.sheaf_alloc > before.sheaf_alloc);
	assert_true(after.alloc_slab > before.alloc_slab);
	assert_int_equal(after.barn_get_fail, 1);
	assert_int_equal(after.replace_empty_main, 1);
	check_sums(s, 1);
	give(0, 1);
	check_sums(s, 0);
}

static void sheaf_serves_the_fast_path(void **state)
{
	struct kmem_cache_stats before, after;

	(void)state;
	needs_sheaves();
	take(10);
	before = look(s);
	give(0, 10);
	after = look(s);
	assert_int_equal(after.free_fastpath - before.free_fastpath, 10);
	take(10);
	assert_int_equal(MOVED(after, alloc_fastpath), 10);
	assert_int_equal(MOVED(before, sheaf_refill), 0);
	assert_int_equal(MOVED(before, replace_empty_main), 0);
	assert_int_equal(MOVED(before, replace_full_main), 0);
	check_sums(s, 10);
	give(0, 10);
}

static void sheaves_go_through_the_barn(void **state)
{
	struct kmem_cache_stats before;

	(void)state;
	needs_sheaves();
	take(8 * SHEAF);
	before = look(s);
	assert_true(before.barn_get_fail > 0);
	give(0, 8 * SHEAF);
	assert_true(MOVED(before, replace_full_main) > 0);
	assert_true(MOVED(before, barn_put) > 0);
	assert_int_equal(MOVED(before, barn_get), 0);
	assert_true(look(s).barn_full > 0);
	before = look(s);
	take(8 * SHEAF);
	assert_true(MOVED(before, barn_get) > 0);
	assert_true(MOVED(before, barn_replace_empty) > 0);
	assert_true(MOVED(before, barn_replace_empty) <= MOVED(before, barn_get));
	check_sums(s, 8 * SHEAF);
	/* The barn has empty sheaves now, so they are exchanged for full ones. */
	before = look(s);
	give(0, 8 * SHEAF);
	assert_true(MOVED(before, barn_replace_full) > 0);
	assert_true(MOVED(before, barn_replace_full) <= MOVED(before, barn_put));
	check_sums(s, 0);
}

static void full_barn_flushes(void **state)
{
	struct kmem_cache_stats before;

	(void)state;
	needs_sheaves();
	assert_int_equal(kmem_cache_set_barn(s, 1, 1), 0);
	take(MANY);
	before = look(s);
	give(0, MANY);
	assert_true(MOVED(before, barn_put_fail) > 0);
	assert_true(MOVED(before, sheaf_flush) > 0);
	assert_int_equal(MOVED(before, sheaf_flush) % SHEAF, 0);
	/* A flushed sheaf stays in its slot, so the barn is searched once, not for each sheaf. */
	assert_true(MOVED(before, replace_full_main) > MANY / SHEAF / 2);
	assert_true(MOVED(before, barn_get_empty) <= 1);
	assert_int_equal(MOVED(before, free_fastpath), MANY);
	check_sums(s, 0);
}

static void shrink_flushes_and_frees(void **state)
{
	struct kmem_cache_stats before, after;

	(void)state;
	needs_sheaves();
	take(5 * SHEAF);
	give(0, 5 * SHEAF);
	before = look(s);
	assert_int_equal(kmem_cache_shrink(s), 0);
	after = look(s);
	assert_int_equal(after.sheaf_flush - before.sheaf_flush, before.objects_in_sheaves);
	assert_int_equal(after.sheaf_free, after.sheaf_alloc);
	assert_int_equal(after.free_slab, after.alloc_slab);
	assert_int_equal(after.total_objects, 0);
	check_sums(s, 0);
}

static void slabs_serve_a_cache_without_sheaves(void **state)
{
	unsigned int n = s->sheaf.slab.oo.objects;
	struct kmem_cache_stats before = look(s);

	(void)state;
	skip_unless_counted();
	take(n);
	assert_int_equal(MOVED(before, alloc_slowpath), n);
	assert_int_equal(MOVED(before, alloc_slab), 1);
	assert_int_equal(look(s).partial, 0);
	before = look(s);
	give(0, 1);
	assert_int_equal(MOVED(before, free_slowpath), 1);
	assert_int_equal(MOVED(before, free_add_partial), 1);
	assert_int_equal(look(s).partial, 1);
	give(1, n);
	assert_int_equal(MOVED(before, free_add_partial), 1);
	assert_int_equal(MOVED(before, free_slowpath), n);
	assert_int_equal(look(s).alloc_fastpath + look(s).free_fastpath, 0);
	check_sums(s, 0);
}

static void node_gives_empty_slabs_back(void **state)
{
	struct kmem_cache_stats before;

	(void)state;
	skip_unless_counted();
	take(MANY);
	before = look(s);
	give(0, MANY);
	assert_true(MOVED(before, free_remove_partial) > 0);
	assert_true(MOVED(before, free_slab) > 0);
	assert_true(look(s).slabs <= before.min_partial * os.nr_nodes + 1);
	check_sums(s, 0);
}

static void node_request_is_a_mismatch(void **state)
{
	struct kmem_cache_stats before = look(s);
	void *object;

	(void)state;
	skip_unless_counted();
	object = kmem_cache_alloc_node(s, GFP_KERNEL, 0);
	assert_int_equal(MOVED(before, alloc_node_mismatch), 1);
	kmem_cache_free(s, object);
	object = kmem_cache_alloc(s, GFP_KERNEL);
	assert_int_equal(MOVED(before, alloc_node_mismatch), 1);
	kmem_cache_free(s, object);
}

/* Another thread changed the slab's word in between. */
static void lost_race_is_counted(void **state)
{
	struct kmem_cache_stats before;
	uint64_t now, stale;
	struct slab *slab;

	(void)state;
	skip_unless_counted();
	take(1);
	slab = page_slab(held[0]);
	now = os_load_relaxed(&slab->state);
	stale = now + 1;
	before = look(s);
	assert_false(stat_cmpxchg(&s->sheaf.slab, slab, &stale, 0));
	assert_int_equal(stale, now);
	assert_int_equal(MOVED(before, cmpxchg_double_fail), 1);
	assert_true(stat_cmpxchg(&s->sheaf.slab, slab, &stale, now));
	assert_int_equal(MOVED(before, cmpxchg_double_fail), 1);
	give(0, 1);
}

/* Add to each word its number, times `times`. */
static void count_all(uint64_t times)
{
	for (unsigned int word = OS_NR_SHOWN; word < NR_RCU_WORDS; word++)
		stat_add(&s->sheaf.slab, word, word * times);
}

static uint64_t sum_of(uint64_t words)
{
	uint64_t total = 0;

	for (; words; words &= words - 1)
		total += (uint64_t)__builtin_ctzll(words);
	return total;
}

#define SUMMED(name, words, help) assert_int_equal(stats.name, times *sum_of(words));

static void check_each(uint64_t times)
{
	struct kmem_cache_stats stats = look(s);

	STAT_EVENTS(SUMMED)
}

static void in_childs_planes(void)
{
	CHECK(look(s).alloc_slowpath == 0 && look(s).nolock_fail == 0);
	count_all(5);
	CHECK(look(s).alloc_slowpath == 5 * STAT_alloc_slowpath);
	CHECK(look(s).nolock_fail == 5 * STAT_nolock_fail);
}

/* Also words after the first plane; the counts of the next cache and of a child stay separate. */
static void each_event_is_the_sum_of_its_words(void **state)
{
	struct kmem_cache *first = s;

	(void)state;
	skip_unless_counted();
	assert_true((unsigned int)STAT_nolock_fail >= OS_PLANE_WORDS);
	check_each(0);
	count_all(1);
	count_all(2);
	check_each(3);
	assert_int_equal(in_child(in_childs_planes), 0);
	check_each(3);
	kmem_cache_destroy(s);
	s = kmem_cache_create("next", 64, NULL, SLAB_NO_MERGE);
	assert_ptr_equal(s, first);
	check_each(0);
}

static void fall_back(void)
{
	struct kmem_cache *large = make("large", 2000, SLAB_NO_USER_FLAGS);

	CHECK(large->sheaf.slab.oo.order > large->sheaf.slab.min.order);
	for (unsigned int node = 0; node < os.nr_nodes; node++)
		leave_single_pages(node);
	CHECK(look(large).order_fallback == 0);
	CHECK(kmem_cache_alloc_node(large, GFP_NOWAIT, 0));
	CHECK(look(large).order_fallback > 0);
	CHECK(look(large).order_fallback == look(large).alloc_slab);
	CHECK(look(large).slab_bytes == look(large).slabs * OS_PAGE << large->sheaf.slab.min.order);
}

static void small_slabs_are_counted(void **state)
{
	(void)state;
	skip_unless_counted();
	assert_int_equal(in_child(fall_back), 0);
}

struct worker {
	pthread_t thread;
	unsigned int cpu, row; /* it is pinned there, if row is not 0 */
	bool pinned;
	uint64_t allocs, frees;
};

static void work_bulk(struct worker *worker)
{
	void *bulk[70];

	CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, 70, bulk) == 70);
	kmem_cache_free_bulk(s, 70, bulk);
	worker->allocs += 70;
	worker->frees += 70;
}

static void *work(void *data)
{
	struct worker *worker = data;
	uint64_t seed = (uintptr_t)data | 1;
	void *p[HELD] = {NULL};

	if (worker->pinned)
		CHECK(pin(worker->cpu));
	worker->row = os_row();
	for (unsigned int i = 0; i < ROUNDS; i++) {
		unsigned int at = random_below(&seed, HELD);

		if (p[at])
			p[at] = (kmem_cache_free(s, p[at]), worker->frees++, NULL);
		else
			p[at] = (worker->allocs++, kmem_cache_alloc(s, GFP_KERNEL));
		if (i % 200 == 0 && !worker->pinned)
			work_bulk(worker);
	}
	for (unsigned int i = 0; i < HELD; i++)
		if (p[i])
			p[i] = (kmem_cache_free(s, p[i]), worker->frees++, NULL);
	return NULL;
}

static void run(struct worker *workers, unsigned int n, bool shrink)
{
	for (unsigned int i = 0; i < n; i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	for (int i = 0; shrink && i < 20; i++) {
		kmem_cache_shrink(s);
		look(s);
	}
	for (unsigned int i = 0; i < n; i++)
		pthread_join(workers[i].thread, NULL);
}

static void nothing_is_lost_in_a_storm(void **state)
{
	struct worker workers[THREADS] = {{0}};
	struct kmem_cache_stats stats;
	uint64_t allocs = 0, frees = 0;

	(void)state;
	run(workers, THREADS, true);
	check_sums(s, 0);
	for (int i = 0; i < THREADS; i++) {
		allocs += workers[i].allocs;
		frees += workers[i].frees;
	}
	stats = look(s);
	if (!stats.counted)
		return;
	assert_int_equal(stats.alloc_fastpath + stats.alloc_slowpath, allocs);
	assert_int_equal(stats.free_fastpath + stats.free_slowpath, frees);
}

/* The counts of this row, with those that its two sheaves still carry. */
static void count_of_row(unsigned int row, uint64_t *allocs, uint64_t *frees)
{
	struct slot *slot = slot_of_row((char *)s, row);
	const uint64_t *words = (const uint64_t *)os_counter(slot, 0);
	struct sheaf *sheaves[2] = {slot->main,
				    (struct sheaf *)(slot->pair ^ (uintptr_t)slot->main)};

	*allocs = words[STAT_alloc_fastpath] + words[STAT_alloc_slowpath];
	*frees = words[STAT_free_fastpath] + words[STAT_free_slowpath];
	for (int i = 0; i < 2; i++)
		if (sheaves[i]) {
			struct sheaf_traffic traffic =
				sheaf_traffic_of(sheaves[i]->word, sheaves[i]->base);

			*allocs += traffic.pops;
			*frees += traffic.pushes;
		}
}

static void each_cpu_counts_its_own(void **state)
{
	struct worker workers[2] = {{.pinned = true}, {.pinned = true}};
	cpu_set_t set;
	unsigned int n = 0;

	(void)state;
	/* COUNTERS-O1 */
	needs_sheaves();
	/* With another index, rows are not CPUs. */
	if (strcmp(publish_index(), "cpu_id"))
		skip();
	CPU_ZERO(&set);
	for (unsigned int cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++) {
		CPU_SET(cpu, &set);
		if (sched_setaffinity(0, sizeof(set), &set) == 0)
			workers[n++].cpu = cpu;
		CPU_CLR(cpu, &set);
	}
	run(workers, n, false);
	for (unsigned int i = 0; i < n; i++) {
		uint64_t allocs, frees;

		count_of_row(workers[i].row, &allocs, &frees);
		assert_int_equal(allocs, workers[i].allocs);
		assert_int_equal(frees, workers[i].frees);
	}
	check_sums(s, 0);
}

static void in_the_child(void)
{
	struct kmem_cache_stats stats = look(s);

	CHECK(stats.objects_in_use == 10);
	CHECK(stats.alloc_fastpath == 0 && stats.free_fastpath == 0 && stats.alloc_slab == 0);
	kmem_cache_shrink(s);
	for (int i = 0; i < 1000; i++)
		kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	stats = look(s);
	CHECK(!os.counting || stats.alloc_fastpath + stats.alloc_slowpath == 1000);
	CHECK(!os.counting || stats.free_fastpath + stats.free_slowpath == 1000);
}

static void child_counts_for_itself(void **state)
{
	struct kmem_cache_stats before, after;

	(void)state;
	/* COUNTERS-O2 */
	take(10);
	give(0, 5);
	take(5);
	/* held[5] ... held[9] are five of the first ten objects, taken twice from the sheaf. */
	before = look(s);
	assert_int_equal(before.objects_in_use, 10);
	assert_int_equal(in_child(in_the_child), 0);
	after = look(s);
	assert_memory_equal(&before, &after, sizeof(before));
	give(0, 10);
	check_sums(s, 0);
}

/* The sum that other processes compute: the counters, and the words of sheaves that rows show. */
static uint64_t allocs_seen_by_others(void)
{
	const uint64_t *words = (const uint64_t *)os_counter(s, 0);
	uint64_t allocs = words[STAT_alloc_fastpath] + words[STAT_alloc_slowpath];

	for (uint32_t row = 0; row < os.nr_rows; row++) {
		if (!rows_is_open(slot_of_row((char *)s, row)))
			continue;
		words = (const uint64_t *)os_counter(slot_of_row((char *)s, row), 0);
		allocs += words[STAT_alloc_fastpath] + words[STAT_alloc_slowpath];
		allocs += sheaf_traffic_of(words[OS_SHOWN_MAIN], 0).pops;
		allocs += sheaf_traffic_of(words[OS_SHOWN_SPARE], 0).pops;
	}
	return allocs;
}

static void others_see_each_event_once(void **state)
{
	(void)state;
	needs_sheaves();
	take(5);
	give(0, 5);
	/* A push makes the pops before it visible. */
	assert_int_equal(allocs_seen_by_others(), 5);
	/* The counts of the sheaves were added to the sums. */
	kmem_cache_shrink(s);
	assert_int_equal(allocs_seen_by_others(), 5);
	assert_int_equal(look(s).alloc_fastpath, 5);
}

/* The description that other processes read. */
static const struct publish_cache *published(void)
{
	return (const struct publish_cache *)os_counter((char *)s - ((size_t)1 << ROW_SHIFT), 0);
}

static void description_follows_the_cache(void **state)
{
	const struct publish_head *head = os_counters_head();
	struct kmem_cache *other, *alias;
	uint32_t generation;

	(void)state;
	needs_sheaves();
	assert_int_equal(head->version, PUBLISH_VERSION);
	assert_int_equal(head->pid, getpid());
	assert_int_equal(published()->id, s->id);
	assert_string_equal(published()->name, "held");
	assert_int_equal(published()->sheaf_capacity, SHEAF);
	generation = published()->generation;
	assert_int_equal(generation % 2, 0);
	kmem_cache_set_sheaf_capacity(s, 100);
	assert_int_equal(published()->sheaf_capacity, 100);
	assert_int_equal(published()->generation, generation + 2);
	kmem_cache_destroy(s);
	assert_int_equal(published()->id, 0);
	s = kmem_cache_create("shared", 72, NULL, 0);
	alias = kmem_cache_create("alias", 70, NULL, 0);
	if (alias == s) {
		assert_int_equal(published()->aliases, 1);
		assert_int_equal(look(s).aliases, 1);
		kmem_cache_destroy(alias);
		assert_int_equal(published()->aliases, 0);
	}
	for (int i = 0; head->nr_areas == 1 && i < 1000; i++) {
		other = kmem_cache_create("many", 64, NULL, SLAB_NO_MERGE);
		assert_non_null(other);
	}
	assert_int_equal(head->nr_areas, 2);
}

/* SHOW-W1, SHOW-W2 */
static void others_see_the_process(void **state)
{
	struct sheaf_stats process;

	(void)state;
	skip_unless_counted();
	take(SHEAF);
	sheaf_stats(&process);
	assert_int_equal(process.cpus, os.nr_cpus);
	assert_int_equal(process.nodes, os.nr_nodes);
	assert_int_equal(os_load_relaxed(os_process_word(OS_PROCESS_used_bytes)),
			 process.used_bytes);
	assert_int_equal(os_load_relaxed(os_process_word(OS_PROCESS_free_bytes)),
			 process.free_bytes);
	assert_int_equal(os_load_relaxed(os_process_word(OS_PROCESS_committed_bytes)),
			 process.committed_bytes);
	assert_true(os_load_relaxed(os_process_word(OS_PROCESS_peak_bytes)) >= process.used_bytes);
	give(0, SHEAF);
}

#define WITH_SHEAVES(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define WITHOUT_SHEAVES(test)                                                                      \
	cmocka_unit_test_setup_teardown(test, set_up_without_sheaves, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SHEAVES(first_allocation_refills),
		WITH_SHEAVES(sheaf_serves_the_fast_path),
		WITH_SHEAVES(sheaves_go_through_the_barn),
		WITH_SHEAVES(full_barn_flushes),
		WITH_SHEAVES(shrink_flushes_and_frees),
		WITHOUT_SHEAVES(slabs_serve_a_cache_without_sheaves),
		WITHOUT_SHEAVES(node_gives_empty_slabs_back),
		WITHOUT_SHEAVES(node_request_is_a_mismatch),
		WITH_SHEAVES(lost_race_is_counted),
		WITH_SHEAVES(each_event_is_the_sum_of_its_words),
		cmocka_unit_test(small_slabs_are_counted),
		WITH_SHEAVES(child_counts_for_itself),
		WITH_SHEAVES(others_see_each_event_once),
		WITH_SHEAVES(nothing_is_lost_in_a_storm),
		WITH_SHEAVES(each_cpu_counts_its_own),
		WITH_SHEAVES(description_follows_the_cache),
		WITH_SHEAVES(others_see_the_process),
	};

	return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
