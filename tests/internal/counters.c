/* SPDX-License-Identifier: MIT */
/*
 * The words in which events are counted: each counter is the sum of its words, and other processes
 * see the same numbers as the process itself. Counts of destroyed caches remain, are bounded, and
 * belong to this process only.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sheaf/stats.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cache/cache.h"
#include "cache/destroyed_stats.h"
#include "cache/events.h"
#include "cache/list.h"
#include "cache/publish.h"
#include "internal/kit/pages.h"
#include "internal/kit/shown.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/clock.h"
#include "kit/held.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/sums.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "os/memory_tools.h"
#include "os/options/options.h"
#include "os/section.h"
#include "page/page.h"
#include "percpu/rows.h"
#include "percpu/sheaf.h"
#include "slab/drain_marks.h"

enum {
	SHEAF = 60, /* capacity for 64 bytes */
	MANY = 40 * SHEAF,
	HELD = 300,
	ROUNDS = 40000
};

/* And what others see. */
static void check_all(struct kmem_cache *cache, uint64_t in_use)
{
	check_sums(cache, in_use);
	check_shown(cache);
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
	if (os.tools & TOOL_MEMCHECK) {
		print_message("skipped: valgrind grants memory beyond the limit, 16 GiB of it\n");
		skip();
	}
	assert_int_equal(in_child(fall_back), 0);
}

struct worker {
	pthread_t thread;
	unsigned int cpu, row; /* it is pinned to this CPU */
	uint64_t allocs, frees;
};

static void *work(void *data)
{
	struct worker *worker = data;
	uint64_t seed = (uintptr_t)data | 1;
	void *p[HELD] = {NULL};

	CHECK(pin(worker->cpu));
	worker->row = os_row();
	for (unsigned int i = 0; i < ROUNDS; i++) {
		unsigned int at = random_below(&seed, HELD);

		if (p[at])
			p[at] = (kmem_cache_free(s, p[at]), worker->frees++, NULL);
		else
			p[at] = (worker->allocs++, kmem_cache_alloc(s, GFP_KERNEL));
	}
	for (unsigned int i = 0; i < HELD; i++)
		if (p[i])
			p[i] = (kmem_cache_free(s, p[i]), worker->frees++, NULL);
	return NULL;
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
	struct worker workers[2] = {{0}};
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
	for (unsigned int i = 0; i < n; i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	for (unsigned int i = 0; i < n; i++)
		pthread_join(workers[i].thread, NULL);
	for (unsigned int i = 0; i < n; i++) {
		uint64_t allocs, frees;

		count_of_row(workers[i].row, &allocs, &frees);
		assert_int_equal(allocs, workers[i].allocs);
		assert_int_equal(frees, workers[i].frees);
	}
	check_all(s, 0);
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
	for (unsigned int n = 1; n <= MANY; n *= 3) {
		take(n);
		check_all(s, n);
		give(0, n);
		check_all(s, 0);
	}
}

/* The description that other processes read. */
static const struct publish_cache *published(void)
{
	return (const struct publish_cache *)os_counter((char *)s - ((size_t)1 << ROW_SHIFT), 0);
}

/* The first name is the cache's own. */
static void names_are_listed_once(void)
{
	static const char *const names[] = {"shared", "al", "alias", "other", "al", "alia"};
	const char *listed =
		(const char *)os_counter((char *)s - ((size_t)1 << ROW_SHIFT), OS_PLANE_WORDS);
	enum {
		N = sizeof(names) / sizeof(names[0])
	};
	struct capture captured;

	capture_begin(&captured);
	for (int i = 0; i < N; i++)
		assert_ptr_equal(kmem_cache_create(names[i], 70, NULL, 0), s);
	capture_end(&captured);
	assert_string_equal(listed, "alias\nal\nother\nalia");
	for (int i = 0; i < N; i++)
		kmem_cache_destroy(s);
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
	assert_int_equal(published()->now.sheaf_capacity, SHEAF);
	generation = published()->generation;
	assert_int_equal(generation % 2, 0);
	kmem_cache_set_sheaf_capacity(s, 100);
	assert_int_equal(published()->now.sheaf_capacity, 100);
	assert_int_equal(published()->generation, generation + 2);
	kmem_cache_destroy(s);
	assert_int_equal(published()->id, 0);
	s = kmem_cache_create("shared", 72, NULL, 0);
	alias = kmem_cache_create("alias", 70, NULL, 0);
	if (alias == s) {
		assert_int_equal(published()->now.aliases, 1);
		assert_int_equal(look(s).aliases, 1);
		kmem_cache_destroy(alias);
		assert_int_equal(published()->now.aliases, 0);
		names_are_listed_once();
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

/* --- destroyed caches ------------------------------------------------------------------------- */

enum {
	OBJECTS = 200
};

static void use(const char *name, unsigned int n)
{
	struct kmem_cache *s = kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
	void *objects[OBJECTS];

	assert_non_null(s);
	for (unsigned int i = 0; i < n; i++)
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
	for (unsigned int i = 0; i < n; i++)
		kmem_cache_free(s, objects[i]);
	kmem_cache_destroy(s);
}

static unsigned int entries(void)
{
	unsigned int n = 0;

	for (const struct destroyed_stats *entry = destroyed_stats_next(NULL); entry;
	     entry = destroyed_stats_next(entry))
		n++;
	return n;
}

static const struct destroyed_stats *of_name(const char *name)
{
	const struct destroyed_stats *entry = destroyed_stats_next(NULL);

	while (entry && strcmp(entry->name, name) != 0)
		entry = destroyed_stats_next(entry);
	return entry;
}

static uint64_t allocations(const struct destroyed_stats *entry)
{
	return entry->words[STAT_alloc_fastpath] + entry->words[STAT_alloc_slowpath];
}

static int begin_with_none(void **state)
{
	(void)state;
	destroyed_stats_forget();
	return 0;
}

static void nothing_is_remembered_without_counting(void **state)
{
	(void)state;
	use("uncounted", OBJECTS);
	assert_int_equal(entries(), os.counting ? 1 : 0);
}

/* PUBLISH-D3 */
static void same_name_adds_up(void **state)
{
	(void)state;
	skip_unless_counted();
	use("one", OBJECTS);
	use("two", 0);
	use("one", 7);
	assert_int_equal(entries(), 1);
	assert_int_equal(of_name("one")->times, 2);
	assert_int_equal(allocations(of_name("one")), OBJECTS + 7);
}

static void many_names_share_an_entry(void **state)
{
	char name[32];

	(void)state;
	skip_unless_counted();
	for (unsigned int i = 0; i < DESTROYED_ENTRIES + 50; i++) {
		snprintf(name, sizeof(name), "name %u", i);
		use(name, 1);
	}
	assert_int_equal(entries(), DESTROYED_ENTRIES + 1);
	assert_int_equal(of_name(DESTROYED_OTHERS)->times, 50);
	assert_int_equal(of_name("name 0")->times, 1);
}

static void begins_with_nothing(void)
{
	CHECK(entries() == 0);
}

static void child_begins_with_nothing(void **state)
{
	(void)state;
	skip_unless_counted();
	use("parent's", 1);
	assert_int_equal(entries(), 1);
	assert_int_equal(in_child(begins_with_nothing), 0);
}

/* Halfway through destroy: no thread may pin the cache any more, on the list and off it; its memory
 * is not yet freed. */
static void cache_off_the_list_is_left_alone(void **state)
{
	struct kmem_cache *gone = kmem_cache_create("gone", 64, NULL, SLAB_NO_MERGE);
	struct kmem_cache_stats stats;
	struct capture captured;
	uint64_t marked = slab_marked.n;
	bool lost;

	(void)state;
	/* Not by a free: with some options it leaves nothing that a drain would free. */
	slab_mark(&gone->sheaf.slab, MARK_EMPTY);
	assert_ptr_equal(list_pin_marked(marked, &lost), gone);
	list_unpin(gone);
	os_lock(&caches.lock);
	gone->nr_names = 0;
	list_hide(gone);
	os_unlock(&caches.lock);
	capture_begin(&captured);
	assert_false(list_pin(gone, "it"));
	assert_int_equal(capture_end(&captured), 1);
	assert_null(list_pin_marked(marked, &lost));
	assert_false(lost);
	for (struct kmem_cache *at = list_next(NULL); at; at = list_next(at))
		assert_ptr_not_equal(at, gone);
	list_wait_unpinned(gone);
	os_lock(&caches.lock);
	list_remove(gone);
	os_unlock(&caches.lock);
	capture_begin(&captured);
	assert_int_equal(kmem_cache_stats(gone, &stats), -EINVAL);
	assert_int_equal(capture_end(&captured), 1);
	assert_int_equal(stats.object_size, 0);
	cache_unmake(gone);
}

#define WITH_SHEAVES(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SHEAVES(lost_race_is_counted),
		WITH_SHEAVES(each_event_is_the_sum_of_its_words),
		cmocka_unit_test(small_slabs_are_counted),
		WITH_SHEAVES(others_see_each_event_once),
		WITH_SHEAVES(each_cpu_counts_its_own),
		WITH_SHEAVES(description_follows_the_cache),
		WITH_SHEAVES(others_see_the_process),
		cmocka_unit_test_setup(nothing_is_remembered_without_counting, begin_with_none),
		cmocka_unit_test_setup(same_name_adds_up, begin_with_none),
		cmocka_unit_test_setup(many_names_share_an_entry, begin_with_none),
		cmocka_unit_test_setup(child_begins_with_nothing, begin_with_none),
		cmocka_unit_test(cache_off_the_list_is_left_alone),
	};

	clock_stands = true; /* or the sheaves of idle CPUs are emptied, and counted elsewhere */
	return cmocka_run_group_tests_name("counters", tests, NULL, NULL);
}
