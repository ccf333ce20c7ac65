/* SPDX-License-Identifier: MIT */
/* Misuse before the first use of the library: its report obeys SHEAF_OPTIONS like any other. Each
 * case is the first call of a child; this process itself makes none. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sheaf/kmalloc.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>

#include "kit/directory.h"
#include "kit/process.h"
#include "kit/unit.h"

static char path[128], text[1 << 14];
static int not_an_object;

static void free_it(void)
{
	kfree(&not_an_object);
}

static void free_in_any_context(void)
{
	kfree_nolock(&not_an_object);
}

static void free_to_no_cache(void)
{
	void *object = &not_an_object;

	__asm__ volatile("" : "+r"(object));
	kmem_cache_free(NULL, object);
}

static void resize_it(void)
{
	CHECK(!krealloc(&not_an_object, 100, GFP_KERNEL));
}

static void register_nothing(void)
{
	CHECK(sheaf_rcu_register(NULL) < 0);
}

static void (*const calls[])(void) = {free_it, free_in_any_context, free_to_no_cache, resize_it,
				      register_nothing};

#define NR_CALLS (sizeof(calls) / sizeof(calls[0]))

static void (*call)(void);
static const char *more; /* options */

static void set_options(const char *report)
{
	char options[256];

	snprintf(options, sizeof(options), "report=%s;%s", report, more);
	CHECK(setenv("SHEAF_OPTIONS", options, 1) == 0);
}

static void misuse_first(void)
{
	set_options(path);
	call();
	call();
}

/* The first report opens the file where the process is, and the first use finds the options. */
static void misuse_and_use(void)
{
	CHECK(chdir(directory) == 0);
	set_options("relative");
	call();
	CHECK(chdir("/") == 0);
	kfree(kmalloc(100, GFP_KERNEL));
	call();
}

/* How often this text is in the file. */
static unsigned int in_file(const char *what)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = read(file, text, sizeof(text) - 1);
	unsigned int n = 0;

	close(file);
	text[length > 0 ? length : 0] = '\0';
	for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
		n++;
	return n;
}

static void reports_go_to_the_file(void **state)
{
	(void)state;
	more = "";
	for (unsigned int i = 0; i < NR_CALLS; i++) {
		call = calls[i];
		snprintf(path, sizeof(path), "%s/file-%u", directory, i);
		assert_int_equal(in_child(misuse_first), 0);
		assert_int_equal(in_file("libsheaf: "), 2);
	}
}

static void the_first_one_ends_the_program(void **state)
{
	int status;

	(void)state;
	more = "panic_on_warn";
	for (unsigned int i = 0; i < NR_CALLS; i++) {
		call = calls[i];
		snprintf(path, sizeof(path), "%s/panic-%u", directory, i);
		status = in_child(misuse_first);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGABRT);
		assert_int_equal(in_file("libsheaf: "), 1);
	}
}

static void the_first_use_goes_on(void **state)
{
	(void)state;
	more = "verbose;backend=trylock;no_such_option";
	call = free_it;
	snprintf(path, sizeof(path), "%s/relative", directory);
	assert_int_equal(in_child(misuse_and_use), 0);
	assert_int_equal(in_file("kfree("), 2);
	assert_int_equal(in_file("unknown option \"no_such_option\""), 1);
	assert_int_equal(in_file("using the trylock backend"), 1);
}

/* --- a fork while another thread reads the options -------------------------------------------- */

static pthread_barrier_t reading;
static bool is_slow;

/* Replaces the C library's. */
char *secure_getenv(const char *name)
{
	if (is_slow) {
		pthread_barrier_wait(&reading);
		pthread_barrier_wait(&reading);
	}
	return getenv(name);
}

static void *misuse(void *unused)
{
	call();
	return unused;
}

static void use_in_child(void)
{
	is_slow = false;
	call();
	kfree(kmalloc(100, GFP_KERNEL));
}

static void fork_meanwhile(void)
{
	pthread_t thread;
	pid_t child;

	set_options(path);
	is_slow = true;
	CHECK(pthread_barrier_init(&reading, NULL, 2) == 0);
	CHECK(pthread_create(&thread, NULL, misuse, NULL) == 0);
	pthread_barrier_wait(&reading);
	child = start_child(use_in_child);
	CHECK(status_of(child) == 0);
	pthread_barrier_wait(&reading);
	pthread_join(thread, NULL);
}

/* It does not wait for that thread, which vanished. */
static void a_child_reads_them_itself(void **state)
{
	(void)state;
	more = "";
	call = free_it;
	snprintf(path, sizeof(path), "%s/forked", directory);
	assert_int_equal(in_child(fork_meanwhile), 0);
	assert_int_equal(in_file("kfree("), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reports_go_to_the_file),
		cmocka_unit_test(the_first_one_ends_the_program),
		cmocka_unit_test(the_first_use_goes_on),
		cmocka_unit_test(a_child_reads_them_itself),
	};

	return cmocka_run_group_tests_name("first report", tests, make_directory, remove_directory);
}
