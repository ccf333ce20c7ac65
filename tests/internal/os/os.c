/* SPDX-License-Identifier: MIT */
/* The smaller parts of src/os: the ranked lock, sorting, kernel versions, memory pressure. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/process.h"
#include "kit/random.h"
#include "kit/unit.h"
#include "os/linux/linux.h"
#include "os/lock.h"
#include "os/pressure.h"
#include "os/sort.h"

/* --- the ranked lock -------------------------------------------------------------------------- */

enum {
	THREADS = 4,
	ROUNDS = 50000
};

static struct os_lock shared = OS_LOCK_INIT(OS_RANK_NODE);
static unsigned long counter;

static void *count_under_lock(void *unused)
{
	(void)unused;
	for (int i = 0; i < ROUNDS; i++) {
		os_lock(&shared);
		counter++;
		os_unlock(&shared);
	}
	return NULL;
}

static void excludes(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count_under_lock, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(counter, (unsigned long)THREADS * ROUNDS);
	assert_false(os_lock_held(&shared));
}

static void trylock_fails_when_held(void **state)
{
	struct os_lock lock = OS_LOCK_INIT(OS_RANK_NODE);

	(void)state;
	errno = 77;
	assert_true(os_trylock(&lock));
	assert_true(os_lock_held(&lock));
	assert_false(os_trylock(&lock));
	os_unlock(&lock);
	assert_true(os_trylock(&lock));
	os_unlock(&lock);
	assert_int_equal(errno, 77);
}

static int child_status(enum os_rank first, enum os_rank second)
{
	struct os_lock a, b;
	pid_t child = fork();
	int status;

	if (child == 0) {
		os_lock_init(&a, first);
		os_lock_init(&b, second);
		os_lock(&a);
		os_lock(&b);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void rising_ranks_only(void **state)
{
	(void)state;
	/* LOCK-L1 */
	assert_int_equal(child_status(OS_RANK_NODE, OS_RANK_PAGES), 0);
#ifdef SHEAF_DEBUG
	assert_true(WIFSIGNALED(child_status(OS_RANK_PAGES, OS_RANK_NODE)));
	assert_true(WIFSIGNALED(child_status(OS_RANK_NODE, OS_RANK_NODE)));
#endif
}

/* --- sorting, without memory ------------------------------------------------------------------ */

#define MOST  300
#define WORDS 3

static int by_first(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Every word of an element moves with it. */
static void sort_elements(size_t n, size_t words)
{
	static uint64_t seed = 1, at[MOST * WORDS];
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		at[i * words] = random_below(&seed, 100);
		for (size_t k = 1; k < words; k++)
			at[i * words + k] = at[i * words] + k;
		sum += at[i * words];
	}
	os_sort(at, n, words * sizeof(*at), by_first);
	for (size_t i = 0; i < n; i++) {
		assert_true(!i || at[(i - 1) * words] <= at[i * words]);
		for (size_t k = 1; k < words; k++)
			assert_int_equal(at[i * words + k], at[i * words] + k);
		sum -= at[i * words];
	}
	assert_int_equal(sum, 0);
}

static void sorts(void **state)
{
	(void)state;
	for (size_t n = 0; n < 20; n++)
		sort_elements(n, 1);
	sort_elements(MOST, 1);
	sort_elements(MOST, WORDS);
}

/* --- versions of the kernel that lose aborts on AArch64, as distributions write them ---------- */

static const char *const good_releases[] = {
	"2.6.32-754.el6.x86_64",
	"4.18.0-553.el8_10.aarch64",
	"5.15.0-1051-raspi",
	"6.1.0-50-arm64",
	"6.1.19",
	"6.6.31+rpt-rpi-v8",
	"6.8.0-1019-aws",
	"6.12.48+deb13-arm64",
	"6.12.0-124.8.1.el10_1.aarch64",
	"6.18",
	"6.18.19",
	"6.18.44-fc-v669",
	"6.18-rc7",
	"6.20.1",
	"6.190.0",
	"7.0.14",
	"7.0.14+deb14-arm64",
	"7.0.14-300.fc44.aarch64",
	"7.0.14-rc1",
	"7.0.113",
	"7.0.20-1-ARCH",
	"7.1",
	"7.1.0",
	"7.1.0-14-generic",
	"7.1.0-arch1-1",
	"7.1.0-1-MANJARO-ARM",
	"7.1-src",
	"7.1.3-rc1",
	"7.2-rc1",
	"7.2.12+deb14-arm64",
	"7.10.0",
	"7.19.0",
	"8.0.0",
	"16.19.0",
	"17.0.0",
	"70.0.1",
	"99999999999999999999.0",
	"",
	".",
	"6",
	"6.",
	"-7.0.1",
	" 7.0.1",
	"v7.0.1",
	"next-20260401",
};

static const char *const bad_releases[] = {
	"6.19",
	"6.19.0",
	"6.19-rc1",
	"6.19.0-rc8+",
	"6.19.0-0.rc4.260105g1234abcd.34.fc44.aarch64",
	"6.19.0-061900rc3-generic",
	"6.19.9-061909-generic-64k",
	"6.19.11+deb14-arm64",
	"6.19.14",
	"6.19.99-v8+",
	"7",
	"7.0",
	"7.0-rc1",
	"7.0.0",
	"7.0.0-14-generic",
	"7.0.0-1004-raspi",
	"7.0.0-070000rc1-generic",
	"7.0.1-arch1-1",
	"7.0.9+deb14-arm64",
	"7.0.10-300.fc44.aarch64+64k",
	"7.0.13",
	"7.0.13-v8-16k+",
	"7.1-rc1",
	"7.1.0-rc7",
	"7.1.0-rc7-next-20260601",
	"7.1.0-0.rc3.260501gabcdef012345.31.fc45.aarch64",
	"7.1.0-070100rc2-generic",
};

static void versions(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(good_releases) / sizeof(*good_releases); i++)
		if (release_loses_aborts(good_releases[i]))
			fail_msg("\"%s\" is taken for a bad version", good_releases[i]);
	for (size_t i = 0; i < sizeof(bad_releases) / sizeof(*bad_releases); i++)
		if (!release_loses_aborts(bad_releases[i]))
			fail_msg("\"%s\" is taken for a good version", bad_releases[i]);
}

/* --- the trigger of this system, if it reports memory pressure -------------------------------- */

static bool tells(void)
{
	return access("/proc/pressure/memory", R_OK | W_OK) == 0 && os_pressure_begin();
}

static void ask(void)
{
	os_pressure_in_child();
	CHECK(!os_pressure_seen());
	CHECK(os_pressure_begin());
	os_pressure_seen();
}

static void it_is_set_and_looked_at(void **state)
{
	(void)state;
	if (!tells())
		skip();
	assert_true(os_pressure_begin()); /* once is enough */
	os_pressure_seen();
	assert_int_equal(in_child(ask), 0);
}

/* As when a program becomes a daemon: the descriptor with this number is now the program's. */
static void closed_by_the_program(void **state)
{
	int highest = -1, files[64];

	(void)state;
	if (!tells())
		skip();
	for (int file = 3; file < 1024; file++)
		close(file);
	assert_false(os_pressure_seen());
	for (unsigned int i = 0; i < 64; i++)
		files[i] = highest = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 90);
	assert_true(highest > 100);
	assert_false(os_pressure_seen());
	os_pressure_in_child();
	for (unsigned int i = 0; i < 64; i++)
		assert_int_equal(close(files[i]), 0);
	assert_true(os_pressure_begin());
}

/* The number of the trigger's file. */
static int trigger_file(void)
{
	char name[64], path[256];

	for (int file = 100; file < 1024; file++) {
		ssize_t length;

		snprintf(name, sizeof(name), "/proc/self/fd/%d", file);
		length = readlink(name, path, sizeof(path) - 1);
		path[length < 0 ? 0 : length] = '\0';
		if (strstr(path, "pressure"))
			return file;
	}
	return -1;
}

/* A file without a trigger is what is left when the control group was removed. */
static void it_is_set_again(void **state)
{
	int file, without;

	(void)state;
	if (!tells())
		skip();
	file = trigger_file();
	without = open("/proc/pressure/memory", O_RDWR | O_CLOEXEC);
	assert_true(file >= 100 && without >= 0);
	if (dup2(without, file) != file || close(without))
		fail();
	assert_false(os_pressure_seen());
	assert_int_equal(fcntl(file, F_GETFD), -1);
	assert_true(os_pressure_begin());
	assert_true(trigger_file() >= 100);
}

static void *look_cancelled(void *goes_on)
{
	pthread_cancel(pthread_self());
	os_pressure_in_child();
	os_pressure_begin();
	os_pressure_seen();
	*(bool *)goes_on = true;
	return NULL;
}

/* It would block a round of housekeeping forever, and fork() would wait for it. */
static void no_thread_is_cancelled_there(void **state)
{
	bool goes_on = false;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, look_cancelled, &goes_on), 0);
	pthread_join(thread, NULL);
	assert_true(goes_on);
}

int test_os(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(excludes),
		cmocka_unit_test(trylock_fails_when_held),
		cmocka_unit_test(rising_ranks_only),
		cmocka_unit_test(sorts),
		cmocka_unit_test(versions),
		cmocka_unit_test(it_is_set_and_looked_at),
		cmocka_unit_test(closed_by_the_program),
		cmocka_unit_test(it_is_set_again),
		cmocka_unit_test(no_thread_is_cancelled_there),
	};

	return cmocka_run_group_tests_name("os", tests, NULL, NULL);
}
