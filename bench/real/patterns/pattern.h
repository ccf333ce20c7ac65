/* SPDX-License-Identifier: MIT */
/*
 * Fixed work that calls malloc() and free() by patterns that tests of allocators are known
 * for, each written from a description of it. The work does not depend on time or on the
 * number of CPUs.
 *
 * A block begins with its size and ends with the size's low byte; who frees it checks both,
 * so that each is written and read, and a block that two have, or that was lost, is found.
 */
#ifndef PATTERN_H
#define PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

extern size_t threads, rounds;

/* What a thread with this number, of `threads`, does `rounds` times. */
typedef void *pattern(void *number);

pattern alloc_test, barnes, batch, cache_scratch, cfrac, espresso, glibc_simple, glibc_thread,
	handover, larson, larson_sized, malloc_large, many, mleak, mstress, xmalloc;

/* For a pattern that needs it: what is left when all threads have ended. */
void mstress_end(void);

void fail(const char *why) __attribute__((noreturn, cold));

static inline uint32_t next(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* Different for each thread. */
static inline uint32_t seed(void *number)
{
	return (uint32_t)(uintptr_t)number * 2654435761u + 1;
}

/* At least the eight bytes of a size. */
static inline void *mark(unsigned char *block, size_t size)
{
	if (!block)
		fail("no memory");
	*(size_t *)block = size;
	if (size > sizeof(size))
		block[size - 1] = (unsigned char)size;
	return block;
}

static inline void *make(size_t size)
{
	return mark(malloc(size), size);
}

static inline void check(const void *block)
{
	size_t size = *(const size_t *)block;

	if (size > sizeof(size) && ((const unsigned char *)block)[size - 1] != (unsigned char)size)
		fail("a block has lost what was written");
}

static inline void release(void *block)
{
	if (!block)
		return;
	check(block);
	free(block);
}

/* Mostly small, seldom large. */
static inline size_t any_size(uint32_t *state)
{
	uint32_t n = next(state);

	return 8 + (n >> 8) % (8u << (n % 8 == 0 ? n / 8 % 12 : n / 8 % 6));
}

#endif
