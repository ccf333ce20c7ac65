/* SPDX-License-Identifier: MIT */
/* Areas of slots; see rows.h. */
#include "sheaf/rows.h"

#include <string.h>

#include "os/counters.h"
#include "os/machine.h"
#include "os/memory.h"
#include "page/page.h"
#include "page/pool.h"

struct sheaf sheaf_bootstrap;

/* Handles that are nobody's. A row of them is mapped when there is none. */
static struct {
	struct slot *given; /* back, linked by `pair`: the last one is taken first */
	char *fresh;	    /* nobody's yet */
	unsigned int nr_fresh;
} handles;

static bool map_area(void)
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
	handles.fresh = os_map_rows(templates);
	handles.nr_fresh = handles.fresh ? SLOTS_PER_ROW : 0;
	pool_free(templates, size);
	return handles.fresh;
}

bool rows_init(void)
{
	return map_area();
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
	struct slot *handle = handles.given;

	if (handle) {
		handles.given = (struct slot *)handle->pair;
		return nobodys_slot(handle);
	}
	if (!handles.nr_fresh && !map_area())
		return NULL;
	handle = (struct slot *)handles.fresh;
	handles.fresh += sizeof(*handle);
	handles.nr_fresh--;
	return nobodys_slot(handle);
}

/* All but `pair` stays as it is: a cache that was destroyed says so as long as its handle is nobody's. */
void rows_give(void *given)
{
	struct slot *handle = given;

	handle->pair = (uintptr_t)handles.given;
	handles.given = handle;
}
