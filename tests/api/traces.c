/* SPDX-License-Identifier: MIT */
/* Inspecting caches in use: validation, who allocated and freed, leaks at exit. */
#include <errno.h>
#include <pthread.h>
#include <sheaf/debug.h>
#include <sheaf/kmalloc.h>
#include <sheaf/rcu.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kit/blocks.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/hooks.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/unit.h"

/* These letters, whatever slab_debug gives to others. */
#define FZPU                                                                                       \
	(SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON | SLAB_STORE_USER |                 \
	 SLAB_NO_USER_FLAGS)

enum {
	OBJECTS = 500,
	ROUNDS = 200
};

static struct capture captured;
static char text[1 << 20];

static __attribute__((noinline)) void *once(struct kmem_cache *s)
{
	void *object = kmem_cache_alloc(s, GFP_KERNEL);

	assert_non_null(object);
	return object;
}

static void free_all(struct kmem_cache *s, void **objects, int n)
{
	kmem_cache_free_bulk(s, (size_t)n, objects);
	kmem_cache_destroy(s);
}

/* --- validation ------------------------------------------------------------------------------- */

static void one_fault(struct kmem_cache *s, int faults, const char *what, const char *fix)
{
	capture_begin(&captured);
	assert_int_equal(kmem_cache_validate(s), faults);
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, what));
	assert_non_null(strstr(captured.text, fix));
	assert_non_null(strstr(captured.text, "Found by kmem_cache_validate("));
}

static void finds_what_was_overwritten(void **state)
{
	struct kmem_cache *s = make("validated", 32, FZPU);
	char *objects[OBJECTS];

	(void)state;
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, OBJECTS, (void **)objects), OBJECTS);
	for (int i = 0; i < OBJECTS; i++)
		memset(objects[i], i, 32);
	assert_int_equal(kmem_cache_validate(s), 0);
	/* For an object in use: again and again, because it is left alone. */
	objects[7][32] = 1;
	one_fault(s, 1, "Right Redzone overwritten", "nothing was changed");
	one_fault(s, 1, "Right Redzone overwritten", "nothing was changed");
	objects[7][32] = (char)0xcc;
	objects[8][-1] = 1;
	one_fault(s, 1, "Left Redzone overwritten", "nothing was changed");
	objects[8][-1] = (char)0xcc;
	assert_int_equal(kmem_cache_validate(s), 0);
	/* For a free one: once. */
	kmem_cache_free(s, objects[9]);
	objects[9][3] = 1;
	one_fault(s, 1, "Poison overwritten", "the poison was restored, and the object stays free");
	assert_int_equal(kmem_cache_validate(s), 0);
	objects[9] = kmem_cache_alloc(s, GFP_KERNEL);
	assert_int_equal(kmem_cache_verify(s), 0);
	free_all(s, (void **)objects, OBJECTS);
}

static void caches_without_letters(void **state)
{
	struct kmem_cache *s = make("plain", 32, SLAB_NO_USER_FLAGS);
	void *objects[OBJECTS];

	(void)state;
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, OBJECTS, objects), OBJECTS);
	assert_int_equal(kmem_cache_validate(s), 0);
	kmem_cache_free_bulk(s, OBJECTS, objects);
	assert_int_equal(kmem_cache_validate(s), 0);
	kmem_cache_destroy(s);
	capture_begin(&captured);
	assert_int_equal(kmem_cache_validate(s), -EINVAL);
	assert_int_equal(kmem_cache_print_traces(s, 1, SHEAF_ALLOC_TRACES, SHEAF_STATS_TEXT),
			 -EINVAL);
	assert_int_equal(capture_end(&captured), 2);
}

/* --- with threads ----------------------------------------------------------------------------- */

static uint32_t stop;

static void *use(void *cache)
{
	struct kmem_cache *s = cache;
	void *objects[64], *blocks[16];
	unsigned int seed = (unsigned int)(uintptr_t)&objects;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		int n = 1 + rand_r(&seed) % 64;

		CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, (size_t)n, objects) == n);
		for (int i = 0; i < n; i++)
			memset(objects[i], n, 32);
		for (int i = 0; i < 16; i++) {
			/* A long gap behind the request, which takes long to check. */
			blocks[i] = kmalloc(4200, GFP_KERNEL);
			blocks[i] = krealloc(blocks[i], 4300, GFP_KERNEL);
			memset(blocks[i], 1, 4300);
			blocks[i] = krealloc(blocks[i], 4250, GFP_KERNEL);
		}
		for (int i = 0; i < n; i++)
			if (i % 2)
				kmem_cache_free_nolock(s, objects[i]);
			else
				kmem_cache_free(s, objects[i]);
		for (int i = 0; i < 16; i++)
			kfree(blocks[i]);
	}
	return NULL;
}

static void *come_and_go(void *unused)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		struct kmem_cache *s = make("brief", 48, FZPU);

		kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
		kmem_cache_destroy(s);
	}
	return unused;
}

/* No faults are found where there are none, no object is lost, and no thread waits (TRACES-R1). */
static void others_go_on(void **state)
{
	struct kmem_cache *caches_used[] = {make("used", 32, FZPU), make("used plain", 32, 0)};
	int file = memfd_create("traces", MFD_CLOEXEC);
	/* Each guarded object waits for the process's address space, and so does each round. */
	int rounds = has_debug_letter('S') ? ROUNDS / 20 : ROUNDS;
	pthread_t threads[5];

	(void)state;
	capture_begin(&captured);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, use, caches_used[i % 2]);
	pthread_create(&threads[4], NULL, come_and_go, NULL);
	for (int i = 0; i < rounds; i++) {
		CHECK(kmem_cache_validate(caches_used[i % 2]) == 0);
		CHECK(ftruncate(file, 0) == 0);
		CHECK(kmem_cache_print_traces(NULL, file, (enum sheaf_traces)(i % 2),
					      SHEAF_STATS_JSON) == 0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 5; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(capture_end(&captured), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(kmem_cache_verify(caches_used[i]), 0);
		kmem_cache_destroy(caches_used[i]);
	}
	close(file);
}

/* --- traces ----------------------------------------------------------------------------------- */

static const char *print(struct kmem_cache *s, enum sheaf_traces which,
			 enum sheaf_stats_format format)
{
	int file = memfd_create("traces", MFD_CLOEXEC);
	ssize_t length;

	assert_int_equal(kmem_cache_print_traces(s, file, which, format), 0);
	length = pread(file, text, sizeof(text) - 1, 0);
	assert_true(length > 0);
	text[length] = '\0';
	close(file);
	return text;
}

static void groups_by_stack(void **state)
{
	struct kmem_cache *s = make("traced", 32, FZPU);
	volatile int n = 30; /* one call in a loop */
	void *objects[33];

	(void)state;
	objects[30] = once(s);
	for (int i = 0; i < n; i++)
		objects[i] = once(s);
	/* Neither free ones count, nor those that wait for a grace period. */
	objects[31] = once(s);
	objects[32] = once(s);
	kmem_cache_free(s, objects[31]);
	print(s, SHEAF_ALLOC_TRACES, SHEAF_STATS_TEXT);
	assert_non_null(strstr(text,
			       "# traced: 32 objects in use, by the stack that allocated them\n"
			       "      30 objects, 960 bytes, age="));
	assert_non_null(strstr(text, "       1 object, 32 bytes, age="));
	print(s, SHEAF_FREE_TRACES, SHEAF_STATS_TEXT);
	assert_non_null(strstr(text, "      32 objects never freed before\n"));
	objects[31] = once(s);
	print(s, SHEAF_FREE_TRACES, SHEAF_STATS_TEXT);
	assert_non_null(strstr(text, "       1 object, 32 bytes, age="));
	print(s, SHEAF_ALLOC_TRACES, SHEAF_STATS_JSON);
	assert_non_null(strstr(
		text, "[{\"cache\": \"traced\", \"objects\": 33, \"unknown\": 0, "
		      "\"further\": 0, \"missed_slabs\": 0, \"guarded\": false, \"traces\": [\n "
		      "{\"objects\": 30, \"bytes\": 960, \"age_min_ms\": "));
	print(NULL, SHEAF_ALLOC_TRACES, SHEAF_STATS_JSON);
	assert_non_null(strstr(text, "{\"cache\": \"traced\", "));
	free_all(s, objects, 33);
}

static void wrong_calls(void **state)
{
	struct kmem_cache *s = make("untraced", 32, SLAB_CONSISTENCY_CHECKS | SLAB_NO_USER_FLAGS);

	(void)state;
	assert_int_equal(kmem_cache_print_traces(s, 1, SHEAF_ALLOC_TRACES, SHEAF_STATS_TEXT),
			 -ENOTSUP);
	assert_int_equal(kmem_cache_print_traces(s, 1, SHEAF_ALLOC_TRACES, SHEAF_STATS_PROMETHEUS),
			 -EINVAL);
	assert_int_equal(kmem_cache_print_traces(s, 1, (enum sheaf_traces)2, SHEAF_STATS_TEXT),
			 -EINVAL);
	assert_int_equal(kmem_cache_print_traces(NULL, -1, SHEAF_ALLOC_TRACES, SHEAF_STATS_JSON),
			 -EBADF);
	kmem_cache_destroy(s);
}

/* More stacks than there are groups: the others are counted. */
static void *deep(struct kmem_cache *s, unsigned int path, int depth)
{
	void *object;

	if (!depth)
		return kmem_cache_alloc(s, GFP_KERNEL);
	if (path & 1)
		object = deep(s, path >> 1, depth - 1);
	else
		object = deep(s, path >> 1, depth - 1);
	__asm__ volatile("" : "+r"(object) : "r"(path)); /* no tail call, and two calls */
	return object;
}

static void many_stacks(void **state)
{
	struct kmem_cache *s = make("deep", 32, SLAB_STORE_USER | SLAB_NO_USER_FLAGS);
	enum {
		PATHS = 5000
	};
	static void *objects[PATHS];
	unsigned long all = 0;

	(void)state;
	for (unsigned int i = 0; i < PATHS; i++) {
		objects[i] = deep(s, i, 13);
		assert_non_null(objects[i]);
	}
	print(s, SHEAF_ALLOC_TRACES, SHEAF_STATS_TEXT);
	assert_non_null(strstr(text, "# deep: 5000 objects in use"));
	for (char *line = text; (line = strchr(line, '\n')) != NULL && *++line;)
		if (!strncmp(line, "  ", 2) && strncmp(line, "         ", 9) != 0)
			all += strtoul(line, NULL, 10);
	assert_true(all == PATHS || strlen(text) == sizeof(text) - 1);
	free_all(s, objects, PATHS);
}

/* --- leaks at exit ---------------------------------------------------------------------------- */

/* The part of this name, in a new image of the program. */
static void leave_objects(void)
{
	struct kmem_cache *s = make("leaky", 32, FZPU),
			  *plain = make("leaky plain", 48, SLAB_NO_USER_FLAGS);
	void *returned = kmem_cache_alloc(plain, GFP_KERNEL);

	CHECK(kmem_cache_alloc(s, GFP_KERNEL) && kmem_cache_alloc(plain, GFP_KERNEL));
	kmem_cache_free(plain, returned);
}

static void leaks(void)
{
	CHECK(setenv("SHEAF_OPTIONS", "leaks", 1) == 0);
	start_again("leaks");
}

static void leaks_are_reported_at_exit(void **state)
{
	int status;

	(void)state;
	capture_begin(&captured);
	status = in_child(leaks);
	capture_end(&captured);
	needs_image(status);
	assert_int_equal(status, 0);
	assert_non_null(strstr(captured.text,
			       "libsheaf: LEAK leaky: 1 object of 32 bytes in use at exit, by the "
			       "stack that allocated them:\n1 object of 32 bytes, such as 0x"));
	assert_non_null(strstr(captured.text,
			       "libsheaf: LEAK leaky plain: 1 object of 48 bytes in use "
			       "at exit; slab_debug=U shows"));
}

static unsigned int mapped;

static bool count_mapped(const char *point)
{
	mapped += !strcmp(point, "mmap");
	return false;
}

static unsigned int mapped_for_all(void)
{
	int file = memfd_create("traces", MFD_CLOEXEC);

	mapped = 0;
	hook_fail_by(count_mapped);
	assert_int_equal(kmem_cache_print_traces(NULL, file, SHEAF_ALLOC_TRACES, SHEAF_STATS_TEXT),
			 0);
	hook_fail_by(NULL);
	close(file);
	return mapped;
}

static void caches_share_memory_for_groups(void **state)
{
	struct kmem_cache *caches[10];
	unsigned int before = mapped_for_all();

	(void)state;
	for (int i = 0; i < 10; i++)
		caches[i] = make("shares", 64, FZPU);
	assert_int_equal(mapped_for_all(), before);
	for (int i = 0; i < 10; i++)
		kmem_cache_destroy(caches[i]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_what_was_overwritten),
		cmocka_unit_test(caches_without_letters),
		cmocka_unit_test(groups_by_stack),
		cmocka_unit_test(caches_share_memory_for_groups),
		cmocka_unit_test(wrong_calls),
		cmocka_unit_test(many_stacks),
		cmocka_unit_test(leaks_are_reported_at_exit),
		cmocka_unit_test(others_go_on),
	};

	(void)argv;
	if (argc > 1) {
		leave_objects();
		return 0;
	}
	/* A sanitizer would end the program at the first misuse. */
	hook_leave_tools();
	return cmocka_run_group_tests_name("traces", tests, NULL, NULL);
}
