/* SPDX-License-Identifier: MIT */
/*
 * Blocks of the boot heap, which a plain program begins with: calls of libsheaf take them, they
 * outlive the boot heap's time, and a wrong free of one is found. Each in a child, whose heap still
 * serves.
 */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include <sheaf/debug.h>
#include <sheaf/group.h>
#include <sheaf/kmalloc.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>

#include "check.h"

/* Is it in the library's own data? */
static bool is_boot(const void *block)
{
	Dl_info info;

	return dladdr(block, &info) && strstr(info.dli_fname, "libsheaf-malloc");
}

static void *filled(size_t size, int byte)
{
	void *block = malloc(HIDDEN(size));

	CHECK(block && is_boot(block) && sheaf_owns(block));
	return memset(block, byte, malloc_usable_size(block));
}

static bool has(const char *block, size_t size, int byte)
{
	for (size_t i = 0; i < size; i++)
		if (block[i] != (char)byte)
			return false;
	return true;
}

/* Before libsheaf has begun, and after its own calls have begun it. */
static void sizes(void)
{
	char *block = filled(100, 1);

	CHECK(ksize(block) == malloc_usable_size(block) && ksize(block) >= 100);
	kfree(kmalloc(16, GFP_KERNEL));
	CHECK(ksize(block) == malloc_usable_size(block) && has(block, 100, 1));
	CHECK(kmem_cache_charge(block, GFP_KERNEL) && !kmem_group_of(block));
	block = krealloc(block, 60, GFP_KERNEL);
	CHECK(has(block, 60, 1));
	block = krealloc(block, 9000, GFP_KERNEL);
	CHECK(!is_boot(block) && has(block, 60, 1));
	free(block);
}

/* Without libsheaf's calls. */
static void plain(void)
{
	char *block = filled(120, 1), *again;

	free(block);
	again = calloc(HIDDEN((size_t)1), 120);
	CHECK(again == block && has(again, malloc_usable_size(again), 0));
	memset(again, 2, 120);
	block = realloc(again, HIDDEN((size_t)1000));
	CHECK(is_boot(block) && block != again && has(block, 120, 2));
	free(block);
}

static void frees(void)
{
	void *blocks[3] = {filled(20, 1), filled(200, 2), filled(2000, 3)};
	void *again;

	kfree(blocks[0]);
	again = filled(20, 4);
	CHECK(again == blocks[0]);
	kfree_bulk(3, blocks);
	kfree_sensitive(filled(500, 5));
	kvfree(filled(5000, 6));
	sheaf_rcu_none();
	kvfree_rcu_mightsleep(filled(300, 7));
	again = malloc(HIDDEN((size_t)300));
	CHECK(again);
	free(again);
}

static struct {
	struct sheaf_rcu_head *head;
	void (*func)(struct sheaf_rcu_head *head);
} waiting[16];
static unsigned int nr_waiting;

static void wait_for_readers(struct sheaf_rcu_head *head, void (*func)(struct sheaf_rcu_head *head))
{
	CHECK(nr_waiting < sizeof(waiting) / sizeof(*waiting));
	waiting[nr_waiting].head = head;
	waiting[nr_waiting++].func = func;
}

static void end_wait(void)
{
	for (unsigned int n = nr_waiting; n > 0; n--) {
		nr_waiting--;
		waiting[nr_waiting].func(waiting[nr_waiting].head);
	}
}

static char *retired(size_t size)
{
	static const struct sheaf_rcu_ops provider = {
		.size = sizeof(provider),
		.name = "readers",
		.call = wait_for_readers,
		.barrier = end_wait,
	};
	char *block = filled(size, 1);

	CHECK(!sheaf_rcu_register(&provider));
	kvfree_rcu_mightsleep(block);
	return block;
}

/* Readers of a retired block may ask for its size. */
static void readers(void)
{
	char *block = retired(200);

	CHECK(ksize(block) >= 200 && ksize(block) == malloc_usable_size(block));
	CHECK(sheaf_owns(block) && has(block, 200, 1));
	CHECK(filled(200, 2) != block);
	kvfree_rcu_barrier();
	CHECK(!malloc_usable_size(block));
	CHECK(filled(200, 3) == block);
}

static void *resizes(void *blocks)
{
	char **each = blocks;

	for (int i = 0; i < 20; i++) {
		each[i] = realloc(each[i], i % 2 ? 50 : 3000 + (size_t)i);
		CHECK(has(each[i], 50, i));
	}
	return NULL;
}

/* Blocks of the boot heap and of libsheaf beside each other, and threads that begin it. */
static void outlived(void)
{
	char *blocks[4][20];
	pthread_t threads[4];

	for (int t = 0; t < 4; t++)
		for (int i = 0; i < 20; i++)
			blocks[t][i] = filled(60 + (size_t)i, i);
	for (int t = 0; t < 4; t++)
		CHECK(!pthread_create(&threads[t], NULL, resizes, blocks[t]));
	for (int t = 0; t < 4; t++)
		CHECK(!pthread_join(threads[t], NULL));
	for (int t = 0; t < 4; t++)
		for (int i = 0; i < 20; i++)
			t % 2 ? free(blocks[t][i]) : kfree(blocks[t][i]);
	check_ours();
}

/* The heap is full long before: what is freed is used again by its size, also for alignments. */
static void many(void)
{
	for (size_t i = 0; i < 1000; i++) {
		void *small = malloc(HIDDEN(i % 700)),
		     *aligned = memalign(HIDDEN((size_t)64), i % 700);

		CHECK(small && aligned && (size_t)aligned % 64 == 0);
		memset(aligned, 1, i % 700);
		free(small);
		kfree(aligned);
	}
	churn(1, 1000);
	check_ours();
}

/* A child that forks before the first use of libsheaf begins it by itself. */
static void children(void)
{
	char *block = filled(100, 1);
	int status;

	if (fork() == 0) {
		churn(1, 1000);
		CHECK(has(block, 100, 1));
		free(block);
		check_ours();
		_exit(0);
	}
	CHECK(wait(&status) > 0 && !status);
	churn(1, 1000);
	CHECK(has(block, 100, 1));
	free(block);
}

/* One block, again and again: libsheaf is faster. */
static void often(void)
{
	size_t boots = 0;
	void *block;

	for (size_t i = 0; i < 5000; i++) {
		block = malloc(HIDDEN((size_t)100));
		boots += is_boot(block);
		free(block);
	}
	CHECK(boots > 4000 && boots <= 4096);
}

static void twice(void)
{
	void *block = filled(40, 1);

	free(block);
	free(HIDDEN(block));
}

static void inside(void)
{
	char *block = filled(400, 1);

	free(HIDDEN(block + 16));
}

static void resized_after(void)
{
	void *block = filled(40, 1);

	free(block);
	CHECK(!realloc(HIDDEN(block), 5000));
}

/* Of the block before: its size is no more what it was. */
static void overwritten(void)
{
	char *block = filled(24, 1), *next = filled(24, 2);

	memset(block, 0x41, HIDDEN((size_t)(next - block)) - 8);
	free(next);
}

static void twice_retired(void)
{
	free(HIDDEN(retired(40)));
}

static void resized_retired(void)
{
	CHECK(!krealloc(HIDDEN(retired(40)), 16, GFP_KERNEL));
}

static int status_of(void (*part)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(60);
		part();
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	return status;
}

int main(void)
{
	void (*const right[])(void) = {sizes,	 plain, frees, readers,
				       outlived, many,	often, children};
	void (*const wrong[])(void) = {twice,	    inside,	   resized_after,
				       overwritten, twice_retired, resized_retired};

	for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++)
		CHECK(status_of(right[i]) == 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		CHECK(WTERMSIG(status_of(wrong[i])) == SIGABRT);
	return 0;
}
