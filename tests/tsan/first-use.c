/* SPDX-License-Identifier: MIT */
/*
 * A program without a race, for the thread sanitizer: one thread is the first to call kmalloc(),
 * another one calls it later. They share only the library.
 */
#include <pthread.h>
#include <sheaf/slab.h>

#include "turns.h"

static void use(void *block)
{
	if (block)
		*(char *)block = 1;
	kfree(block);
}

static void *user(void *own_turn)
{
	wait_for((int)(size_t)own_turn);
	for (size_t size = 1; size < 10000; size += 40) {
		use(kmalloc(size, GFP_KERNEL));
		use(kzalloc(size, GFP_NOWAIT));
		use(kvmalloc(size, GFP_KERNEL));
	}
	next_turn();
	return NULL;
}

int main(void)
{
	pthread_t threads[2];

	for (size_t i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, user, (void *)i))
			return 1;
	for (size_t i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
