/* SPDX-License-Identifier: MIT */
/*
 * Handlers of fork() that allocate and free, some registered before anything was allocated: these
 * run while the library is locked. Without other threads the lock of all streams is free in the
 * child, too.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "check.h"

/* Of glibc; another thread can take it only if this one does not have it. */
extern void _IO_list_lock(void);
extern void _IO_list_unlock(void);

enum {
	EACH = 24
};

static void *kept[EACH];
static int phases;

/* Of many sizes, some of them new; in all less than the boot heap has. */
static void work(size_t from)
{
	void *blocks[EACH];

	for (size_t i = 0; i < EACH; i++) {
		blocks[i] = malloc(HIDDEN(from + i * 7 % 500));
		CHECK(blocks[i]);
		memset(blocks[i], 1, from);
	}
	for (size_t i = 0; i < EACH; i++) {
		blocks[i] = realloc(blocks[i], from + 600);
		CHECK(blocks[i]);
	}
	for (size_t i = 0; i < EACH; i++)
		free(blocks[i]);
	for (size_t i = 0; i < EACH; i++)
		free(kept[i]);
	for (size_t i = 0; i < EACH; i++)
		kept[i] = calloc(1, HIDDEN((size_t)48));
	phases++;
}

static void before(void)
{
	work(30);
}

static void in_parent(void)
{
	work(130);
}

static void in_child(void)
{
	work(230);
}

/* Before all constructors. */
static void very_early(int argc, char **argv, char **environment)
{
	(void)argc, (void)argv, (void)environment;
	pthread_atfork(before, in_parent, in_child);
}
static void (*const early)(int, char **, char **)
	__attribute__((section(".preinit_array"), used)) = very_early;

static void *takes_lock(void *unused)
{
	_IO_list_lock();
	_IO_list_unlock();
	return unused;
}

int main(void)
{
	check_ours();
	pthread_atfork(before, in_parent, in_child);
	for (int i = 0; i < 300; i++) {
		int status;
		pid_t pid = fork();

		if (!pid) {
			pthread_t thread;

			alarm(300);
			CHECK(phases % 4 == 0);
			churn(1, 100);
			CHECK(!pthread_create(&thread, NULL, takes_lock, NULL));
			CHECK(!pthread_join(thread, NULL));
			_exit(0);
		}
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && !status);
		CHECK(phases % 4 == 0);
		churn((unsigned int)i, 200);
	}
	for (size_t i = 0; i < EACH; i++)
		free(kept[i]);
	return 0;
}
