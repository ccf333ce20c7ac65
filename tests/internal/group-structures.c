/* SPDX-License-Identifier: MIT */
/* What groups are made of: places that are used again, locks that statistics do not take, and
 * numbers of objects that belong to no group. */
#include <pthread.h>
#include <sched.h>
#include <sheaf/group.h>
#include <sheaf/kmalloc.h>
#include <sheaf/slab.h>
#include <stdatomic.h>

#include "cache/account.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/hooks.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/section.h"

enum {
	SIZE = 104
};

static struct kmem_group *group(const char *name, const struct kmem_group_args *args)
{
	struct kmem_group *g = kmem_group_create(name, NULL, args);

	assert_non_null(g);
	return g;
}

static uint64_t bytes(struct kmem_group *g)
{
	struct kmem_group_stats stats;

	assert_int_equal(kmem_group_stats(g, &stats), 0);
	return stats.bytes;
}

/* The numbers of a group are read without visiting its objects, whose lock may be held. */
static void statistics_look_at_no_object(void)
{
	struct kmem_group *g = group("read", NULL);
	void *block = kmalloc_charged(100, GFP_KERNEL, g);
	uint64_t is = bytes(g), objects = 0, of_objects = 0;

	os_lock(&owners_lock);
	CHECK(bytes(g) == is);
	os_unlock(&owners_lock);
	CHECK(kmem_group_count_objects(g, &objects, &of_objects) == 0);
	CHECK(objects == 1);
	CHECK(of_objects == is);
	kfree(block);
	kmem_group_put(g);
}

/* In a child, which ends if it waits for the lock. */
static void statistics_take_no_lock(void **state)
{
	(void)state;
	assert_int_equal(in_child(statistics_look_at_no_object), 0);
}

static void is_held(void *nr, struct kmem_group *g)
{
	(void)g;
	if (os_trylock(&groups.lock))
		os_unlock(&groups.lock);
	else
		++*(unsigned int *)nr;
}

/* A group that another thread ends stays until the walk is over. */
static void a_walk_holds_the_lock(void **state)
{
	struct kmem_group *g = group("walked", NULL);
	unsigned int nr = 0;

	(void)state;
	group_for_each(is_held, &nr);
	assert_true(nr >= 2);
	kmem_group_put(g);
}

static struct {
	struct kmem_cache *s;
	void *object; /* nobody is charged for its slab's */
	unsigned int nr;
} beside;

/* Who may not wait makes no array of owners while the lock is held. */
static void others_wait(void *unused, struct slab_cache *cache, uint32_t number)
{
	(void)unused, (void)cache, (void)number;
	beside.nr += !owner_make(&beside.s->sheaf.slab, beside.object, false);
}

/* A slab that another thread frees keeps its array until the walk has read it. */
static void a_walk_over_owners_holds_the_lock(void **state)
{
	struct kmem_group *g = group("owners", NULL);
	struct kmem_cache *s = make("owned", SIZE, SLAB_ACCOUNT | no_samples());
	void *object = kmem_cache_alloc_charged(s, GFP_KERNEL, g);

	(void)state;
	beside.s = make("beside", SIZE, SLAB_ACCOUNT | no_samples());
	beside.object = kmem_cache_alloc(beside.s, GFP_KERNEL);
	owner_for_each(others_wait, NULL);
	assert_int_equal(beside.nr, 1);
	assert_true(owner_make(&beside.s->sheaf.slab, beside.object, false));
	kmem_cache_free(beside.s, beside.object);
	kmem_cache_destroy(beside.s);
	kmem_cache_free(s, object);
	kmem_cache_destroy(s);
	kmem_group_put(g);
}

static struct {
	struct slab *page; /* of the object */
	atomic_bool locked;
} ending;

/* As the free of the slab does, between the walk's look at the page and its lock. */
static void *end_owners(void *unused)
{
	os_lock(&owners_lock);
	ending.locked = true;
	wait_until_first_sleeps();
	os_fetch_and(&ending.page->state, ~SLAB_OWNED);
	os_unlock(&owners_lock);
	return unused;
}

static void count_number(void *nr, struct slab_cache *cache, uint32_t number)
{
	(void)cache, (void)number;
	++*(unsigned int *)nr;
}

static void a_walk_leaves_out_owners_that_end(void **state)
{
	struct kmem_group *g = group("ending", NULL);
	struct kmem_cache *s = make("ending", SIZE, SLAB_ACCOUNT | no_samples());
	char *object = kmem_cache_alloc_charged(s, GFP_KERNEL, g);
	unsigned int before = 0, meanwhile = 0, after = 0;
	pthread_t thread;

	(void)state;
	ending.page = pages.slabs + ((size_t)(object - pages.base) >> OS_PAGE_SHIFT);
	owner_for_each(count_number, &before);
	assert_int_equal(pthread_create(&thread, NULL, end_owners, NULL), 0);
	while (!ending.locked)
		sched_yield();
	owner_for_each(count_number, &meanwhile);
	pthread_join(thread, NULL);
	assert_int_equal(meanwhile, before - 1);
	os_fetch_or(&ending.page->state, SLAB_OWNED);
	owner_for_each(count_number, &after);
	assert_int_equal(after, before);
	kmem_cache_free(s, object);
	kmem_cache_destroy(s);
	kmem_group_put(g);
}

static bool put_it(struct kmem_group *g, size_t bytes, void *data)
{
	(void)bytes, (void)data;
	kmem_group_put(g);
	return true;
}

static void reclaim_puts_the_group(void **state)
{
	struct kmem_group_args args = {.hard_limit = 1, .reclaim = put_it};
	struct kmem_group *g = group("put", NULL);
	struct kmem_cache *s = make("put", SIZE, SLAB_ACCOUNT);
	void *object = kmem_cache_alloc_charged(s, GFP_KERNEL, g);

	(void)state;
	assert_non_null(object);
	assert_int_not_equal(kmem_group_set_limits(g, &args), 0);
	assert_true(g->over);
	assert_true(g->hard == GROUP_NO_LIMIT);
	kmem_cache_free(s, object);
	assert_int_equal(kmem_group_verify(), 0);
	kmem_cache_destroy(s);
}

/* --- places that are used again --------------------------------------------------------------- */

static void places_are_used_again(void **state)
{
	static struct kmem_group *many[10 * GROUP_CHUNK];
	uint32_t places = 0;

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < 10 * GROUP_CHUNK; i++)
			many[i] = group("one of many", NULL);
		if (!round)
			places = groups.nr_places;
		for (unsigned int i = 0; i < 10 * GROUP_CHUNK; i++)
			kmem_group_put(many[i]);
	}
	assert_true(groups.nr_places < 2 * places + GROUP_CHUNK);
}

static unsigned int seen;

static void see(struct kmem_group *g, enum kmem_group_event event, uint64_t bytes, void *data)
{
	(void)g, (void)event, (void)bytes, (void)data;
	seen++;
}

/* If a group ends before its event is reported, no other group gets the event. */
static void no_event_of_the_group_before(void **state)
{
	struct kmem_group_args args = {.event = see};
	struct kmem_group *gone = group("gone", &args), *made[3 * GROUP_CHUNK], *g;
	unsigned int n = 0;

	(void)state;
	group_add_event(gone, KMEM_GROUP_HIGH);
	group_put(gone);
	groups.reap_at = 0;
	while (n < 3 * GROUP_CHUNK) {
		g = group_create("young", NULL, &args);
		assert_non_null(g);
		made[n++] = g;
		if (g == gone)
			break;
	}
	assert_ptr_equal(g, gone);
	group_leave();
	assert_int_equal(seen, 0);
	group_add_event(g, KMEM_GROUP_HIGH);
	group_leave();
	assert_int_equal(seen, 1);
	while (n > 0)
		kmem_group_put(made[--n]);
}

/* What was read of an object that another thread frees meanwhile may be any number. */
static void numbers_of_no_group(void **state)
{
	struct kmem_group *g = group("numbers", NULL);
	struct kmem_cache *s = make("numbers", SIZE, SLAB_ACCOUNT);
	void *object = kmem_cache_alloc_charged(s, GFP_KERNEL, g);
	uint32_t *at = account_place(s, object, false), number = *at;
	uint64_t objects;

	(void)state;
	*at = (1u << GROUP_PLACE_BITS) - 1;
	assert_int_equal(kmem_group_count_objects(g, &objects, NULL), 0);
	assert_int_equal(objects, 0);
	*at = number;
	kmem_cache_free(s, object);
	kmem_group_put(g);
	kmem_cache_destroy(s);
}

/* --- handles for stocks ----------------------------------------------------------------------- */

static unsigned int allowed;

/* These points are not refused, and then each one. */
static bool refuse_later(const char *point)
{
	(void)point;
	return !allowed || !allowed--;
}

/* The library has not been used before: the first handle begins the first row. */
static const char *first_handle;

static size_t place_of(const void *handle)
{
	return (size_t)((const char *)handle - first_handle) >> SLOT_SHIFT;
}

/* Leave this many handles in the first row. */
static void leave_handles(unsigned int n)
{
	const struct kmem_cache *s = make("fill", SIZE, 0);

	first_handle = (const char *)s;
	for (unsigned int i = 1; i < SLOTS_PER_ROW - n; i++) {
		s = make("fill", SIZE, 0);
		CHECK(place_of(s) == i);
	}
}

/* In a row with too few handles left for all stocks: they come from the next one, and caches get
 * those that were left. */
static void begin_at_the_end_of_a_row(void)
{
	struct kmem_group *g;

	leave_handles(3);
	g = kmem_group_create("made", NULL, NULL);
	CHECK(g);
	for (unsigned int i = 1; i < STOCK_SLOTS; i++)
		CHECK(stocks[i].handle == stocks[0].handle + i * sizeof(struct slot));
	CHECK(place_of(stocks[0].handle) >= SLOTS_PER_ROW);
	for (int i = 0; i < 3; i++)
		CHECK(place_of(make("left", SIZE, 0)) < SLOTS_PER_ROW);
	CHECK(place_of(make("next", SIZE, 0)) >= SLOTS_PER_ROW);
	kfree(kmalloc_charged(100, GFP_KERNEL, g));
	CHECK(kmem_group_verify() == 0);
}

/* The system refuses a new row, or whatever comes before it: the next attempt succeeds. */
static void begin_without_a_row(void)
{
	struct kmem_group *g;

	leave_handles(0);
	for (unsigned int n = 0; !stocks[0].handle; n++) {
		allowed = n;
		hook_fail_by(refuse_later);
		g = kmem_group_create("refused", NULL, NULL);
		hook_fail_by(NULL);
		CHECK(!g || stocks[0].handle);
		kmem_group_put(g);
	}
	g = kmem_group_create("made", NULL, NULL);
	CHECK(g);
	kfree(kmalloc_charged(100, GFP_KERNEL, g));
	CHECK(kmem_group_verify() == 0);
}

static void stocks_are_in_one_row(void **state)
{
	(void)state;
	assert_int_equal(in_child(begin_at_the_end_of_a_row), 0);
	assert_int_equal(in_child(begin_without_a_row), 0);
}

static void verify_finds_a_wrong_sum(void **state)
{
	struct kmem_group *g = group("wrong", NULL);
	struct capture captured;
	int faults;

	(void)state;
	g->usage += SIZE;
	capture_begin(&captured);
	faults = kmem_group_verify();
	g->usage -= SIZE;
	capture_end_deferred(&captured);
	assert_int_equal(faults, 2); /* the group's sum, and the root's */
	assert_non_null(strstr(captured.text, "group \"wrong\" is charged with 104 bytes"));
	assert_int_equal(kmem_group_verify(), 0);
	kmem_group_put(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stocks_are_in_one_row),
		cmocka_unit_test(verify_finds_a_wrong_sum),
		cmocka_unit_test(statistics_take_no_lock),
		cmocka_unit_test(a_walk_holds_the_lock),
		cmocka_unit_test(a_walk_over_owners_holds_the_lock),
		cmocka_unit_test(a_walk_leaves_out_owners_that_end),
		cmocka_unit_test(reclaim_puts_the_group),
		cmocka_unit_test(no_event_of_the_group_before),
		cmocka_unit_test(numbers_of_no_group),
		cmocka_unit_test(places_are_used_again),
	};

	return cmocka_run_group_tests_name("group-structures", tests, NULL, NULL);
}
