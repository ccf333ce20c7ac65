/* SPDX-License-Identifier: MIT */
/*
 * libsheaf-urcu with one flavour: registration, barriers and destroy while threads retire, a reader
 * that does not leave, fork, and a process that cannot create threads.
 *
 * Each test runs in a separate child, because a flavour is registered once for the life of a
 * process. The test replaces pthread_create(), which fails on request.
 */
#include "flavour.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sheaf/rcu.h>
#include <sheaf/stats.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "grace/grace.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/clock.h"
#include "kit/process.h"
#include "kit/sanitizers.h"
#include "kit/unit.h"
#include "os/atomic.h"
#include "os/options/options.h"
#include "os/report/report.h"
#include "page/page.h"

enum {
	MANY = 5000,
	FEW = 480, /* less than GRACE_BATCHES sheaves */
	RETIRERS = 2
};

struct item {
	uint64_t stamp;
	struct rcu_head rcu;
	uint64_t rest[4];
};

static atomic_bool refuse_threads;
static struct capture captured;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
		   void *argument)
{
	static __typeof__(&pthread_create) real;

	if (atomic_load(&refuse_threads))
		return EAGAIN;
	if (!real)
		real = (__typeof__(real))dlsym(RTLD_NEXT, "pthread_create");
	return real(thread, attributes, start, argument);
}

static struct item *new_item(struct kmem_cache *s)
{
	struct item *item = kmem_cache_alloc(s, GFP_KERNEL);

	CHECK(item);
	item->stamp = (uintptr_t)item ^ 0x5a5a;
	return item;
}

static void retire_many(struct kmem_cache *s, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		kfree_rcu(new_item(s), rcu);
}

/* Until grace periods have passed without a barrier, and few enough objects wait. */
static void wait_for_pending(struct kmem_cache *s, uint64_t most)
{
	online(false);
	/* The contents of a partly filled sheaf are due. */
	clock_pass_ms(os_options.rcu_delay);
	while (look(s).rcu_pending_objects > most)
		usleep(1000);
	online(true);
}

/* It reports nothing; but another thread may get a report at the same time that it retires too
 * much. */
static void destroy(struct kmem_cache *s)
{
	int lines;

	CHECK(kmem_cache_verify(s) == 0);
	capture_begin(&captured);
	kmem_cache_destroy(s);
	lines = capture_end(&captured);
	fputs(captured.text, stderr);
	CHECK(lines == (strstr(captured.text, "kfree_rcu: more than 1 MiB") != NULL));
}

static void begin(void)
{
	rcu_register_thread();
	CHECK(sheaf_urcu_register(0) == 0);
}

/* --- registration ---------------------------------------------------------------------------- */

static const struct sheaf_rcu_ops foreign = {
	.size = sizeof(struct sheaf_rcu_ops),
	.name = "foreign",
	.call = (void (*)(struct sheaf_rcu_head *, void (*)(struct sheaf_rcu_head *)))abort,
	.barrier = abort};

static void register_twice(void)
{
	begin();
	CHECK(sheaf_urcu_register(0) == 0);
	capture_begin(&captured);
	CHECK(sheaf_rcu_register(&foreign) == -EBUSY);
	CHECK(capture_end(&captured) == 1);
}

static void register_after_another(void)
{
	CHECK(sheaf_rcu_register(&foreign) == 0);
	rcu_register_thread();
	/* As often as it is called. */
	for (int i = 0; i < 2; i++) {
		capture_begin(&captured);
		CHECK(sheaf_urcu_register(0) == -EBUSY);
		CHECK(capture_end(&captured) == 1);
		CHECK(strstr(captured.text, "another provider"));
	}
}

/* --- no thread can be made -------------------------------------------------------------------- */

static void without_threads(void)
{
	struct kmem_cache *s;

	atomic_store(&refuse_threads, true);
	rcu_register_thread();
	capture_begin(&captured);
	CHECK(sheaf_urcu_register(0) == 0);
	CHECK(capture_end(&captured) == 1);
	CHECK(strstr(captured.text, "cannot create a thread"));
	/* Objects retired on another node's CPU are not counted for their cache. */
	pin(0);
	s = make("urcu-no-thread", sizeof(struct item), 0);
	retire_many(s, MANY);
	CHECK(look(s).rcu_pending_objects == MANY);
	kvfree_rcu_barrier();
	CHECK(look(s).rcu_pending_objects == 0 && look(s).objects_in_use == 0);
	/* Waits when the limit, of 1 MiB here, is reached. */
	for (unsigned int i = 0; i < 100000; i++) {
		kfree_rcu_mightsleep(new_item(s));
		if (i % 1000 == 0)
			CHECK(look(s).rcu_pending_bytes < 3 << 19);
	}
	destroy(s);
}

/* --- polling, from liburcu 0.14 on ------------------------------------------------------------ */

#if __has_include(<urcu/urcu-poll.h>)
#define RETIRED UINT64_C(0xdeadbeef)

/* The callbacks are stuck from the first one on; a thread that allocates asks the provider whether
 * more has passed. */
static void polled(void)
{
	struct kmem_cache *s;
	struct grace *grace;
	bool again = false;
	uint32_t unlocked = 0;
	uint64_t number;

	begin();
	s = make("urcu-poll", sizeof(struct item), 0);
	grace = grace_of(NULL);
	CHECK(grace->ops.poll);
	/* As another thread would hold it: this one calls the provider. */
	CHECK(os_cmpxchg(&grace->lock.word, &unlocked, 1));
	number = grace_now(grace);
	kfree_rcu(new_item(s), rcu);
	online(false);
	while (!grace_passed(grace, number))
		usleep(1000);
	online(true);
	for (unsigned int i = 0; i < FEW; i++) {
		struct item *item = new_item(s);

		item->rest[3] = RETIRED;
		kfree_rcu(item, rcu);
	}
	for (unsigned int i = 1; !again; i++) {
		if (i % 100 == 0) {
			online(false);
			usleep(1000);
			online(true);
		}
		again = new_item(s)->rest[3] == RETIRED;
	}
	grace_let_go(grace);
}
#endif

/* --- barriers and destroy, while others retire ------------------------------------------------ */

struct retirer {
	pthread_t thread;
	struct kmem_cache *s;
	atomic_bool stop;
	bool waits; /* in barriers, too */
};

static void *retirer(void *argument)
{
	struct retirer *r = argument;

	rcu_register_thread();
	for (unsigned int i = 0; !atomic_load(&r->stop); i++) {
		retire_many(r->s, 1);
		if (r->waits && i % 64 == 0)
			kvfree_rcu_barrier_on_cache(r->s);
		if (i % 32 == 0)
			rcu_quiescent_state();
	}
	rcu_unregister_thread();
	return NULL;
}

static void start(struct retirer *r, struct kmem_cache *s, bool waits)
{
	r->s = s;
	r->waits = waits;
	atomic_store(&r->stop, false);
	CHECK(pthread_create(&r->thread, NULL, retirer, r) == 0);
}

static void stop(struct retirer *r)
{
	atomic_store(&r->stop, true);
	online(false);
	pthread_join(r->thread, NULL);
	online(true);
}

/* Each barrier covers everything retired before it, while two threads continue in another cache. */
static void barriers_under_load(void)
{
	struct retirer r[RETIRERS] = {0};
	struct kmem_cache *busy, *s;

	begin();
	busy = make("urcu-busy", sizeof(struct item), 0);
	s = make("urcu-counted", sizeof(struct item), 0);
	for (int i = 0; i < RETIRERS; i++)
		start(&r[i], busy, false);
	for (unsigned int round = 0; round < 60; round++) {
		retire_many(s, 1 + round * 37 % MANY);
		if (round % 2)
			kvfree_rcu_barrier();
		else
			kvfree_rcu_barrier_on_cache(s);
		CHECK(look(s).rcu_pending_objects == 0);
		CHECK(look(s).objects_in_use == 0);
	}
	for (int i = 0; i < RETIRERS; i++)
		stop(&r[i]);
	destroy(s);
	destroy(busy);
}

/* Registered threads of a QSBR flavour that wait for each other's grace periods. */
static void barriers_of_several_threads(void)
{
	struct retirer r[RETIRERS] = {0};
	struct kmem_cache *s;

	begin();
	s = make("urcu-barriers", sizeof(struct item), 0);
	for (int i = 0; i < RETIRERS; i++)
		start(&r[i], s, true);
	for (unsigned int round = 0; round < 60; round++) {
		retire_many(s, 100);
		kvfree_rcu_barrier();
	}
	for (int i = 0; i < RETIRERS; i++)
		stop(&r[i]);
	destroy(s);
}

/* slub_kunit's kfree_rcu and kfree_rcu_wq_destroy: destroy immediately, or after a while. Also the
 * kernel's traps: objects in a partly filled sheaf, in queues, with the provider, and in none of
 * these. */
static void kfree_rcu_destroy(void)
{
	static const slab_flags_t flags[] = {0, SLAB_NO_SHEAVES, SLAB_TYPESAFE_BY_RCU};
	struct retirer r = {0};
	struct kmem_cache *busy;

	begin();
	busy = make("urcu-beside", sizeof(struct item), 0);
	start(&r, busy, false);
	for (unsigned int round = 0; round < 30; round++) {
		static const unsigned int counts[] = {1, 31, 60, 61, 500, MANY};
		struct kmem_cache *s = make("urcu-destroy", sizeof(struct item), flags[round % 3]);

		retire_many(s, counts[round % 6]);
		if (round % 2)
			wait_for_pending(s, round % 4 == 1 ? 0 : counts[round % 6] - 1);
		destroy(s);
	}
	stop(&r);
	destroy(busy);
}

static void *free_some(void *argument)
{
	pin(1);
	for (unsigned int i = 0; i < 200; i++) {
		struct item *item = kmem_cache_alloc(argument, GFP_KERNEL);

		CHECK(item);
		kfree_rcu(item, rcu);
	}
	return NULL;
}

/* The kernel's traps 10 and 11: a partly filled spare, and a retiring thread that changes its
 * CPU. */
static void retire_on_changing_cpus(void)
{
	struct kmem_cache *s;
	void *objects[90];

	begin();
	s = make("urcu-cpus", sizeof(struct item), 0);
	for (unsigned int round = 0; round < 200; round++) {
		pin(round % 2);
		CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, 90, objects) == 90);
		for (unsigned int i = 0; i < 90; i++) {
			if (i % 29 == 0)
				pin((round + i) % 2);
			if (i % 3)
				kmem_cache_free_rcu(s, objects[i]);
			else
				kmem_cache_free(s, objects[i]);
		}
		rcu_quiescent_state();
	}
	online(false);
	{
		pthread_t thread;

		CHECK(pthread_create(&thread, NULL, free_some, s) == 0);
		pthread_join(thread, NULL);
	}
	online(true);
	CHECK(kmem_cache_verify(s) == 0);
	kvfree_rcu_barrier();
	CHECK(look(s).objects_in_use == 0);
	/* Trap 4: no sheaf is lost on the way. */
	if (look(s).counted) {
		CHECK(kmem_cache_shrink(s) == 0);
		CHECK(look(s).sheaf_alloc - look(s).sheaf_free <= 16);
	}
	destroy(s);
}

/* --- a reader that stays ---------------------------------------------------------------------- */

static struct item *_Atomic watched;
static atomic_bool inside, leave;

/* By the test's clock only. */
#define STALL_MS 3600000u

static void *stay(void *argument)
{
	struct item *item;

	(void)argument;
	rcu_register_thread();
	rcu_read_lock();
	item = atomic_load(&watched);
	atomic_store(&inside, true);
	while (!atomic_load(&leave))
		usleep(1000);
	CHECK(item->stamp == ((uintptr_t)item ^ 0x5a5a));
	rcu_read_unlock();
	rcu_unregister_thread();
	return NULL;
}

static pthread_t start_reader(struct kmem_cache *s)
{
	pthread_t thread;

	atomic_store(&watched, new_item(s));
	CHECK(pthread_create(&thread, NULL, stay, NULL) == 0);
	while (!atomic_load(&inside))
		usleep(100);
	return thread;
}

/* A thread that never waits continues, and gets one report of how long it has been. */
static void a_reader_stays(void)
{
	struct kmem_cache *s;
	pthread_t reader;

	begin();
	s = make("urcu-stall", sizeof(struct item), 0);
	reader = start_reader(s);
	online(false);
	kfree_rcu(atomic_exchange(&watched, NULL), rcu);
	capture_begin(&captured);
	retire_many(s, 200);
	clock_pass_ms(STALL_MS);
	retire_many(s, 200);
	clock_pass_ms(STALL_MS);
	retire_many(s, 200);
	CHECK(capture_end(&captured) == 1);
	CHECK(strstr(captured.text, "RCU (liburcu): no grace period has ended for "));
	CHECK((unsigned int)atoi(strstr(captured.text, "for ") + 4) >= STALL_MS);
	atomic_store(&leave, true);
	pthread_join(reader, NULL);
	online(true);
	kvfree_rcu_barrier();
	CHECK(look(s).rcu_pending_objects == 0);
	destroy(s);
}

static void wait_for_reports(uint32_t n)
{
	while (__atomic_load_n(&os_reports, __ATOMIC_RELAXED) < n)
		usleep(100);
}

/* Leaves when too much is retired; the retiring thread waits for that. */
static void *let_reader_leave(void *argument)
{
	wait_for_reports(1);
	wait_until_first_sleeps();
	clock_pass_ms(STALL_MS);
	atomic_store(&leave, true);
	return argument;
}

/* A thread that may wait does so, below the limit of 1 MiB, and that is reported as well. */
static void a_reader_stays_and_who_may_wait_waits(void)
{
	pthread_t reader, other;
	struct kmem_cache *s;
	uint64_t most = 0;

	begin();
	s = make("urcu-bound", sizeof(struct item), 0);
	reader = start_reader(s);
	kfree_rcu_mightsleep(atomic_exchange(&watched, NULL));
	capture_begin(&captured);
	os_reports = 0;
	CHECK(pthread_create(&other, NULL, let_reader_leave, NULL) == 0);
	while (!atomic_load(&leave)) {
		uint64_t bytes;

		for (unsigned int i = 0; i < 200; i++)
			kfree_rcu_mightsleep(new_item(s));
		bytes = look(s).rcu_pending_bytes;
		most = bytes > most ? bytes : most;
	}
	online(false);
	/*
	 * A sleeping thread need not be the one that waits: then the next grace period reports it.
	 */
	wait_for_reports(2);
	CHECK(capture_end(&captured) == 2); /* the limit, and the reader */
	CHECK(strstr(captured.text, "no grace period has ended for "));
	CHECK(most > 1 << 19 && most < 3 << 19);
	pthread_join(other, NULL);
	pthread_join(reader, NULL);
	online(true);
	destroy(s);
}

/* --- fork ------------------------------------------------------------------------------------- */

static void go_on(struct kmem_cache *inherited)
{
	struct kmem_cache *s = make("urcu-child", sizeof(struct item), 0);

	retire_many(inherited, MANY);
	retire_many(s, MANY);
	kvfree_rcu_barrier();
	CHECK(look(inherited).rcu_pending_objects == 0);
	CHECK(look(s).objects_in_use == 0);
	/* Grace periods pass without a barrier, too. */
	retire_many(s, 10);
	wait_for_pending(s, 0);
	destroy(s);
}

static void fork_some(struct kmem_cache *s, int children)
{
	for (int i = 0; i < children; i++) {
		int status = -1;
		pid_t child;

		retire_many(s, (unsigned int)i * 111);
		child = fork();
		if (child == 0) {
			go_on(s);
			_exit(0);
		}
		CHECK(child > 0);
		online(false);
		CHECK(waitpid(child, &status, 0) == child);
		online(true);
		if (status) {
			fprintf(stderr, "child %d: wait status %#x\n", i, (unsigned int)status);
			exit(1);
		}
	}
}

static void fork_with_pending(void)
{
	struct kmem_cache *s;

	begin();
	s = make("urcu-fork", sizeof(struct item), 0);
	fork_some(s, 8);
	kvfree_rcu_barrier();
	CHECK(look(s).objects_in_use == 0);
	destroy(s);
}

/* Other flavours keep vanished threads' registrations: liburcu wants them released before a fork.
 * And the address sanitizer of gcc 12 forks while other threads hold its locks: a child that makes
 * a thread may wait for ever. */
#if defined(FLAVOUR_BP) && !HAS_ASAN
#define FORKS_BESIDE_THREADS
static void fork_beside_retiring_threads(void)
{
	struct retirer r[RETIRERS] = {0};
	struct kmem_cache *s;

	begin();
	s = make("urcu-fork-busy", sizeof(struct item), 0);
	for (int i = 0; i < RETIRERS; i++)
		start(&r[i], s, i);
	fork_some(s, 12);
	for (int i = 0; i < RETIRERS; i++)
		stop(&r[i]);
	kvfree_rcu_barrier();
	CHECK(look(s).objects_in_use == 0);
	destroy(s);
}
#endif

/* ---------------------------------------------------------------------------------------------- */

static void remote_objects(void)
{
	struct kmem_cache *s, *without;
	struct sheaf_stats process;

	begin();
	s = make("urcu-remote", sizeof(struct item), 0);
	without = make("urcu-no-sheaves", sizeof(struct item), SLAB_NO_SHEAVES);
	sheaf_stats(&process);
	for (unsigned int i = 0; i < MANY; i++) {
		struct kmem_cache *of = i % 3 ? s : without;
		struct item *item = kmem_cache_alloc_node(of, GFP_KERNEL, (int)(i % process.nodes));

		CHECK(item);
		if (i % 2)
			kmem_cache_free_rcu(of, item);
		else
			kfree_rcu(item, rcu);
	}
	CHECK(kmem_cache_verify(s) == 0 && kmem_cache_verify(without) == 0);
	kvfree_rcu_barrier_on_cache(without);
	CHECK(look(without).objects_in_use == 0);
	kvfree_rcu_barrier_on_cache(s);
	CHECK(look(s).objects_in_use == 0);
	destroy(s);
	destroy(without);
}

#define TEST(name)                                                                                 \
	static void test_##name(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		assert_int_equal(in_child(name), 0);                                               \
	}

TEST(register_twice)
TEST(register_after_another)
TEST(without_threads)
#if __has_include(<urcu/urcu-poll.h>)
TEST(polled)
#endif
TEST(barriers_under_load)
TEST(barriers_of_several_threads)
TEST(kfree_rcu_destroy)
TEST(retire_on_changing_cpus)
TEST(a_reader_stays)
TEST(a_reader_stays_and_who_may_wait_waits)
TEST(fork_with_pending)
#ifdef FORKS_BESIDE_THREADS
TEST(fork_beside_retiring_threads)
#endif
TEST(remote_objects)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_register_twice),
		cmocka_unit_test(test_register_after_another),
		cmocka_unit_test(test_without_threads),
#if __has_include(<urcu/urcu-poll.h>)
		cmocka_unit_test(test_polled),
#endif
		cmocka_unit_test(test_barriers_under_load),
		cmocka_unit_test(test_barriers_of_several_threads),
		cmocka_unit_test(test_kfree_rcu_destroy),
		cmocka_unit_test(test_retire_on_changing_cpus),
		cmocka_unit_test(test_a_reader_stays),
		cmocka_unit_test(test_a_reader_stays_and_who_may_wait_waits),
		cmocka_unit_test(test_fork_with_pending),
#ifdef FORKS_BESIDE_THREADS
		cmocka_unit_test(test_fork_beside_retiring_threads),
#endif
		cmocka_unit_test(test_remote_objects),
	};

#if HAS_TSAN /* under it no child makes threads */
	cmocka_set_skip_filter("test_fork_*");
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
