/* SPDX-License-Identifier: MIT */
/*
 * The first use: by the first call of any thread, or by the constructor if there was none. In this
 * order: find out whether the program has an allocator of its own; initialise libsheaf, whose fork
 * handlers are registered then; register ours; open.
 *
 * What this thread allocates meanwhile, directly or through the C library, comes from the boot
 * heap. Other threads wait. If the thread that begins vanishes by fork(), the first call in the
 * child begins again.
 */
#include <pthread.h>

#include "entry.h"

uint32_t malloc_state, malloc_checks_sizes;

static uintptr_t beginner; /* a number of the thread; 0: nobody begins */

static void after_fork_in_child(void)
{
	beginner = 0;
}

static bool begin(void)
{
	static uint32_t once;

	if (!os_exchange(&once, 1))
		pthread_atfork(NULL, NULL, after_fork_in_child);
	if (malloc_is_foreign() && malloc_step_aside()) {
		os_store_release(&malloc_state, MALLOC_ASIDE);
		return false;
	}
	caches.free_call = "free";
	if (!kmalloc_ready(GFP_KERNEL))
		return false;
	malloc_checks_sizes = os_options.check_sizes;
	os_wrong_pointer_ends = !os_options.keep_going;
	malloc_handle_forks();
	os_store_release(&malloc_state, MALLOC_OPEN);
	return true;
}

/* True: this thread is to begin. False: it is beginning already, or another one has ended. */
static bool is_to_begin(uintptr_t self)
{
	for (;;) {
		uintptr_t nobody = 0;

		if (os_load_acquire(&malloc_state) != MALLOC_NEW)
			return false;
		if (os_cmpxchg(&beginner, &nobody, self)) {
			/* Another thread may have begun, and ended, since the look at the state. */
			if (os_load_acquire(&malloc_state) == MALLOC_NEW)
				return true;
			os_store_release(&beginner, 0);
			return false;
		}
		if (nobody == self)
			return false;
		os_sleep_briefly();
	}
}

bool malloc_is_open(void)
{
	uint32_t state = os_load_acquire(&malloc_state);
	uintptr_t self = os_self();
	bool open;
	OS_KEEP_ERRNO;

	if (state == MALLOC_FORKS)
		return !malloc_forks_here();
	if (state != MALLOC_NEW)
		return state == MALLOC_OPEN;
	if (!is_to_begin(self))
		return os_load_acquire(&malloc_state) == MALLOC_OPEN;
	open = begin();
	os_store_release(&beginner, 0);
	return open;
}

/* After libsheaf's own constructor: see malloc_handle_forks(). */
static __attribute__((constructor(102))) void when_loaded(void)
{
	malloc_is_open();
}
