/* SPDX-License-Identifier: MIT */
/* Scenes: retired objects, shrinkers, limits, statistics, the control socket, fork. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sheaf/debug.h>
#include <sheaf/limit.h>
#include <sheaf/shrinker.h>
#include <sheaf/stats.h>
#include <sheaf/trim.h>
#include <string.h>

#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/clock.h"
#include "kit/control.h"
#include "kit/process.h"
#include "refusals.h"

/* --- retired objects -------------------------------------------------------------------------- */

static int register_provider(void)
{
	int result = sheaf_rcu_register(&by_hand_ops);

	/* One provider for the process: again, it is another. */
	return result == -EBUSY ? 0 : result;
}

static int no_readers(void)
{
	return sheaf_rcu_none();
}

static void barrier(void)
{
	kvfree_rcu_barrier();
	by_hand_pass();
}

static void provider(void)
{
	kvfree(kvmalloc(3 << 20, GFP_KERNEL));
	if (register_provider())
		fault("no provider");
	w.s = make("retired", 200, 0);
	/* What the library keeps for pointers that fit into no sheaf of a cache. */
	kvfree_rcu_mightsleep(kvmalloc(3 << 20, GFP_KERNEL));
	barrier();
}

static void many(void)
{
	if (kmem_cache_alloc_bulk(w.s, GFP_KERNEL, MOST, w.p) != MOST)
		fault("no objects");
}

struct retired {
	struct sheaf_rcu_head head;
};

/* With a head: never lost. */
static int retire_many(void)
{
	for (size_t i = 0; i < MOST; i++) {
		struct retired *object = w.p[i];

		w.p[i] = NULL;
		kfree_rcu(object, head);
	}
	return 0;
}

static int retire_without_head(void)
{
	for (size_t i = 0; i < MOST; i++)
		kmem_cache_free_rcu(w.s, w.p[i]);
	memset(w.p, 0, sizeof(w.p));
	return 0;
}

static int retire_bulk(void)
{
	kmem_cache_free_bulk_rcu(w.s, MOST, w.p);
	memset(w.p, 0, sizeof(w.p));
	return 0;
}

static int retire_and_wait(void)
{
	retire_many();
	kvfree_rcu_barrier();
	return 0;
}

static void some_retired(void)
{
	many();
	retire_many();
}

static int wait_for_all(void)
{
	kvfree_rcu_barrier();
	return 0;
}

static int wait_for_cache(void)
{
	kvfree_rcu_barrier_on_cache(w.s);
	return 0;
}

static void one_block(void)
{
	w.p[0] = kvmalloc(3 << 20, GFP_KERNEL);
	w.p[1] = kmalloc(100, GFP_KERNEL);
	if (!w.p[0] || !w.p[1])
		fault("no blocks");
}

static int retire_blocks(void)
{
	struct retired *large = w.p[0], *small = w.p[1];

	w.p[0] = w.p[1] = NULL;
	kvfree_rcu(large, head);
	kvfree_rcu(small, head);
	return 0;
}

static int retire_mightsleep(void)
{
	void *large = w.p[0], *small = w.p[1];

	w.p[0] = w.p[1] = NULL;
	kvfree_rcu_mightsleep(large);
	kvfree_rcu_mightsleep(small);
	return 0;
}

static int take_again(void)
{
	by_hand_pass();
	for (size_t i = 0; i < 100; i++)
		w.p[i] = kmem_cache_alloc(w.s, GFP_KERNEL);
	return all_or_nothing(w.p[99]);
}

/* --- shrinkers and limits --------------------------------------------------------------------- */

static struct shrinker *shrinker;

static unsigned long none(struct shrinker *of, struct shrink_control *sc)
{
	(void)of, (void)sc;
	return 0;
}

static int make_shrinker(void)
{
	shrinker = shrinker_alloc(0, "shrinker %d", 1);
	if (!shrinker)
		return NOTHING;
	shrinker->count_objects = shrinker->scan_objects = none;
	shrinker_register(shrinker);
	return 0;
}

static void free_shrinker(void)
{
	shrinker_free(shrinker);
	shrinker = NULL;
}

static void a_shrinker(void)
{
	w.s = make("objects", 200, 0);
	if (make_shrinker())
		fault("no shrinker");
}

static int call_shrinkers(void)
{
	sheaf_trim(0);
	return 0;
}

static int set_limits(void)
{
	return sheaf_set_limits(8 << 20, 16 << 20);
}

static void no_limits(void)
{
	sheaf_set_limits(0, 0);
}

static void at_limit(void)
{
	w.s = make("objects", 200, 0);
	kvfree(kvmalloc(3 << 20, GFP_KERNEL));
	for (size_t i = 0; i < 100; i++)
		w.p[i] = kmem_cache_alloc(w.s, GFP_KERNEL);
	for (size_t i = 0; i < 100; i++)
		kmem_cache_free(w.s, w.p[i]);
	memset(w.p, 0, sizeof(w.p));
	sheaf_trim(0);
	if (sheaf_set_limits(0, library().held_bytes + (3 << 20)))
		fault("no limit");
}

/* Only what is free makes room for it. */
static int block_at_limit(void)
{
	w.p[0] = kvmalloc(3 << 20, GFP_KERNEL);
	return all_or_nothing(w.p[0]);
}

/* --- time passes ------------------------------------------------------------------------------ */

static void much_free(void)
{
	if (!w.s)
		w.s = make("objects", 2000, 0);
	many();
	kmem_cache_free_bulk(w.s, MOST, w.p);
	memset(w.p, 0, sizeof(w.p));
	clock_pass_ms(3600000);
}

static int housekeeping(void)
{
	if (kmem_cache_alloc_bulk(w.s, GFP_KERNEL, MOST, w.p) == MOST)
		return 0;
	memset(w.p, 0, sizeof(w.p));
	return NOTHING;
}

/* --- statistics and reports ------------------------------------------------------------------- */

static int out = -1;

static void some_objects(void)
{
	w.s = make("objects", 200, 0);
	out = open("/dev/null", O_WRONLY | O_CLOEXEC);
}

static void one_object(void)
{
	w.p[0] = kmem_cache_alloc(w.s, GFP_KERNEL);
}

static int read_stats(void)
{
	struct kmem_cache_stats stats;

	sheaf_stats(&(struct sheaf_stats){0});
	return kmem_cache_stats(w.s, &stats);
}

static int print_stats(void)
{
	return sheaf_stats_print(out, SHEAF_STATS_TEXT);
}

static int print_json(void)
{
	return sheaf_stats_print(out, SHEAF_STATS_JSON);
}

static int print_traces(void)
{
	return kmem_cache_print_traces(NULL, out, SHEAF_ALLOC_TRACES, SHEAF_STATS_TEXT);
}

static void close_out(void)
{
	close(out);
}

/* --- the control socket ----------------------------------------------------------------------- */

static int asker = -1;

/* Slow calls look at the socket every 10 ms. */
static void ask(void)
{
	static const char request[] = "groups\n";

	some_objects();
	clock_pass_ms(100);
	kmem_cache_shrink(w.s);
	asker = connect_to_self();
	if (write(asker, request, sizeof(request) - 1) < 0)
		fault("no request");
}

static int answer(void)
{
	for (int i = 0; i < 4; i++) {
		clock_pass_ms(100);
		kmem_cache_shrink(w.s);
	}
	return 0;
}

static void hang_up(void)
{
	close(asker);
	close(out);
}

static int first_use(void)
{
	struct kmem_cache *s = kmem_cache_create("first", 64, NULL, SLAB_NO_MERGE);

	if (!s)
		return NOTHING;
	kmem_cache_destroy(s);
	return 0;
}

/* --- fork ------------------------------------------------------------------------------------- */

/* The child can use what it has inherited. */
static void in_fork(void)
{
	void *object = kmem_cache_alloc(w.s, GFP_KERNEL);
	int result;

	CHECK(w.p[0]);
	kmem_cache_free(w.s, w.p[0]);
	if (object)
		kmem_cache_free(w.s, object);
	result = kmem_cache_verify(w.s);
	CHECK(result == 0 || result == -ENOMEM);
}

static int forked(void)
{
	if (in_child(in_fork))
		fault("the child failed");
	errno = 4242; /* fork() and waitpid() are the program's */
	return 0;
}

/* --- other threads that wait ------------------------------------------------------------------ */

static pthread_t thread;
static pthread_barrier_t begin;
static bool ends;

/* It takes each lock of the library that is held for long, until told to stop. */
static void *other(void *data)
{
	(void)data;
	pthread_barrier_wait(&begin);
	while (!__atomic_load_n(&ends, __ATOMIC_RELAXED)) {
		kmem_cache_shrink(w.s);
		kvfree_rcu_barrier();
		sheaf_trim(0);
		kmem_cache_free(w.s, kmem_cache_alloc(w.s, GFP_KERNEL));
	}
	return NULL;
}

static void begin_other(void)
{
	ends = false;
	pthread_barrier_init(&begin, NULL, 2);
	if (pthread_create(&thread, NULL, other, NULL))
		fault("no thread");
	pthread_barrier_wait(&begin);
}

static void end_other(void)
{
	__atomic_store_n(&ends, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&begin);
}

static void many_beside_other(void)
{
	many();
	begin_other();
}

static int all_beside_other(void)
{
	int result;

	retire_and_wait();
	kmem_cache_shrink(w.s);
	sheaf_trim(0);
	result = housekeeping();
	kmem_cache_free_bulk(w.s, result ? 0 : MOST, w.p);
	memset(w.p, 0, sizeof(w.p));
	end_other();
	errno = 4242;
	return result;
}

const struct scene process_scenes[] = {
	{.name = "sheaf_rcu_register, first call", .call = register_provider},
	{.name = "sheaf_rcu_none, first call", .call = no_readers},
	{.name = "kfree_rcu, many",
	 .prepare = provider,
	 .ready = many,
	 .call = retire_many,
	 .settle = barrier,
	 .never_fails = true},
	{.name = "kmem_cache_free_rcu, many",
	 .prepare = provider,
	 .ready = many,
	 .call = retire_without_head,
	 .settle = barrier,
	 .never_fails = true},
	{.name = "kmem_cache_free_bulk_rcu",
	 .prepare = provider,
	 .ready = many,
	 .call = retire_bulk,
	 .settle = barrier,
	 .never_fails = true},
	{.name = "kfree_rcu and kvfree_rcu_barrier",
	 .prepare = provider,
	 .ready = many,
	 .call = retire_and_wait,
	 .never_fails = true},
	{.name = "kvfree_rcu_barrier",
	 .prepare = provider,
	 .ready = some_retired,
	 .call = wait_for_all,
	 .never_fails = true},
	{.name = "kvfree_rcu_barrier_on_cache",
	 .prepare = provider,
	 .ready = some_retired,
	 .call = wait_for_cache,
	 .never_fails = true},
	{.name = "kvfree_rcu, blocks",
	 .prepare = provider,
	 .ready = one_block,
	 .call = retire_blocks,
	 .settle = barrier,
	 .never_fails = true},
	{.name = "kvfree_rcu_mightsleep",
	 .prepare = provider,
	 .ready = one_block,
	 .call = retire_mightsleep,
	 .settle = barrier,
	 .never_fails = true},
	{.name = "kmem_cache_alloc, retired objects",
	 .prepare = provider,
	 .ready = some_retired,
	 .call = take_again,
	 .settle = barrier},
	{.name = "shrinker_alloc, first call", .call = make_shrinker, .undo = free_shrinker},
	{.name = "shrinker_alloc",
	 .prepare = some_objects,
	 .call = make_shrinker,
	 .undo = free_shrinker,
	 .finish = close_out},
	{.name = "sheaf_trim, shrinkers",
	 .prepare = a_shrinker,
	 .call = call_shrinkers,
	 .finish = free_shrinker,
	 .never_fails = true},
	{.name = "sheaf_set_limits, first call", .call = set_limits, .undo = no_limits},
	{.name = "kvmalloc, hard limit",
	 .options = "",
	 .prepare = at_limit,
	 .call = block_at_limit,
	 .finish = no_limits},
	{.name = "housekeeping", .ready = much_free, .prepare = provider, .call = housekeeping},
	{.name = "kmem_cache_stats",
	 .prepare = some_objects,
	 .ready = one_object,
	 .call = read_stats,
	 .finish = close_out,
	 .never_fails = true},
	{.name = "sheaf_stats_print",
	 .prepare = some_objects,
	 .ready = one_object,
	 .call = print_stats,
	 .finish = close_out},
	{.name = "sheaf_stats_print, JSON",
	 .prepare = some_objects,
	 .ready = one_object,
	 .call = print_json,
	 .finish = close_out},
	{.name = "kmem_cache_print_traces",
	 .prepare = some_objects,
	 .ready = one_object,
	 .call = print_traces,
	 .finish = close_out},
	{.name = "control socket, first call", .options = "control", .call = first_use},
	{.name = "control socket",
	 .options = "control",
	 .prepare = ask,
	 .call = answer,
	 .finish = hang_up,
	 .never_fails = true},
	{.name = "background, first call", .options = "background", .call = first_use},
	{.name = "pressure, first call", .options = "pressure", .call = first_use},
	{.name = "fork",
	 .prepare = some_objects,
	 .ready = one_object,
	 .call = forked,
	 .finish = close_out,
	 .never_fails = true},
	{.name = "beside another thread",
	 .prepare = provider,
	 .ready = many_beside_other,
	 .call = all_beside_other},
	{.name = NULL},
};
