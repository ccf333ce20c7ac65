/* SPDX-License-Identifier: MIT */
/* Stamps of live objects, for storms; sorting objects. */
#ifndef SHEAF_TESTS_OBJECTS_H
#define SHEAF_TESTS_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STAMP_LIVE	UINT64_C(0x57a3b00000000000)
#define STAMP_LIVE_MASK UINT64_C(0xfffff00000000000)

static inline uint64_t *stamp_end(uint64_t *object, size_t size)
{
	return object + size / sizeof(*object) - 1;
}

/*
 * A live object has its owner's stamp in its first word, and the stamp's complement in its last
 * word, if that is another one. A thread that gets an object with such a pair has found an object
 * with two owners; a thread that frees one without a pair has found a foreign write.
 */
static inline bool stamp_put(uint64_t *object, size_t size, unsigned int owner, uint64_t sequence)
{
	uint64_t mine = STAMP_LIVE | (uint64_t)owner << 36 | (sequence & 0xfffffffff);
	uint64_t old = __atomic_exchange_n(object, mine, __ATOMIC_RELAXED);
	uint64_t *end = stamp_end(object, size);
	bool was_live = (old & STAMP_LIVE_MASK) == STAMP_LIVE && (end == object || *end == ~old);

	if (end != object)
		*end = ~mine;
	return !was_live;
}

/* Before an object is freed; returns false if it is not as stamp_put() left it. */
static inline bool stamp_remove(uint64_t *object, size_t size)
{
	uint64_t *end = stamp_end(object, size);
	uint64_t old = __atomic_exchange_n(object, 0, __ATOMIC_RELAXED);
	bool was_live = (old & STAMP_LIVE_MASK) == STAMP_LIVE && (end == object || *end == ~old);

	*end = 0;
	return was_live;
}

/* For qsort() of pointers. */
static inline int by_address(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return x < y ? -1 : x > y;
}

#endif
