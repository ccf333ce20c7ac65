/* SPDX-License-Identifier: MIT */
/* The ranked lock: exclusion, try-lock, errno, and the rank assertion of debug builds. */
#include "os/lock.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/unit.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(excludes),
		cmocka_unit_test(trylock_fails_when_held),
		cmocka_unit_test(rising_ranks_only),
	};

	return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
