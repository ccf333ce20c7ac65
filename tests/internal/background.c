/* SPDX-License-Identifier: MIT */
/*
 * With the option `background`, a thread of the library returns memory to the system while the
 * program sleeps; also in a forked child. That thread calls no provider of grace periods. Each test
 * waits for the event, however long it takes.
 */
#include <dirent.h>
#include <pthread.h>
#include <sheaf/kmalloc.h>
#include <sheaf/limit.h>
#include <sheaf/shrinker.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cache/housekeeping.h"
#include "cache/paths.h"
#include "grace/grace.h"
#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/hooks.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/lock.h"
#include "os/thread.h"
#include "page/page.h"
#include "percpu/drain.h"

enum {
	OBJECTS = 40000, /* several times the memory that nodes keep */
	SIZE = 512,
	FORKS = 20,
	AT_ONCE = 5, /* children: each sleeps most of its time, and needs 20 MiB */
};

static struct kmem_cache *s;
static unsigned int others; /* threads: the test's own, and those of a sanitizer or an emulator */
static void *objects[OBJECTS];

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static void use_and_free(void)
{
	for (unsigned int i = 0; i < OBJECTS; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		CHECK(objects[i] != NULL);
		memset(objects[i], 1, SIZE);
	}
	for (unsigned int i = 0; i < OBJECTS; i++)
		kmem_cache_free(s, objects[i]);
}

/* Calls start the thread, not before time has passed. */
static void start_thread(void)
{
	while (!os_load_relaxed(&decay_time.by_thread)) {
		use_and_free();
		nap();
	}
}

static unsigned int nr_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned int n = 0;

	while (readdir(tasks))
		n++;
	closedir(tasks);
	return n - 2;
}

/* Meanwhile the program makes only calls that read statistics. */
static void sleep_until_all_is_gone(void)
{
	while (page_usage().dirty > page_bound() || look(s).objects_in_sheaves)
		nap();
}

static void memory_goes_while_the_program_sleeps(void **state)
{
	(void)state;
	start_thread();
	assert_int_equal(nr_threads(), others + 1);
	use_and_free();
	sleep_until_all_is_gone();
	assert_int_equal(kmem_cache_verify(s), 0);
}

static void no_call_returns_memory(void **state)
{
	size_t before;

	(void)state;
	/* No other thread does. */
	housekeeping_lock();
	before = page_usage().returned;
	use_and_free();
	use_and_free();
	assert_int_equal(page_usage().returned, before);
	housekeeping_unlock();
	sleep_until_all_is_gone();
}

static atomic_uint signals;

static void on_signal(int number)
{
	(void)number;
	signals += pthread_kill(pthread_self(), 0) == 0;
}

/* It would run the program's handlers on a small stack. */
static void the_thread_takes_no_signal(void **state)
{
	sigset_t one;

	(void)state;
	signal(SIGUSR2, on_signal);
	sigemptyset(&one);
	sigaddset(&one, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &one, NULL);
	kill(getpid(), SIGUSR2);
	for (unsigned int i = 0; i < 50; i++)
		nap();
	assert_int_equal(signals, 0);
	pthread_sigmask(SIG_UNBLOCK, &one, NULL);
	assert_int_equal(signals, 1);
}

static void in_the_child(void)
{
	CHECK(!decay_time.by_thread);
	others = nr_threads();
	start_thread();
	CHECK(nr_threads() == others + 1);
	use_and_free();
	sleep_until_all_is_gone();
	CHECK(kmem_cache_verify(s) == 0);
	kmem_cache_destroy(s);
}

/* The fork may come at any moment of the parent's thread. */
static void children_have_their_own(void **state)
{
	pid_t children[AT_ONCE];

	(void)state;
	for (unsigned int i = 0; i < FORKS; i += AT_ONCE) {
		for (unsigned int k = 0; k < AT_ONCE; k++) {
			use_and_free();
			children[k] = start_child(in_the_child);
		}
		for (unsigned int k = 0; k < AT_ONCE; k++)
			assert_int_equal(status_of(children[k]), 0);
	}
	sleep_until_all_is_gone();
}

/* --- grace periods: the provider knows the program's threads only ----------------------------- */

static pthread_t registered;
static atomic_uint foreign, calls; /* of the provider */

static void note_caller(void)
{
	*(pthread_equal(pthread_self(), registered) ? &calls : &foreign) += 1;
}

/* Wait until the thread has woken twice: its earlier work is then complete. */
static void let_it_look(void)
{
	for (int i = 0; i < 2; i++) {
		uint32_t before = os_load_relaxed(&decay_time.last);

		while (os_load_relaxed(&decay_time.last) == before)
			nap();
	}
}

/* The thread has found work for the provider, and left it; the next call of this thread does it.
 */
static void check_who_calls(void)
{
	let_it_look();
	assert_int_equal(foreign, 0);
	while (!calls)
		use_and_free();
	by_hand_pass();
}

static void empty_slabs_wait_for_a_call(void **state)
{
	struct kmem_cache *plain = s, *typesafe;

	(void)state;
	if (is_tiny()) {
		print_message("skipped: with slub_tiny no empty slab waits\n");
		skip();
	}
	typesafe = make("typesafe", SIZE, SLAB_TYPESAFE_BY_RCU | SLAB_NO_USER_FLAGS);
	start_thread();
	s = typesafe;
	use_and_free();
	s = plain;
	while (by_hand.first)
		by_hand_pass();
	calls = 0;
	while (!os_load_relaxed(&grace_some_wanted) && !foreign)
		nap();
	check_who_calls();
	kmem_cache_destroy(typesafe);
}

static atomic_bool retires;

/* In the library's thread. */
static unsigned long retire_some(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker, (void)sc;
	if (!pthread_equal(pthread_self(), registered) && atomic_exchange(&retires, false))
		for (unsigned int i = 0; i < OBJECTS / 10; i++)
			kmem_cache_free_rcu(s, objects[i]);
	return 0;
}

static void a_shrinker_retires(void **state)
{
	struct shrinker *shrinker = shrinker_alloc(0, "retires");

	(void)state;
	start_thread();
	for (unsigned int i = 0; i < OBJECTS / 10; i++)
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
	retires = true;
	shrinker->count_objects = shrinker->scan_objects = retire_some;
	shrinker_register(shrinker);
	sheaf_set_limits(1 << 20, 0);
	calls = 0;
	while (retires)
		nap();
	check_who_calls();
	sheaf_set_limits(0, 0);
	shrinker_free(shrinker);
	kvfree_rcu_barrier();
	assert_int_equal(kmem_cache_verify(s), 0);
}

/* --- without work, and without a thread ------------------------------------------------------- */

static atomic_uint slept, longest; /* ms of its last sleep; sleeps that were the longest */
static atomic_bool wrong_sleep;

void __real_os_wait(uint32_t *word, uint32_t value, uint32_t ms);
void __wrap_os_wait(uint32_t *word, uint32_t value, uint32_t ms);

/* Its sleeps, which are short here. */
void __wrap_os_wait(uint32_t *word, uint32_t value, uint32_t ms)
{
	if (os_thread_is_own()) {
		unsigned int most = 2 * atomic_exchange(&slept, ms);

		if (most > HOUSE_SLEEP_MOST)
			most = HOUSE_SLEEP_MOST;
		if (ms != HOUSE_SLEEP_LEAST && ms != most)
			wrong_sleep = true;
		longest += ms == HOUSE_SLEEP_MOST;
		ms = HOUSE_SLEEP_LEAST;
	}
	__real_os_wait(word, value, ms);
}

static void it_sleeps_longer_without_work(void **state)
{
	(void)state;
#ifdef CALLS_ARE_BOUND
	print_message("skipped: with link-time optimisation no other function sleeps\n");
	skip();
#endif
	start_thread();
	longest = 0;
	while (longest < 3)
		nap();
	assert_false(wrong_sleep);
	use_and_free();
	while (slept != HOUSE_SLEEP_LEAST) {
		use_and_free();
		nap();
	}
	assert_false(wrong_sleep);
}

static bool refuse_threads(const char *point)
{
	return !strcmp(point, "pthread_create");
}

static void no_thread_in_the_child(void)
{
	unsigned int before = hook_reports();
	struct capture captured;
	size_t returned;

	others = nr_threads();
	hook_fail_by(refuse_threads);
	capture_begin(&captured);
	while (hook_reports() == before) {
		use_and_free();
		nap();
	}
	returned = page_usage().returned;
	/* Time passes in slow calls; what they use is little, so that the rest has been idle. If
	 * all had returned before, there is something again now and then. */
	for (unsigned int i = 1; page_usage().returned == returned; i++) {
		if (i % 1000 == 0)
			use_and_free();
		kvfree(kvmalloc(2 << 20, GFP_KERNEL));
		nap();
	}
	CHECK(capture_end(&captured) == 1);
	CHECK(strstr(captured.text, "background: the system refuses to create a thread"));
	CHECK(!decay_time.by_thread && nr_threads() == others);
}

static void calls_return_memory_without_a_thread(void **state)
{
	(void)state;
	assert_int_equal(in_child(no_thread_in_the_child), 0);
}

/* --- verify ----------------------------------------------------------------------------------- */

static atomic_bool draining, verified;

static void *drain(void *unused)
{
	os_lock(&sheaf_drains);
	draining = true;
	wait_until_first_sleeps();
	CHECK(!verified);
	os_unlock(&sheaf_drains);
	return unused;
}

/* The thread drains caches that the program does not use. */
static void verify_waits_for_a_drain(void **state)
{
	pthread_t thread;

	(void)state;
	needs(NEED_SHEAVES);
	pthread_create(&thread, NULL, drain, NULL);
	while (!draining)
		sched_yield();
	assert_int_equal(kmem_cache_verify(s), 0);
	verified = true;
	pthread_join(thread, NULL);
}

static void *tell_tid(void *tid)
{
	*(int *)tid = (int)syscall(SYS_gettid);
	return NULL;
}

static int set_up(void **state)
{
	pthread_t first;
	char path[64];
	int tid;

	(void)state;
	/* With which a sanitizer begins one of its own. It may be listed for a moment longer. */
	pthread_create(&first, NULL, tell_tid, &tid);
	pthread_join(first, NULL);
	snprintf(path, sizeof(path), "/proc/self/task/%d", tid);
	while (!access(path, F_OK))
		nap();
	pin((unsigned int)sched_getcpu());
	others = nr_threads();
	s = make("background", SIZE, SLAB_NO_USER_FLAGS);
	registered = pthread_self();
	by_hand.in_call = note_caller;
	return sheaf_rcu_register(&by_hand_ops);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_goes_while_the_program_sleeps),
		cmocka_unit_test(no_call_returns_memory),
		cmocka_unit_test(the_thread_takes_no_signal),
		cmocka_unit_test(children_have_their_own),
		cmocka_unit_test(empty_slabs_wait_for_a_call),
		cmocka_unit_test(a_shrinker_retires),
		cmocka_unit_test(it_sleeps_longer_without_work),
		cmocka_unit_test(calls_return_memory_without_a_thread),
		cmocka_unit_test(verify_waits_for_a_drain),
	};

	if (!caches_ready())
		return 1;
	if (!needs_option(os_options.background, "background"))
		return SKIPPED;
	return cmocka_run_group_tests_name("background", tests, set_up, NULL);
}
