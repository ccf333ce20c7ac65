/* SPDX-License-Identifier: MIT */
/* Groups that change inside calls, or which begin in many threads. */
#include <errno.h>
#include <pthread.h>
#include <sheaf/group.h>
#include <sheaf/limit.h>
#include <sheaf/shrinker.h>
#include <sheaf/slab.h>
#include <sheaf/trim.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/options.h"
#include "kit/unit.h"

enum {
	SIZE = 104
};

static struct kmem_group *group(const char *name, const struct kmem_group_args *args)
{
	struct kmem_group *g = kmem_group_create(name, NULL, args);

	assert_non_null(g);
	return g;
}

static uint64_t references(struct kmem_group *g)
{
	struct kmem_group_stats stats;

	assert_int_equal(kmem_group_stats(g, &stats), 0);
	return stats.references;
}

/* --- callbacks that change the current group -------------------------------------------------- */

static struct kmem_group *mine, *others;

static bool make_another_current(struct kmem_group *g, size_t bytes, void *data)
{
	(void)g, (void)bytes;
	++*(unsigned int *)data;
	assert_ptr_equal(kmem_group_set_current(others), mine);
	kmem_group_put(mine);
	mine = others;
	return false;
}

static void callback_sets_the_current_group(void **state)
{
	unsigned int calls = 0;
	struct kmem_group_args args = {
		.hard_limit = 1, .reclaim = make_another_current, .data = &calls};
	struct kmem_group *full = group("full", &args), *first = group("first", NULL);
	struct kmem_cache *s = make("called", SIZE, SLAB_ACCOUNT);

	(void)state;
	others = group("others", NULL);
	mine = first;
	kmem_group_restore_current(kmem_group_get(first));
	assert_null(kmem_cache_alloc_charged(s, GFP_KERNEL, full));
	assert_int_equal(references(full), 1);
	assert_int_equal(references(first), 1);
	assert_int_equal(references(others), 2);
	assert_null(kmalloc_charged(100, GFP_KERNEL, full));
	assert_int_equal(calls, 2);
	assert_int_equal(references(full), 1);
	assert_int_equal(references(others), 2);
	assert_ptr_equal(kmem_group_set_current(NULL), others);
	kmem_group_put(others);
	assert_int_equal(references(others), 1);
	kmem_group_put(others);
	kmem_group_put(first);
	kmem_group_put(full);
	kmem_cache_destroy(s);
}

/* --- callbacks that fork ---------------------------------------------------------------------- */

#define LIMIT 100

static struct kmem_group *forked;
static struct kmem_cache *in_both;
static void *kept[LIMIT + 1];
static unsigned int nr_kept;
static pid_t child = -1;

/* The call goes on in both processes; the parent waits until the child has ended. */
static void fork_once(void)
{
	int status;

	if (child >= 0)
		return;
	child = fork();
	if (child) {
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
}

/* The group's bytes are those of its objects, in the child, too: after the call in which it began,
 * and when all are freed. */
static void end_forked(unsigned int expected)
{
	struct kmem_group_stats stats;
	bool right = nr_kept == expected && kmem_group_verify() == 0;

	while (nr_kept)
		kmem_cache_free(in_both, kept[--nr_kept]);
	right &= kmem_group_verify() == 0 && kmem_group_stats(forked, &stats) == 0 &&
		 stats.bytes == 0 && kmem_cache_verify(in_both) == 0;
	if (!child)
		_exit(right ? 0 : 1);
	assert_true(right && child > 0);
	child = -1;
	kmem_group_restore_current(NULL);
	kmem_group_put(forked);
	kmem_cache_destroy(in_both);
}

static bool forks_and_frees(struct kmem_group *g, size_t bytes, void *data)
{
	(void)g, (void)bytes, (void)data;
	fork_once();
	kmem_cache_free(in_both, kept[--nr_kept]);
	return true;
}

static void begin_forked(size_t most)
{
	struct kmem_group_args args = {.reclaim = forks_and_frees};

	in_both = make("in both", SIZE, SLAB_ACCOUNT);
	args.hard_limit = most * look(in_both).slab_size;
	forked = group("forked", &args);
	kmem_group_restore_current(kmem_group_get(forked));
}

/* ACCOUNT-A3 */
static void reclaim_forks(void **state)
{
	(void)state;
	begin_forked(LIMIT);
	for (unsigned int i = 0; i <= LIMIT; i++) {
		void *object = kmem_cache_alloc(in_both, GFP_KERNEL);

		if (object)
			kept[nr_kept++] = object;
	}
	end_forked(LIMIT);
}

static void reclaim_forks_in_bulk(void **state)
{
	(void)state;
	begin_forked(LIMIT);
	for (unsigned int i = 0; i < LIMIT - 7; i++)
		kept[nr_kept++] = kmem_cache_alloc(in_both, GFP_KERNEL);
	if (kmem_cache_alloc_bulk(in_both, GFP_KERNEL, 8, kept + nr_kept)) {
		/* One was freed from the end meanwhile. */
		memmove(kept + nr_kept, kept + nr_kept + 1, 8 * sizeof(*kept));
		nr_kept += 8;
	}
	end_forked(LIMIT);
}

static unsigned long one(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker, (void)sc;
	return 1;
}

static unsigned long forks_and_stops(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker, (void)sc;
	fork_once();
	return SHRINK_STOP;
}

/* The object's slab needs memory that is above the soft limit. */
static void shrinker_forks(void **state)
{
	struct shrinker *shrinker = shrinker_alloc(0, "forks");

	(void)state;
	begin_forked(LIMIT);
	shrinker->count_objects = one;
	shrinker->scan_objects = forks_and_stops;
	shrinker_register(shrinker);
	sheaf_set_limits(1, 0);
	kept[nr_kept++] = kmem_cache_alloc(in_both, GFP_KERNEL);
	sheaf_set_limits(0, 0);
	shrinker_free(shrinker);
	end_forked(1);
}

/* --- callbacks that put their group ----------------------------------------------------------- */

static struct kmem_cache *nested;

static bool asks_again(struct kmem_group *g, size_t bytes, void *data)
{
	(void)bytes;
	++*(unsigned int *)data;
	/* While it runs, no callback of the group is called. */
	assert_null(kmem_cache_alloc_charged(nested, GFP_KERNEL, g));
	return false;
}

static void limits_ask_once(void **state)
{
	unsigned int calls = 0;
	struct kmem_group_args args = {.hard_limit = SIZE, .reclaim = asks_again, .data = &calls};
	struct kmem_group *g = group("asked", &args);
	struct kmem_group_args less = {.hard_limit = 1, .reclaim = asks_again, .data = &calls};
	void *object;

	(void)state;
	nested = make("nested", SIZE, SLAB_ACCOUNT);
	if (look(nested).slab_size != SIZE)
		skip();
	object = kmem_cache_alloc_charged(nested, GFP_KERNEL, g);
	assert_non_null(object);
	assert_int_not_equal(kmem_group_set_limits(g, &less), 0);
	assert_int_equal(calls, 1);
	kmem_cache_free(nested, object);
	kmem_group_put(g);
	kmem_cache_destroy(nested);
}

/* --- marks and limits of groups above --------------------------------------------------------- */

static unsigned int seen;

static void see(struct kmem_group *g, enum kmem_group_event event, uint64_t bytes, void *data)
{
	(void)g, (void)event, (void)bytes, (void)data;
	seen++;
}

/* A charge that a limit above stops does not appear in the groups below it, not even briefly. */
static void no_peak_without_a_charge(void **state)
{
	struct kmem_group_args limit = {.hard_limit = 20000}, mark = {.high = 30000, .event = see};
	struct kmem_group *above = group("above", &limit), *below;
	struct kmem_cache *s = make("peak", SIZE, SLAB_ACCOUNT);
	struct kmem_group_stats stats;
	void *object;

	(void)state;
	seen = 0;
	below = kmem_group_create("below", above, &mark);
	object = kmem_cache_alloc_charged(s, GFP_KERNEL, below);
	assert_non_null(object);
	assert_int_equal(kmem_group_stats(below, &stats), 0);
	assert_int_equal(stats.peak, look(s).slab_size);
	assert_int_equal(seen, 0);
	kmem_cache_free(s, object);
	kmem_group_put(below);
	kmem_group_put(above);
	kmem_cache_destroy(s);
}

/* A call that fails for lack of memory leaves no trace, either. */
static void no_peak_without_memory(void **state)
{
	struct kmem_group_args args = {.hard_limit = 1 << 20, .high = 1000, .event = see};
	struct kmem_group *g = group("no memory", &args);
	struct kmem_group_stats stats;

	(void)state;
	seen = 0;
	/* Objects between guard pages have memory of their own. */
	if (has_debug_letter('G') || has_debug_letter('S')) {
		kmem_group_put(g);
		skip();
	}
	sheaf_trim(0);
	sheaf_set_limits(0, 1);
	for (size_t size = 20000; size < (size_t)4 << 20; size *= 3)
		assert_null(kmalloc_charged(size, GFP_NOWAIT | __GFP_NOWARN, g));
	sheaf_set_limits(0, 0);
	assert_int_equal(kmem_group_stats(g, &stats), 0);
	assert_int_equal(stats.peak, 0);
	assert_int_equal(stats.high_events, 0);
	assert_int_equal(seen, 0);
	kmem_group_put(g);
}

/* --- the first group -------------------------------------------------------------------------- */

enum {
	THREADS = 4
};

static struct kmem_cache *of_all;
static pthread_barrier_t together;

static void *begins(void *data)
{
	struct kmem_group *g;
	uint64_t objects;
	void *object;

	pthread_barrier_wait(&together);
	g = kmem_group_create("one of the first", NULL, NULL);
	object = kmem_cache_alloc_charged(of_all, GFP_KERNEL, g);
	*(bool *)data = g && object && !kmem_group_count_objects(g, &objects, NULL) && objects == 1;
	kmem_cache_free(of_all, object);
	kmem_group_put(g);
	return NULL;
}

static void threads_begin_at_once(void **state)
{
	pthread_t threads[THREADS];
	bool right[THREADS];

	(void)state;
	of_all = make("of all", SIZE, SLAB_ACCOUNT);
	pthread_barrier_init(&together, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, begins, &right[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_true(right[i]);
	}
	kmem_cache_destroy(of_all);
}

static bool counts(struct kmem_group *g, size_t bytes, void *data)
{
	(void)g, (void)bytes;
	++*(unsigned int *)data;
	return false;
}

/* Also if a block's cache has none, and a run or a mapping might have served it. */
static void a_failure_counts_once(void **state)
{
	static const size_t sizes[] = {100, 8192, 40000, 100000, (size_t)2 << 20, (size_t)3 << 20};
	unsigned int calls = 0, failed = 0;
	struct kmem_group_args args = {.hard_limit = 50, .reclaim = counts, .data = &calls};
	struct kmem_group *g = group("small", &args);
	struct kmem_group_stats stats;

	(void)state;
	kmem_group_restore_current(kmem_group_get(g));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		assert_null(kmalloc(sizes[i], GFP_KERNEL_ACCOUNT | __GFP_NOWARN));
		assert_null(kvmalloc(sizes[i], GFP_KERNEL_ACCOUNT | __GFP_NOWARN));
		failed += 2;
		assert_int_equal(kmem_group_stats(g, &stats), 0);
		assert_int_equal(stats.failed, failed);
		assert_int_equal(calls, failed);
	}
	kmem_group_restore_current(NULL);
	assert_int_equal(kmem_group_verify(), 0);
	kmem_group_put(g);
}

static void of_a_destroyed_cache(void **state)
{
	struct kmem_group *g = group("late", NULL);
	struct kmem_cache *s = make("late", SIZE, 0);
	struct capture captured;

	(void)state;
	kmem_cache_destroy(s);
	kmem_group_restore_current(kmem_group_get(g));
	capture_begin(&captured);
	assert_null(kmem_cache_alloc_node(s, GFP_KERNEL_ACCOUNT, NUMA_NO_NODE));
	assert_int_equal(capture_end(&captured), 1);
	kmem_group_restore_current(NULL);
	assert_int_equal(kmem_group_verify(), 0);
	kmem_group_put(g);
}

/* --- programs built with other headers -------------------------------------------------------- */

static void structures_of_other_sizes(void **state)
{
	struct {
		struct kmem_group_args known;
		void *unknown;
	} longer = {.known = {.hard_limit = 4096}};
	struct kmem_group *g = __kmem_group_create("longer", NULL, &longer.known, sizeof(longer));
	struct {
		struct kmem_group_stats known;
		uint64_t unknown;
	} stats = {.unknown = 1};
	struct capture captured;

	(void)state;
	assert_non_null(g);
	assert_int_equal(__kmem_group_stats(g, &stats.known, sizeof(stats)), 0);
	assert_int_equal(stats.known.hard_limit, 4096);
	assert_int_equal(stats.unknown, 0);
	/* Shorter: what is missing is 0, and nothing is written behind it. */
	assert_int_equal(__kmem_group_set_limits(g, &longer.known, sizeof(size_t)), 0);
	stats.known.parent = 1;
	assert_int_equal(
		__kmem_group_stats(g, &stats.known, offsetof(struct kmem_group_stats, parent)), 0);
	assert_string_equal(stats.known.name, "longer");
	assert_int_equal(stats.known.parent, 1);
	longer.unknown = &longer;
	capture_begin(&captured);
	assert_int_equal(__kmem_group_set_limits(g, &longer.known, sizeof(longer)), -EINVAL);
	assert_int_equal(__kmem_group_set_limits(g, &longer.known, sizeof(size_t) + 1), -EINVAL);
	assert_null(__kmem_group_create("longer", NULL, &longer.known, sizeof(longer)));
	assert_int_equal(capture_end(&captured), 3);
	kmem_group_put(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_begin_at_once),
		cmocka_unit_test(callback_sets_the_current_group),
		cmocka_unit_test(reclaim_forks),
		cmocka_unit_test(reclaim_forks_in_bulk),
		cmocka_unit_test(shrinker_forks),
		cmocka_unit_test(limits_ask_once),
		cmocka_unit_test(no_peak_without_a_charge),
		cmocka_unit_test(no_peak_without_memory),
		cmocka_unit_test(a_failure_counts_once),
		cmocka_unit_test(of_a_destroyed_cache),
		cmocka_unit_test(structures_of_other_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
