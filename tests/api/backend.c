/* SPDX-License-Identifier: MIT */
/* Which backend runs, and when the reason is reported: only with backend=rseq, verbose or help. */
#include <errno.h>
#include <linux/membarrier.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sheaf/slab.h>

#include "kit/capture.h"
#include "kit/check.h"
#include "kit/printed.h"
#include "kit/process.h"
#include "kit/refuse.h"
#include "kit/unit.h"

static struct capture captured;
static const char *options;
static bool refused;

static bool is_rseq(void)
{
	return strstr(printed(SHEAF_STATS_JSON), "\"backend\": \"rseq\"");
}

/* The first use of the library in a process. */
static void first_use(void)
{
	struct kmem_cache *s;

	CHECK(setenv("SHEAF_OPTIONS", options, 1) == 0);
	if (refused)
		refuse_where(SYS_membarrier, EPERM, 0, NULL);
	s = kmem_cache_create("first", 64, NULL, 0);
	CHECK(s);
	CHECK(!refused || !is_rseq());
	kmem_cache_destroy(s);
	_exit(is_rseq() ? 10 : 11);
}

/* The number of reported lines; *rseq says whether the rseq backend ran. */
static int lines(const char *with, bool without_membarrier, bool *rseq)
{
	int status, n;

	options = with;
	refused = without_membarrier;
	capture_begin(&captured);
	status = in_child(first_use);
	n = capture_end(&captured);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) != 10 && WEXITSTATUS(status) != 11)
		print_error("%s", captured.text);
	assert_in_range(WEXITSTATUS(status), 10, 11);
	*rseq = WEXITSTATUS(status) == 10;
	return n;
}

/* With other threads, the kernel would take long. Only a registered process may make such a
 * barrier. */
static void is_registered_when_loaded(void **state)
{
	const char *inherited = getenv("SHEAF_OPTIONS");
	bool rseq, done = !syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0);

	(void)state;
	if (inherited && strstr(inherited, "backend=trylock")) {
		assert_false(done);
		return;
	}
	lines("", false, &rseq);
	assert_true(done || !rseq);
}

static void says_nothing_unasked(void **state)
{
	bool rseq;

	(void)state;
	assert_int_equal(lines("", false, &rseq), 0);
	assert_int_equal(lines("", true, &rseq), 0);
	assert_int_equal(lines("backend=trylock", true, &rseq), 0);
}

static void says_why_rseq_cannot_be_had(void **state)
{
	bool rseq, possible;

	(void)state;
	lines("", false, &possible);
	assert_int_equal(lines("backend=rseq", false, &rseq), possible ? 0 : 1);
	assert_int_equal(lines("backend=rseq", true, &rseq), 1);
	assert_non_null(strstr(captured.text, "backend=rseq is not available"));
	if (possible)
		assert_non_null(strstr(captured.text, "the kernel refuses membarrier"));
}

/* The lines that a build with slub_tiny adds. */
#ifdef SHEAF_SLUB_TINY
#define TINY ";slub_tiny;slab_max_order=1"
#else
#define TINY ""
#endif

static void says_what_runs(void **state)
{
	bool rseq;

	(void)state;
	assert_int_equal(lines("verbose", false, &rseq), 1);
	assert_non_null(strstr(captured.text, " node"));
	assert_non_null(strstr(captured.text, " allowed); options in force: verbose" TINY "\n"));
	assert_non_null(strstr(captured.text,
			       rseq ? "using the rseq backend" : "using the trylock backend: "));
	if (rseq) {
		assert_int_equal(lines("verbose", true, &rseq), 1);
		assert_non_null(strstr(captured.text,
				       "using the trylock backend: the kernel refuses membarrier"));
	}
	assert_int_equal(lines("verbose;backend=trylock", false, &rseq), 1);
	assert_false(rseq);
	assert_non_null(strstr(captured.text, "using the trylock backend: backend=trylock is set"));
}

static void says_what_is_ignored(void **state)
{
	bool rseq;

	(void)state;
	assert_int_equal(lines("numa=fake=1;slab_strict_numa", false, &rseq), 1);
	assert_non_null(
		strstr(captured.text, "slab_strict_numa is ignored: there is one memory node"));
	assert_int_equal(lines("backend=trylock;index=mm_cid", false, &rseq), 1);
	assert_non_null(strstr(captured.text, "index=mm_cid is ignored: the trylock backend runs"));
	lines("backend=rseq;index=mm_cid;numa=fake=2", false, &rseq);
	if (rseq)
		assert_non_null(strstr(captured.text, "index=mm_cid is ignored"));
}

static void prints_help_and_goes_on(void **state)
{
	bool rseq;

	(void)state;
	assert_true(lines("help", false, &rseq) > 20);
	assert_non_null(strstr(captured.text, "  slab_nomerge "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_registered_when_loaded),
		cmocka_unit_test(says_nothing_unasked),
		cmocka_unit_test(says_why_rseq_cannot_be_had),
		cmocka_unit_test(says_what_runs),
		cmocka_unit_test(says_what_is_ignored),
		cmocka_unit_test(prints_help_and_goes_on),
	};

	return cmocka_run_group_tests_name("backend", tests, NULL, NULL);
}
