/* SPDX-License-Identifier: MIT */
/*
 * A seccomp filter that refuses one system call: the library goes on, or returns NULL.
 *
 * Each call is refused in a child of its own, before the library's first use or after it was used,
 * with EPERM and with ENOSYS. Two threads, made before, then do all that a program does; every
 * object carries its owner's stamp.
 *
 * Not among them: futex and rseq, without which the C library itself ends the process when a thread
 * waits or begins. What threads need to begin and end is why they do neither under the filter.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sheaf/slab.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "cache/cache.h"
#include "help.h"
#include "os/options.h"
#include "os/report.h"
#include "unit.h"

enum {
	THREADS = 2,
	OBJECTS = 1000,
	BULK = 200,
	NR_CACHES = 3,
	SECONDS = 20,
	MOST_LINES = 12
};

struct refusal {
	const char *name;
	int call;
	bool may_cost; /* caches and objects: there is no memory without it */
};

#define REFUSE(nr)                                                                                 \
	{                                                                                          \
		.name = #nr, .call = SYS_##nr                                                      \
	}
#define REFUSE_MEMORY(nr)                                                                          \
	{                                                                                          \
		.name = #nr, .call = SYS_##nr, .may_cost = true                                    \
	}

static const struct refusal refusals[] = {
	REFUSE_MEMORY(mmap),  REFUSE_MEMORY(mprotect),
	REFUSE(munmap),	      REFUSE(madvise),
	REFUSE(mbind),	      REFUSE(get_mempolicy),
	REFUSE(memfd_create), REFUSE(pwrite64),
	REFUSE(openat),	      REFUSE(read),
	REFUSE(write),	      REFUSE(close),
	REFUSE(membarrier),   REFUSE(sched_getaffinity),
	REFUSE(getcpu),	      REFUSE(prlimit64),
	REFUSE(getrandom),    REFUSE(nanosleep),
	REFUSE(sched_yield),
};

/* A small one, one whose slabs are large, and one that keeps nothing. */
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
	uintptr_t *objects[OBJECTS];
	size_t had;
};

static const struct refusal *refused;
static int refused_with;
static struct kmem_cache *made[NR_CACHES];
static struct worker workers[THREADS];
static pthread_barrier_t turn;

/* In every thread of this process: answer the call with the error. */
static void refuse(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)refused->call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)refused_with),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ==
	      0);
}

static uintptr_t stamp(struct worker *w, size_t i)
{
	return ~(uintptr_t)&w->objects[i];
}

static void free_all(struct worker *w, struct kmem_cache *s)
{
	for (size_t i = 0; i < w->had; i++) {
		CHECK(*w->objects[i] == stamp(w, i));
		*w->objects[i] = 0;
	}
	/* In two ways: one by one, and the rest together. */
	for (size_t i = 0; i < w->had / 2; i++)
		kmem_cache_free(s, w->objects[i]);
	kmem_cache_free_bulk(s, w->had - w->had / 2, (void **)&w->objects[w->had / 2]);
	w->had = 0;
}

static void allocate(struct worker *w, struct kmem_cache *s)
{
	size_t n = OBJECTS - BULK;

	while (w->had < n && (w->objects[w->had] = kmem_cache_alloc(s, GFP_KERNEL)) != NULL)
		w->had++;
	if (kmem_cache_alloc_bulk(s, GFP_KERNEL, BULK, (void **)&w->objects[w->had]))
		w->had += BULK;
	CHECK(w->had == OBJECTS || refused->may_cost);
	for (size_t i = 0; i < w->had; i++)
		*w->objects[i] = stamp(w, i);
}

/* Both threads have objects of the same cache at the same time, and free them at the same time. */
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

static void start(void)
{
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

/* Shifted, a cache may get what one of another kind left behind when it was destroyed. */
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
		CHECK(!made[c] || kmem_cache_verify(made[c]) <= 0);
}

static void end(void)
{
	for (int i = 0; i < NR_CACHES; i++) {
		create(i);
		all_use();
		verify();
		for (int c = 0; c < NR_CACHES; c++) {
			if (made[c])
				kmem_cache_shrink(made[c]);
			kmem_cache_destroy(made[c]);
			made[c] = NULL;
		}
	}
	CHECK(os_reports <= MOST_LINES);
}

static void at_the_start(void)
{
	start();
	refuse();
	end();
	if (refused->call == SYS_membarrier)
		CHECK(os.backend == OS_BACKEND_TRYLOCK &&
		      (os_options.backend_trylock || os_reports > 0));
}

static void after_use(void)
{
	start();
	create(0);
	all_use();
	for (int c = 0; c < NR_CACHES; c++)
		CHECK(made[c]);
	verify();
	refuse();
	end();
	if (refused->call == SYS_membarrier && os.backend == OS_BACKEND_RSEQ)
		CHECK(os_reports > 0);
}

static int run_one(void (*body)(void), struct told *told)
{
	int status;

	told_begin(told);
	status = in_child(body, SECONDS);
	told_end(told);
	return status;
}

static void refuse_each(void (*body)(void))
{
	static const int errors[] = {EPERM, ENOSYS};
	static struct told told;
	int failed = 0;

	for (size_t i = 0; i < 2 * sizeof(refusals) / sizeof(refusals[0]); i++) {
		int status;

		refused = &refusals[i / 2];
		refused_with = errors[i % 2];
		status = run_one(body, &told);
		if (status)
			print_error("%s refused (%s): status %#x\n%s", refused->name,
				    strerror(refused_with), (unsigned int)status, told.text);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused_at_the_start),
		cmocka_unit_test(refused_after_use),
	};

	return cmocka_run_group_tests_name("seccomp", tests, NULL, NULL);
}
