/* SPDX-License-Identifier: MIT */
/* Calls that promise not to wait finish, wherever other threads are stuck. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/cache.h"
#include "internal/kit/locks.h"
#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/clock.h"
#include "kit/options.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "kmalloc/kmalloc.h"
#include "os/lock.h"
#include "os/options/options.h"
#include "os/report/report.h"
#include "percpu/drain.h"

enum {
	MANY = 1000
};

struct item {
	uint64_t stamp[4];
	struct sheaf_rcu_head rcu;
};

/* --- calls that a reader may make, and allocations that must not wait ------------------------- */

static void retire(struct kmem_cache *s, struct item **items, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (i % 2)
			kfree_rcu(items[i], rcu);
		else
			kmem_cache_free_rcu(s, items[i]);
}

static void *do_all(void *cache)
{
	static struct item *items[MANY];
	struct kmem_cache *s = cache;
	struct slab_sheaf *sheaf;
	void *block;

	for (unsigned int i = 0; i < MANY; i++)
		CHECK((items[i] = kmem_cache_alloc(s, GFP_NOWAIT)) != NULL);
	retire(s, items, MANY / 2);
	for (unsigned int i = MANY / 2; i < MANY; i++)
		kmem_cache_free(s, items[i]);
	CHECK(kmem_cache_alloc_bulk(s, GFP_NOWAIT, MANY / 2, (void **)items) == MANY / 2);
	kmem_cache_free_bulk(s, MANY / 2, (void **)items);
	sheaf = kmem_cache_prefill_sheaf(s, GFP_NOWAIT, 10);
	CHECK(sheaf);
	kmem_cache_return_sheaf(s, GFP_NOWAIT, sheaf);
	kfree(kmalloc(100, GFP_NOWAIT));
	kfree(kmalloc(100000, GFP_NOWAIT));
	/* Its cache need not exist, where callers share caches. */
	block = kmalloc(os_options.random_kmalloc_caches ? 100000 : 4096, GFP_NOWAIT);
	CHECK(block && (uintptr_t)block % 4096 == 0);
	kfree(block);
	return NULL;
}

static void others_go_on(struct kmem_cache *s)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, do_all, s) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
}

/* --- while another thread holds a lock for long ----------------------------------------------- */

static void lock_grace(void)
{
	grace_hold(grace_of(NULL));
}

static void unlock_grace(void)
{
	grace_let_go(grace_of(NULL));
}

static void lock_family(void)
{
	os_lock(&caches.family);
}

static void unlock_family(void)
{
	os_unlock(&caches.family);
}

static const struct {
	void (*lock)(void);
	void (*unlock)(void);
} ranks[] = {
	{lock_family, unlock_family},
	{lock_caches, unlock_caches},
	{lock_grace, unlock_grace},
	{lock_drains, unlock_drains},
};

static void no_lock_that_is_held_for_long(void **state)
{
	(void)state;
	kfree(kmalloc(100, GFP_KERNEL));
	kfree(kmalloc(100000, GFP_KERNEL));
	kfree(kmalloc(4608, GFP_KERNEL));
	kfree(kmalloc(8192, GFP_KERNEL));
	/* Where they do not, the caches of its calls must. */
	if (os_options.random_kmalloc_caches)
		others_go_on(make("nowait-sets", sizeof(struct item), 0));
	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
		struct kmem_cache *s = make("nowait-lock", sizeof(struct item), 0);

		ranks[i].lock();
		others_go_on(s);
		ranks[i].unlock();
		kvfree_rcu_barrier();
		assert_int_equal(kmem_cache_verify(s), 0);
		kmem_cache_destroy(s);
	}
}

/* --- while another thread's report is stuck in a pipe that nobody reads ----------------------- */

/* Bytes: enough for the first report, not for all. Those of checked caches are long. */
static int room(void)
{
	return *os_options.slab_debug ? 4000 : 700;
}

static struct {
	int in, out, saved;
	pthread_t reporter, reader;
} stuck;

static int unread(void)
{
	int n = 0;

	CHECK(ioctl(stuck.out, FIONREAD, &n) == 0);
	return n;
}

/* Start a thread that reports more than fits into standard error, and wait for its first line. */
static void begin_report(void *(*report)(void *cache), struct kmem_cache *s)
{
	static char text[1 << 20];
	int ends[2], size;

	CHECK(pipe(ends) == 0);
	stuck.out = ends[0];
	stuck.in = ends[1];
	size = fcntl(stuck.in, F_SETPIPE_SZ, 8192) - room();
	CHECK(size > 0 && write(stuck.in, text, (size_t)size) == size);
	stuck.saved = dup(STDERR_FILENO);
	dup2(stuck.in, STDERR_FILENO);
	CHECK(pthread_create(&stuck.reporter, NULL, report, s) == 0);
	while (unread() == size)
		sched_yield();
}

static void *read_all(void *unused)
{
	char text[512];

	while (read(stuck.out, text, sizeof(text)) > 0)
		;
	return unused;
}

static void end_report(void)
{
	CHECK(pthread_create(&stuck.reader, NULL, read_all, NULL) == 0);
	CHECK(pthread_join(stuck.reporter, NULL) == 0);
	dup2(stuck.saved, STDERR_FILENO);
	close(stuck.in);
	CHECK(pthread_join(stuck.reader, NULL) == 0);
	close(stuck.out);
	close(stuck.saved);
}

static void *destroy_with_live_objects(void *cache)
{
	kmem_cache_destroy(cache);
	return NULL;
}

enum {
	OBJECTS = 8
};

static char *in_use[OBJECTS];

/* Caches that check frees report each one now, others in the call that follows. */
static void free_wrong_pointers(struct kmem_cache *s, void (*free_one)(struct kmem_cache *, void *))
{
	for (int i = 0; i < OBJECTS; i++)
		free_one(s, in_use[i] + sizeof(void *));
}

static void *shrink_with_wrong_pointers(void *cache)
{
	free_wrong_pointers(cache, kmem_cache_free);
	kmem_cache_shrink(cache);
	return NULL;
}

static void *verify_with_wrong_pointers(void *cache)
{
	uint32_t before = os_reports;

	free_wrong_pointers(cache, kmem_cache_free);
	CHECK(kmem_cache_verify(cache) > 0 || os_reports > before);
	return NULL;
}

static void *retired_wrong_pointers(void *cache)
{
	free_wrong_pointers(cache, kmem_cache_free_rcu);
	kvfree_rcu_barrier_on_cache(cache);
	return NULL;
}

static const struct {
	const char *name;
	void *(*report)(void *cache);
} reporters[] = {
	{"nowait-destroy", destroy_with_live_objects},
	{"nowait-shrink", shrink_with_wrong_pointers},
	{"nowait-verify", verify_with_wrong_pointers},
	{"nowait-retired", retired_wrong_pointers},
};

/* Operations that may wait for locks: no stuck thread holds one. */
static void use_locks(void)
{
	struct kmem_cache *s = make("nowait-create", sizeof(struct item), 0);
	int status, file = open("/dev/null", O_WRONLY);
	pid_t child;

	CHECK(kmem_cache_shrink(s) == 0);
	CHECK(kmem_cache_verify(s) == 0);
	kvfree_rcu_barrier();
	CHECK(sheaf_stats_print(file, SHEAF_STATS_TEXT) == 0);
	close(file);
	child = fork();
	if (child == 0)
		_exit(kmem_cache_shrink(s));
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	kmem_cache_destroy(s);
}

static void reports_are_made_with_nothing_held(void **state)
{
	(void)state;
	if (is_tiny()) {
		print_message("skipped: with slub_tiny no sheaf has wrong pointers\n");
		skip();
	}
	for (size_t i = 0; i < sizeof(reporters) / sizeof(reporters[0]); i++) {
		struct kmem_cache *s = make(reporters[i].name, sizeof(struct item), 0);

		pin(0);
		/* Frees go into slabs with objects that stay in use. */
		for (int n = 0; n < OBJECTS; n++)
			CHECK((in_use[n] = kmem_cache_alloc(s, GFP_KERNEL)) != NULL);
		kmem_cache_free_rcu(s, kmem_cache_alloc(s, GFP_KERNEL));
		begin_report(reporters[i].report, s);
		s = make("nowait-beside", sizeof(struct item), 0);
		others_go_on(s);
		use_locks();
		end_report();
		kmem_cache_destroy(s);
	}
}

/* --- lines of a handler, while standard error takes none -------------------------------------- */

static struct {
	struct kmem_cache *s, *destroyed;
	struct slab_sheaf *sheaf;
	void *block;
	char *object;
} handled;

/* One line per call. */
static void on_signal(int number)
{
	static char foreign[64];

	(void)number;
	kfree_nolock(foreign);
	kmem_cache_free_nolock(handled.s, handled.object + sizeof(void *));
	CHECK(!kmem_cache_alloc_nolock(handled.destroyed, 0));
	kmem_cache_free_nolock(handled.destroyed, foreign);
	kmem_cache_free_nolock(handled.s, kmem_cache_alloc_nolock(handled.s, 0x80000000));
	CHECK(!kmem_cache_alloc_from_sheaf(handled.destroyed, 0, handled.sheaf));
	CHECK(kmem_cache_alloc_from_sheaf(handled.s, 0x80000000, handled.sheaf));
}

static void fill_standard_error(void)
{
	static char text[1 << 20];
	int ends[2], size;

	CHECK(pipe(ends) == 0);
	size = fcntl(ends[1], F_SETPIPE_SZ, 4096);
	CHECK(size > 0 && write(ends[1], text, (size_t)size) == size);
	dup2(ends[1], STDERR_FILENO);
	/* The other end stays open: nobody reads it. */
	close(ends[1]);
}

static struct kmem_cache *make_destroyed(void)
{
	struct kmem_cache *s = make("nowait-gone", sizeof(struct item), 0);

	kmem_cache_destroy(s);
	return s;
}

static void lines_of_a_handler_wait_for_nobody(void **state)
{
	static struct capture captured;
	struct kmem_cache *s = make("nowait-handler", 64, SLAB_NO_SHEAVES | no_samples());
	int saved = dup(STDERR_FILENO), lines;
	uint32_t left;

	(void)state;
	assert_non_null(s);
	handled.s = s;
	handled.destroyed = make_destroyed();
	assert_non_null(handled.object = kmem_cache_alloc(s, GFP_KERNEL));
	assert_non_null(handled.sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 1));
	signal(SIGUSR1, on_signal);
	fill_standard_error();
	/* If the handler waited, the interrupted thread would hold this lock until the pipe is
	 * read. */
	lock_caches();
	raise(SIGUSR1);
	unlock_caches();
	left = os_reports_kept;
	dup2(saved, STDERR_FILENO);
	close(saved);
	assert_int_equal(left, 7);
	/* The next call that may wait writes the lines. */
	capture_begin(&captured);
	kmem_cache_shrink(s);
	lines = capture_end(&captured);
	/* One of them is a long report, if the cache is checked. */
	assert_true(cache_is_checked(s) ? lines > 7 : lines == 7);
	kmem_cache_return_sheaf(s, GFP_KERNEL, handled.sheaf);
}

/* A terminal that is writable, but may have too little room for a line. Returns the end that would
 * read. */
static int terminal_as_standard_error(void)
{
	int reader = posix_openpt(O_RDWR | O_NOCTTY), writer;

	if (reader < 0)
		skip();
	CHECK(grantpt(reader) == 0 && unlockpt(reader) == 0);
	writer = open(ptsname(reader), O_WRONLY | O_NOCTTY);
	CHECK(writer >= 0);
	dup2(writer, STDERR_FILENO);
	close(writer);
	return reader;
}

static void lines_of_a_handler_are_not_for_a_terminal(void **state)
{
	static char foreign[64];
	struct kmem_cache *s = make("nowait-terminal", sizeof(struct item), 0);
	int saved = dup(STDERR_FILENO), reader = terminal_as_standard_error();
	char text[512] = "";
	uint32_t left, later;

	(void)state;
	kfree_nolock(foreign);
	left = os_reports_kept;
	kmem_cache_shrink(s);
	later = os_reports_kept;
	dup2(saved, STDERR_FILENO);
	close(saved);
	assert_int_equal(left, 1);
	assert_int_equal(later, 0);
	assert_true(read(reader, text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "kfree_nolock"));
	close(reader);
	kmem_cache_destroy(s);
}

static void *free_foreign_nolock(void *unused)
{
	static char foreign[64];

	kfree_nolock(foreign);
	return unused;
}

/* More threads than places for lines: the places must become free again for others. */
static void lines_of_threads_that_ended_are_written(void **state)
{
	static struct capture captured;
	static char foreign[64];
	struct kmem_cache *s = make("nowait-ended", sizeof(struct item), 0);
	int saved = dup(STDERR_FILENO);
	pthread_t thread;

	(void)state;
	fill_standard_error();
	for (int i = 0; i < 40; i++) {
		CHECK(pthread_create(&thread, NULL, free_foreign_nolock, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
	/* A thread does not wait for the lines of other threads, either. */
	kmem_cache_shrink(s);
	assert_true(os_reports_kept > 0);
	dup2(saved, STDERR_FILENO);
	close(saved);
	capture_begin(&captured);
	/* Until then, standard error is not asked again. */
	clock_pass_ms(20);
	kmem_cache_shrink(s);
	capture_end(&captured);
	assert_int_equal(os_reports_kept, 0);
	capture_begin(&captured);
	kfree(foreign);
	assert_int_equal(capture_end(&captured), 1);
	kmem_cache_destroy(s);
}

static int begin(void **state)
{
	(void)state;
	/* The first call of the process makes the caches of kmalloc(). */
	kfree(kmalloc(1, GFP_KERNEL));
	return sheaf_rcu_register(&by_hand_ops);
}

int test_nowait(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_lock_that_is_held_for_long),
		cmocka_unit_test(reports_are_made_with_nothing_held),
		cmocka_unit_test(lines_of_a_handler_wait_for_nobody),
		cmocka_unit_test(lines_of_a_handler_are_not_for_a_terminal),
		cmocka_unit_test(lines_of_threads_that_ended_are_written),
	};

	return cmocka_run_group_tests_name("nowait", tests, begin, NULL);
}
