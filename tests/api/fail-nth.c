/* SPDX-License-Identifier: MIT */
/* SHEAF_OPTIONS=fail_nth=N: the N-th point fails, and a line says so; with 0, a line at exit gives
 * their number. */
#include <sheaf/slab.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kit/options.h"
#include "kit/process.h"
#include "kit/unit.h"

static char said[4096]; /* by the last child */

/* A program that continues where a call returns NULL. */
static void program(void)
{
	struct kmem_cache *s = kmem_cache_create("used", 200, NULL, SLAB_NO_MERGE);

	if (s)
		kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	if (s)
		kmem_cache_destroy(s);
	exit(0);
}

/* Run it with these further options; what it writes to standard error is in said[]. */
static void run_with(const char *options)
{
	int file = memfd_create("said", MFD_CLOEXEC), before = dup(STDERR_FILENO);
	char *usual = strdup(getenv("SHEAF_OPTIONS")), all[200];
	ssize_t length;

	snprintf(all, sizeof(all), "%s;%s", usual, options);
	setenv("SHEAF_OPTIONS", all, 1);
	dup2(file, STDERR_FILENO);
	assert_int_equal(in_child(program), 0);
	dup2(before, STDERR_FILENO);
	setenv("SHEAF_OPTIONS", usual, 1);
	length = pread(file, said, sizeof(said) - 1, 0);
	said[length < 0 ? 0 : length] = '\0';
	close(before);
	close(file);
	free(usual);
}

static unsigned int points(void)
{
	unsigned int n = 0;
	const char *line;

	run_with("fail_nth=0");
	line = strstr(said, "fail_nth=0: ");
	assert_non_null(line);
	assert_int_equal(sscanf(line, "fail_nth=0: %u points where something may fail\n", &n), 1);
	return n;
}

static void each_point_fails(void **state)
{
	unsigned int n = points(), refused = 0;
	char options[64], line[64];

	(void)state;
	assert_in_range(n, 10, 1000);
	/* Later ones depend on the CPUs on which the thread runs. In valgrind, more of them are
	 * calls of the system. */
	for (unsigned int i = 1; i <= n / 2 || (!refused && i <= n); i++) {
		snprintf(options, sizeof(options), "fail_nth=%u", i);
		snprintf(line, sizeof(line), "libsheaf: SHEAF_OPTIONS: fail_nth=%u: ", i);
		run_with(options);
		assert_non_null(strstr(said, line));
		assert_non_null(strstr(said, " fails on purpose\n"));
		/* The system refused nothing that could be named. */
		if (strstr(said, ": pool_alloc fails") && strstr(said, "cannot start")) {
			assert_non_null(strstr(said, "fail_nth= and reserve="));
			refused++;
		}
	}
	assert_true(refused || has_debug_letter('S'));
	snprintf(options, sizeof(options), "fail_nth=%u", 2 * n);
	run_with(options);
	assert_null(strstr(said, "on purpose"));
}

static void all_from_one_on(void **state)
{
	(void)state;
	run_with("fail_nth=1;fail_times=0");
	assert_non_null(strstr(said, "fail_nth=1: "));
	assert_non_null(strstr(said, "the library cannot start"));
	run_with("fail_nth=1;fail_times=2");
	assert_null(strstr(said, "the library cannot start"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_point_fails),
		cmocka_unit_test(all_from_one_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
