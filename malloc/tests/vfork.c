/* SPDX-License-Identifier: MIT */
/*
 * Children of vfork() that allocate, beside threads that allocate on every CPU: such a child has no
 * rseq area, and its parent has one again later.
 */
#include <pthread.h>
#include <stdint.h>
#include <sys/rseq.h>
#include <sys/wait.h>

#include "check.h"

enum {
	THREADS = 4,
	CHILDREN = 50
};

static unsigned int stop;

/* Has this thread an rseq area? */
static bool is_registered(void)
{
	const struct rseq *area = (void *)((char *)__builtin_thread_pointer() + __rseq_offset);

	return (int32_t)__atomic_load_n(&area->cpu_id, __ATOMIC_RELAXED) >= 0;
}

static void *allocate(void *seed)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		churn((unsigned int)(uintptr_t)seed, 500);
	return NULL;
}

int main(void)
{
	bool sections = strstr(getenv("SHEAF_OPTIONS"), "backend=rseq");
	pthread_t threads[THREADS];
	int status;

	check_ours();
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, allocate, (void *)i));
	for (unsigned int i = 0; i < CHILDREN; i++) {
		pid_t child = vfork();

		if (!child) {
			if (sections && is_registered())
				_exit(2);
			churn(i, 200);
			if (i % 2)
				_exit(0);
			execl("/bin/true", "true", (char *)NULL);
			_exit(3);
		}
		CHECK(child > 0 && waitpid(child, &status, 0) == child);
		CHECK(status == 0);
		CHECK(!sections || is_registered());
		churn(i, 200);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	return 0;
}
