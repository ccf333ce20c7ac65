/* SPDX-License-Identifier: MIT */
/* SHEAF_OPTIONS: every option, misspelt ones, numbers out of range. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/capture.h"
#include "os/options/options.h"

#include "kit/unit.h"

/* The library's own slab_max_order. */
#ifdef SHEAF_SLUB_TINY
#define MAX_ORDER "1"
#else
#define MAX_ORDER "3"
#endif

static struct capture captured;

static bool parse(const char *text, int *lines)
{
	bool understood;

	capture_begin(&captured);
	understood = os_options_parse(text);
	*lines = capture_end_deferred(&captured);
	return understood;
}

static void understands_all(void **state)
{
	int lines;

	(void)state;
	assert_true(
		parse("backend=trylock;numa=fake=4,slab_nomerge slab_strict_numa;"
		      "slab_max_order=5;slub_min_order=2;slab_min_objects=17;"
		      "slab_freelist_hardened;slab_freelist_random;slab_debug=F;panic_on_warn;help;"
		      "reserve=512;sheaf_budget=640;decay=0;decay=never;"
		      "background;random_kmalloc_caches=7;verbose;process=12",
		      &lines));
	assert_int_equal(lines, 0);
	assert_int_equal(os_options.backend_trylock, 1);
	assert_int_equal(os_options.help, 1);
	assert_int_equal(os_options.panic_on_warn, 1);
	assert_int_equal(os_options.numa_fake, 4);
	assert_int_equal(os_options.nomerge, 1);
	assert_string_equal(os_options.slab_debug, "F");
	assert_int_equal(os_options.strict_numa, 1);
	assert_int_equal(os_options.max_order, 5);
	assert_int_equal(os_options.min_order, 2);
	assert_int_equal(os_options.min_objects, 17);
	assert_int_equal(os_options.check_pop, 1);
	assert_int_equal(os_options.hardened, 0);
	assert_int_equal(os_options.check_free, 0);
	assert_int_equal(os_options.random, 1);
	assert_int_equal(os_options.reserve, 512);
	assert_int_equal(os_options.sheaf_budget, 640);
	assert_int_equal(os_options.decay, 0);
	assert_int_equal(os_options.decay_never, 1);
	assert_int_equal(os_options.background, 1);
	assert_int_equal(os_options.random_kmalloc_caches, 7);
	assert_int_equal(os_options.verbose, 1);
	assert_int_equal(os_options.process, 12);
}

/* The kernel's. */
static void old_names(void **state)
{
	int lines;

	(void)state;
	assert_true(parse("slub_nomerge;slub_max_order=5,slub_min_objects=17 slub_debug=F;Z,conn",
			  &lines));
	assert_int_equal(lines, 0);
	assert_int_equal(os_options.nomerge, 1);
	assert_int_equal(os_options.max_order, 5);
	assert_int_equal(os_options.min_objects, 17);
	assert_string_equal(os_options.slab_debug, "F;Z,conn");
	assert_true(parse("slub_merge;slub_debug", &lines));
	assert_int_equal(lines, 0);
	assert_int_equal(os_options.merge, 1);
	assert_string_equal(os_options.slab_debug, "FZPU");
	/* An option after slab_debug, not letters of it. */
	assert_true(parse("slub_debug=F;slub_merge", &lines));
	assert_string_equal(os_options.slab_debug, "F");
	assert_false(parse("slub_max_order=12", &lines));
	assert_int_equal(lines, 1);
	assert_non_null(strstr(captured.text, "\"slub_max_order=12\" ignored: slab_max_order="));
	assert_false(parse("slub_nomerges", &lines));
	assert_int_equal(lines, 1);
	assert_true(parse("slab_nomerge;slab_merge", &lines));
	assert_int_equal(lines, 1);
	assert_true(os_options.nomerge);
}

static unsigned int capacity_of(const char *name)
{
	const struct os_name *found = os_names_find(&os_capacities, name);

	return found ? found->value : 0;
}

static void capacities_by_name(void **state)
{
	static const char *const wrong[] = {"conn:4097", "conn:0",  "conn:",   "conn",
					    ":7",	 "conn:7x", "conn:-1", "stats"};
	char text[64];
	int lines;

	(void)state;
	assert_true(parse("stats;sheaf_capacity=conn:256,req*:60;verbose", &lines));
	assert_int_equal(lines, 0);
	assert_true(os_options.stats && os_options.verbose);
	assert_string_equal(os_options.sheaf_capacity, "conn:256,req*:60");
	assert_int_equal(capacity_of("conn"), 256);
	assert_int_equal(capacity_of("request"), 60);
	assert_int_equal(capacity_of("co"), 0);
	assert_int_equal(capacity_of(""), 0);
	assert_true(parse("sheaf_capacity=a:b:1;sheaf_capacity=b:4096", &lines));
	assert_string_equal(os_options.sheaf_capacity, "a:b:1,b:4096");
	assert_int_equal(capacity_of("a:b"), 1);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(text, sizeof(text), "sheaf_capacity=a:5,%s,b:6", wrong[i]);
		assert_false(parse(text, &lines));
		assert_int_equal(lines, 1);
		snprintf(text, sizeof(text), "\"%s\" of sheaf_capacity ignored", wrong[i]);
		assert_non_null(strstr(captured.text, text));
		assert_non_null(strstr(captured.text, "from 1 to 4096"));
		assert_string_equal(os_options.sheaf_capacity, "a:5,b:6");
	}
	assert_true(parse("", &lines));
	assert_int_equal(capacity_of("a"), 0);
}

/* All letters of "stats" are letters of slab_debug, too. */
static void an_option_after_slab_debug(void **state)
{
	int lines;

	(void)state;
	assert_true(parse("slab_debug=F;stats", &lines));
	assert_int_equal(lines, 0);
	assert_string_equal(os_options.slab_debug, "F");
	assert_int_equal(os_options.stats, 1);
	assert_true(parse("slab_debug=F;sta", &lines));
	assert_int_equal(lines, 0);
	assert_string_equal(os_options.slab_debug, "F;sta");
	assert_int_equal(os_options.stats, 0);
}

/* One option stands for others; it does not clear memory. */
static void hardened_is_a_set(void **state)
{
	int lines;

	(void)state;
	assert_true(parse("hardened", &lines));
	assert_int_equal(lines, 0);
	assert_true(os_options.hardened && !os_options.random && os_options.check_pop &&
		    os_options.check_free && os_options.check_double && os_options.guard_pools);
	assert_int_equal(os_options.random_kmalloc_caches, 16);
	assert_false(os_options.init_on_alloc || os_options.init_on_free);
	assert_true(parse("random_kmalloc_caches=3;hardened;init_on_free=0", &lines));
	assert_int_equal(os_options.random_kmalloc_caches, 3);
	assert_true(parse("init_on_free=1;init_on_alloc=1", &lines));
	assert_true(os_options.init_on_free && os_options.init_on_alloc && os_options.check_free);
	assert_false(os_options.check_double || os_options.guard_pools);
	assert_false(parse("init_on_alloc=2", &lines));
	assert_int_equal(lines, 1);
}

static void tiny_has_small_orders(void **state)
{
	int lines;

	(void)state;
	assert_true(parse("slub_tiny", &lines));
	assert_int_equal(lines, 0);
	assert_int_equal(os_options.max_order, 1);
	assert_true(parse("slab_max_order=3;slub_tiny", &lines));
	assert_int_equal(os_options.max_order, 3);
}

/* Options for benchmarks are unknown to a library that is built without them. */
static void those_of_benchmarks(void **state)
{
	int lines;

	(void)state;
#ifdef SHEAF_BENCH
	assert_true(parse("slab_nospare", &lines));
	assert_int_equal(lines, 0);
	assert_int_equal(os_options.no_spare_rule, 1);
#else
	assert_false(parse("slab_nospare", &lines));
	assert_int_equal(lines, 1);
#endif
}

static void defaults(void **state)
{
	int lines;

	(void)state;
	assert_true(parse(" ;; ,", &lines));
	assert_int_equal(lines, 0);
	assert_int_equal(os_options.max_order, atoi(MAX_ORDER));
	assert_int_equal(os_options.backend_trylock, 0);
	assert_int_equal(os_options.numa_fake, 0);
}

static void names_the_nearest(void **state)
{
	static const char *const wrong[][2] = {
		{"slab_nomrege", "\"slab_nomerge\""},
		{"backend=tryloc", "\"backend=trylock\""},
		{"slab_maxorder=3", "\"slab_max_order=N\""},
		{"numa=fak=2", "\"numa=fake=N\""},
		{"slab_freelist_randm", "\"slab_freelist_random\""},
	};
	int lines;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_false(parse(wrong[i][0], &lines));
		assert_int_equal(lines, 1);
		assert_non_null(strstr(captured.text, wrong[i][0]));
		assert_non_null(strstr(captured.text, wrong[i][1]));
	}
}

static void far_names_have_no_nearest(void **state)
{
	static const char *const wrong[] = {"tcache=on", "foo", "narenas:4",
					    "slab_merge_all_of_them", "stall=1"};
	int lines;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_false(parse(wrong[i], &lines));
		assert_int_equal(lines, 1);
		assert_null(strstr(captured.text, "did you mean"));
		assert_non_null(strstr(captured.text, "SHEAF_OPTIONS=help lists them"));
	}
}

/* Each is reported in one line, and the program continues as the line says. */
static void contradictions(void **state)
{
	static const char *const wrong[][2] = {
		{"backend=rseq;backend=trylock", "trylock is used"},
		{"index=cpu_id;index=mm_cid", "mm_cid is used"},
		{"stats;stats=json", "JSON is printed"},
		{"stats=live;stats", "are printed at exit"},
		{"stats=live;stats=json", "are printed at exit"},
		{"stats_fd=3", "ignored without stats"},
		{"stats_fd=3;stats=live", "ignored without stats"},
		{"rcu_delay=7;rcu_delay=9", "rcu_delay=7 and rcu_delay=9; the second is used"},
	};
	static const char *const right[] = {
		"backend=rseq;backend=rseq",
		"stats;stats_fd=3",
		"stats=json;stats_fd=1",
		"rcu_delay=9;rcu_delay=9",
	};
	int lines;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_true(parse(wrong[i][0], &lines));
		assert_int_equal(lines, 1);
		assert_non_null(strstr(captured.text, wrong[i][1]));
	}
	assert_int_equal(os_options.rcu_delay, 9);
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		assert_true(parse(right[i], &lines));
		assert_int_equal(lines, 0);
	}
}

static void help_lists_all(void **state)
{
	static const char *const some[] = {
		"help",		 "backend=trylock",	   "numa=fake=N",
		"(1 to 64)",	 "slab_max_order=N",	   "(0 to 9; default 3)",
		"panic_on_warn", "random_kmalloc_caches=N"};

	(void)state;
	capture_begin(&captured);
	os_options_help();
	assert_true(capture_end(&captured) > 20);
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
		assert_non_null(strstr(captured.text, some[i]));
}

static void the_rest_counts(void **state)
{
	int lines;

	(void)state;
	assert_false(parse("slab_max_order=2;nonsense;slab_nomerge", &lines));
	assert_int_equal(lines, 1);
	assert_int_equal(os_options.max_order, 2);
	assert_int_equal(os_options.nomerge, 1);
}

static void bad_numbers(void **state)
{
	static const char *const wrong[] = {
		"slab_max_order=10",
		"slab_max_order=",
		"slab_max_order=2x",
		"slab_max_order=-1",
		"numa=fake=0",
		"numa=fake=65",
		"numa=fake=+2",
		"slab_min_objects=0",
		"slab_max_order=99999999999999999999",
		"slab_max_order= 2",
		"slab_max_order=4294967297",
	};
	int lines;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_false(parse(wrong[i], &lines));
		assert_true(lines >= 1);
		assert_non_null(strstr(captured.text, "takes a number from"));
		assert_int_equal(os_options.max_order, atoi(MAX_ORDER));
		assert_int_equal(os_options.numa_fake, 0);
	}
}

static void long_words(void **state)
{
	char text[1001];
	int lines;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_false(parse(text, &lines));
	assert_int_equal(lines, 1);
}

/* A mistake is reported once, however often it is made. */
static void the_same_line_is_reported_once(void **state)
{
	char text[1024] = "";
	int lines;

	(void)state;
	for (int i = 0; i < 100; i++)
		strcat(text, i % 2 ? "no_such;" : "decay=x;");
	assert_false(parse(text, &lines));
	assert_int_equal(lines, 2);
}

/* The environment cannot make the library write a line of its own. */
static void control_characters(void **state)
{
	int lines;

	(void)state;
	assert_false(parse("no\nlibsheaf:\tsuch\x1b[31m\x7f", &lines));
	assert_int_equal(lines, 1);
	assert_non_null(strstr(captured.text, "\"no?libsheaf:?such?[31m?\" ignored"));
	assert_false(parse("report=a\nb", &lines));
	assert_int_equal(lines, 1);
	assert_non_null(strstr(captured.text, "\"report=a?b\" ignored"));
	assert_true(parse("report=a\"b\\", &lines));
	assert_string_equal(os_options.report, "a\"b\\");
	assert_true(parse("", &lines));
}

int test_options(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_line_is_reported_once),
		cmocka_unit_test(understands_all),
		cmocka_unit_test(old_names),
		cmocka_unit_test(capacities_by_name),
		cmocka_unit_test(an_option_after_slab_debug),
		cmocka_unit_test(hardened_is_a_set),
		cmocka_unit_test(tiny_has_small_orders),
		cmocka_unit_test(those_of_benchmarks),
		cmocka_unit_test(defaults),
		cmocka_unit_test(names_the_nearest),
		cmocka_unit_test(the_rest_counts),
		cmocka_unit_test(bad_numbers),
		cmocka_unit_test(long_words),
		cmocka_unit_test(far_names_have_no_nearest),
		cmocka_unit_test(contradictions),
		cmocka_unit_test(help_lists_all),
		cmocka_unit_test(control_characters),
	};

	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
