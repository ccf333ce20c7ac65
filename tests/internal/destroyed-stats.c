/* SPDX-License-Identifier: MIT */
/* Destroyed caches: their counts remain, are bounded, and belong to this process only; a cache that
 * is being destroyed. */
#include <errno.h>
#include <sheaf/stats.h>
#include <stdio.h>
#include <string.h>

#include "cache/destroyed_stats.h"
#include "cache/events.h"
#include "cache/list.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/machine.h"

enum {
	OBJECTS = 200
};

static void use(const char *name, unsigned int n)
{
	struct kmem_cache *s = kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
	void *objects[OBJECTS];

	assert_non_null(s);
	for (unsigned int i = 0; i < n; i++)
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
	for (unsigned int i = 0; i < n; i++)
		kmem_cache_free(s, objects[i]);
	kmem_cache_destroy(s);
}

static unsigned int entries(void)
{
	unsigned int n = 0;

	for (const struct destroyed_stats *entry = destroyed_stats_next(NULL); entry;
	     entry = destroyed_stats_next(entry))
		n++;
	return n;
}

static const struct destroyed_stats *of_name(const char *name)
{
	const struct destroyed_stats *entry = destroyed_stats_next(NULL);

	while (entry && strcmp(entry->name, name) != 0)
		entry = destroyed_stats_next(entry);
	return entry;
}

static uint64_t allocations(const struct destroyed_stats *entry)
{
	return entry->words[STAT_alloc_fastpath] + entry->words[STAT_alloc_slowpath];
}

static int begin(void **state)
{
	(void)state;
	destroyed_stats_forget();
	return 0;
}

static void skip_unless_counted(void)
{
	use("", 1);
	destroyed_stats_forget();
	if (!os.counting)
		skip();
}

static void nothing_is_remembered_without_counting(void **state)
{
	(void)state;
	use("uncounted", OBJECTS);
	assert_int_equal(entries(), os.counting ? 1 : 0);
}

/* PUBLISH-D3 */
static void same_name_adds_up(void **state)
{
	(void)state;
	skip_unless_counted();
	use("one", OBJECTS);
	use("two", 0);
	use("one", 7);
	assert_int_equal(entries(), 1);
	assert_int_equal(of_name("one")->times, 2);
	assert_int_equal(allocations(of_name("one")), OBJECTS + 7);
}

static void many_names_share_an_entry(void **state)
{
	char name[32];

	(void)state;
	skip_unless_counted();
	for (unsigned int i = 0; i < DESTROYED_ENTRIES + 50; i++) {
		snprintf(name, sizeof(name), "name %u", i);
		use(name, 1);
	}
	assert_int_equal(entries(), DESTROYED_ENTRIES + 1);
	assert_int_equal(of_name(DESTROYED_OTHERS)->times, 50);
	assert_int_equal(of_name("name 0")->times, 1);
}

static void begins_with_nothing(void)
{
	CHECK(entries() == 0);
}

static void child_begins_with_nothing(void **state)
{
	(void)state;
	skip_unless_counted();
	use("parent's", 1);
	assert_int_equal(entries(), 1);
	assert_int_equal(in_child(begins_with_nothing), 0);
}

/* Halfway through destroy: no thread may pin the cache any more, on the list and off it; its memory
 * is not yet freed. */
static void cache_off_the_list_is_left_alone(void **state)
{
	struct kmem_cache *gone = kmem_cache_create("gone", 64, NULL, SLAB_NO_MERGE);
	struct kmem_cache_stats stats;
	struct capture captured;

	(void)state;
	os_lock(&caches.lock);
	gone->nr_names = 0;
	list_hide(gone);
	os_unlock(&caches.lock);
	assert_false(list_pin(gone));
	for (struct kmem_cache *at = list_next(NULL); at; at = list_next(at))
		assert_ptr_not_equal(at, gone);
	list_wait_unpinned(gone);
	list_remove(gone);
	assert_false(list_pin(gone));
	capture_begin(&captured);
	assert_int_equal(kmem_cache_stats(gone, &stats), -EINVAL);
	assert_int_equal(capture_end(&captured), 1);
	assert_int_equal(stats.object_size, 0);
	cache_unmake(gone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_is_remembered_without_counting, begin),
		cmocka_unit_test_setup(same_name_adds_up, begin),
		cmocka_unit_test_setup(many_names_share_an_entry, begin),
		cmocka_unit_test_setup(child_begins_with_nothing, begin),
		cmocka_unit_test(cache_off_the_list_is_left_alone),
	};

	return cmocka_run_group_tests_name("destroyed-stats", tests, NULL, NULL);
}
