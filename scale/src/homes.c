/* SPDX-License-Identifier: MIT */
/* See homes.h. */
#include "scale/src/homes.h"

#include <stdio.h>
#include <stdlib.h>

#define FIRST_ENTRIES (1u << 12)

struct home {
	uintptr_t page; /* 0: unused */
	uint32_t number;
	uint32_t node; /* plus one; 0: not touched, or returned */
};

struct homes {
	size_t nr_entries, used;
	uint32_t numbers; /* numbers given out */
	struct home *entries;
};

static struct home *find(const struct homes *h, uintptr_t page)
{
	size_t place = (size_t)(page * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (h->nr_entries - 1);

	while (h->entries[place].page && h->entries[place].page != page)
		place = (place + 1) & (h->nr_entries - 1);
	return &h->entries[place];
}

static void make_room(struct homes *h, size_t nr_entries)
{
	struct homes old = *h;

	h->nr_entries = nr_entries;
	h->entries = calloc(nr_entries, sizeof(*h->entries));
	if (!h->entries) {
		fprintf(stderr, "sheaf sim scale: no memory for %zu pages\n", nr_entries);
		exit(1);
	}
	for (size_t i = 0; i < old.nr_entries; i++)
		if (old.entries[i].page)
			*find(h, old.entries[i].page) = old.entries[i];
	free(old.entries);
}

struct homes *homes_new(void)
{
	struct homes *h = calloc(1, sizeof(*h));

	if (h)
		make_room(h, FIRST_ENTRIES);
	return h;
}

/* The page's entry, new if it has none. */
static struct home *entry_of(struct homes *h, uintptr_t page)
{
	struct home *home = find(h, page);

	if (home->page)
		return home;
	if (++h->used > h->nr_entries / 2) {
		make_room(h, 2 * h->nr_entries);
		home = find(h, page);
	}
	*home = (struct home){.page = page, .number = ++h->numbers};
	return home;
}

uint32_t homes_number(struct homes *h, uintptr_t page)
{
	return entry_of(h, page)->number;
}

unsigned int homes_touch(struct homes *h, uintptr_t page, unsigned int node, bool *first)
{
	struct home *home = entry_of(h, page);

	*first = !home->node;
	if (*first)
		home->node = node + 1;
	return home->node - 1;
}

bool homes_is_touched(struct homes *h, uintptr_t page)
{
	return find(h, page)->node;
}

size_t homes_discard(struct homes *h, uintptr_t page, size_t pages)
{
	size_t touched = 0;

	for (size_t i = 0; i < pages; i++) {
		struct home *home = find(h, page + i);

		if (!home->node)
			continue;
		touched++;
		home->node = 0;
		home->number = ++h->numbers;
	}
	return touched;
}
