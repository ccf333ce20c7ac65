/* SPDX-License-Identifier: MIT */
/* A program without the headers, like one in another language: it looks up the library's calls by
 * name. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GFP_KERNEL 0xc3u /* the headers' value */

enum {
	N = 300
};

static void *library;

static void *symbol(const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "no symbol %s\n", name);
		exit(1);
	}
	return found;
}

#define TAKE(result, name, ...) result (*name)(__VA_ARGS__) = symbol("sheaf_" #name)

static void want(int right, const char *what)
{
	if (!right) {
		fprintf(stderr, "wrong: %s\n", what);
		exit(1);
	}
}

static void objects(void)
{
	TAKE(void *, __kmem_cache_create, const char *, size_t, size_t, unsigned int,
	     void (*)(void *));
	TAKE(void *, kmem_cache_alloc, void *, unsigned int);
	TAKE(void *, kmem_cache_zalloc, void *, unsigned int);
	TAKE(void, kmem_cache_free, void *, void *);
	TAKE(void, kmem_cache_destroy, void *);
	TAKE(int, kmem_cache_verify, void *);
	void *cache = __kmem_cache_create("foreign", 100, 0, 0, NULL);
	char *p[N];

	for (int i = 0; i < N; i++) {
		p[i] = kmem_cache_alloc(cache, GFP_KERNEL);
		want(p[i] != NULL, "kmem_cache_alloc");
		memset(p[i], 0xff, 100);
	}
	for (int i = 0; i < N; i++)
		kmem_cache_free(cache, p[i]);
	p[0] = kmem_cache_zalloc(cache, GFP_KERNEL);
	want(p[0] && p[0][0] == 0 && p[0][99] == 0, "kmem_cache_zalloc");
	kmem_cache_free(cache, p[0]);
	want(kmem_cache_verify(cache) == 0, "kmem_cache_verify");
	kmem_cache_destroy(cache);
}

static void blocks(void)
{
	TAKE(void *, kmalloc, size_t, unsigned int);
	TAKE(void *, kcalloc, size_t, size_t, unsigned int);
	TAKE(void *, krealloc_array, void *, size_t, size_t, unsigned int);
	TAKE(void *, kvmalloc, size_t, unsigned int);
	TAKE(size_t, ksize, const void *);
	TAKE(void, kfree, const void *);
	TAKE(void, kvfree, const void *);
	char *p;

	for (size_t size = 1; size < 20000; size += 1 + size / 3) {
		p = kmalloc(size, GFP_KERNEL);
		want(p && ksize(p) >= size, "kmalloc");
		memset(p, 1, size);
		kfree(p);
	}
	p = kcalloc(10, 10, GFP_KERNEL);
	want(p && p[0] == 0 && p[99] == 0, "kcalloc");
	want(!kcalloc((size_t)-1, 2, GFP_KERNEL), "kcalloc of too much");
	p = krealloc_array(p, 10, 1000, GFP_KERNEL);
	want(p && p[99] == 0, "krealloc_array");
	kfree(p);
	p = kvmalloc(10 << 20, GFP_KERNEL);
	want(p && ksize(p) == 10 << 20, "kvmalloc");
	kvfree(p);
}

int main(int argc, char **argv)
{
	library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	if (!library) {
		fprintf(stderr, "usage: %s LIBRARY\n%s\n", argv[0], dlerror());
		return 1;
	}
	objects();
	blocks();
	return 0;
}
