/* SPDX-License-Identifier: MIT */
/* See boot.h. */
#include "boot.h"

#include <stdint.h>
#include <string.h>

#include "os/atomic.h"

#define STEP 16u
/* In the size of a block: */
#define IN_USE	1u
#define RETIRED 2u
#define STATE	(IN_USE | RETIRED)
#define FINE	512u /* up to here, sizes are multiples of STEP; above, powers of two */
#define LISTS	(FINE / STEP + 7)

struct head {
	uint32_t size; /* of the block, and its state: 0, free, or one of these */
	uint32_t next; /* in the list of free blocks */
	uintptr_t mark;
};

_Static_assert(sizeof(struct head) == STEP, "a block follows its head");

/* The first block is in the page of the variables before: a start touches no other. */
static struct {
	uint32_t used;
	uint32_t freed[LISTS]; /* the last freed block of each size; 0: none */
	char bytes[BOOT_BYTES] __attribute__((aligned(STEP)));
} heap;

/* A block's place is its distance from the heap's first byte, where a head is: never 0. */
static struct head *head_at(uint32_t place)
{
	return (struct head *)(heap.bytes + place) - 1;
}

/* What no program writes in front of an address by chance, and a write across the end of the block
 * before does not leave. */
static uintptr_t mark_of(const void *block, uint32_t size)
{
	return (uintptr_t)block ^ size ^ (uintptr_t)0x9e3779b97f4a7c15;
}

/* NULL: no block begins here. */
static struct head *head_of(const void *block)
{
	uintptr_t place = (uintptr_t)block - (uintptr_t)heap.bytes;
	struct head *head;

	if (place - STEP > BOOT_BYTES - STEP || place % STEP)
		return NULL;
	head = head_at((uint32_t)place);
	return head->mark == mark_of(block, os_load_relaxed(&head->size) & ~STATE) ? head : NULL;
}

static uint32_t rounded(uint32_t size)
{
	if (size > FINE)
		return 2u << (31 - __builtin_clz(size - 1));
	return size ? (size + STEP - 1) & -STEP : STEP;
}

static uint32_t *list_of(uint32_t size)
{
	uint32_t fine = FINE / STEP;

	return &heap.freed[size <= FINE ? size / STEP - 1 : fine + 22 - __builtin_clz(size) - 1];
}

size_t boot_size(const void *block)
{
	const struct head *head = head_of(block);
	uint32_t size = head ? os_load_relaxed(&head->size) : 0;

	return size & STATE ? size & ~STATE : 0;
}

bool boot_waits(const void *block)
{
	const struct head *head = head_of(block);

	return head && os_load_relaxed(&head->size) & RETIRED;
}

size_t boot_used(void)
{
	return os_load_relaxed(&heap.used);
}

/* The last freed block of this size. */
static void *take(size_t align, uint32_t size)
{
	uint32_t *list = list_of(size), place = os_load_acquire(list), is_free = size;
	struct head *head = head_at(place);

	if (!place || (uintptr_t)(head + 1) & (align - 1) ||
	    !os_cmpxchg(&head->size, &is_free, size | IN_USE))
		return NULL;
	os_store_relaxed(list, os_load_relaxed(&head->next));
	return memset(head + 1, 0, size);
}

static void *carve(size_t align, uint32_t size, size_t end)
{
	uintptr_t bytes = (uintptr_t)heap.bytes;
	uint32_t used = os_load_relaxed(&heap.used);
	size_t place;

	do {
		place = ((bytes + used + STEP + align - 1) & -align) - bytes;
		if (place > end || size > end - place)
			return NULL;
	} while (!os_cmpxchg(&heap.used, &used, (uint32_t)place + size));
	head_at((uint32_t)place)->mark = mark_of(heap.bytes + place, size);
	os_store_release(&head_at((uint32_t)place)->size, size | IN_USE);
	return heap.bytes + place;
}

void *boot_alloc(size_t align, size_t size, size_t end)
{
	uint32_t bytes;
	void *block;

	if (size > end || align > end)
		return NULL;
	bytes = rounded((uint32_t)size);
	block = take(align, bytes);
	return block ? block : carve(align, bytes, end);
}

bool boot_retire(void *block)
{
	struct head *head = head_of(block);
	uint32_t size = head ? os_load_relaxed(&head->size) & ~STATE : 0, used = size | IN_USE;

	return head && os_cmpxchg(&head->size, &used, size | RETIRED);
}

bool boot_free(void *block)
{
	struct head *head = head_of(block);
	uint32_t size = head ? head->size : 0, *list;

	if (!(size & RETIRED))
		return false;
	size &= ~STATE;
	list = list_of(size);
	os_store_relaxed(&head->next, os_load_relaxed(list));
	os_store_release(&head->size, size);
	os_store_release(list, (uint32_t)((char *)block - heap.bytes));
	return true;
}

const struct boot_heap boot_heap = {boot_size, boot_waits, boot_retire, boot_free};
