/* SPDX-License-Identifier: MIT */
/*
 * kmalloc() without memory: at first use, for caches, runs and mappings. Each part runs in a new
 * image of this program, under a limit on its addresses or its data.
 */
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/capture.h"
#include "kit/check.h"
#include "kit/needs.h"
#include "kit/options.h"
#include "kit/parts.h"
#include "kit/process.h"
#include "kit/unit.h"

enum {
	MAX = 1 << 21
};

static void **blocks;

static size_t allocate(size_t size, gfp_t flags, size_t n)
{
	while (n < MAX && (blocks[n] = kvmalloc(size, flags)) != NULL)
		*(size_t *)blocks[n++] = size;
	CHECK(n < MAX);
	return n;
}

static size_t free_down_to(size_t n, size_t to)
{
	for (; n > to; n--) {
		CHECK(*(size_t *)blocks[n - 1] <= ksize(blocks[n - 1]));
		kvfree(blocks[n - 1]);
	}
	return n;
}

/* Memory of small blocks can be used for large ones, and the reverse. */
static void all_sizes(void)
{
	static const size_t sizes[] = {100, 3000, 20000, 300000, 3 << 20, 64};
	size_t first = 0;

	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			size_t n = allocate(sizes[i], GFP_NOWAIT, 0), again;

			CHECK(n > 0);
			n = allocate(sizes[i], GFP_KERNEL, n);
			free_down_to(n, n / 2);
			again = allocate(sizes[i], GFP_KERNEL, n / 2);
			CHECK(again >= n - n / 50);
			free_down_to(again, 0);
			if (i == 0 && round == 0)
				first = n;
			if (i == 0)
				CHECK(n >= first - first / 10);
		}
}

/* No memory at the first use: NULL, and no crash; later all calls succeed. */
static void first_use_fails(void)
{
	struct rlimit limit, none;

	CHECK(getrlimit(RLIMIT_DATA, &limit) == 0);
	/* Not 0: a soft limit of 0 is taken as the hard limit. */
	none = (struct rlimit){1, limit.rlim_max};
	CHECK(setrlimit(RLIMIT_DATA, &none) == 0);
	for (int i = 0; i < 3; i++) {
		CHECK(kmalloc(100, GFP_KERNEL) == NULL);
		CHECK(kmalloc(100000, GFP_KERNEL) == NULL);
		CHECK(kvmalloc(10 << 20, GFP_NOWAIT) == NULL);
		CHECK(kmem_buckets_create("none", 0, 0, 0, NULL) == NULL);
		CHECK(kstrdup("text", GFP_KERNEL) == NULL);
		CHECK(kasprintf(GFP_KERNEL, "%d", i) == NULL);
		CHECK(vmalloc(100) == NULL);
		CHECK(kstrdup_const((char[]){"a"}, GFP_KERNEL) == NULL);
		CHECK(kstrdup_const("constant", GFP_KERNEL) != NULL);
		kfree(NULL);
	}
	CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
	for (size_t size = 8; size <= 4 << 20; size *= 2) {
		void *p = kvmalloc(size, GFP_KERNEL);

		CHECK(p && ksize(p) >= size);
		kvfree(p);
	}
}

static char *filled_block(void)
{
	char *p = kmalloc(100000, GFP_KERNEL);

	CHECK(p);
	return memset(p, 0x3c, 100000);
}

/* A block that cannot move to a smaller one stays where it is, and no thread waits for that. */
static void shrink_fails(void)
{
	char *p = filled_block();
	size_t n = allocate(200000, GFP_KERNEL, 0);

	if (has_debug_letter('Z'))
		return; /* then a red zone follows the smaller size */
	n = allocate(64, GFP_KERNEL, n);
	CHECK(krealloc(p, 64, GFP_KERNEL | __GFP_NOFAIL) == p);
	CHECK(p[63] == 0x3c && p[99999] == 0x3c);
	CHECK(krealloc(p, 64, GFP_KERNEL | __GFP_ZERO) == p);
	CHECK(p[63] == 0x3c && p[64] == 0 && p[99999] == 0);
	free_down_to(n, 0);
	p = krealloc(p, 64, GFP_KERNEL);
	CHECK(p && ksize(p) == 64 && p[63] == 0x3c);
	kfree(p);
}

/* A block that cannot grow stays. */
static void resize_fails(void)
{
	char *p = filled_block();
	size_t n = allocate(200000, GFP_KERNEL, 0);

	CHECK(kvrealloc(p, 300000, GFP_KERNEL) == NULL);
	CHECK(kvrealloc(p, 30 << 20, GFP_NOWAIT) == NULL);
	for (int i = 0; i < 100000; i++)
		CHECK(p[i] == 0x3c);
	free_down_to(n, n - 4);
	p = kvrealloc(p, 300000, GFP_KERNEL);
	CHECK(p && p[99999] == 0x3c);
	kvfree(p);
	free_down_to(n - 4, 0);
}

/* Free objects in caches become slabs of another one, if the caller may wait for that. */
static void caches_give_back(void)
{
	size_t n = allocate(8000, GFP_KERNEL, 0);

	free_down_to(n, 0);
	no_more_memory();
	n = allocate(KMALLOC_MAX_CACHE_SIZE, GFP_KERNEL, 0);
	CHECK(n > 5);
	free_down_to(n, 0);
}

/* A node's range is full, but a mapping fits beside it: not for a call that names the node and
 * takes no other memory. */
static void this_node_is_full(void)
{
	size_t n = 0;

	while (n < MAX && (blocks[n] = kmalloc_node(KMALLOC_MAX_CACHE_SIZE,
						    GFP_KERNEL | __GFP_THISNODE, 0)) != NULL)
		n++;
	CHECK(n > 0 && n < MAX - 2);
	blocks[n] = kmalloc_node(KMALLOC_MAX_CACHE_SIZE, GFP_KERNEL, 0);
	CHECK(blocks[n++]);
	blocks[n] = kmalloc_node(KMALLOC_MAX_CACHE_SIZE, GFP_KERNEL | __GFP_THISNODE, NUMA_NO_NODE);
	CHECK(blocks[n++]);
	while (n > 0)
		kfree(blocks[--n]);
}

static const struct part parts[] = {
	{"all-sizes", all_sizes}, {"first-use", first_use_fails},  {"resize", resize_fails},
	{"shrink", shrink_fails}, {"give-back", caches_give_back}, {"this-node", this_node_is_full},
};

static void under_limits(void **state)
{
	static struct capture captured;

	(void)state;
	needs(NEED_SLABS); /* the addresses of guarded blocks are reserved */
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		struct rlimit limit = {(rlim_t)160 << 20, (rlim_t)160 << 20};
		int status = -1;
		pid_t child;

		capture_begin(&captured);
		child = fork();
		if (child == 0) {
			setrlimit(RLIMIT_AS, &limit);
			start_again(parts[i].name);
		}
		waitpid(child, &status, 0);
		capture_end(&captured);
		if (status)
			print_error("%s: status %#x\n%s", parts[i].name, (unsigned int)status,
				    captured.text);
		assert_int_equal(status, 0);
	}
}

static int run(const char *name)
{
	blocks = mmap(NULL, MAX * sizeof(void *), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(blocks != MAP_FAILED);
	return run_part(parts, sizeof(parts) / sizeof(parts[0]), name);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(under_limits),
	};

	if (argc > 1)
		return run(argv[1]);
	return cmocka_run_group_tests_name("kmalloc-oom", tests, NULL, NULL);
}
