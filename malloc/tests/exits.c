/* SPDX-License-Identifier: MIT */
/*
 * The end of a process: functions of atexit(), one of them registered before the library's own
 * start, and destructors of the program and of a plugin. Each frees what another one allocated and
 * allocates more, while threads allocate. Usage: exits PLUGIN
 */
#include <pthread.h>
#include <stdint.h>

#include "check.h"

enum {
	THREADS = 2,
	ENDS = 5
};

static void *blocks[64];
static unsigned int ends;

static void exchange(void)
{
	for (size_t i = 0; i < sizeof(blocks) / sizeof(*blocks); i++) {
		free(blocks[i]);
		blocks[i] = malloc(HIDDEN(i * i * 20 + 1));
		CHECK(blocks[i]);
		memset(blocks[i], 1, i * i * 20 + 1);
	}
	churn(++ends, 500);
}

static void very_early(int argc, char **argv, char **environment)
{
	(void)argc, (void)argv, (void)environment;
	CHECK(!atexit(exchange));
}
static void (*const early)(int, char **, char **)
	__attribute__((section(".preinit_array"), used)) = very_early;

static __attribute__((destructor(101))) void after_others(void)
{
	exchange();
	CHECK(ends == ENDS);
}

static __attribute__((destructor)) void before_others(void)
{
	exchange();
}

static void *allocates(void *seed)
{
	for (;;)
		churn((unsigned int)(uintptr_t)seed, 500);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	CHECK(argc == 2);
	check_ours();
	CHECK(!atexit(exchange) && dlopen(argv[1], RTLD_NOW) && !atexit(exchange));
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread, NULL, allocates, (void *)i));
	return 0;
}
