/* SPDX-License-Identifier: MIT */
/* Live objects and their stamps; see model.h. */
#include "model.h"

#include <string.h>

#include "sheaf/slab.h"
#include "sim/sim.h"

#define HEADS	  1024
#define MOST_LIVE 8192
#define STAMPED	  512 /* bytes of an object that are stamped, and its last word */

struct live {
	void *object;
	struct kmem_cache *cache;
	uint64_t stamp;
	size_t size, keep;
	struct live *next;
};

static struct live table[MOST_LIVE], *heads[HEADS], *unused;
static size_t nr_live, nr_used;
static uint64_t last_stamp;

static struct live **head_of(const void *object)
{
	return &heads[((uintptr_t)object >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

/* Where the stamp of word i lies, from `keep` on; NULL behind the last one. */
static uint64_t *stamped(const struct live *live, size_t i)
{
	size_t words = (live->size - live->keep) / 8;
	size_t most = words < STAMPED / 8 ? words : STAMPED / 8;
	uint64_t *first = (uint64_t *)((char *)live->object + live->keep);

	return i < most ? &first[i] : i == most && words > most ? &first[words - 1] : NULL;
}

static uint64_t stamp(const struct live *live, size_t i)
{
	return (live->stamp << 16 | i) * UINT64_C(0x9e3779b97f4a7c15);
}

static struct live **find(void *object)
{
	struct live **at = head_of(object);

	while (*at && (*at)->object != object)
		at = &(*at)->next;
	return at;
}

void model_add(struct kmem_cache *s, void *object, size_t keep)
{
	struct live **at = find(object), *live = unused;
	uint64_t *word;

	if (*at)
		sim_fail("object %p was handed out while it is live", object);
	if (keep && *(uint64_t *)object != MODEL_CONSTRUCTED)
		sim_fail("object %p was handed out unconstructed", object);
	if (live)
		unused = live->next;
	else if (nr_used < MOST_LIVE)
		live = &table[nr_used++];
	else
		sim_fail("more than %d objects are live", MOST_LIVE);
	*live = (struct live){object, s, ++last_stamp, kmem_cache_size(s), keep, NULL};
	*at = live;
	for (size_t i = 0; (word = stamped(live, i)) != NULL; i++)
		*word = stamp(live, i);
	nr_live++;
}

void model_remove(struct kmem_cache *s, void *object)
{
	struct live **at = find(object), *live = *at;
	uint64_t *word;

	if (!live || live->cache != s)
		sim_fail("object %p is freed and is not live", object);
	for (size_t i = 0; (word = stamped(live, i)) != NULL; i++)
		if (*word != stamp(live, i))
			sim_fail("object %p was written to while it was live, at byte %zu", object,
				 (size_t)((char *)word - (char *)object));
	if (live->keep && *(uint64_t *)object != MODEL_CONSTRUCTED)
		sim_fail("object %p lost what its constructor wrote", object);
	*at = live->next;
	live->next = unused;
	unused = live;
	nr_live--;
}

size_t model_live(void)
{
	return nr_live;
}

void model_constructor(void *object)
{
	if (sim_holds_locks())
		sim_fail("a constructor runs with a lock held");
	*(uint64_t *)object = MODEL_CONSTRUCTED;
}
