/* SPDX-License-Identifier: MIT */
/*
 * A program with an allocator of its own, which defines malloc(), free(), calloc() and realloc().
 * The preloaded library steps aside: what the program does not define goes where it would go
 * without it, and operators call the program's malloc().
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>

#include "check.h"

enum {
	BLOCKS = 1000
};

static struct {
	char bytes[1 << 20] __attribute__((aligned(16)));
	size_t used;
	unsigned int frees;
} heap;

static bool is_own(const void *block)
{
	return (uintptr_t)block - (uintptr_t)heap.bytes < sizeof(heap.bytes);
}

void *malloc(size_t size)
{
	size_t at = heap.used + 16;

	if (size > sizeof(heap.bytes) - at)
		return NULL;
	*(size_t *)(heap.bytes + heap.used) = size;
	heap.used = at + ((size + 15) & -(size_t)16);
	return heap.bytes + at;
}

void free(void *block)
{
	CHECK(!block || is_own(block));
	heap.frees += is_own(block);
}

void *calloc(size_t n, size_t size)
{
	void *block = malloc(n * size);

	return block ? memset(block, 0, n * size) : NULL;
}

void *realloc(void *block, size_t size)
{
	void *to = malloc(size);

	if (to && block) {
		size_t old = ((size_t *)block)[-2];

		memcpy(to, block, old < size ? old : size);
	}
	return to;
}

typedef void *new_fn(size_t size);
typedef void delete_fn(void *block);
typedef void *calloc_fn(size_t n, size_t size);

/* Where the program uses libsheaf, too, operators may take blocks that kfree() left, and return
 * them. */
static void beside_kmalloc(new_fn *new_one, delete_fn *delete_one)
{
	typedef void *kmalloc_fn(size_t size, unsigned int flags);
	kmalloc_fn *kmalloc_one = (kmalloc_fn *)symbol_of(RTLD_DEFAULT, "sheaf_kmalloc");
	delete_fn *kfree_one = (delete_fn *)symbol_of(RTLD_DEFAULT, "sheaf_kfree");
	void *blocks[BLOCKS], *more[BLOCKS];

	for (int i = 0; i < BLOCKS; i++)
		CHECK((blocks[i] = kmalloc_one(100, 0)) != NULL);
	for (int i = 0; i < BLOCKS; i++)
		kfree_one(blocks[i]);
	for (int i = 0; i < BLOCKS; i++)
		CHECK((blocks[i] = new_one(100)) != NULL);
	for (int i = 0; i < BLOCKS; i++)
		CHECK((more[i] = kmalloc_one(100, 0)) != NULL);
	for (int i = 0; i < BLOCKS; i++)
		kfree_one(more[i]);
	for (int i = 0; i < BLOCKS; i++)
		delete_one(blocks[i]);
}

int main(void)
{
	new_fn *new_one = (new_fn *)dlsym(RTLD_DEFAULT, "_Znwm"), *next_malloc;
	delete_fn *delete_one = (delete_fn *)dlsym(RTLD_DEFAULT, "_ZdlPv"), *next_free;
	calloc_fn *next_calloc = (calloc_fn *)dlsym(RTLD_NEXT, "calloc");
	char *block;
	unsigned int frees;

	CHECK(new_one && delete_one);
	CHECK(is_own(malloc(HIDDEN((size_t)10))));
	block = new_one(100);
	CHECK(is_own(block));
	frees = heap.frees;
	delete_one(block);
	CHECK(heap.frees == frees + 1);
	/* The C library's, which the program has no name for. */
	block = memalign(HIDDEN((size_t)256), 1000);
	CHECK(block && !is_own(block) && !is_ours(block) && !((uintptr_t)block & 255));
	CHECK(malloc_usable_size(block) >= 1000);
	/* A program's own malloc() that passes calls on finds the same one. */
	next_malloc = (new_fn *)dlsym(RTLD_NEXT, "malloc");
	next_free = (delete_fn *)dlsym(RTLD_NEXT, "free");
	next_free(block);
	block = next_malloc(1000);
	CHECK(block && !is_own(block) && !is_ours(block));
	next_free(block);
	block = next_calloc(10, 100);
	CHECK(block && !is_own(block) && !block[999]);
	next_free(block);
	beside_kmalloc(new_one, delete_one);
	return 0;
}
