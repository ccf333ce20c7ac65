/* SPDX-License-Identifier: MIT */
/* Limits of what the library holds, and the shrinkers that make room. Each test runs in a child. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sheaf/group.h>
#include <sheaf/limit.h>
#include <sheaf/shrinker.h>
#include <sheaf/trim.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/hooks.h"
#include "kit/process.h"
#include "kit/sanitizers.h"
#include "kit/unit.h"

enum {
	SIZE = 1024,
	MANY = 1 << 17, /* 128 MiB */
	THREADS = 4,
#if HAS_TSAN /* which sees a race the first time, in forty times as long */
	ROUNDS = 100,
#else
	ROUNDS = 2000,
#endif
	MIB = 1 << 20,
	PAGE = 4096,
	PIECE = 32 * MIB, /* the most that one call returns to the system */
};

static void *objects[MANY];
static struct capture captured;

static size_t held(void)
{
	struct sheaf_stats stats;

	sheaf_stats(&stats);
	/* LIMIT-H1 */
	CHECK(stats.held_bytes == stats.used_bytes + stats.free_bytes + stats.mapped_bytes);
	return stats.held_bytes;
}

static uint64_t failures(void)
{
	struct sheaf_stats stats;

	sheaf_stats(&stats);
	return stats.limit_failures;
}

static unsigned int take_all(struct kmem_cache *s, gfp_t flags, unsigned int n)
{
	while (n < MANY && (objects[n] = kmem_cache_alloc(s, flags)) != NULL)
		n++;
	return n;
}

static void free_all(struct kmem_cache *s, unsigned int from, unsigned int to)
{
	for (unsigned int i = from; i < to; i++)
		kmem_cache_free(s, objects[i]);
}

static void the_hard_limit_holds(void)
{
	struct kmem_cache *s = make("limited", SIZE, 0), *other = make("other", 2 * SIZE, 0);
	struct sheaf_stats stats;
	size_t hard;
	unsigned int n, more;
	void *large;

	kfree(kmalloc(64, GFP_KERNEL));
	hard = held() + 16 * MIB;
	CHECK(sheaf_set_limits(0, hard) == 0);
	n = take_all(s, GFP_NOWAIT, 0);
	CHECK(n > 1000 && n < MANY);
	CHECK(held() <= hard);
	/* Each call that failed counts, not each run that was refused. */
	CHECK(failures() == 1);
	/* Neither blocks of a cache that has no slab, nor runs nor mappings. */
	CHECK(!kmalloc(MIB, GFP_NOWAIT));
	CHECK(!kmalloc(65536, GFP_KERNEL | __GFP_NORETRY) && !kmalloc(2 * MIB, GFP_NOWAIT));
	CHECK(!kvmalloc(16 * MIB, GFP_KERNEL | __GFP_NOWARN));
	CHECK(!kmalloc_node(2 * MIB, GFP_NOWAIT | __GFP_THISNODE, 0));
	CHECK(held() <= hard && failures() == 6);
	sheaf_stats(&stats);
	CHECK(stats.hard_limit == hard / PAGE * PAGE);
	n = take_all(s, GFP_KERNEL, n);
	CHECK(n < MANY && failures() == 7);
	CHECK(!kmem_cache_alloc_bulk(s, GFP_KERNEL, 64, objects + n) && failures() == 8);
	CHECK(!kmem_cache_prefill_sheaf(s, GFP_KERNEL, 64) && failures() == 9);
	/* What another cache has free serves it: only by reclaim. */
	free_all(s, n / 2, n);
	more = take_all(other, GFP_KERNEL, n / 2);
	CHECK(more > n / 2 + n / 8);
	CHECK(held() <= hard);
	free_all(other, n / 2, more);
	free_all(s, 0, n / 2);
	CHECK(kmem_cache_verify(s) == 0 && kmem_cache_verify(other) == 0);
	/* As much memory in one block; and more without a limit. */
	CHECK((large = kvmalloc(8 * MIB, GFP_KERNEL)) != NULL);
	kvfree(large);
	CHECK(sheaf_set_limits(0, 0) == 0);
	CHECK((large = kvmalloc(64 * MIB, GFP_NOWAIT)) != NULL);
	kvfree(large);
	sheaf_trim(0);
	CHECK(held() < hard);
	kmem_cache_destroy(s);
	kmem_cache_destroy(other);
}

/* A block grows if what waits makes room for it, and else stays. */
static void blocks_grow_below_the_limit(void)
{
	char *block = kvmalloc(8 * MIB, GFP_KERNEL), *larger;

	CHECK(block);
	block[0] = 7;
	kvfree(kvmalloc(64 * MIB, GFP_KERNEL));
	CHECK(sheaf_set_limits(0, held()) == 0);
	larger = kvrealloc(block, 32 * MIB, GFP_KERNEL);
	if (larger)
		block = larger;
	CHECK(sheaf_set_limits(0, held()) == 0);
	CHECK(!kvrealloc(block, 256 * MIB, GFP_KERNEL) && block[0] == 7);
	/* What waits is not enough. */
	CHECK(sheaf_set_limits(0, 0) == 0);
	kvfree(kvmalloc(4 * MIB, GFP_KERNEL));
	CHECK(sheaf_set_limits(0, held()) == 0);
	CHECK(!kvrealloc(block, 256 * MIB, GFP_KERNEL) && block[0] == 7);
	CHECK(sheaf_set_limits(0, 0) == 0);
	kvfree(block);
}

static bool refuse_pages(const char *point)
{
	return !strcmp(point, "page_hold");
}

/* Another thread takes what is left between the look and the request. */
static void the_last_pages_are_gone(void)
{
	kfree(kmalloc(64, GFP_KERNEL));
	CHECK(sheaf_set_limits(0, held() + 100 * MIB) == 0);
	hook_fail_by(refuse_pages);
	CHECK(!kmalloc(2 * MIB, GFP_NOWAIT | __GFP_THISNODE));
	hook_fail_by(NULL);
	kfree(kmalloc(2 * MIB, GFP_NOWAIT));
}

static void wrong_and_large_limits(void)
{
	struct kmem_cache *s = make("full", SIZE, 0);
	void *object;
	unsigned int n = 0;

	while (n < 8192)
		CHECK((objects[n++] = kmem_cache_alloc(s, GFP_KERNEL)) != NULL);
	errno = 77;
	capture_begin(&captured);
	CHECK(sheaf_set_limits(2, 1) == -EINVAL);
	CHECK(capture_end(&captured) == 1 &&
	      strstr(captured.text, "soft limit is above the hard one"));
	capture_begin(&captured);
	CHECK(sheaf_set_limits((size_t)1 << 63, (size_t)1 << 63) == 0);
	CHECK(sheaf_set_limits(SIZE_MAX, SIZE_MAX) == 0);
	CHECK(sheaf_set_limits(SIZE_MAX, 0) == 0);
	CHECK(capture_end(&captured) == 0);
	CHECK((object = kmem_cache_alloc(s, GFP_KERNEL)) != NULL);
	kmem_cache_free(s, object);
	/* A limit below what is used: one line reports it, and the limit holds. */
	capture_begin(&captured);
	CHECK(sheaf_set_limits(0, MIB) == 0);
	CHECK(capture_end(&captured) == 1 && strstr(captured.text, "the hard limit is below the"));
	CHECK(!kmalloc(MIB, GFP_KERNEL | __GFP_NOWARN));
	/* What is held stays usable, and free objects are allocated again. */
	memset(objects[0], 1, SIZE);
	CHECK(sheaf_set_limits(0, 0) == 0);
	CHECK(errno == 77);
	free_all(s, 0, n);
	kmem_cache_destroy(s);
}

static void above_soft_nothing_waits(void)
{
	struct kmem_cache *s = make("soft", SIZE, 0);
	struct sheaf_stats stats;
	unsigned int n = 0;

	CHECK(sheaf_set_limits(held() + 4 * MIB, 0) == 0);
	while (n < 65536)
		CHECK((objects[n++] = kmem_cache_alloc(s, GFP_KERNEL)) != NULL);
	free_all(s, 0, n);
	/* Without the limit, 64 MiB would wait; a call's piece is bounded. */
	sheaf_stats(&stats);
	CHECK(stats.free_bytes <= 4 * MIB + 2 * PIECE);
	kmem_cache_destroy(s);
}

/* --- shrinkers -------------------------------------------------------------------------------- */

static struct kmem_cache *cached;
static void *cached_objects[MANY];
static unsigned int nr_cached, counts, scans, deepest, depth;
static struct shrinker *mine;
static int seeks = DEFAULT_SEEKS;

static unsigned long count(struct shrinker *shrinker, struct shrink_control *sc)
{
	CHECK(shrinker->private_data == &nr_cached && sc->nid == 0);
	CHECK(sc->gfp_mask & __GFP_DIRECT_RECLAIM);
	counts++;
	return nr_cached ? nr_cached : SHRINK_EMPTY;
}

static unsigned long scan(struct shrinker *shrinker, struct shrink_control *sc)
{
	unsigned long n = 0;
	void *block;

	(void)shrinker;
	CHECK(sc->nr_to_scan && sc->nr_to_scan <= 100 && sc->nr_scanned == sc->nr_to_scan);
	if (++depth > deepest)
		deepest = depth;
	scans++;
	while (nr_cached && n < sc->nr_to_scan) {
		kmem_cache_free(cached, cached_objects[--nr_cached]);
		n++;
	}
	/* It may allocate, also beyond the limit, and trim. */
	block = kmalloc(64, GFP_KERNEL | __GFP_NOWARN);
	kfree(block);
	if (scans % 64 == 1) {
		kfree(kmalloc(MIB, GFP_KERNEL | __GFP_NOWARN));
		sheaf_trim(0);
	}
	depth--;
	return n;
}

static void add_mine(void)
{
	mine = shrinker_alloc(0, "lookups %d", 1);
	CHECK(mine && mine->seeks == DEFAULT_SEEKS && !mine->batch);
	mine->count_objects = count;
	mine->scan_objects = scan;
	mine->batch = 100;
	mine->seeks = seeks;
	mine->private_data = &nr_cached;
	shrinker_register(mine);
}

static void fill_cached(unsigned int n)
{
	while (nr_cached < n)
		CHECK((cached_objects[nr_cached++] = kmem_cache_alloc(cached, GFP_KERNEL)) != NULL);
}

static void shrinkers_make_room(void)
{
	struct kmem_cache *s = make("needs", SIZE, 0);
	struct sheaf_stats stats;
	unsigned int n, more;

	cached = make("cached", SIZE, 0);
	add_mine();
	fill_cached(16384);
	CHECK(counts == 0);
	CHECK(sheaf_set_limits(0, held() + MIB) == 0);
	n = take_all(s, GFP_NOWAIT, 0);
	CHECK(counts == 0 && nr_cached == 16384);
	more = take_all(s, GFP_KERNEL, n);
	CHECK(counts && scans && nr_cached == 0);
	CHECK(deepest == 1);
	CHECK(more > n + 12000);
	sheaf_stats(&stats);
	CHECK(stats.shrinker_objects == 16384);
	free_all(s, 0, more);
	sheaf_set_limits(0, 0);
	/* A trim calls them, too. */
	fill_cached(500);
	sheaf_trim(0);
	CHECK(nr_cached == 0);
	shrinker_free(mine);
	counts = 0;
	sheaf_trim(0);
	CHECK(counts == 0);
	kmem_cache_destroy(cached);
	kmem_cache_destroy(s);
}

/* Above the soft limit: a part at a time, never everything. */
static void above_soft(unsigned int (*call)(struct kmem_cache *s, unsigned int n))
{
	struct kmem_cache *s = make("needs", SIZE, 0);

	cached = make("cached", SIZE, 0);
	add_mine();
	fill_cached(4000);
	sheaf_set_limits(MIB, 0);
	for (unsigned int n = 0; n < MANY && !scans;) {
		n = call(s, n);
		usleep(50);
	}
	CHECK(scans && nr_cached >= 2000 && nr_cached < 4000);
	sheaf_set_limits(0, 0);
}

static unsigned int one(struct kmem_cache *s, unsigned int n)
{
	CHECK((objects[n] = kmem_cache_alloc(s, GFP_KERNEL)) != NULL);
	return n + 1;
}

static unsigned int some_at_once(struct kmem_cache *s, unsigned int n)
{
	CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, 8, objects + n) == 8);
	return n + 8;
}

static unsigned int prefilled(struct kmem_cache *s, unsigned int n)
{
	CHECK((objects[n] = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 8)) != NULL);
	return n + 1;
}

static unsigned int on_node(struct kmem_cache *s, unsigned int n)
{
	CHECK((objects[n] = kmem_cache_alloc_node(s, GFP_KERNEL, 0)) != NULL);
	return n + 1;
}

static unsigned int refilled(struct kmem_cache *s, unsigned int n)
{
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(s, GFP_NOWAIT, 8);

	while (kmem_cache_sheaf_size(sheaf))
		objects[n++] = kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf);
	CHECK(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 8) == 0);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	return n;
}

static void shrinkers_hear_of_soft(void)
{
	above_soft(one);
}

static void shrinkers_hear_of_soft_in_bulk(void)
{
	above_soft(some_at_once);
}

static void shrinkers_hear_of_soft_in_prefill(void)
{
	above_soft(prefilled);
}

static void shrinkers_hear_of_soft_on_a_node(void)
{
	above_soft(on_node);
}

static void shrinkers_hear_of_soft_in_refill(void)
{
	seeks = 0; /* nothing is to be sought again: half of them */
	above_soft(refilled);
}

static unsigned long some(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker;
	(void)sc;
	counts++;
	return 1000;
}

static unsigned long stops(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker;
	(void)sc;
	scans++;
	return SHRINK_STOP;
}

static unsigned long frees_itself(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)sc;
	scans++;
	shrinker_free(shrinker);
	return 1;
}

static struct shrinker *next;

static unsigned long frees_itself_and_next(struct shrinker *shrinker, struct shrink_control *sc)
{
	frees_itself(shrinker, sc);
	shrinker_free(next);
	return 1;
}

static unsigned long forks(struct shrinker *shrinker, struct shrink_control *sc)
{
	pid_t child = fork();
	int status;

	(void)sc;
	scans++;
	if (child == 0) {
		/* Still inside: it does not run again. Others may. */
		sheaf_trim(0);
		shrinker_free(shrinker);
		_exit(scans == 1 ? 0 : 1);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	return SHRINK_STOP;
}

static struct shrinker *add(unsigned long (*scan_objects)(struct shrinker *,
							  struct shrink_control *))
{
	struct shrinker *shrinker = shrinker_alloc(SHRINKER_NUMA_AWARE, "%s", "odd \t name");

	CHECK(shrinker);
	shrinker->count_objects = some;
	shrinker->scan_objects = scan_objects;
	shrinker_register(shrinker);
	return shrinker;
}

static void odd_shrinkers(void)
{
	struct shrinker *shrinker = add(stops);

	kfree(kmalloc(64, GFP_KERNEL));
	sheaf_trim(0);
	CHECK(scans == 1);
	capture_begin(&captured);
	shrinker_register(shrinker);
	CHECK(capture_end(&captured) == 1 &&
	      strstr(captured.text, "(odd ? name): registered already"));
	shrinker_register(NULL);
	shrinker_free(NULL);
	shrinker_free(shrinker);
	shrinker = shrinker_alloc(0, "empty");
	capture_begin(&captured);
	shrinker_register(shrinker);
	CHECK(capture_end(&captured) == 1 && strstr(captured.text, "count_objects is NULL"));
	shrinker_free(shrinker);
	/* Those that come after one that frees itself, or the next one, have their turn. */
	scans = 0;
	add(frees_itself);
	shrinker = add(stops);
	sheaf_trim(0);
	CHECK(scans == 2);
	sheaf_trim(0);
	CHECK(scans == 3);
	shrinker_free(shrinker);
	scans = 0;
	add(frees_itself_and_next);
	next = add(stops);
	shrinker = add(stops);
	sheaf_trim(0);
	CHECK(scans == 2);
	shrinker_free(shrinker);
	scans = 0;
	shrinker = add(forks);
	sheaf_trim(0);
	CHECK(scans == 1);
	shrinker_free(shrinker);
}

/* --- one cache -------------------------------------------------------------------------------- */

/* Memory that a call took before it failed is freed again; it counts until then. */
static void a_limit_refuses_many_at_once(void)
{
	struct kmem_cache_args args = {.limit = MIB};
	struct kmem_cache *s = kmem_cache_create("many", SIZE, &args, 0);

	CHECK(s);
	CHECK(!kmem_cache_alloc_bulk(s, GFP_KERNEL, 4 * MIB / SIZE, objects));
	CHECK(look(s).limit_failures == 1);
	CHECK(!kmem_cache_alloc_bulk(s, GFP_NOWAIT, 4 * MIB / SIZE, objects));
	CHECK(look(s).limit_failures == 2);
	CHECK(!kmem_cache_prefill_sheaf(s, GFP_KERNEL, 4 * MIB / SIZE));
	CHECK(look(s).limit_failures == 3 && failures() == 0);
	kmem_cache_destroy(s);
}

/* There are objects, but no memory for the numbers of their group. */
static void no_room_for_owners_counts(void)
{
	struct kmem_group *group = kmem_group_create("owners", NULL, NULL);
	struct kmem_cache *s = kmem_cache_create("owned", 64, NULL, SLAB_ACCOUNT);
	unsigned int n;

	CHECK(group && s);
	kmem_group_restore_current(kmem_group_get(group));
	CHECK((objects[0] = kmem_cache_alloc(s, GFP_KERNEL)) != NULL);
	sheaf_set_limits(0, held() + 16 * PAGE);
	n = take_all(s, GFP_NOWAIT, 1);
	CHECK(n < MANY && failures() == 1);
	sheaf_set_limits(0, 0);
	free_all(s, 0, n);
	kmem_group_restore_current(NULL);
	kmem_group_put(group);
}

static void a_cache_is_limited(void)
{
	struct kmem_cache_args args = {.limit = 4 * MIB};
	struct kmem_cache *s = kmem_cache_create("bounded", SIZE, &args, 0),
			  *other = kmem_cache_create("free", SIZE, NULL, 0);
	unsigned int n, again;
	void *object;

	CHECK(s && other && s != other);
	n = take_all(s, GFP_NOWAIT, 0);
	n = take_all(s, GFP_KERNEL, n);
	CHECK(n >= 1024 && n <= 4096);
	CHECK(look(s).slab_bytes <= 4 * MIB && look(s).limit_bytes == 4 * MIB);
	CHECK(look(s).limit_failures == 2 && look(other).limit_failures == 0);
	CHECK(failures() == 0);
	CHECK((object = kmem_cache_alloc(other, GFP_NOWAIT)) != NULL);
	kmem_cache_free(other, object);
	/* What is free is allocated again. */
	free_all(s, n / 2, n);
	again = take_all(s, GFP_KERNEL, n / 2);
	CHECK(again >= n - n / 50);
	capture_begin(&captured);
	CHECK(kmem_cache_set_limit(s, MIB) == 0);
	CHECK(capture_end(&captured) == 1 && strstr(captured.text, "kmem_cache_set_limit(bounded"));
	CHECK(!kmem_cache_alloc(s, GFP_KERNEL));
	CHECK(kmem_cache_set_limit(s, SIZE_MAX) == 0 && kmem_cache_set_limit(s, 0) == 0);
	again = take_all(s, GFP_KERNEL, again);
	CHECK(again == MANY);
	free_all(s, 0, again);
	/* Alone: only its own memory is returned, and then the limit fits. */
	capture_begin(&captured);
	CHECK(kmem_cache_set_limit(s, MIB) == 0);
	CHECK(capture_end(&captured) == 0 && look(s).slab_bytes <= MIB);
	CHECK(kmem_cache_verify(s) == 0);
	kmem_cache_destroy(s);
	kmem_cache_destroy(other);
}

/* A limit is not for caches that are created afterwards. */
static void a_limited_cache_stays_alone(void)
{
	struct kmem_cache *s = kmem_cache_create("limited", SIZE, NULL, 0), *later;

	CHECK(s && kmem_cache_set_limit(s, MIB) == 0);
	later = kmem_cache_create("later", SIZE, NULL, 0);
	CHECK(later && later != s);
	CHECK(look(s).limit_bytes == MIB && look(later).limit_bytes == 0);
	kmem_cache_destroy(later);
	kmem_cache_destroy(s);
}

/* --- threads ---------------------------------------------------------------------------------- */

static void *use(void *cache)
{
	struct sheaf_stats stats;
	void *own[64];

	for (unsigned int round = 0; round < ROUNDS; round++) {
		gfp_t flags = round % 3 ? GFP_KERNEL : GFP_NOWAIT;
		unsigned int n = 0;

		while (n < 64 && (own[n] = kmem_cache_alloc(cache, flags)) != NULL)
			memset(own[n++], (int)round, SIZE);
		sheaf_stats(&stats);
		CHECK(stats.used_bytes <= stats.hard_limit);
		while (n)
			kmem_cache_free(cache, own[--n]);
		if (round % 64 == 0)
			kvfree(kvmalloc(2 * MIB + PAGE, flags | __GFP_NOWARN));
	}
	return NULL;
}

static void *come_and_go(void *unused)
{
	for (unsigned int round = 0; round < ROUNDS / 20; round++) {
		struct shrinker *shrinker = add(stops);

		sched_yield();
		shrinker_free(shrinker);
	}
	return unused;
}

static void many_threads(void)
{
	struct kmem_cache *s = make("shared", SIZE, 0);
	pthread_t threads[THREADS], other;

	sheaf_set_limits(held() + MIB, held() + 3 * MIB);
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, use, s) == 0);
	CHECK(pthread_create(&other, NULL, come_and_go, NULL) == 0);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_join(other, NULL);
	held();
	CHECK(kmem_cache_verify(s) == 0);
	sheaf_set_limits(0, 0);
	kmem_cache_destroy(s);
}

static atomic_bool enough;

static void *ask_for_too_much(void *unused)
{
	while (!atomic_load(&enough)) {
		CHECK(!kvmalloc(64 * MIB, GFP_NOWAIT));
		sched_yield(); /* where only one thread runs at a time, as under valgrind */
	}
	return unused;
}

/* A refused request does not make another one fail that fits. */
static void refusals_are_for_oneself(void)
{
	pthread_t threads[THREADS];
	void *block;

	kvfree(kvmalloc(8 * MIB, GFP_KERNEL));
	sheaf_trim(0);
	sheaf_set_limits(0, held() + 32 * MIB);
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, ask_for_too_much, NULL) == 0);
	/* Under a tool, each takes far longer. */
	for (unsigned int left = hook_has_tools() ? ROUNDS / 4 : 5 * ROUNDS; left > 0; left--) {
		CHECK((block = kvmalloc(8 * MIB, GFP_NOWAIT)) != NULL);
		kvfree(block);
	}
	atomic_store(&enough, true);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	held();
	sheaf_set_limits(0, 0);
}

#define IN_CHILD(body)                                                                             \
	static void body##_in_child(void **state)                                                  \
	{                                                                                          \
		(void)state;                                                                       \
		assert_int_equal(in_child(body), 0);                                               \
	}

IN_CHILD(the_hard_limit_holds)
IN_CHILD(blocks_grow_below_the_limit)
IN_CHILD(wrong_and_large_limits)
IN_CHILD(above_soft_nothing_waits)
IN_CHILD(the_last_pages_are_gone)
IN_CHILD(shrinkers_make_room)
IN_CHILD(shrinkers_hear_of_soft)
IN_CHILD(shrinkers_hear_of_soft_in_bulk)
IN_CHILD(shrinkers_hear_of_soft_in_prefill)
IN_CHILD(shrinkers_hear_of_soft_on_a_node)
IN_CHILD(shrinkers_hear_of_soft_in_refill)
IN_CHILD(odd_shrinkers)
IN_CHILD(a_limit_refuses_many_at_once)
IN_CHILD(no_room_for_owners_counts)
IN_CHILD(a_cache_is_limited)
IN_CHILD(a_limited_cache_stays_alone)
IN_CHILD(many_threads)
IN_CHILD(refusals_are_for_oneself)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_hard_limit_holds_in_child),
		cmocka_unit_test(blocks_grow_below_the_limit_in_child),
		cmocka_unit_test(wrong_and_large_limits_in_child),
		cmocka_unit_test(above_soft_nothing_waits_in_child),
		cmocka_unit_test(the_last_pages_are_gone_in_child),
		cmocka_unit_test(shrinkers_make_room_in_child),
		cmocka_unit_test(shrinkers_hear_of_soft_in_child),
		cmocka_unit_test(shrinkers_hear_of_soft_in_bulk_in_child),
		cmocka_unit_test(shrinkers_hear_of_soft_in_prefill_in_child),
		cmocka_unit_test(shrinkers_hear_of_soft_on_a_node_in_child),
		cmocka_unit_test(shrinkers_hear_of_soft_in_refill_in_child),
		cmocka_unit_test(odd_shrinkers_in_child),
		cmocka_unit_test(a_limit_refuses_many_at_once_in_child),
		cmocka_unit_test(no_room_for_owners_counts_in_child),
		cmocka_unit_test(a_cache_is_limited_in_child),
		cmocka_unit_test(a_limited_cache_stays_alone_in_child),
		cmocka_unit_test(many_threads_in_child),
		cmocka_unit_test(refusals_are_for_oneself_in_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
