/* SPDX-License-Identifier: MIT */
/* Areas of slots; see rows.h. */
#include "sheaf/rows.h"

#include <string.h>

#include "os/counters.h"
#include "os/machine.h"
#include "os/memory.h"
#include "page/page.h"
#include "page/pool.h"

struct area {
	char *rows;
	struct area *next;
	uint64_t used[SLOTS_PER_ROW / 64];
};

struct sheaf sheaf_bootstrap;
static struct area first_area;

static bool map_area(struct area *area)
{
	size_t size = os.nr_nodes * sizeof(struct slot);
	struct slot *templates = pool_alloc(size);

	if (!templates)
		return false;
	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		struct slot *slot = &templates[node];

		slot->main = &sheaf_bootstrap;
		slot->pair = (uintptr_t)&sheaf_bootstrap;
		slot->rcu_free = &sheaf_bootstrap;
		slot->home = (uintptr_t)pages.base + ((uintptr_t)node << pages.range_shift);
		slot->home_size = (uintptr_t)1 << pages.range_shift;
	}
	area->rows = os_map_rows(templates);
	pool_free(templates, size);
	return area->rows;
}

bool rows_init(void)
{
	return map_area(&first_area);
}

/* A handle of this area, or NULL. */
static void *take_from(struct area *area)
{
	for (unsigned int i = 0; i < SLOTS_PER_ROW / 64; i++) {
		unsigned int bit;

		if (!~area->used[i])
			continue;
		bit = (unsigned int)__builtin_ctzll(~area->used[i]);
		area->used[i] |= UINT64_C(1) << bit;
		return area->rows + ((size_t)(i * 64 + bit) << SLOT_SHIFT);
	}
	return NULL;
}

/* What the handle's last cache counted is not the next one's. */
static void clear_counters(char *handle)
{
	for (uint32_t row = 0; row < os.nr_rows + 1; row++)
		for (unsigned int i = 0; i < OS_WORDS; i += OS_PLANE_WORDS)
			memset(os_counter(handle + ((size_t)row << ROW_SHIFT), i), 0,
			       OS_PLANE_WORDS * sizeof(uint64_t));
}

static void *nobodys_slot(struct slot *handle)
{
	if (os.counting)
		clear_counters((char *)handle);
	memset(handle, 0, sizeof(*handle));
	handle->main = &sheaf_bootstrap;
	return handle;
}

void *rows_take(void)
{
	struct area *area = &first_area, *fresh;
	void *handle;

	for (;; area = area->next) {
		handle = take_from(area);
		if (handle)
			return nobodys_slot(handle);
		if (!area->next)
			break;
	}
	fresh = pool_alloc(sizeof(*fresh));
	if (!fresh || !map_area(fresh)) {
		pool_free(fresh, sizeof(*fresh));
		return NULL;
	}
	area->next = fresh;
	return nobodys_slot(take_from(fresh));
}

void rows_give(void *handle)
{
	for (struct area *area = &first_area; area; area = area->next) {
		size_t at = (size_t)((char *)handle - area->rows);

		if ((char *)handle < area->rows || at >= (size_t)1 << ROW_SHIFT)
			continue;
		at >>= SLOT_SHIFT;
		area->used[at / 64] &= ~(UINT64_C(1) << at % 64);
		return;
	}
}
