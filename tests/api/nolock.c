/* SPDX-License-Identifier: MIT */
/*
 * The nolock calls: what they allocate, and in signal handlers that interrupt every part of the
 * library. With each lock held: internal/held-locks/held-locks.c.
 *
 *   nolock [HANDLERS]
 */
#include <errno.h>
#include <pthread.h>
#include <sheaf/group.h>
#include <sheaf/mempool.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kit/blocks.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/clock.h"
#include "kit/hooks.h"
#include "kit/needs.h"
#include "kit/nolock.h"
#include "kit/objects.h"
#include "kit/options.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/sanitizers.h"
#include "kit/unit.h"

enum {
	SIZE = 64
};

#define CONSTRUCTED UINT64_C(0xc0457c7ed)
#define STAMPED	    8 /* bytes of each object */

static struct capture captured;

static void construct(void *object)
{
	((uint64_t *)object)[1] = CONSTRUCTED;
}

/* Without sheaves all that was freed is in slabs, of which a node keeps few or none. A nolock call
 * makes no slab. */
static struct kmem_cache *keep_slabs(struct kmem_cache *s)
{
	if (!look(s).sheaf_capacity)
		hook_keep_slabs(s, MANY);
	return s;
}

static struct kmem_cache *make_constructed(void)
{
	struct kmem_cache_args args = {.ctor = construct};
	struct kmem_cache *s = kmem_cache_create("constructed", SIZE, &args, SLAB_NO_MERGE);

	CHECK(s);
	return keep_slabs(s);
}

/* At their limit, nolock allocations use up the cache, from main to the last slab. */
static void all_that_is_there(void **state)
{
	struct kmem_cache *s = keep_slabs(make("nolock", SIZE, no_samples()));
	struct kmem_cache_stats before, after;

	(void)state;
	assert_null(kmem_cache_alloc_nolock(s, 0));
	take(s, 1000);
	kmem_cache_free_bulk(s, 1000, held);
	before = look(s);
	assert_int_equal(kmem_cache_set_limit(s, before.slab_bytes), 0);
	errno = 4242;
	assert_int_equal(take_nolock(s), before.total_objects);
	give_nolock(s, (unsigned int)before.total_objects);
	assert_int_equal(errno, 4242);
	after = look(s);
	assert_int_equal(after.total_objects, before.total_objects);
	assert_int_equal(after.objects_in_use, 0);
	if (library().counted) {
		assert_int_equal(after.nolock_fail, 2);
		assert_true(after.sheaf_alloc == before.sheaf_alloc);
	}
	kmem_cache_free_nolock(s, NULL);
	all_is_there(s);
}

/* Where there is no free object, they make slabs; but run no constructor. */
static void new_slabs(void **state)
{
	struct kmem_cache *s = make("grows", SIZE, 0), *constructed = make_constructed();
	struct kmem_cache_stats before;

	(void)state;
	/* Objects of debug caches are prepared, as constructed ones are. */
	if (has_slab_debug())
		skip();
	kmem_cache_free(constructed, kmem_cache_alloc(constructed, GFP_KERNEL));
	before = look(constructed);
	give_nolock(constructed, take_nolock(constructed));
	assert_int_equal(look(constructed).total_objects, before.total_objects);
	all_is_there(constructed);
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	assert_int_equal(take_nolock(s), MANY);
	for (int i = 0; i < MANY; i++)
		assert_true(stamp_put(held[i], STAMPED, 0, 0));
	for (int i = 0; i < MANY; i++)
		assert_true(stamp_remove(held[i], STAMPED));
	give_nolock(s, MANY);
	all_is_there(s);
}

static void zeroed_or_constructed(void **state)
{
	static const char zero[SIZE];
	struct kmem_cache *s = keep_slabs(make("zeroed", SIZE, 0));
	unsigned int n;

	(void)state;
	take(s, 300);
	for (int i = 0; i < 300; i++)
		memset(held[i], 0xff, SIZE);
	kmem_cache_free_bulk(s, 300, held);
	for (int i = 0; i < 300; i++) {
		held[i] = kmem_cache_alloc_nolock(s, __GFP_ZERO);
		assert_memory_equal(held[i], zero, SIZE);
	}
	give_nolock(s, 300);
	all_is_there(s);
	s = make_constructed();
	take(s, 10);
	kmem_cache_free_bulk(s, 10, held);
	n = take_nolock(s);
	assert_true(n >= 10);
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(((uint64_t *)held[i])[1], CONSTRUCTED);
	give_nolock(s, n);
	all_is_there(s);
}

static void misuse(void **state)
{
	struct kmem_cache *s = make("mine", SIZE, SLAB_NO_SHEAVES), *other = make("other", SIZE, 0);
	char *object = kmem_cache_alloc(s, GFP_KERNEL);
	int foreign;

	(void)state;
	capture_begin(&captured);
	kmem_cache_free_nolock(s, &foreign);
	kmem_cache_free_nolock(s, object + 8);
	held[0] = kmem_cache_alloc(other, GFP_KERNEL);
	kmem_cache_free_nolock(s, held[0]);
	assert_true(capture_end(&captured) > 0);
	assert_int_equal(captured_reports(&captured), 3);
	kmem_cache_free_nolock(s, object);
	kmem_cache_free(other, held[0]);
	all_is_there(s);
	all_is_there(other);
}

/* --- handlers at 10 kHz, and threads on every slow path --- */

enum {
	NR_CACHES = 3,
	WORKERS = 3,
	BOXES = 64
};

static struct kmem_cache *shared[NR_CACHES];
static uint64_t *boxes[NR_CACHES][BOXES];
static unsigned int nr_handled, nr_had, handlers_wanted = 4000;
static int running = 1;

static void stamp(unsigned int c, uint64_t *object)
{
	CHECK(stamp_put(object, STAMPED, 0, 0));
	CHECK(c != 1 || object[1] == CONSTRUCTED);
}

static void unstamp(uint64_t *object)
{
	CHECK(stamp_remove(object, STAMPED));
}

static void on_signal(int number)
{
	unsigned int n = __atomic_fetch_add(&nr_handled, 1, __ATOMIC_RELAXED);
	int saved = errno;

	(void)number;
	for (unsigned int c = 0; c < NR_CACHES; c++) {
		uint64_t *object = kmem_cache_alloc_nolock(shared[c], 0);

		if (object) {
			stamp(c, object);
			__atomic_fetch_add(&nr_had, 1, __ATOMIC_RELAXED);
		}
		object = __atomic_exchange_n(&boxes[c][n % BOXES], object, __ATOMIC_ACQ_REL);
		if (!object)
			continue;
		unstamp(object);
		kmem_cache_free_nolock(shared[c], object);
	}
	CHECK(errno == saved);
}

static void wave(struct kmem_cache *s, unsigned int c, uint64_t *seed)
{
	uint64_t *p[300];
	unsigned int n = random_below(seed, 300) + 1;

	if (random_below(seed, 2)) {
		CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, n, (void **)p) == (int)n);
	} else {
		for (unsigned int i = 0; i < n; i++)
			CHECK((p[i] = kmem_cache_alloc(s, GFP_NOWAIT)) != NULL);
	}
	for (unsigned int i = 0; i < n; i++)
		stamp(c, p[i]);
	for (unsigned int i = 0; i < n; i++)
		unstamp(p[i]);
	if (random_below(seed, 2))
		kmem_cache_free_bulk(s, n, (void **)p);
	else
		while (n)
			kmem_cache_free(s, p[--n]);
}

static void other_ways(struct kmem_cache *s, unsigned int c, uint64_t *seed, const char *own)
{
	struct slab_sheaf *sheaf;

	switch (random_below(seed, 4)) {
	case 0:
		kmem_cache_shrink(s);
		return;
	case 1:
		s = make(own, SIZE, 0);
		kmem_cache_free_nolock(s, kmem_cache_alloc(s, GFP_KERNEL));
		kmem_cache_destroy(s);
		return;
	case 2:
		if (c != 2)
			kmem_cache_set_sheaf_capacity(s, 1 + random_below(seed, 60));
		return;
	default:
		sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 1 + random_below(seed, 100));
		CHECK(sheaf);
		kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	}
}

static void *work(void *number)
{
	static const char *const own[WORKERS] = {"brief", "short", "soon gone"};
	uint64_t seed = (uintptr_t)number * 77 + 1;

	while (__atomic_load_n(&running, __ATOMIC_RELAXED)) {
		unsigned int c = random_below(&seed, NR_CACHES);

		if (random_below(&seed, 8))
			wave(shared[c], c, &seed);
		else
			other_ways(shared[c], c, &seed, own[(uintptr_t)number]);
		keep_signals_unblocked();
	}
	return NULL;
}

/* A signal every 100 microseconds, to any thread that does not block it. */
static timer_t start_timer(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
	struct itimerspec every = {{0, 100000}, {0, 100000}};
	sigset_t blocked;
	timer_t timer;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	CHECK(timer_settime(timer, 0, &every, NULL) == 0);
	return timer;
}

static void handlers_on_every_path(void)
{
	struct sigaction action = {.sa_flags = SA_RESTART};
	pthread_t threads[WORKERS];
	timer_t timer;

	shared[0] = make("plain", SIZE, 0);
	shared[1] = make_constructed();
	shared[2] = make("bare", SIZE, SLAB_NO_SHEAVES);
	action.sa_handler = on_signal;
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	for (uintptr_t i = 0; i < WORKERS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	timer = start_timer();
	for (int i = 0; __atomic_load_n(&nr_handled, __ATOMIC_RELAXED) < handlers_wanted; i++) {
		pthread_kill(threads[i % WORKERS], SIGUSR1);
		usleep(50);
	}
	timer_delete(timer);
	__atomic_store_n(&running, 0, __ATOMIC_RELAXED);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned int c = 0; c < NR_CACHES; c++) {
		for (int i = 0; i < BOXES; i++)
			if (boxes[c][i]) {
				unstamp(boxes[c][i]);
				kmem_cache_free_nolock(shared[c], boxes[c][i]);
			}
		CHECK(kmem_cache_verify(shared[c]) == 0);
		CHECK(look(shared[c]).objects_in_use == 0);
		CHECK(kmem_cache_shrink(shared[c]) == 0);
		kmem_cache_destroy(shared[c]);
	}
	printf("%u handlers ran, %u objects were had\n", nr_handled, nr_had);
	fflush(stdout);
	CHECK(nr_had > 100);
}

static void handlers(void **state)
{
	(void)state;
	assert_int_equal(in_child(handlers_on_every_path), 0);
}

/* --- kmalloc --- */

static void by_size(void **state)
{
	static char mapped[1];
	void *small, *large, *neighbours[3];

	(void)state;
	needs(NEED_ONE_KMALLOC);
	large = kmalloc(KMALLOC_MAX_CACHE_SIZE + 1, GFP_KERNEL);
	assert_non_null(large);
	/* They stay in use: with slub_tiny, an empty slab would go. */
	neighbours[0] = kmalloc(100, GFP_KERNEL);
	neighbours[1] = kmalloc(1792, GFP_KERNEL);
	kfree(kmalloc(100, GFP_KERNEL));
	assert_ptr_equal(kmalloc_nolock(0, 0, NUMA_NO_NODE), ZERO_SIZE_PTR);
	assert_null(kmalloc_nolock(KMALLOC_MAX_CACHE_SIZE + 1, 0, NUMA_NO_NODE));
	/* No cache has larger objects. */
	assert_null(kmalloc_nolock(KMALLOC_MAX_CACHE_SIZE, 0, NUMA_NO_NODE));
	small = kmalloc_nolock(100, __GFP_ZERO, 0);
	assert_non_null(small);
	assert_int_equal(ksize(small), usable(100, 112));
	kfree_nolock(small);
	/* No cache of up to twice the size was needed yet. */
	assert_null(kmalloc_nolock(300, 0, NUMA_NO_NODE));
	/* kmalloc-1536 was never needed, so a larger cache serves. */
	kfree(kmalloc(1792, GFP_KERNEL));
	small = kmalloc_nolock(1500, 0, 12345);
	assert_non_null(small);
	assert_int_equal(ksize(small), usable(1500, 1792));
	kfree(small);
	/* Blocks of 144 bytes are not aligned as those of 128. */
	kfree(kmalloc(144, GFP_KERNEL));
	assert_null(kmalloc_nolock(128, 0, NUMA_NO_NODE));
	neighbours[2] = kmalloc(256, GFP_KERNEL);
	kfree(kmalloc(256, GFP_KERNEL));
	small = kmalloc_nolock(128, 0, NUMA_NO_NODE);
	assert_non_null(small);
	assert_int_equal((uintptr_t)small % 128, 0);
	kfree(small);
	kfree_nolock(NULL);
	kfree_nolock(ZERO_SIZE_PTR);
	capture_begin(&captured);
	kfree_nolock(large);
	kfree_nolock(mapped);
	assert_int_equal(capture_end(&captured), 2);
	kfree(large);
	kfree_bulk(3, neighbours);
}

#define PLACE(n)                                                                                   \
	static __attribute__((noinline)) void *at_place_##n(void)                                  \
	{                                                                                          \
		void *block = kmalloc_nolock(64, 0, NUMA_NO_NODE);                                 \
                                                                                                   \
		__asm__ volatile(""); /* no tail call */                                           \
		return block;                                                                      \
	}
PLACE(0)
PLACE(1)
PLACE(2)
PLACE(3)
PLACE(4)
PLACE(5)

/* With several sets of caches, where each place in the program has one. */
static void from_any_set(void **state)
{
	void *(*const places[])(void) = {at_place_0, at_place_1, at_place_2,
					 at_place_3, at_place_4, at_place_5};

	(void)state;
	/* Those that are not freed keep their slabs, also with slub_tiny. */
	for (int i = 0; i < 100; i++)
		held[i] = kmalloc(64, GFP_KERNEL);
	for (int i = 0; i < 99; i++)
		kfree(held[i]);
	for (int i = 0; i < 6; i++) {
		void *block = places[i]();

		assert_non_null(block);
		kfree_nolock(block);
	}
	kfree(held[99]);
}

static void on_kmalloc_signal(int number)
{
	static const unsigned int some[] = {8, 40, 64, 300, 1000};
	unsigned int n = __atomic_fetch_add(&nr_handled, 1, __ATOMIC_RELAXED);
	uint64_t *block = kmalloc_nolock(some[n % 5], 0, NUMA_NO_NODE);

	(void)number;
	if (!block)
		return;
	__atomic_fetch_add(&nr_had, 1, __ATOMIC_RELAXED);
	stamp(0, block);
	unstamp(block);
	kfree_nolock(block);
}

static bool handled_enough(void)
{
	return __atomic_load_n(&nr_handled, __ATOMIC_RELAXED) > 100 &&
	       __atomic_load_n(&nr_had, __ATOMIC_RELAXED) > 10;
}

/* A signal within 100 microseconds, if the one before has been handled. So the loop goes on
 * between two, however long a handler takes. */
static void interrupt_soon(timer_t timer)
{
	static uint64_t seed = 1;
	static unsigned int nr_sent;
	struct itimerspec once = {.it_value.tv_nsec = 1 + random_below(&seed, 100000)};

	if (__atomic_load_n(&nr_handled, __ATOMIC_RELAXED) != nr_sent)
		return;
	nr_sent++;
	CHECK(timer_settime(timer, 0, &once, NULL) == 0);
}

/* The kernel's own test: at least a thousand times a thousand blocks, with signals at any point. */
static void kmalloc_loop(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
	timer_t timer;

	signal(SIGUSR2, on_kmalloc_signal);
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	for (int round = 0; round < 1000 || !handled_enough(); round++) {
		for (int i = 0; i < 1000; i++) {
			if (i % 100 == 0)
				interrupt_soon(timer);
			held[i] = kmalloc(i % 5 * 60 + 8, GFP_KERNEL);
			CHECK(held[i]);
			stamp(0, held[i]);
		}
		for (int i = 0; i < 1000; i++) {
			if (i % 100 == 0)
				interrupt_soon(timer);
			unstamp(held[i]);
			kfree(held[i]);
		}
	}
	timer_delete(timer);
}

/* With several sets, too, charged blocks come from one cache. */
static void charged_until_none_is_left(void)
{
	struct kmem_group *g = kmem_group_create("group", NULL, NULL);
	int n = 0;

	CHECK(g);
	kmem_group_restore_current(kmem_group_get(g));
	CHECK(kmalloc(8, GFP_KERNEL_ACCOUNT));
	while (kmalloc_nolock(8, __GFP_ACCOUNT, NUMA_NO_NODE))
		n++;
	CHECK(n > 0);
	CHECK(kmem_group_verify() == 0);
}

static void charged_blocks(void **state)
{
	(void)state;
	assert_int_equal(in_child(charged_until_none_is_left), 0);
}

static void kunit_kmalloc_kfree_nolock(void **state)
{
	(void)state;
	assert_int_equal(in_child(kmalloc_loop), 0);
}

int main(int argc, char **argv)
{
	clock_stands = true; /* no call does a round of housekeeping */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_is_there),
		cmocka_unit_test(new_slabs),
		cmocka_unit_test(zeroed_or_constructed),
		cmocka_unit_test(misuse),
		cmocka_unit_test(handlers),
		cmocka_unit_test(by_size),
		cmocka_unit_test(from_any_set),
		cmocka_unit_test(charged_blocks),
		cmocka_unit_test(kunit_kmalloc_kfree_nolock),
	};

	if (argc > 1)
		handlers_wanted = (unsigned int)strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests_name("nolock", tests, NULL, NULL);
}
