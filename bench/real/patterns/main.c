/* SPDX-License-Identifier: MIT */
/*
 * Run a pattern (pattern.h) in threads.
 *
 *   patterns NAME THREADS ROUNDS
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "pattern.h"

size_t threads, rounds;

static const struct {
	const char *name;
	pattern *run;
} patterns[] = {
	{"alloc-test", alloc_test},
	{"barnes", barnes},
	{"batch", batch},
	{"cache-scratch", cache_scratch},
	{"cfrac", cfrac},
	{"espresso", espresso},
	{"glibc-simple", glibc_simple},
	{"glibc-thread", glibc_thread},
	{"handover", handover},
	{"larson", larson},
	{"larson-sized", larson_sized},
	{"malloc-large", malloc_large},
	{"many", many},
	{"mleak", mleak},
	{"mstress", mstress},
	{"xmalloc", xmalloc},
};

void fail(const char *why)
{
	fprintf(stderr, "patterns: %s\n", why);
	exit(1);
}

static pattern *find(const char *name)
{
	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++)
		if (!strcmp(patterns[i].name, name))
			return patterns[i].run;
	fail("there is no such pattern");
}

int main(int argc, char **argv)
{
	pthread_attr_t attributes;
	pthread_t *started;
	pattern *run;

	if (argc != 4)
		fail("give the pattern's name, the number of threads and that of rounds");
	run = find(argv[1]);
	threads = strtoul(argv[2], NULL, 10);
	rounds = strtoul(argv[3], NULL, 10);
	started = calloc(threads, sizeof(*started));
	if (!started || !threads)
		fail("no threads");
	if (threads == 1) {
		run(NULL);
		goto end; /* the process has had one thread: allocators may know that */
	}
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256 << 10);
	for (uintptr_t i = 0; i < threads; i++)
		if (pthread_create(&started[i], &attributes, run, (void *)i))
			fail("no thread");
	for (size_t i = 0; i < threads; i++)
		pthread_join(started[i], NULL);
end:
	mstress_end();
	free(started);
	printf("%s: %zu threads, %zu rounds\n", argv[1], threads, rounds);
	return 0;
}
