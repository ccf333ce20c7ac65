/* SPDX-License-Identifier: MIT */
/*
 * A program whose static storage for threads is used up loads the library, and uses groups: in its
 * first thread, in one that is older than the library, and in a new one.
 *
 * Usage: full EATER LIBRARY
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sheaf/group.h>
#include <sheaf/slab.h>

#include "kit/check.h"

#define MOST 100000 /* more words than any C library reserves */

static __typeof__(&__kmem_group_create) group_create;
static __typeof__(&kmem_group_set_current) group_set_current;
static __typeof__(&kmem_group_count_objects) group_count;
static __typeof__(&kmem_group_verify) group_verify;
static __typeof__(&__kmem_cache_create_args) cache_create;
static __typeof__(&kmem_cache_alloc_node) cache_alloc;
static __typeof__(&kmem_cache_free_bulk) cache_free;

static struct kmem_cache *cache;
static pthread_barrier_t loaded;

static void copy(const char *from, const char *to)
{
	FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
	char bytes[4096];
	size_t n;

	CHECK(in && out);
	while ((n = fread(bytes, 1, sizeof(bytes), in)) > 0)
		CHECK(fwrite(bytes, 1, n, out) == n);
	CHECK(!fclose(in) && !fclose(out));
}

/* The loader knows an object by its file, so each copy has a file of its own. Returns whether the
 * storage is used up. */
static bool eat_all(const char *eater)
{
	char directory[] = "/tmp/sheaf-eaters-XXXXXX", path[sizeof(directory) + 16];
	bool full = false;

	CHECK(mkdtemp(directory));
	for (int i = 0; !full && i < MOST; i++) {
		snprintf(path, sizeof(path), "%s/%d.so", directory, i);
		copy(eater, path);
		full = !dlopen(path, RTLD_NOW | RTLD_LOCAL);
		unlink(path);
	}
	rmdir(directory);
	return full;
}

static void load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(library);
	group_create = (__typeof__(group_create))dlsym(library, "sheaf___kmem_group_create");
	group_set_current =
		(__typeof__(group_set_current))dlsym(library, "sheaf_kmem_group_set_current");
	group_count = (__typeof__(group_count))dlsym(library, "sheaf_kmem_group_count_objects");
	group_verify = (__typeof__(group_verify))dlsym(library, "sheaf_kmem_group_verify");
	cache_create = (__typeof__(cache_create))dlsym(library, "sheaf___kmem_cache_create_args");
	cache_alloc = (__typeof__(cache_alloc))dlsym(library, "sheaf_kmem_cache_alloc_node");
	cache_free = (__typeof__(cache_free))dlsym(library, "sheaf_kmem_cache_free_bulk");
	CHECK(group_create && group_set_current && group_count && group_verify);
	CHECK(cache_create && cache_alloc && cache_free);
}

static unsigned long long objects_of(struct kmem_group *g)
{
	uint64_t objects;

	CHECK(group_count(g, &objects, NULL) == 0);
	return objects;
}

static void use_group(void)
{
	struct kmem_group *g = group_create("one", NULL, NULL, 0);
	void *objects[10];

	CHECK(g && !group_set_current(g));
	for (int i = 0; i < 10; i++) {
		objects[i] = cache_alloc(cache, GFP_KERNEL, NUMA_NO_NODE);
		CHECK(objects[i]);
	}
	CHECK(objects_of(g) == 10);
	CHECK(group_set_current(NULL) == g);
	cache_free(cache, 10, objects);
	CHECK(objects_of(g) == 0);
	/* The thread ends with its group. */
	CHECK(!group_set_current(g));
}

static void *use_later(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&loaded);
	use_group();
	return NULL;
}

static void *use_now(void *unused)
{
	(void)unused;
	use_group();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t older, newer;

	CHECK(argc == 3 && !pthread_barrier_init(&loaded, NULL, 2));
	CHECK(pthread_create(&older, NULL, use_later, NULL) == 0);
	if (!eat_all(argv[1])) {
		printf("this C library's storage for threads is never used up\n");
		return 77;
	}
	load(argv[2]);
	cache = cache_create("cache", 64, NULL, 0, SLAB_ACCOUNT);
	CHECK(cache);
	use_group();
	pthread_barrier_wait(&loaded);
	pthread_join(older, NULL);
	CHECK(pthread_create(&newer, NULL, use_now, NULL) == 0);
	pthread_join(newer, NULL);
	CHECK(group_verify() == 0);
	return 0;
}
