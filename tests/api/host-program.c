/* SPDX-License-Identifier: MIT */
/*
 * What a host program may do to the library (docs/design.md, R14): limits, cancellation, fork and
 * misuse.
 *
 * Each case runs in a child of its own, because most are about the library's first use: the parent
 * never uses it.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kit/cache.h"
#include "kit/check.h"
#include "kit/hooks.h"
#include "kit/options.h"
#include "kit/process.h"
#include "kit/unit.h"

static void limit(int resource, rlim_t value)
{
	struct rlimit both;

	CHECK(getrlimit(resource, &both) == 0);
	both.rlim_cur = value;
	CHECK(setrlimit(resource, &both) == 0);
}

static struct kmem_cache *used_cache(const char *name)
{
	struct kmem_cache *s = kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
	void *object;

	CHECK(s);
	object = kmem_cache_alloc(s, GFP_KERNEL);
	CHECK(object);
	kmem_cache_free(s, object);
	return s;
}

/* Writing to a file in memory would raise SIGXFSZ. */
static void no_file_may_be_written(void)
{
	limit(RLIMIT_FSIZE, 0);
	kmem_cache_destroy(used_cache("a"));
}

/* The set of CPUs must not be derived from the CPUs on which this thread may run. */
static void nothing_can_be_opened(void)
{
	struct kmem_cache *s;

	pin(0);
	limit(RLIMIT_NOFILE, 0);
	s = used_cache("a");
	CHECK((long)library().cpus >= sysconf(_SC_NPROCESSORS_CONF));
	for (unsigned int cpu = 0; pin(cpu); cpu++) {
		void *object;

		object = kmem_cache_alloc(s, GFP_KERNEL);
		CHECK(object);
		kmem_cache_free(s, object);
	}
	CHECK(kmem_cache_verify(s) == 0);
	CHECK(kmem_cache_shrink(s) == 0);
}

/* Valgrind maps the stack itself, and cannot do so under a limit. */
static __attribute__((noinline)) void grow_stack(void)
{
	volatile char stack[64 << 10];

	for (size_t at = 0; at < sizeof(stack); at += 4096)
		stack[at] = 0;
}

/* The first attempt fails, the second one has the memory that it needs. */
static void memory_comes_back(void)
{
	struct rlimit before;

	CHECK(getrlimit(RLIMIT_AS, &before) == 0);
	grow_stack();
	limit(RLIMIT_AS, 1 << 20);
	CHECK(!kmem_cache_create("a", 64, NULL, 0));
	CHECK(setrlimit(RLIMIT_AS, &before) == 0);
	kmem_cache_destroy(used_cache("a"));
}

static void *create_cancelled(void *unused)
{
	(void)unused;
	pthread_cancel(pthread_self());
	used_cache("cancelled");
	return NULL;
}

static void *destroy_cancelled(void *s)
{
	pthread_cancel(pthread_self());
	kmem_cache_destroy(s);
	return NULL;
}

static void run_thread(void *(*body)(void *), void *argument)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, body, argument) == 0);
	pthread_join(thread, NULL);
}

/* A thread that ends inside the library leaves no lock held. */
static void threads_are_cancelled(void)
{
	struct kmem_cache *live;

	run_thread(create_cancelled, NULL);
	live = used_cache("live");
	CHECK(kmem_cache_alloc(live, GFP_KERNEL));
	run_thread(destroy_cancelled, live);
	kmem_cache_destroy(used_cache("after"));
}

static void a_destroyed_cache_is_used(void)
{
	struct kmem_cache *s = used_cache("a");
	void *objects[3];
	unsigned int before;
	int local;

	kmem_cache_destroy(s);
	before = hook_reports();
	CHECK(!kmem_cache_alloc(s, GFP_KERNEL));
	CHECK(hook_reports() - before == 1);
	kmem_cache_free(s, &local);
	CHECK(hook_reports() - before == 2);
	kmem_cache_destroy(s);
	CHECK(hook_reports() - before == 3);
	CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, 3, objects) == 0);
	CHECK(hook_reports() - before == 4);
	objects[0] = &local;
	kmem_cache_free_bulk(s, 1, objects);
	CHECK(hook_reports() - before == 5);
	CHECK(!kmem_cache_alloc_node(s, GFP_KERNEL, 0));
	CHECK(hook_reports() - before == 6);
	kmem_cache_shrink(s);
	CHECK(kmem_cache_set_sheaf_capacity(s, 9) == -EINVAL);
	CHECK(kmem_cache_set_barn(s, 9, 9) == -EINVAL);
	CHECK(hook_reports() - before == 9);
}

/* GFP_NOWAIT may not reclaim from other CPUs, whether the compiler knows the flags or not. */
static void nowait_does_not_reclaim(void)
{
	struct kmem_cache *s = make("a", 4096, no_samples());
	void *objects[4];

	if (!pin(1))
		return;
	for (int i = 0; i < 4; i++)
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
	for (int i = 0; i < 4; i++)
		kmem_cache_free(s, objects[i]);
	pin(0);
	no_more_memory();
	while (kmem_cache_alloc(s, GFP_NOWAIT))
		;
	/* With mm_cid, a lone thread has one slot on every CPU; with CPU numbers, the slot of the
	 * other CPU is still full. */
	if (is_trylock() && look(s).sheaf_capacity)
		CHECK(kmem_cache_alloc(s, GFP_KERNEL));
}

struct ring {
	int value;
	struct ring *self;
};

static void make_ring(void *object)
{
	struct ring *ring = object;

	ring->self = ring;
}

/* A constructed object may hold pointers to itself: the compiler must not assume otherwise. */
static void a_constructed_object_points_to_itself(void)
{
	struct kmem_cache *s =
		kmem_cache_create("ring", sizeof(struct ring), 0, SLAB_NO_MERGE, make_ring);
	struct ring *ring = kmem_cache_alloc(s, GFP_KERNEL);

	CHECK(ring);
	ring->value = 1;
	ring->self->value = 2;
	CHECK(ring->value == 2);
}

#define CHILD_TEST(body)                                                                           \
	static void test_##body(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		assert_int_equal(in_child(body), 0);                                               \
	}

CHILD_TEST(no_file_may_be_written)
CHILD_TEST(nothing_can_be_opened)
CHILD_TEST(memory_comes_back)
CHILD_TEST(threads_are_cancelled)
CHILD_TEST(a_destroyed_cache_is_used)
CHILD_TEST(nowait_does_not_reclaim)
CHILD_TEST(a_constructed_object_points_to_itself)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_file_may_be_written),
		cmocka_unit_test(test_nothing_can_be_opened),
		cmocka_unit_test(test_memory_comes_back),
		cmocka_unit_test(test_threads_are_cancelled),
		cmocka_unit_test(test_a_destroyed_cache_is_used),
		cmocka_unit_test(test_nowait_does_not_reclaim),
		cmocka_unit_test(test_a_constructed_object_points_to_itself),
	};

	return cmocka_run_group_tests_name("host-program", tests, NULL, NULL);
}
