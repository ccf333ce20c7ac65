/* SPDX-License-Identifier: MIT */
/* Shrinkers of programs that were built with an older header or a newer one; wrong ones; several
 * threads. */
#include <errno.h>
#include <pthread.h>
#include <sheaf/shrinker.h>
#include <sheaf/trim.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "kit/capture.h"
#include "kit/check.h"
#include "kit/process.h"
#include "kit/unit.h"

/* Members that later headers may have. */
struct newer {
	struct shrinker known;
	void *unknown[20];
};

struct newer_control {
	struct shrink_control known;
	uint64_t unknown[20];
};

static struct capture captured;
static unsigned int scans;

static unsigned long one(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker, (void)sc;
	return 1;
}

static unsigned long scan(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker;
	assert_int_equal(sc->nr_to_scan, 1);
	scans++;
	return 1;
}

/* Its program sees members that the library lacks: they are zero, and it may write to them. */
static unsigned long scan_newer(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct newer_control *newer = (struct newer_control *)(void *)sc;

	for (unsigned int i = 0; i < 20; i++)
		assert_int_equal(newer->unknown[i], 0);
	assert_null(((struct newer *)(void *)shrinker)->unknown[19]);
	memset(newer->unknown, 0xff, sizeof(newer->unknown));
	return scan(shrinker, sc);
}

static struct shrinker *alloc(size_t size, size_t control_size)
{
	struct shrinker *shrinker = __shrinker_alloc(size, control_size, 0, "%s", "versions");

	if (shrinker) {
		shrinker->count_objects = one;
		shrinker->scan_objects = scan;
	}
	return shrinker;
}

static void scans_at_trim(struct shrinker *shrinker)
{
	scans = 0;
	shrinker_register(shrinker);
	sheaf_trim(0);
	assert_int_equal(scans, 1);
	shrinker_free(shrinker);
	sheaf_trim(0);
	assert_int_equal(scans, 1);
}

static void of_this_version(void **state)
{
	struct shrinker *shrinker = shrinker_alloc(SHRINKER_NUMA_AWARE, "now");

	(void)state;
	assert_non_null(shrinker);
	assert_int_equal(shrinker->seeks, DEFAULT_SEEKS);
	shrinker->count_objects = one;
	shrinker->scan_objects = scan;
	scans_at_trim(shrinker);
}

static void of_an_older_one(void **state)
{
	(void)state;
	scans_at_trim(alloc(offsetof(struct shrinker, batch),
			    offsetof(struct shrink_control, nr_scanned)));
}

static void of_a_newer_one(void **state)
{
	struct shrinker *shrinker = alloc(sizeof(struct newer), sizeof(struct newer_control));

	(void)state;
	assert_non_null(shrinker);
	shrinker->scan_objects = scan_newer;
	scans_at_trim(shrinker);
}

static void unknown_members_are_refused(void **state)
{
	struct newer *newer = (struct newer *)(void *)alloc(sizeof(*newer), 32);

	(void)state;
	assert_non_null(newer);
	newer->unknown[19] = newer;
	scans = 0;
	capture_begin(&captured);
	shrinker_register(&newer->known);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "shrinker_register(versions): it has a member"));
	sheaf_trim(0);
	assert_int_equal(scans, 0);
	newer->unknown[19] = NULL;
	scans_at_trim(&newer->known);
}

static void sizes_of_no_version(void **state)
{
	static const size_t sizes[][2] = {{sizeof(struct shrinker) - 1, 32},
					  {sizeof(struct shrinker), 33},
					  {1 << 20, 32},
					  {sizeof(struct shrinker), 1 << 20}};

	(void)state;
	errno = 4242;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		capture_begin(&captured);
		assert_null(alloc(sizes[i][0], sizes[i][1]));
		assert_int_equal(capture_end(&captured), 1);
		assert_non_null(strstr(captured.text, "shrinker_alloc(versions): no version"));
	}
	assert_int_equal(errno, 4242);
}

static void freed_twice(void **state)
{
	struct shrinker *shrinker = alloc(sizeof(struct shrinker), sizeof(struct shrink_control));
	struct shrinker *others[2];

	(void)state;
	shrinker_register(shrinker);
	shrinker_free(shrinker);
	capture_begin(&captured);
	shrinker_free(shrinker);
	shrinker_register(shrinker);
	assert_int_equal(capture_end(&captured), 2);
	assert_non_null(strstr(captured.text, "the shrinker was freed before"));
	/* The library's memory was not given twice. */
	for (int i = 0; i < 2; i++)
		others[i] = alloc(sizeof(struct shrinker), sizeof(struct shrink_control));
	assert_ptr_not_equal(others[0], others[1]);
	for (int i = 0; i < 2; i++)
		shrinker_free(others[i]);
}

static struct shrinker *held;
static atomic_int was_freed;

static void *frees(void *unused)
{
	shrinker_free(held);
	atomic_store(&was_freed, 1);
	return unused;
}

/* A reference keeps the memory of a shrinker, which is called no more, and makes its free wait. */
static void references(void **state)
{
	pthread_t thread;

	(void)state;
	held = alloc(sizeof(struct shrinker), sizeof(struct shrink_control));
	assert_false(shrinker_try_get(NULL));
	assert_false(shrinker_try_get(held)); /* not registered */
	shrinker_register(held);
	assert_true(shrinker_try_get(held));
	assert_true(shrinker_try_get(held));
	atomic_store(&was_freed, 0);
	pthread_create(&thread, NULL, frees, NULL);
	while (shrinker_try_get(held)) /* until it is being freed */
		shrinker_put(held);
	scans = 0;
	sheaf_trim(0);
	assert_int_equal(scans, 0);
	assert_ptr_equal(held->scan_objects, scan);
	shrinker_put(held);
	assert_int_equal(atomic_load(&was_freed), 0);
	shrinker_put(held);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&was_freed), 1);
	held = alloc(sizeof(struct shrinker), sizeof(struct shrink_control));
	shrinker_register(held);
	capture_begin(&captured);
	shrinker_put(held);
	shrinker_put(NULL);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "no reference is held"));
	shrinker_free(held);
}

/* In a callback the free cannot wait: the memory is that of the last reference. */
static unsigned long count_and_free(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)sc;
	shrinker_free(shrinker);
	return 0;
}

static void freed_in_its_callback_and_held(void **state)
{
	(void)state;
	held = alloc(sizeof(struct shrinker), sizeof(struct shrink_control));
	held->count_objects = count_and_free;
	shrinker_register(held);
	assert_true(shrinker_try_get(held));
	sheaf_trim(0);
	assert_false(shrinker_try_get(held));
	assert_ptr_equal(held->count_objects, count_and_free);
	shrinker_put(held);
	held = alloc(sizeof(struct shrinker), sizeof(struct shrink_control));
	shrinker_free(held);
}

static void without_callbacks(void **state)
{
	struct shrinker *shrinker = alloc(sizeof(struct shrinker), sizeof(struct shrink_control));

	(void)state;
	capture_begin(&captured);
	shrinker->scan_objects = NULL;
	shrinker_register(shrinker);
	shrinker->count_objects = NULL;
	shrinker_register(shrinker);
	assert_int_equal(capture_end(&captured), 2);
	assert_non_null(strstr(captured.text, "(versions): scan_objects is NULL"));
	assert_non_null(strstr(captured.text, "(versions): count_objects is NULL"));
	shrinker_free(shrinker);
}

static unsigned long stop(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker, (void)sc;
	return SHRINK_STOP;
}

/* It says that it scanned more than it was asked for. */
static unsigned long scan_more(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker;
	sc->nr_scanned = 10;
	scans++;
	return 1;
}

static void odd_answers(void **state)
{
	struct shrinker *shrinker = alloc(sizeof(struct shrinker), sizeof(struct shrink_control));

	(void)state;
	scans = 0;
	shrinker->scan_objects = scan_more;
	shrinker_register(shrinker);
	sheaf_trim(0);
	assert_int_equal(scans, 1);
	shrinker->count_objects = stop;
	sheaf_trim(0);
	assert_int_equal(scans, 1);
	shrinker_free(shrinker);
}

/* --- several threads -------------------------------------------------------------------------- */

enum {
	THREADS = 20 /* more than may run shrinkers at the same time */
};

static atomic_uint entered;
static atomic_bool go_on;

/* In each thread's call, until told to go on. */
static unsigned long wait_inside(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker, (void)sc;
	entered++;
	while (!go_on)
		usleep(100);
	return 1;
}

static void *trim(void *unused)
{
	sheaf_trim(0);
	entered += THREADS;
	return unused;
}

static void *free_it(void *shrinker)
{
	shrinker_free(shrinker);
	return NULL;
}

/* Those that find no room to run them go on without; the last of the others frees it. */
static void many_threads(void **state)
{
	struct shrinker *shrinker = alloc(sizeof(struct shrinker), sizeof(struct shrink_control));
	pthread_t threads[THREADS], other;

	(void)state;
	entered = 0;
	go_on = false;
	shrinker->scan_objects = wait_inside;
	shrinker_register(shrinker);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, trim, NULL), 0);
	/* Each is inside, or has ended. */
	while (entered % THREADS + entered / THREADS < THREADS)
		usleep(100);
	assert_true(entered >= THREADS);
	assert_int_equal(pthread_create(&other, NULL, free_it, shrinker), 0);
	usleep(1000);
	go_on = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_join(other, NULL);
}

/* --- fork ------------------------------------------------------------------------------------- */

/* Its memory is free: the next one has it, in a process that runs on one CPU. */
static bool was_returned(void)
{
	return alloc(sizeof(struct shrinker), sizeof(struct shrink_control)) == held;
}

static void put_in_child(void)
{
	CHECK(!was_returned());
	shrinker_put(held);
	CHECK(was_returned());
}

static void return_in_child(void)
{
	CHECK(was_returned());
}

static void begin_free(pthread_t *thread)
{
	assert_int_equal(pthread_create(thread, NULL, frees, NULL), 0);
	while (shrinker_try_get(held))
		shrinker_put(held);
}

/* The thread that waits to free a shrinker is not in the child: the last reference frees it. */
static void held_across_fork(void **state)
{
	pthread_t thread;

	(void)state;
	held = alloc(sizeof(struct shrinker), sizeof(struct shrink_control));
	shrinker_register(held);
	assert_true(shrinker_try_get(held));
	begin_free(&thread);
	assert_int_equal(in_child(put_in_child), 0);
	shrinker_put(held);
	pthread_join(thread, NULL);
}

static unsigned long free_and_wait(struct shrinker *shrinker, struct shrink_control *sc)
{
	shrinker_free(shrinker);
	return wait_inside(shrinker, sc);
}

/* Nor is the thread in its callback, for which that one waits, or which freed it. */
static void run_across_fork(void **state)
{
	pthread_t runs, thread;

	(void)state;
	for (int in_callback = 0; in_callback < 2; in_callback++) {
		entered = 0;
		go_on = false;
		held = alloc(sizeof(struct shrinker), sizeof(struct shrink_control));
		held->scan_objects = in_callback ? free_and_wait : wait_inside;
		shrinker_register(held);
		assert_int_equal(pthread_create(&runs, NULL, trim, NULL), 0);
		while (!entered)
			usleep(100);
		if (!in_callback)
			begin_free(&thread);
		assert_int_equal(in_child(return_in_child), 0);
		go_on = true;
		pthread_join(runs, NULL);
		if (!in_callback)
			pthread_join(thread, NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_this_version),
		cmocka_unit_test(of_an_older_one),
		cmocka_unit_test(of_a_newer_one),
		cmocka_unit_test(unknown_members_are_refused),
		cmocka_unit_test(sizes_of_no_version),
		cmocka_unit_test(freed_twice),
		cmocka_unit_test(references),
		cmocka_unit_test(freed_in_its_callback_and_held),
		cmocka_unit_test(without_callbacks),
		cmocka_unit_test(odd_answers),
		cmocka_unit_test(many_threads),
		cmocka_unit_test(held_across_fork),
		cmocka_unit_test(run_across_fork),
	};

	pin(0);
	return cmocka_run_group_tests_name("shrinker", tests, NULL, NULL);
}
