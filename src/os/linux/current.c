/* SPDX-License-Identifier: MIT */
/* The current group of each thread; see os/current.h. */
#include "os/current.h"

#include <pthread.h>

__thread struct os_current os_group_of_thread;

static struct {
	pthread_key_t key;
	void (*end)(uint32_t group);
} at_end;

/* Other destructors may run later, and make a group current again: then this runs again. */
static void thread_ends(void *unused)
{
	uint32_t group = os_group_of_thread.own;

	(void)unused;
	os_group_of_thread = (struct os_current){.own = 0};
	if (group)
		at_end.end(group);
}

bool os_at_thread_end(void (*end)(uint32_t group))
{
	if (pthread_key_create(&at_end.key, thread_ends))
		return false;
	at_end.end = end;
	return true;
}

void os_has_group(void)
{
	if (at_end.end && !pthread_getspecific(at_end.key))
		pthread_setspecific(at_end.key, &at_end);
}
