/* SPDX-License-Identifier: MIT */
/*
 * A program that loads a plugin, lets a thread use it, and unloads it, many times. The thread
 * spins: when the plugin is gone, the kernel has usually not looked at the thread's rseq area since
 * its last section. A signal makes it look. What the area points to must be there in any case.
 *
 * Usage: unload PLUGIN TIMES
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kit/check.h"
#include "plugin.h"

enum {
	SPINS = 10000,
	OBJECTS = 3
};

static plugin_use_fn *use;
static void *left; /* what the kernel will read when it next looks at the thread */
static unsigned int loaded, used, signalled;

/* Where glibc has registered an area for each thread. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static void *descriptor(void)
{
	if (!&__rseq_size || !__rseq_size)
		return NULL;
	return *(void **)((char *)__builtin_thread_pointer() + __rseq_offset + 8);
}

/* On machines with few CPUs, or busy ones, the other thread needs this one. */
static void wait_for(unsigned int *word, unsigned int value)
{
	for (int spins = 0; __atomic_load_n(word, __ATOMIC_ACQUIRE) != value;)
		if (++spins > SPINS)
			usleep(100);
}

static void take_signal(int number)
{
	(void)number;
	__atomic_fetch_add(&signalled, 1, __ATOMIC_RELEASE);
}

static void *work(void *times)
{
	for (unsigned int i = 1; i <= (uintptr_t)times; i++) {
		wait_for(&loaded, i);
		CHECK(use(OBJECTS) == 0);
		left = descriptor();
		__atomic_store_n(&used, i, __ATOMIC_RELEASE);
		wait_for(&signalled, i);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned int times = argc == 3 ? (unsigned int)atoi(argv[2]) : 0;
	pthread_t thread;
	Dl_info info;

	CHECK(times);
	signal(SIGUSR1, take_signal);
	CHECK(pthread_create(&thread, NULL, work, (void *)(uintptr_t)times) == 0);
	for (unsigned int i = 1; i <= times; i++) {
		void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);

		if (!plugin)
			fprintf(stderr, "%s\n", dlerror());
		CHECK(plugin);
		use = (plugin_use_fn *)dlsym(plugin, "plugin_use");
		CHECK(use);
		__atomic_store_n(&loaded, i, __ATOMIC_RELEASE);
		wait_for(&used, i);
		CHECK(dlclose(plugin) == 0);
		CHECK(!left || dladdr(left, &info));
		pthread_kill(thread, SIGUSR1);
		wait_for(&signalled, i);
	}
	pthread_join(thread, NULL);
	return 0;
}
