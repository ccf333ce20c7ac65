/* SPDX-License-Identifier: MIT */
/*
 * Settings of caches in use: by the option sheaf_capacity, by calls, and through the control
 * socket; what they are then, and who set them.
 */
#include <errno.h>
#include <sheaf/stats.h>
#include <string.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/control.h"
#include "kit/unit.h"

enum {
	CAPACITY, /* in set_by */
	BARN_FULL,
	LIMIT,
	MIN_PARTIAL,
	BARN_EMPTY,
	LIBRARY = 0,
	PROGRAM,
	OPTIONS,
	TUNE,
};

static struct kmem_cache *asks, *s, *bare;

static unsigned int set_by(struct kmem_cache *cache, unsigned int what)
{
	return look(cache).set_by >> 2 * what & 3;
}

static bool is_answer(const char *question, const char *expected)
{
	static char answer[512];
	char line[256];
	int file = connect_to_self();

	snprintf(line, sizeof(line), "%s\n", question);
	ask_self(asks, file, line, answer, sizeof(answer));
	close(file);
	if (strstr(answer, expected) && strchr(answer, '\n') == answer + strlen(answer) - 1)
		return true;
	print_message("%s: %s", question, answer);
	return false;
}

static int set_up(void **state)
{
	(void)state;
	asks = make("asks", 64, SLAB_NO_SHEAVES);
	s = make("tuned", 64, 0);
	bare = make("tuned, without sheaves", 64, SLAB_NO_SHEAVES);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kmem_cache_destroy(s);
	kmem_cache_destroy(bare);
	kmem_cache_destroy(asks);
	return 0;
}

static void all_values_at_once(void **state)
{
	struct kmem_cache_stats before = look(s), after;

	(void)state;
	assert_int_equal(before.set_by, 0);
	assert_true(is_answer(
		"tune capacity=100 barn_full=40 barn_empty=9 limit=1048576 min_partial=3\ttuned",
		"ok\n"));
	after = look(s);
	assert_int_equal(after.sheaf_capacity, 100);
	assert_int_equal(after.limit_barn_full, 40);
	assert_int_equal(after.limit_barn_empty, 9);
	assert_int_equal(after.limit_bytes, 1 << 20);
	assert_int_equal(after.min_partial, 3);
	for (unsigned int what = CAPACITY; what <= BARN_EMPTY; what++)
		assert_int_equal(set_by(s, what), TUNE);
	assert_int_equal(look(bare).set_by, 0);
	/* The library chooses again. */
	assert_true(is_answer("tune capacity=0 barn_full=0 limit=0\ttun*d", "no cache"));
	assert_true(is_answer("tune capacity=0 barn_full=0 limit=0 barn_empty=0\ttuned", "ok\n"));
	after = look(s);
	assert_int_equal(after.sheaf_capacity, before.sheaf_capacity);
	assert_int_equal(after.limit_barn_full, before.limit_barn_full);
	assert_int_equal(after.limit_bytes, 0);
	assert_int_equal(after.set_by, (uint64_t)TUNE << 2 * MIN_PARTIAL);
}

/* A number of sheaves is met whatever their capacity is, as far as there are cells. */
static void barns_hold_what_was_wanted(void **state)
{
	static const unsigned int wanted[] = {1, 2, 10, 441, 65535}, capacities[] = {1, 60, 4096};
	char question[64];

	(void)state;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		for (size_t k = 0; k < sizeof(capacities) / sizeof(capacities[0]); k++) {
			snprintf(question, sizeof(question), "tune barn_full=%u capacity=%u\ttuned",
				 wanted[i], capacities[k]);
			assert_true(is_answer(question, "ok\n"));
			if (wanted[i] <= 441)
				assert_int_equal(look(s).limit_barn_full, wanted[i]);
			else
				assert_in_range(look(s).limit_barn_full, 441, 65535);
		}
	/* The program's limits are of another kind. */
	assert_int_equal(kmem_cache_set_sheaf_capacity(s, 60), 0);
	assert_int_equal(kmem_cache_set_barn(s, 60 * 12, 0), 0);
	assert_int_equal(look(s).limit_barn_full, 12);
	assert_int_equal(set_by(s, BARN_FULL), PROGRAM);
	assert_int_equal(kmem_cache_set_barn(s, 0, 0), 0);
	assert_int_equal(set_by(s, BARN_FULL), LIBRARY);
}

static void a_wrong_value_changes_nothing(void **state)
{
	static const char *const wrong[][2] = {
		{"tune min_partial=4 capacity=4097\ttuned",
		 "error capacity=4097 for tuned: not a number from 0 to 4096; nothing changed\n"},
		{"tune min_partial=4 capacity=-1\ttuned", "capacity=-1 for tuned"},
		{"tune min_partial=4 capacity=\ttuned", "from 0 to 4096"},
		{"tune min_partial=4 capacity\ttuned", "\"capacity\" is not"},
		{"tune min_partial=4 barn_full=65536\ttuned",
		 "barn_full=65536 for tuned: not a number from 0 to 65535"},
		{"tune limit=7 min_partial=65536\ttuned", "min_partial=65536 for tuned"},
		{"tune min_partial=4 limit=18446744073709551616\ttuned",
		 "limit=1844674407370955161"},
		{"tune min_partial=4 limit=1k\ttuned", "limit=1k for tuned"},
		{"tune min_partial=4 colour=7\ttuned", "\"colour=7\" is not"},
		{"tune min_partial=4 decay=7\ttuned", "decay=N is for the process"},
		{"tune min_partial=4", "name a cache"},
		{"tune decay=3600001",
		 "decay=3600001 for the process: not a number from 0 to 3600000"},
		{"tune decay=1 min_partial=x", "min_partial=x"},
		{"tune min_partial=4\tnobody", "there is no cache nobody"},
		{"tune\tnobody", "there is no cache nobody"},
		{"tune min_partial=4 capacity=7\ttuned*",
		 "capacity=7 for tuned, without sheaves: this cache has no sheaves; nothing "
		 "changed"},
		{"tune min_partial=4 capacity=\033[2J\ttuned", "capacity=?[2J for tuned"},
	};
	struct kmem_cache_stats before = look(s);
	struct sheaf_stats all = library();

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_true(is_answer(wrong[i][0], wrong[i][1]));
		assert_true(is_answer(wrong[i][0], "error "));
		assert_int_equal(look(s).set_by, before.set_by);
		assert_int_equal(look(s).min_partial, before.min_partial);
		assert_int_equal(look(bare).min_partial, before.min_partial);
		assert_int_equal(library().decay_ms, all.decay_ms);
	}
}

static void many_caches(void **state)
{
	(void)state;
	assert_true(is_answer("tune min_partial=0 limit=4194304\ttuned*", "ok\n"));
	assert_int_equal(look(s).limit_bytes, 4 << 20);
	assert_int_equal(look(bare).limit_bytes, 4 << 20);
	assert_int_equal(look(bare).min_partial, 0);
	assert_int_equal(set_by(bare, LIMIT), TUNE);
	assert_int_equal(look(asks).set_by, 0);
	assert_true(is_answer("tune limit=18446744073709551615\ttuned", "ok\n"));
	assert_true(look(s).limit_bytes == UINT64_MAX);
	assert_true(is_answer("tune\t*", "ok\n"));
	assert_true(is_answer("tune", "ok\n"));
}

/* The last one counts. */
static void the_program_sets_them(void **state)
{
	const struct kmem_cache_args args = {
		.sheaf_capacity = 100, .barn_bytes = 1 << 20, .limit = 1 << 20, .usersize = 16};
	struct kmem_cache *own = kmem_cache_create("own", 64, &args, SLAB_NO_MERGE);

	(void)state;
	assert_int_equal(look(own).set_by, PROGRAM | PROGRAM << 2 | PROGRAM << 4);
	assert_int_equal(look(own).usersize, 16);
	kmem_cache_destroy(own);
	assert_int_equal(kmem_cache_set_sheaf_capacity(s, 9), 0);
	assert_int_equal(set_by(s, CAPACITY), PROGRAM);
	assert_true(is_answer("tune capacity=10\ttuned", "ok\n"));
	assert_int_equal(set_by(s, CAPACITY), TUNE);
	assert_int_equal(kmem_cache_set_sheaf_capacity(s, 11), 0);
	assert_int_equal(set_by(s, CAPACITY), PROGRAM);
	assert_int_equal(look(s).sheaf_capacity, 11);
}

/* sheaf_capacity=conn:256,req*:20,req-a:9: the first one that matches, above the program's. */
static void options_set_capacities(void **state)
{
	static const struct {
		const char *name;
		unsigned int capacity, by;
	} caches[] = {{"conn", 256, OPTIONS}, {"req", 20, OPTIONS},   {"req-a", 20, OPTIONS},
		      {"re", 60, LIBRARY},    {"connx", 60, LIBRARY}, {"xconn", 60, LIBRARY}};
	const struct kmem_cache_args more = {.sheaf_capacity = 1000};
	struct kmem_cache *one, *other;

	(void)state;
	for (size_t i = 0; i < sizeof(caches) / sizeof(caches[0]); i++) {
		one = make(caches[i].name, 64, 0);
		assert_int_equal(look(one).sheaf_capacity, caches[i].capacity);
		assert_int_equal(set_by(one, CAPACITY), caches[i].by);
		kmem_cache_destroy(one);
	}
	one = kmem_cache_create("conn", 64, &more, 0);
	assert_int_equal(look(one).sheaf_capacity, 256);
	kmem_cache_destroy(one);
	/* They share with no other cache, whose sheaves would be as large. */
	one = kmem_cache_create("connx", 64, NULL, 0);
	other = kmem_cache_create("conn", 64, NULL, 0);
	assert_ptr_not_equal(one, other);
	kmem_cache_destroy(one);
	kmem_cache_destroy(other);
}

/* It stays for its objects, but nobody can change it. */
static void a_leaked_cache_has_no_settings(void **state)
{
	struct kmem_cache *leaked = make("leaked", 64, 0);
	void *object = kmem_cache_alloc(leaked, GFP_KERNEL);
	struct capture captured;

	(void)state;
	capture_begin(&captured);
	kmem_cache_destroy(leaked);
	assert_true(capture_end(&captured) > 0);
	assert_true(is_answer("tune capacity=7 limit=1\tleaked", "there is no cache leaked"));
	assert_true(is_answer("tune\tleaked", "there is no cache leaked"));
	assert_true(is_answer("tune min_partial=3\t*", "ok\n"));
	assert_int_not_equal(look(leaked).min_partial, 3);
	kmem_cache_free(leaked, object);
}

static void decay_of_the_process(void **state)
{
	(void)state;
	assert_int_equal(library().decay_ms, 2000);
	assert_int_equal(library().decay_set_by, OPTIONS);
	assert_true(is_answer("tune decay=250", "ok\n"));
	assert_int_equal(library().decay_ms, 250);
	assert_int_equal(library().decay_set_by, TUNE);
	assert_true(is_answer("tune decay=never", "ok\n"));
	assert_int_equal(library().decay_ms, UINT32_MAX);
	assert_true(is_answer("tune decay=2000", "ok\n"));
	assert_int_equal(library().decay_ms, 2000);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(all_values_at_once),
		TEST(barns_hold_what_was_wanted),
		TEST(a_wrong_value_changes_nothing),
		TEST(many_caches),
		TEST(the_program_sets_them),
		TEST(options_set_capacities),
		TEST(a_leaked_cache_has_no_settings),
		TEST(decay_of_the_process),
	};

	if (is_tiny()) {
		print_message("skipped: with slub_tiny there are no sheaves\n");
		return 77;
	}
	return cmocka_run_group_tests_name("tune", tests, NULL, NULL);
}
