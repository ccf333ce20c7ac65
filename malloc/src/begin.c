/* SPDX-License-Identifier: MIT */
/*
 * First use, in two steps. Each is one thread's, the worker; the others wait.
 *
 *   start   by the first call of any thread, or by the constructor: find out whether the program
 *           has an allocator of its own. Then the boot heap serves it.
 *   begin   by the first call that the boot heap does not serve: initialise libsheaf. That is when
 *           the heap is full or has served BOOT_CALLS, a second thread has started, or
 *           SHEAF_OPTIONS asks for anything.
 *
 * What the worker allocates meanwhile, directly or through the C library, comes from the boot heap.
 * A thread that forks is the worker, too, so that no other one is within a step.
 *
 * Invariants
 *  BEGIN-B1. Handlers of fork() are registered before there is a worker.
 */
#include <stdlib.h>
#include <sys/single_threaded.h>

#include "boot.h"
#include "entry.h"
#include "percpu/barn/budget.h"

/*
 * What sheaves may hold for each CPU that runs the program: about what other allocators with caches
 * for each CPU allow. With the 16 KiB that the library allows, threads that hand over batches take
 * up to 1.5 times the CPU time; with twice as much, programs hold 1 % more.
 */
#define SHEAVES_EACH_CPU (3 << 20)

/*
 * Slabs of small blocks have 16 KiB at least. Slabs of a page for different sizes alternate, so
 * that blocks of one size are spread over more memory: lua, perl and larson take 2 to 5 % more CPU
 * time. Pages of a slab are resident only when they are used.
 */
#define SMALL_ORDER 2

uint32_t malloc_state, malloc_checks_sizes;

static uintptr_t worker; /* a number of the thread; 0: none */
static uint32_t asked;	 /* there are options */
static uint32_t served;	 /* calls by the boot heap, of the only thread */
static uint32_t handled; /* BEGIN-B1 */

bool malloc_work(void)
{
	uintptr_t self = os_self(), nobody = 0;

	while (!os_cmpxchg(&worker, &nobody, self)) {
		if (nobody == self)
			return false;
		nobody = 0;
		os_sleep_briefly();
	}
	return true;
}

void malloc_work_done(void)
{
	os_store_release(&worker, 0);
}

/* Before the C library's constructor, the environment is empty: when_loaded() looks again. */
static void find_options(void)
{
	const char *options = secure_getenv("SHEAF_OPTIONS");

	os_store_relaxed(&asked, options && *options);
}

static void start(void)
{
	bool aside = malloc_is_foreign() && malloc_step_aside();

	caches.boot = &boot_heap;
	os_wrong_pointer_ends = !aside; /* begin() knows options */
	find_options();
	os_store_release(&malloc_state, aside ? MALLOC_ASIDE : MALLOC_BOOT);
}

static void begin(void)
{
	caches.free_call = "free";
	page_sheaves_each_cpu = SHEAVES_EACH_CPU;
	slab_small_order = SMALL_ORDER;
	if (!kmalloc_ready(GFP_KERNEL))
		return;
	/* Until the first round counts those that run: most programs have one thread. */
	os_store_relaxed(&decay_time.cpus, 1);
	sheaf_budget_follow();
	malloc_checks_sizes = os_options.check_sizes;
	os_wrong_pointer_ends = !os_options.keep_going;
	os_store_release(&malloc_state, MALLOC_OPEN);
}

/* Take this step, if it is the next one, and this thread is not within one. */
static void advance(uint32_t from, void (*step)(void))
{
	OS_KEEP_ERRNO;

	if (os_load_acquire(&malloc_state) != from)
		return;
	if (!os_load_acquire(&handled)) {
		malloc_handle_forks();
		os_store_release(&handled, 1);
	}
	if (!malloc_work())
		return;
	if (os_load_acquire(&malloc_state) == from)
		step();
	malloc_work_done();
}

bool malloc_boots(void)
{
	advance(MALLOC_NEW, start);
	return os_load_acquire(&malloc_state) == MALLOC_BOOT && !os_load_relaxed(&asked) &&
	       __libc_single_threaded && served++ < BOOT_CALLS;
}

bool malloc_is_open(void)
{
	uint32_t state;

	advance(MALLOC_NEW, start);
	advance(MALLOC_BOOT, begin);
	state = os_load_acquire(&malloc_state);
	return state == MALLOC_OPEN || (state == MALLOC_FORKS && !malloc_forks_here());
}

static __attribute__((constructor(102))) void when_loaded(void)
{
	find_options();
	if (!malloc_boots())
		malloc_is_open();
}
