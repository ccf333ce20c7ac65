/* SPDX-License-Identifier: MIT */
/* See boot.h. */
#include "boot.h"

#include <stdint.h>
#include <string.h>

#include "os/atomic.h"

#define STEP   16u
#define IN_USE 1u

struct head {
	uint32_t size; /* of the block, a multiple of STEP, and IN_USE */
	uint32_t unused[3];
};

_Static_assert(sizeof(struct head) == STEP, "a block follows its head");

/* The first block is in the page of the variables before: a start touches no other. */
static struct {
	uint32_t used;
	char bytes[BOOT_BYTES] __attribute__((aligned(STEP)));
} heap;

static struct head *head_at(uint32_t place)
{
	return (struct head *)(heap.bytes + place);
}

static const struct head *head_of(const void *block)
{
	return (const struct head *)block - 1;
}

bool boot_owns(const void *block)
{
	return (uintptr_t)block - (uintptr_t)heap.bytes < BOOT_BYTES;
}

size_t boot_size(const void *block)
{
	return os_load_relaxed(&head_of(block)->size) & ~IN_USE;
}

/* A free block that is large enough, and not more than twice as large. */
static void *take(uint32_t size)
{
	uint32_t used = os_load_acquire(&heap.used);

	for (uint32_t place = 0; place < used;) {
		uint32_t there = os_load_acquire(&head_at(place)->size), all = there & ~IN_USE;

		if (!all)
			return NULL; /* BOOT-H2 */
		if (!(there & IN_USE) && all >= size && all <= 2 * size &&
		    os_cmpxchg(&head_at(place)->size, &there, all | IN_USE))
			return memset(head_at(place) + 1, 0, size);
		place += STEP + all;
	}
	return NULL;
}

static void *carve(uint32_t size)
{
	uint32_t used = os_load_relaxed(&heap.used);

	do {
		if (used > BOOT_BYTES - STEP || size > BOOT_BYTES - STEP - used)
			return NULL;
	} while (!os_cmpxchg(&heap.used, &used, used + STEP + size));
	os_store_release(&head_at(used)->size, size | IN_USE);
	return head_at(used) + 1;
}

void *boot_alloc(size_t size)
{
	uint32_t rounded;
	void *block;

	if (size > BOOT_BYTES)
		return NULL;
	rounded = size ? (uint32_t)(size + STEP - 1) & -STEP : STEP;
	block = take(rounded);
	return block ? block : carve(rounded);
}

void boot_free(void *block)
{
	struct head *head = (struct head *)block - 1;

	os_store_release(&head->size, head->size & ~IN_USE);
}
