/* SPDX-License-Identifier: MIT */
/*
 * A program that is built once and runs with libraries whose slots have different layouts, and
 * whose kmalloc() has different sizes. It knows no size: it asks the library, and checks that it
 * gets such blocks (KMALLOC-K3). Half of its operations are elsewhere.c's.
 *
 * Prints the sizes of the library's caches, so that the caller sees whether two libraries differ.
 */
#include "elsewhere.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MOST = 20000
};

#define FOR_SIZES(size) for (size_t size = 1; size < MOST; size += 1 + size / 16)

static void want(bool right, const char *what, size_t size)
{
	if (right)
		return;
	fprintf(stderr, "%s: wrong of %zu bytes\n", what, size);
	exit(1);
}

static void look_at(unsigned char *block, size_t size, const char *what)
{
	want(block, what, size);
	want(ksize(block) >= size && ksize(block) == kmalloc_size_roundup(size), what, size);
	want(size < 16 || (uintptr_t)block % 16 == 0, what, size);
	want(sheaf_owns(block), what, size);
	memset(block, (int)(size & 0xff), ksize(block));
}

/* All at once, so that overlapping blocks are found. */
static void sizes_that_the_compiler_does_not_know(void)
{
	static unsigned char *blocks[MOST];

	FOR_SIZES(size)
	{
		blocks[size] = size % 2 ? kmalloc(size, GFP_NOWAIT) : kmalloc_elsewhere(size);
		look_at(blocks[size], size, "kmalloc");
	}
	FOR_SIZES(size)
	{
		size_t bytes = ksize(blocks[size]);

		for (size_t i = 0; i < bytes; i++)
			want(blocks[size][i] == (size & 0xff), "content", size);
		kfree(blocks[size]);
	}
}

/* More than sheaves have room for, twice. */
static void objects_of_a_cache(void)
{
	static size_t *objects[MOST];
	struct kmem_cache *s = kmem_cache_create("objects", 64, NULL, SLAB_NO_MERGE);

	for (size_t turn = 0; turn < 2 * MOST; turn++) {
		size_t i = turn % MOST;

		if (objects[i]) {
			want(*objects[i] == i, "an object", 64);
			i % 2 ? kmem_cache_free(s, objects[i]) : free_elsewhere(s, objects[i]);
		}
		objects[i] = turn % 3 ? kmem_cache_alloc(s, GFP_KERNEL) : alloc_elsewhere(s);
		want(objects[i], "kmem_cache_alloc", 64);
		*objects[i] = i;
	}
	for (size_t i = 0; i < MOST; i++) {
		want(*objects[i] == i, "an object", 64);
		i % 3 ? kmem_cache_free(s, objects[i]) : free_elsewhere(s, objects[i]);
	}
	kmem_cache_free(s, NULL);
	free_elsewhere(s, NULL);
	want(kmem_cache_verify(s) == 0, "kmem_cache_verify", 64);
	kmem_cache_destroy(s);
}

#define KNOWN(size)                                                                                \
	do {                                                                                       \
		void *block = kmalloc(size, GFP_KERNEL), *zeroed = kzalloc(size, GFP_KERNEL);      \
                                                                                                   \
		look_at(block, size, "kmalloc(" #size ")");                                        \
		want(!((char *)zeroed)[0] && !((char *)zeroed)[(size)-1], "kzalloc", size);        \
		look_at(zeroed, size, "kzalloc(" #size ")");                                       \
		kfree(block);                                                                      \
		kvfree(zeroed);                                                                    \
	} while (0)

static void sizes_that_it_knows(void)
{
	KNOWN(1);
	KNOWN(8);
	KNOWN(9);
	KNOWN(40);
	KNOWN(96);
	KNOWN(144);
	KNOWN(192);
	KNOWN(1300);
	KNOWN(4097);
	KNOWN(8191);
	KNOWN(8192);
	KNOWN(8193);
	KNOWN(12000);
	KNOWN(16385);
	KNOWN(100000);
}

static void other_calls(void)
{
	kmem_buckets *set = kmem_buckets_create("set", 0, 0, 0, NULL);
	void *block;

	want(kmalloc(0, GFP_KERNEL) == ZERO_SIZE_PTR, "kmalloc", 0);
	kfree(ZERO_SIZE_PTR);
	kfree(NULL);
	FOR_SIZES(size)
	{
		block = kvmalloc(size, GFP_KERNEL);
		look_at(block, size, "kvmalloc");
		block = krealloc(block, size + 500, GFP_KERNEL);
		look_at(block, size + 500 > ksize(block) ? size + 500 : ksize(block), "krealloc");
		kfree(block);
		block = kmem_buckets_alloc(set, size, GFP_KERNEL);
		look_at(block, size, "kmem_buckets_alloc");
		kfree(block);
	}
	kmem_buckets_destroy(set);
}

int main(void)
{
	kfree(NULL); /* before first use */
	sizes_that_the_compiler_does_not_know();
	sizes_that_it_knows();
	objects_of_a_cache();
	other_calls();
	for (size_t size = 1; size <= KMALLOC_MAX_CACHE_SIZE; size++)
		if (kmalloc_size_roundup(size) == size)
			printf("%zu ", size);
	return 0;
}
