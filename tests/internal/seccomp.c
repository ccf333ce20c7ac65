/* SPDX-License-Identifier: MIT */
/*
 * A seccomp filter that refuses one system call, or one use of it: the library continues, or
 * returns NULL.
 *
 * Each call is refused in a separate child, before the first use of the library or after it, with
 * EPERM and with ENOSYS. Two threads, made before the filter, then use all calls of the library;
 * every object carries its owner's stamp.
 *
 * futex and rseq are not refused: without them the C library itself ends the process when a thread
 * waits or begins. Threads neither begin nor end under the filter, since they need further calls
 * for that.
 */
#include <errno.h>
#include <pthread.h>
#include <sheaf/stats.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cache/cache.h"
#include "internal/kit/shown.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/objects.h"
#include "kit/options.h"
#include "kit/process.h"
#include "kit/provider.h"
#include "kit/refuse.h"
#include "kit/unit.h"
#include "os/counters.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "os/report/report.h"

enum {
	THREADS = 2,
	OBJECTS = 1000,
	FEW_OBJECTS = 200, /* of a large size */
	NR_CACHES = 3,
	MOST_LINES = 12
};

struct refusal {
	const char *name;
	int call;
	uint32_t flags; /* mmap only with these; 0: in any case */
	bool may_cost;	/* caches and objects may fail: there is no memory without it */
};

#define REFUSE(nr)                                                                                 \
	{                                                                                          \
		.name = #nr, .call = SYS_##nr                                                      \
	}
#define REFUSE_MEMORY(nr)                                                                          \
	{                                                                                          \
		.name = #nr, .call = SYS_##nr, .may_cost = true                                    \
	}

/* Only mmap() for one purpose. */
#define REFUSE_MAP(what, with, cost)                                                               \
	{                                                                                          \
		.name = "mmap of " what, .call = SYS_mmap, .flags = with, .may_cost = cost         \
	}
#define ROWS	 (MAP_PRIVATE | MAP_FIXED)
#define COUNTERS (MAP_SHARED | MAP_FIXED)
#define OWN	 (MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS)

static const struct refusal refusals[] = {
	REFUSE_MEMORY(mmap),
	REFUSE_MEMORY(mprotect),
	REFUSE(munmap),
	REFUSE(madvise),
	REFUSE(mbind),
	REFUSE(get_mempolicy),
	REFUSE(memfd_create),
	REFUSE(pwrite64),
	REFUSE(openat),
	REFUSE(read),
	REFUSE(write),
	REFUSE(close),
	REFUSE(membarrier),
	REFUSE(sched_getaffinity),
	REFUSE(getcpu),
	REFUSE(prlimit64),
	REFUSE(getrandom),
	REFUSE(nanosleep),
	REFUSE(sched_yield),
	REFUSE(fallocate),
	REFUSE(ftruncate),
	REFUSE(flock),
	REFUSE(ppoll),
	REFUSE_MAP("rows", ROWS, true),
	REFUSE_MAP("counters", COUNTERS, true),
	REFUSE_MAP("a child's counters", OWN, true),
};

/* A cache of small objects, one with large slabs, and one without sheaves. */
static const struct {
	const char *name;
	size_t size;
	slab_flags_t flags;
} kinds[NR_CACHES] = {
	{"small", 64, SLAB_NO_MERGE},
	{"large", 3000, SLAB_NO_MERGE},
	{"bare", 200, SLAB_NO_MERGE | SLAB_NO_SHEAVES},
};

struct worker {
	pthread_t thread;
	unsigned int number;
	uint64_t *objects[OBJECTS];
	size_t had;
};

static const struct refusal *refused;
static int refused_with;
static struct kmem_cache *made[NR_CACHES];
static struct worker workers[THREADS];
static pthread_barrier_t turn;

/* In every thread of this process: let the call fail with the error. */
static void refuse(void)
{
	const struct scmp_arg_cmp flags =
		SCMP_A3(SCMP_CMP_MASKED_EQ, refused->flags, refused->flags);

	refuse_where(refused->call, refused_with, refused->flags != 0, &flags);
}

static void free_all(struct worker *w, struct kmem_cache *s)
{
	for (size_t i = 0; i < w->had; i++)
		CHECK(stamp_remove(w->objects[i], kmem_cache_size(s)));
	/* Free in two ways: one half one by one, and the rest together. */
	for (size_t i = 0; i < w->had / 2; i++)
		kmem_cache_free(s, w->objects[i]);
	kmem_cache_free_bulk(s, w->had - w->had / 2, (void **)&w->objects[w->had / 2]);
	w->had = 0;
}

static void allocate(struct worker *w, struct kmem_cache *s)
{
	size_t n = kmem_cache_size(s) < 1000 ? OBJECTS : FEW_OBJECTS, bulk = n / 5;

	while (w->had < n - bulk && (w->objects[w->had] = kmem_cache_alloc(s, GFP_KERNEL)) != NULL)
		w->had++;
	if (kmem_cache_alloc_bulk(s, GFP_KERNEL, bulk, (void **)&w->objects[w->had]))
		w->had += bulk;
	CHECK(w->had == n || refused->may_cost);
	for (size_t i = 0; i < w->had; i++)
		CHECK(stamp_put(w->objects[i], kmem_cache_size(s), w->number, i));
}

/* Both threads have objects of the same cache, and free them, at the same time. */
static void use(struct worker *w)
{
	for (int c = 0; c < NR_CACHES; c++) {
		if (!made[c])
			continue;
		allocate(w, made[c]);
		pthread_barrier_wait(&turn);
		if (w->number == 0)
			kmem_cache_shrink(made[c]);
		free_all(w, made[c]);
		pthread_barrier_wait(&turn);
	}
}

static void *work(void *argument)
{
	struct worker *w = argument;

	pin(w->number);
	pthread_barrier_wait(&turn);
	for (;;) {
		pthread_barrier_wait(&turn);
		use(w);
		pthread_barrier_wait(&turn);
	}
	return NULL;
}

static void path_of_file(char *path, size_t size)
{
	snprintf(path, size, "/dev/shm/libsheaf-%d", (int)getpid());
}

/* A killed process of the same number may have left one. */
static void remove_left_over(void)
{
	char path[64];

	path_of_file(path, sizeof(path));
	remove(path);
}

/* The file for other processes exists only if something is counted in it. */
static void check_file(void)
{
	char path[64];

	path_of_file(path, sizeof(path));
	CHECK(os_counters_head() || access(path, F_OK));
	/* A process that ends with _exit() leaves the file. */
	remove(path);
}

static void start(void)
{
	remove_left_over();
	CHECK(pthread_barrier_init(&turn, NULL, THREADS) == 0);
	pin(0);
	for (unsigned int i = 0; i < THREADS; i++)
		workers[i].number = i;
	for (unsigned int i = 1; i < THREADS; i++)
		CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
	pthread_barrier_wait(&turn);
}

/* This thread is the first worker. */
static void all_use(void)
{
	pthread_barrier_wait(&turn);
	use(&workers[0]);
	pthread_barrier_wait(&turn);
}

/* Without the other threads. */
static void all_use_here(void)
{
	for (int c = 0; c < NR_CACHES; c++) {
		allocate(&workers[0], made[c]);
		free_all(&workers[0], made[c]);
	}
}

/* With a shift, a cache may reuse memory of a destroyed cache of another kind. */
static void create(int shift)
{
	for (int c = 0; c < NR_CACHES; c++) {
		int k = (c + shift) % NR_CACHES;

		if (!made[c])
			made[c] = kmem_cache_create(kinds[k].name, kinds[k].size, NULL,
						    kinds[k].flags);
		CHECK(made[c] || refused->may_cost);
	}
}

static void verify(void)
{
	for (int c = 0; c < NR_CACHES; c++)
		if (made[c]) {
			CHECK(kmem_cache_verify(made[c]) <= 0);
			check_shown(made[c]);
		}
}

static void end(void)
{
	for (int i = 0; i < NR_CACHES; i++) {
		create(i);
		all_use();
		verify();
		for (int c = 0; c < NR_CACHES; c++) {
			if (!made[c])
				continue;
			kmem_cache_shrink(made[c]);
			kmem_cache_destroy(made[c]);
			/* Whichever call was refused, the cache is gone, and so are its slots. */
			CHECK(!made[c]->name);
			made[c] = NULL;
		}
	}
	CHECK(os_reports <= MOST_LINES);
	check_file();
}

static void at_the_start(void)
{
	start();
	refuse();
	end();
	if (refused->call == SYS_membarrier)
		CHECK(os.backend == OS_BACKEND_TRYLOCK);
}

static void after_use(void)
{
	bool drains;

	start();
	create(0);
	all_use();
	for (int c = 0; c < NR_CACHES; c++)
		CHECK(made[c]);
	drains = os.backend == OS_BACKEND_RSEQ && sheaf_capacity(&made[0]->sheaf);
	verify();
	refuse();
	end();
	if (refused->call == SYS_membarrier && drains)
		CHECK(os_reports > 0);
}

static size_t address_space(void)
{
	size_t pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	CHECK(file && fscanf(file, "%zu", &pages) == 1);
	fclose(file);
	return pages;
}

/*
 * A failed attempt leaves nothing behind: the hundredth attempt has the same memory as the first.
 */
static void rows_refused(void)
{
	size_t before = 0;

	if (!ask_for_many_rows())
		return;
	remove_left_over();
	refuse();
	for (int i = 0; i < 100; i++) {
		CHECK(!kmem_cache_create("refused", 64, NULL, SLAB_NO_MERGE));
		CHECK(os_counters_areas() == 0);
		if (i == 1)
			before = address_space();
	}
	CHECK(address_space() == before);
	check_file();
}

static struct {
	struct kmem_cache *s; /* destroyed */
	void *object;	      /* of it, in use */
} leaked;

static void forked_child(void)
{
	struct kmem_cache_stats stats;

	/* Its calls were chosen anew. */
	CHECK(!kmem_cache_alloc(leaked.s, GFP_KERNEL));
	kmem_cache_free(leaked.s, leaked.object);
	all_use_here();
	verify();
	CHECK(kmem_cache_stats(made[0], &stats) == 0);
	CHECK(!stats.counted && !os.counting);
	CHECK(kmem_cache_create("of the child", 64, NULL, SLAB_NO_MERGE));
}

/* The library cannot see whether standard error would take a line immediately: the line waits for a
 * call that may wait. */
static void no_look_at_standard_error(void)
{
	static char foreign[64];

	refuse();
	os_report_later("a line");
	os_report_kept_nowait();
	CHECK(os_reports_kept == 1);
	kfree(foreign);
	/* It wrote its own line, for which any call may wait; the deferred one still belongs to
	 * another thread. */
	CHECK(os_reports == 2 && os_reports_kept == 1);
}

/* The child cannot have counters of its own, and does not change the parent's, not even by the
 * retired objects that it queues first. */
static void own_counters_refused(void)
{
	struct kmem_cache_stats before, after;

	start();
	create(0);
	provider_register();
	leaked.s = kmem_cache_create("leaked", 64, NULL, SLAB_NO_MERGE);
	leaked.object = kmem_cache_alloc(leaked.s, GFP_KERNEL);
	CHECK(leaked.object);
	kmem_cache_destroy(leaked.s);
	all_use();
	kmem_cache_free_rcu(made[0], kmem_cache_alloc(made[0], GFP_KERNEL));
	refuse();
	CHECK(kmem_cache_stats(made[0], &before) == 0);
	CHECK(in_child(forked_child) == 0);
	CHECK(kmem_cache_stats(made[0], &after) == 0);
	CHECK(memcmp(&before, &after, sizeof(before)) == 0);
	end();
}

static int run_one(void (*body)(void), struct capture *captured)
{
	int status;

	capture_begin(captured);
	status = in_child(body);
	capture_end(captured);
	return status;
}

static void refuse_each(void (*body)(void))
{
	static const int errors[] = {EPERM, ENOSYS};
	static struct capture captured;
	int failed = 0;

	for (size_t i = 0; i < 2 * sizeof(refusals) / sizeof(refusals[0]); i++) {
		int status;

		refused = &refusals[i / 2];
		refused_with = errors[i % 2];
		status = run_one(body, &captured);
		if (status)
			print_error("%s refused (%s): status %#x\n%s", refused->name,
				    strerror(refused_with), (unsigned int)status, captured.text);
		failed += status != 0;
	}
	assert_int_equal(failed, 0);
}

static void refused_at_the_start(void **state)
{
	(void)state;
	refuse_each(at_the_start);
}

static void refused_after_use(void **state)
{
	(void)state;
	refuse_each(after_use);
}

static const struct refusal *refusal_of(int call, uint32_t flags)
{
	const struct refusal *one = refusals;

	while (one->call != call || one->flags != flags)
		one++;
	return one;
}

static void check_refused(int call, uint32_t flags, void (*body)(void))
{
	static struct capture captured;
	int status;

	refused = refusal_of(call, flags);
	refused_with = ENOMEM;
	status = run_one(body, &captured);
	if (status)
		print_error("status %#x\n%s", (unsigned int)status, captured.text);
	assert_int_equal(status, 0);
}

static void half_made_rows_go(void **state)
{
	(void)state;
	check_refused(SYS_mmap, ROWS, rows_refused);
}

static void child_without_memory_does_not_count(void **state)
{
	(void)state;
	if (!strstr(getenv("SHEAF_OPTIONS") ? getenv("SHEAF_OPTIONS") : "", "stats"))
		skip();
	check_refused(SYS_mmap, OWN, own_counters_refused);
}

static void lines_stay_kept_that_might_wait(void **state)
{
	(void)state;
	check_refused(SYS_ppoll, 0, no_look_at_standard_error);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_made_rows_go),
		cmocka_unit_test(child_without_memory_does_not_count),
		cmocka_unit_test(lines_stay_kept_that_might_wait),
		cmocka_unit_test(refused_at_the_start),
		cmocka_unit_test(refused_after_use),
	};

	return cmocka_run_group_tests_name("seccomp", tests, NULL, NULL);
}
