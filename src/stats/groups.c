/* SPDX-License-Identifier: MIT */
/* Copies the numbers of all groups; see stats.h. */
#include "stats/stats.h"

#include <string.h>

#include "cache/account.h"
#include "os/memory.h"

#define PARTS_FOR_GROUP 4u
#define PARTS_AT_LEAST	1024u

static bool make_room_for_groups(struct group_table *table)
{
	size_t rows = table->most * sizeof(*table->groups);

	for (table->nr_parts = PARTS_AT_LEAST; table->nr_parts < table->most * PARTS_FOR_GROUP;)
		table->nr_parts *= 2;
	table->room = os_round_up(rows + table->nr_parts * sizeof(*table->parts));
	table->memory = os_map(table->room);
	if (!table->memory)
		return false;
	table->parts = (struct group_part *)(void *)table->memory;
	table->groups = (struct group_row *)(void *)(table->parts + table->nr_parts);
	return true;
}

void groups_release(struct group_table *table)
{
	if (table->memory)
		os_unreserve(table->memory, table->room);
	table->memory = NULL;
}

/* --- numbers ---------------------------------------------------------------------------------- */

/* The root is first, then the youngest: their rows are filled from the end. */
static void copy_group(void *data, struct kmem_group *g)
{
	struct group_table *table = data;
	struct group_row *row;

	if (g->over || table->n == table->most)
		return;
	row = &table->groups[table->n ? table->most - table->n : 0];
	table->n++;
	account_read_group(g, &row->stats);
	row->group = g;
}

/* The place of the group with this id: ids rise. */
static uint32_t find_id(const struct group_table *table, uint64_t id)
{
	uint32_t low = 0, high = table->n;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (table->groups[middle].stats.id <= id)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The youngest is linked first, so the oldest child comes first in the end. */
static void link_tree(struct group_table *table)
{
	for (uint32_t i = table->n - 1; i > 0; i--) {
		uint32_t parent = find_id(table, table->groups[i].stats.parent);

		table->groups[i].from = parent + 1;
		table->groups[i].next = table->groups[parent].child;
		table->groups[parent].child = i + 1;
	}
}

/* --- objects ---------------------------------------------------------------------------------- */

static struct group_part *part_of(struct group_table *table, uint32_t row,
				  const struct slab_cache *cache)
{
	uint64_t hash = ((uintptr_t)cache ^ row) * UINT64_C(0x9e3779b97f4a7c15);

	for (uint32_t i = 0; i < table->nr_parts; i++) {
		uint32_t at = (uint32_t)((hash >> 32) + i) & (table->nr_parts - 1);
		struct group_part *part = &table->parts[at];

		if (part->group == row + 1 && part->cache == cache)
			return part;
		if (part->group)
			continue;
		part->group = row + 1;
		part->cache = cache;
		memcpy(part->name, cache->name, strnlen(cache->name, sizeof(part->name) - 1));
		part->next = table->groups[row].parts;
		table->groups[row].parts = at + 1;
		return part;
	}
	return NULL;
}

static void add_bytes_to_row(void *data, const struct slab_cache *cache, uint64_t bytes,
			     uint32_t number)
{
	struct group_table *table = data;
	const struct kmem_group *g = account_living(number);
	uint32_t row = find_id(table, g->id);
	struct group_part *part;

	if (table->groups[row].group != g)
		row = 0;
	part = part_of(table, row, cache);
	if (!part) {
		table->left_out++;
		return;
	}
	part->bytes += bytes;
	part->objects++;
	table->groups[row].own_bytes += bytes;
	table->groups[row].own_objects++;
}

bool groups_read(struct group_table *table)
{
	memset(table, 0, sizeof(*table));
	if (!groups_exist())
		return true;
	/* Groups that are made meanwhile are left out. */
	table->most = os_load_relaxed(&groups.nr) + 64;
	if (!make_room_for_groups(table))
		return false;
	group_for_each(copy_group, table);
	memmove(table->groups + 1, table->groups + table->most + 1 - table->n,
		(table->n - 1) * sizeof(*table->groups));
	link_tree(table);
	account_for_each(add_bytes_to_row, table);
	return true;
}
