/* SPDX-License-Identifier: MIT */
/* Statistics without counting, and the three formats: columns, escaping, errors. */
#include <errno.h>
#include <inttypes.h>
#include <sheaf/debug.h>
#include <sheaf/limit.h>
#include <sheaf/stats.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/by_hand.h"
#include "kit/capture.h"
#include "kit/held.h"
#include "kit/needs.h"
#include "kit/printed.h"
#include "kit/process.h"
#include "kit/sanitizers.h"
#include "kit/unit.h"

enum {
	SHEAF = 60, /* capacity for 64 bytes */
	MANY = 10 * SHEAF
};

static void waste_and_peak_are_reported(void **state)
{
	struct kmem_cache *odd = make("odd", 1000, SLAB_NO_USER_FLAGS);
	struct kmem_cache_stats before = look(s), most;
	void *object;

	(void)state;
	assert_int_equal(before.waste_bytes, before.slab_bytes - 64 * before.total_objects);
	take(MANY);
	most = look(s);
	give(0, MANY);
	(void)kmem_cache_shrink(s);
	assert_true(look(s).slab_bytes < most.slab_bytes);
	assert_int_equal(look(s).peak_slab_bytes, most.counted ? most.slab_bytes : 0);
	object = kmem_cache_alloc(odd, GFP_KERNEL);
	most = look(odd);
	assert_int_equal(most.waste_bytes, most.slab_bytes - most.total_objects * 1000);
	assert_true(most.waste_bytes > 0);
	kmem_cache_free(odd, object);
	kmem_cache_destroy(odd);
}

static void destroyed_cache_is_reported(void **state)
{
	struct kmem_cache *gone = kmem_cache_create("gone", 64, NULL, SLAB_NO_MERGE);
	struct kmem_cache_stats stats;
	struct capture captured;

	(void)state;
	kmem_cache_destroy(gone);
	capture_begin(&captured);
	assert_int_equal(kmem_cache_stats(gone, &stats), -EINVAL);
	assert_int_equal(capture_end(&captured), 1);
	assert_int_equal(stats.object_size, 0);
}

/* A program built with an older header has less room. */
static void only_the_room_is_written(void **state)
{
	struct kmem_cache_stats stats;
	size_t size = offsetof(struct kmem_cache_stats, objects);

	(void)state;
	memset(&stats, 0xee, sizeof(stats));
	assert_int_equal(__kmem_cache_stats(s, &stats, size), 0);
	assert_int_equal(stats.object_size, 64);
	assert_int_equal(stats.objects, UINT64_C(0xeeeeeeeeeeeeeeee));
}

static void text_fits_a_terminal(void **state)
{
	static char long_name[100];
	struct kmem_cache *long_one;
	char *text;

	(void)state;
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_one = kmem_cache_create(long_name, 64, NULL, SLAB_NO_MERGE);
	take(10 * SHEAF);
	give(1, 10 * SHEAF);
	text = printed(SHEAF_STATS_TEXT);
	give(0, 1);
	assert_non_null(strstr(text, "\nheld "));
	assert_int_equal(strstr(text, "alloc_fastpath=600") != NULL, look(s).counted && !is_tiny());
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		assert_true(strlen(line) <= 100);
	kmem_cache_destroy(long_one);
}

/* A limit reads like the bytes that it limits. */
static void text_shortens_sizes(void **state)
{
	(void)state;
	assert_int_equal(sheaf_set_limits((size_t)1 << 30, (size_t)2 << 30), 0);
	assert_non_null(strstr(printed(SHEAF_STATS_TEXT), " soft_limit=1024M"));
	assert_non_null(strstr(printed(SHEAF_STATS_TEXT), " hard_limit=2048M"));
	assert_int_equal(sheaf_set_limits(0, 0), 0);
	assert_null(strstr(printed(SHEAF_STATS_TEXT), "_limit=0"));
}

/* kmalloc() alone creates dozens of caches. */
static void text_leaves_unused_caches_out(void **state)
{
	struct kmem_cache *idle = make("idle", 72, SLAB_NO_USER_FLAGS);
	struct kmem_cache *odd = make("odd", 1000, SLAB_NO_USER_FLAGS);
	unsigned long long in_use, parked, size, slabs, sheaf, aliases;
	char *line, memory[9], peak[9], waste[9];
	void *object = kmem_cache_alloc(odd, GFP_KERNEL);

	(void)state;
	assert_null(strstr(printed(SHEAF_STATS_TEXT), "\nidle "));
	assert_non_null(strstr(printed(SHEAF_STATS_TEXT), "\n# unused caches, not shown: "));
	line = strstr(printed(SHEAF_STATS_TEXT), "\nodd ");
	assert_non_null(line);
	assert_int_equal(sscanf(line, " odd %llu %llu %llu %llu %8s %8s %8s %llu %llu", &in_use,
				&parked, &size, &slabs, memory, peak, waste, &sheaf, &aliases),
			 9);
	assert_int_equal(in_use, 1);
	assert_int_equal(size, 1000);
	assert_int_equal(strtoull(waste, NULL, 10), look(odd).waste_bytes);
	assert_int_equal(sheaf, look(odd).sheaf_capacity);
	assert_int_equal(aliases, 0);
	kmem_cache_free(odd, object);
	kmem_cache_destroy(odd);
	kmem_cache_free(idle, kmem_cache_alloc(idle, GFP_KERNEL));
	/* With slub_tiny none of that is left, unless it was counted. */
	assert_int_equal(strstr(printed(SHEAF_STATS_TEXT), "\nidle ") != NULL,
			 library().counted || !is_tiny());
	kmem_cache_destroy(idle);
}

/* They come from the environment, so another program has them. */
static void print_odd_options(void)
{
	CHECK(setenv("SHEAF_OPTIONS", "slab_debug=F,a\"b\\c\nd\x1f\xff", 1) == 0);
	start_again("options");
}

/* A build may have other options before and behind them. */
static bool shows(enum sheaf_stats_format format, const char *options)
{
	const char *at = strstr(printed(format), options);

	return at && strspn(at + strlen(options), "\";") > 0;
}

static void odd_options(void)
{
	CHECK(strstr(printed(SHEAF_STATS_JSON), "\"options\": \""));
	CHECK(shows(SHEAF_STATS_JSON, "slab_debug=F,a\\\"b\\\\c?d?\xef\xbf\xbd"));
	CHECK(shows(SHEAF_STATS_PROMETHEUS, "slab_debug=F,a\\\"b\\\\c?d?\xef\xbf\xbd"));
	CHECK(strstr(printed(SHEAF_STATS_TEXT), "slab_debug=F,a\"b\\c?d?"));
}

static void odd_options_are_escaped(void **state)
{
	int status = in_child(print_odd_options);

	(void)state;
	needs_image(status);
	assert_int_equal(status, 0);
}

static void odd_names_are_escaped(void **state)
{
	struct kmem_cache *odd = kmem_cache_create("a \"b\\c\xff\xc3\xa4", 64, NULL, SLAB_NO_MERGE);
	void *object;

	(void)state;
	object = kmem_cache_alloc(odd, GFP_KERNEL);
	assert_non_null(strstr(printed(SHEAF_STATS_JSON),
			       "\"name\": \"a \\\"b\\\\c\xef\xbf\xbd\xc3\xa4\""));
	assert_non_null(
		strstr(printed(SHEAF_STATS_PROMETHEUS),
		       "sheaf_cache_objects{cache=\"a \\\"b\\\\c\xef\xbf\xbd\xc3\xa4\",id="));
	assert_non_null(strstr(printed(SHEAF_STATS_TEXT), "\na_\"b\\c"));
	kmem_cache_free(odd, object);
	kmem_cache_destroy(odd);
}

static void printing_fails_politely(void **state)
{
	(void)state;
	errno = 17;
	assert_int_equal(sheaf_stats_print(-1, SHEAF_STATS_TEXT), -EBADF);
	assert_int_equal(sheaf_stats_print(1, (enum sheaf_stats_format)7), -EINVAL);
	assert_int_equal(errno, 17);
}

/* As another program, which prints its statistics to this file when it exits. */
static void print_at_exit(int file)
{
	CHECK(setenv("SHEAF_OPTIONS", "stats", 1) == 0);
	dup2(file, STDERR_FILENO);
	start_again("exit");
}

static void to_nobody(void)
{
	int ends[2];

	CHECK(pipe(ends) == 0);
	close(ends[0]);
	CHECK(sheaf_stats_print(ends[1], SHEAF_STATS_JSON) == -EPIPE);
	print_at_exit(ends[1]);
}

static void beyond_the_limit(void)
{
	const struct rlimit few = {100, 100};
	int file = memfd_create("short", MFD_CLOEXEC);

	CHECK(setrlimit(RLIMIT_FSIZE, &few) == 0);
	CHECK(sheaf_stats_print(file, SHEAF_STATS_TEXT) == -EFBIG);
	CHECK(kmem_cache_print_traces(s, file, SHEAF_ALLOC_TRACES, SHEAF_STATS_TEXT) < 0);
	print_at_exit(file);
}

/* Neither SIGPIPE nor SIGXFSZ ends the program, and its exit status stays. */
static void nobody_has_to_read(void **state)
{
	static void (*const all[])(void) = {to_nobody, beyond_the_limit};

	(void)state;
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	/* With such a limit the thread sanitizer cannot start the program again. */
	for (int i = 0; i < (HAS_TSAN ? 1 : 2); i++) {
		int status = in_child(all[i]);

		needs_image(status);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 3);
	}
}

static void process_is_described(void **state)
{
	struct sheaf_stats process;
	char limit[64];

	(void)state;
	take(SHEAF);
	sheaf_stats(&process);
	assert_int_equal(process.counted, has_option("stats"));
	assert_true(process.caches >= 1);
	assert_true(process.cpus >= 1 && process.nodes >= 1);
	assert_true(process.used_bytes >= look(s).slab_bytes);
	assert_true(process.committed_bytes >= process.used_bytes + process.free_bytes);
	assert_true(process.split_limit > 0 && process.split_mappings <= process.split_limit);
	snprintf(limit, sizeof(limit), "\"split_limit\": %" PRIu64, process.split_limit);
	assert_non_null(strstr(printed(SHEAF_STATS_JSON), limit));
	snprintf(limit, sizeof(limit), "\nsheaf_split_limit %" PRIu64, process.split_limit);
	assert_non_null(strstr(printed(SHEAF_STATS_PROMETHEUS), limit));
	snprintf(limit, sizeof(limit), " split_limit=%" PRIu64, process.split_limit);
	assert_non_null(strstr(printed(SHEAF_STATS_TEXT), limit));
	give(0, SHEAF);
}

static void retired_bytes_are_reported(void **state)
{
	struct sheaf_stats process;
	unsigned long long reported;

	(void)state;
	assert_int_equal(sheaf_rcu_register(&by_hand_ops), 0);
	take(6 * SHEAF);
	for (unsigned int i = 0; i < 6 * SHEAF; i++)
		kmem_cache_free_rcu(s, held[i]);
	sheaf_stats(&process);
	/* All except the objects in the CPU's rcu_free sheaf: they are counted when it is full. */
	reported = process.rcu_bytes;
	assert_in_range(reported, 4 * SHEAF * look(s).slab_size, 6 * SHEAF * look(s).slab_size);
	assert_non_null(strstr(printed(SHEAF_STATS_JSON), "\"rcu_bytes\": "));
	assert_int_equal(
		strtoull(strstr(printed(SHEAF_STATS_JSON), "\"rcu_bytes\": ") + 13, NULL, 10),
		reported);
	assert_int_equal(
		strtoull(strstr(printed(SHEAF_STATS_PROMETHEUS), "\nsheaf_rcu_bytes ") + 17, NULL,
			 10),
		reported);
	assert_non_null(strstr(printed(SHEAF_STATS_TEXT), " rcu_bytes="));
	kvfree_rcu_barrier();
	sheaf_stats(&process);
	assert_int_equal(process.rcu_bytes, 0);
}

static void gauges_need_no_counting(void **state)
{
	struct kmem_cache_stats stats;

	(void)state;
	take(3 * SHEAF);
	give(0, SHEAF);
	stats = look(s);
	assert_string_equal(stats.name, "held");
	assert_int_equal(stats.sheaf_capacity, is_tiny() ? 0 : SHEAF);
	assert_int_equal(stats.objects_in_use, 2 * SHEAF);
	assert_true(stats.objects_in_sheaves >= (is_tiny() ? 0 : SHEAF));
	assert_true(stats.total_objects >= stats.objects);
	assert_int_equal(stats.total_objects, stats.slabs * stats.objs_per_slab);
	assert_int_equal(stats.slab_bytes, stats.slabs * 4096 << stats.order);
	if (!stats.counted)
		assert_int_equal(stats.alloc_fastpath + stats.alloc_slab + stats.sheaf_refill, 0);
	give(SHEAF, 3 * SHEAF);
	assert_int_equal(look(s).objects_in_use, 0);
}

#define WITH_CACHE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		WITH_CACHE(gauges_need_no_counting),
		WITH_CACHE(waste_and_peak_are_reported),
		WITH_CACHE(process_is_described),
		WITH_CACHE(only_the_room_is_written),
		cmocka_unit_test(destroyed_cache_is_reported),
		WITH_CACHE(text_fits_a_terminal),
		WITH_CACHE(text_shortens_sizes),
		WITH_CACHE(text_leaves_unused_caches_out),
		WITH_CACHE(odd_names_are_escaped),
		WITH_CACHE(odd_options_are_escaped),
		WITH_CACHE(printing_fails_politely),
		WITH_CACHE(nobody_has_to_read),
		WITH_CACHE(retired_bytes_are_reported),
	};

	if (argc > 1 && !strcmp(argv[1], "options"))
		return odd_options(), 0;
	if (argc > 1)
		return kmem_cache_create("last", 64, NULL, 0) ? 3 : 4;
	return cmocka_run_group_tests_name("stats-print", tests, NULL, NULL);
}
