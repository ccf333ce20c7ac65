/* SPDX-License-Identifier: MIT */
/*
 * A program that knows nothing of the library and loads plugins that use it (docs/design.md, R14).
 *
 * The kernel reads the description of the last section that a thread ran when it next preempts or
 * signals the thread, even after dlclose(): if the plugin's memory were gone, the kernel would kill
 * the process.
 *
 * Usage: host PLUGIN OTHER-PLUGIN
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "kit/check.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "plugin.h"

enum {
	THREADS = 4,
	ROUNDS = 8,
	SIGNALS = 20,
	TIMES = 5
};

struct plugin {
	void *handle;
	plugin_use_fn *use;
};

static const char *paths[2];
static struct plugin_record *record;
static struct plugin plugin;
static unsigned int running, used, may_go;

static struct plugin load(const char *path)
{
	struct plugin p = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
	plugin_begin_fn *begin;

	if (!p.handle)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(p.handle);
	p.use = (plugin_use_fn *)dlsym(p.handle, "plugin_use");
	begin = (plugin_begin_fn *)dlsym(p.handle, "plugin_begin");
	CHECK(p.use && begin);
	begin(record);
	return p;
}

static void unload(struct plugin *p)
{
	CHECK(dlclose(p->handle) == 0);
	*p = (struct plugin){NULL, NULL};
}

static void moment(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void take_signal(int number)
{
	(void)number;
}

/* Use the plugin, then continue without it: every other thread sleeps, the rest work. */
static void *outlive(void *number)
{
	CHECK(plugin.use(1000) == 0);
	__atomic_fetch_add(&used, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&may_go, __ATOMIC_ACQUIRE))
		if ((uintptr_t)number % 2)
			moment();
	return NULL;
}

static void start(pthread_t *threads, void *(*body)(void *))
{
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, body, (void *)i) == 0);
}

/* All on one CPU, so that they also preempt each other. */
static void threads_outlive_the_plugin(void)
{
	pthread_t threads[THREADS];

	signal(SIGUSR1, take_signal);
	pin(0);
	plugin = load(paths[0]);
	start(threads, outlive);
	while (__atomic_load_n(&used, __ATOMIC_ACQUIRE) < THREADS)
		moment();
	CHECK(plugin.use(1000) == 0);
	unload(&plugin);
	for (int i = 0; i < SIGNALS; i++) {
		raise(SIGUSR1);
		for (int j = 0; j < THREADS; j++)
			pthread_kill(threads[j], SIGUSR1);
		moment();
	}
	__atomic_store_n(&may_go, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	exit(0);
}

static void *use_for_ever(void *unused)
{
	(void)unused;
	for (;;) {
		CHECK(plugin.use(100) == 0);
		__atomic_store_n(&running, 1, __ATOMIC_RELEASE);
	}
}

static void exit_while_threads_use_it(void)
{
	pthread_t threads[THREADS];

	plugin = load(paths[0]);
	start(threads, use_for_ever);
	while (!__atomic_load_n(&running, __ATOMIC_ACQUIRE))
		moment();
	moment();
	exit(0);
}

static void opened_again(void)
{
	signal(SIGUSR1, take_signal);
	for (int i = 0; i < ROUNDS; i++) {
		plugin = load(paths[0]);
		CHECK(plugin.use(1000) == 0);
		unload(&plugin);
		raise(SIGUSR1);
		moment();
	}
	exit(0);
}

/* Each has its own library, or they share one; closing one does not affect the other. */
static void two_plugins(void)
{
	struct plugin other;

	signal(SIGUSR1, take_signal);
	plugin = load(paths[0]);
	other = load(paths[1]);
	CHECK(plugin.use(1000) == 0);
	CHECK(other.use(1000) == 0);
	unload(&other);
	raise(SIGUSR1);
	moment();
	CHECK(plugin.use(1000) == 0);
	unload(&plugin);
	raise(SIGUSR1);
	moment();
	exit(0);
}

/* Failures depend on when a thread was last preempted, so run it several times. */
static void run(void (*body)(void), unsigned int plugins)
{
	for (int i = 0; i < TIMES; i++) {
		*record = (struct plugin_record){0, 0};
		assert_int_equal(in_child(body), 0);
		assert_int_equal(record->faults, 0);
		assert_in_range(record->ended, plugins, ROUNDS);
	}
}

static void test_threads_outlive_the_plugin(void **state)
{
	(void)state;
	run(threads_outlive_the_plugin, 1);
}

static void test_exit_while_threads_use_it(void **state)
{
	(void)state;
	run(exit_while_threads_use_it, 1);
}

static void test_opened_again(void **state)
{
	(void)state;
	run(opened_again, 1);
}

static void test_two_plugins(void **state)
{
	(void)state;
	run(two_plugins, 2);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_outlive_the_plugin),
		cmocka_unit_test(test_exit_while_threads_use_it),
		cmocka_unit_test(test_opened_again),
		cmocka_unit_test(test_two_plugins),
	};

	if (argc != 3) {
		fprintf(stderr, "usage: %s PLUGIN OTHER-PLUGIN\n", argv[0]);
		return 2;
	}
	paths[0] = argv[1];
	paths[1] = argv[2];
	record = mmap(NULL, sizeof(*record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (record == MAP_FAILED)
		return 2;
	return cmocka_run_group_tests_name("plugin", tests, NULL, NULL);
}
