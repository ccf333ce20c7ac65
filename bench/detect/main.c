/* SPDX-License-Identifier: MIT */
/* Runs one case of the detection table: see detect.h. Without a name it lists the cases. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "detect.h"

enum {
	CACHES = 8,
	OBJECTS = 64,
	NOT_HERE = 77
};

static struct detect_case *cases;
static struct {
	struct cache *cache;
	bool alone;
} made[CACHES];
static unsigned int nr_made;

void detect_add(struct detect_case *one)
{
	one->next = cases;
	cases = one;
}

void detect_mark(const char *what)
{
	char line[64];
	int length = snprintf(line, sizeof(line), "detect: %s\n", what);

	if (write(STDOUT_FILENO, line, (size_t)length) != length)
		_exit(1);
}

void needs_caches(void)
{
	if (!has_caches)
		_exit(NOT_HERE);
}

/* Called by the layer for each cache. */
void detect_made(struct cache *s);
void detect_made(struct cache *s)
{
	if (!s || nr_made == CACHES)
		abort();
	made[nr_made++].cache = s;
}

void leave_alone(struct cache *s)
{
	for (unsigned int i = 0; i < nr_made; i++)
		if (made[i].cache == s)
			made[i].alone = true;
}

__attribute__((noinline)) void *made_here(struct cache *s)
{
	void *object = cache_take(s);

	__asm__ volatile("" : : "r"(object) : "memory"); /* no tail call */
	return object;
}

__attribute__((noinline)) void freed_here(struct cache *s, void *object)
{
	cache_give(s, object);
	__asm__ volatile("" : : : "memory");
}

static void go_on(struct cache *s)
{
	void *objects[OBJECTS];

	for (unsigned int i = 0; i < OBJECTS; i++) {
		objects[i] = cache_take(s);
		memset(objects[i], (int)i, CONN);
	}
	for (unsigned int i = 0; i < OBJECTS; i++)
		cache_give(s, objects[i]);
}

int main(int argc, char **argv)
{
	struct detect_case *one = cases;

	if (argc != 2) {
		for (; one; one = one->next)
			puts(one->name);
		return 0;
	}
	while (one && strcmp(one->name, argv[1]) != 0)
		one = one->next;
	if (!one) {
		fprintf(stderr, "detect: there is no case \"%s\"\n", argv[1]);
		return 2;
	}
	one->run();
	for (unsigned int i = 0; i < nr_made; i++)
		if (!made[i].alone)
			go_on(made[i].cache);
	grace_pass();
	detect_mark("end");
	for (unsigned int i = 0; i < nr_made; i++)
		if (!made[i].alone)
			cache_end(made[i].cache);
	detect_mark("exit");
	return 0;
}
