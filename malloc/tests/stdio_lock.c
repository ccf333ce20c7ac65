/* SPDX-License-Identifier: MIT */
/*
 * No thread that holds a lock of the library waits for a lock of stdio: while another thread holds
 * all of these, everything that the library does under its own locks comes to an end.
 */
#include <pthread.h>
#include <sheaf/debug.h>
#include <sheaf/kmalloc.h>
#include <sheaf/slab.h>
#include <sheaf/trim.h>

#include "check.h"

extern void _IO_list_lock(void);
extern void _IO_list_unlock(void);

static pthread_barrier_t barrier;

static void *holds(void *unused)
{
	_IO_list_lock();
	flockfile(stdin);
	flockfile(stdout);
	flockfile(stderr);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	funlockfile(stderr);
	funlockfile(stdout);
	funlockfile(stdin);
	_IO_list_unlock();
	return unused;
}

static void use_all(void)
{
	struct kmem_cache *s;

	for (size_t size = 1; size < 4 << 20; size += size / 8 + 1) {
		void *block = malloc(HIDDEN(size));

		block = realloc(block, size * 2);
		free(block);
		block = aligned_alloc(64, size);
		free(block);
	}
	churn(1, 20000);
	s = kmem_cache_create("a cache", 100, 0, 0, NULL);
	CHECK(s);
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	kmem_cache_destroy(s);
	kfree(kmalloc(300, GFP_KERNEL));
	kfree((void *)0x1230); /* a report */
	sheaf_trim(0);
}

int main(void)
{
	pthread_t thread;

	check_ours();
	pthread_barrier_init(&barrier, NULL, 2);
	CHECK(!pthread_create(&thread, NULL, holds, NULL));
	pthread_barrier_wait(&barrier);
	use_all();
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	return 0;
}
