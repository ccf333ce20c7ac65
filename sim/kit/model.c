/* SPDX-License-Identifier: MIT */
/* Live objects and their stamps; see model.h. */
#include "sim/kit/model.h"

#include <string.h>

#include "percpu/sheaf.h"
#include "sim/kit/readers.h"
#include "sim/sim.h"
#include <sheaf/rcu.h>

#define HEADS	  1024
#define MOST_LIVE 8192
#define STAMPED	  512 /* stamped bytes of an object, including its last word */

struct live {
	void *object;
	struct kmem_cache *cache;
	uint64_t stamp;
	size_t size, keep;
	uint64_t retired, returned; /* positions in the order of retirement and return, or 0 */
	uint64_t waits_for;
	bool head, freed;
	struct live *next;
};

static struct live table[MOST_LIVE], *heads[HEADS], *unused;
static size_t nr_live, nr_used;
static uint64_t last_stamp, last_retired;

static struct live **head_of(const void *object)
{
	return &heads[((uintptr_t)object >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

/* The place of the stamp of word i, counted from `keep`; NULL after the last one. */
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

static void check_stamps(const struct live *live, const char *when)
{
	uint64_t *word;
	/* Its head may be in use. */
	size_t first = live->head ? sizeof(struct sheaf_rcu_head) / 8 : 0;

	for (size_t i = first; (word = stamped(live, i)) != NULL; i++)
		if (*word != stamp(live, i))
			sim_fail("object %p was written to while %s, at byte %zu", live->object,
				 when, (size_t)((char *)word - (char *)live->object));
	if (live->keep && *(uint64_t *)live->object != MODEL_CONSTRUCTED)
		sim_fail("object %p lost what its constructor wrote while %s", live->object, when);
}

static void forget(struct live **at)
{
	struct live *live = *at;

	*at = live->next;
	live->next = unused;
	unused = live;
}

void model_add(struct kmem_cache *s, void *object, size_t keep)
{
	struct live **at = find(object), *live;
	uint64_t *word;

	if (*at && (*at)->waits_for)
		sim_fail("object %p was handed out before its grace period passed", object);
	if (*at && !(*at)->retired)
		sim_fail("object %p was handed out while it is live", object);
	if (*at)
		forget(at);
	if (keep && *(uint64_t *)object != MODEL_CONSTRUCTED)
		sim_fail("object %p was handed out unconstructed", object);
	live = unused;
	if (live)
		unused = live->next;
	else if (nr_used < MOST_LIVE)
		live = &table[nr_used++];
	else
		sim_fail("more than %d objects are live", MOST_LIVE);
	*live = (struct live){.object = object,
			      .cache = s,
			      .stamp = ++last_stamp,
			      .size = kmem_cache_size(s),
			      .keep = keep};
	at = head_of(object);
	live->next = *at;
	*at = live;
	for (size_t i = 0; (word = stamped(live, i)) != NULL; i++)
		*word = stamp(live, i);
	nr_live++;
}

static struct live **live_of(struct kmem_cache *s, void *object)
{
	struct live **at = find(object);

	if (!*at || (*at)->cache != s || (*at)->retired)
		sim_fail("object %p is freed and is not live", object);
	check_stamps(*at, "it was live");
	return at;
}

void model_remove(struct kmem_cache *s, void *object)
{
	forget(live_of(s, object));
	nr_live--;
}

uint64_t model_retire(struct kmem_cache *s, void *object, bool head)
{
	struct live *live = *live_of(s, object);

	live->retired = ++last_retired;
	live->waits_for = readers_now();
	live->head = head;
	nr_live--;
	return live->retired;
}

void model_was_retired(void *object, uint64_t which)
{
	struct live *live = *find(object);

	if (live && live->retired == which)
		live->returned = ++last_retired;
}

void model_reader_leaves(uint64_t bit)
{
	for (size_t i = 0; i < nr_used; i++)
		if (table[i].waits_for & bit) {
			check_stamps(&table[i], "a reader could look at it");
			table[i].waits_for &= ~bit;
		}
}

uint64_t model_moment(void)
{
	return last_retired;
}

void model_has_passed(const struct kmem_cache *s, uint64_t moment)
{
	for (size_t i = 0; i < nr_used; i++) {
		struct live *live = &table[i];

		if (!live->returned || live->returned > moment || (s && live->cache != s))
			continue;
		if (live->waits_for)
			sim_fail("a barrier did not wait for a reader of object %p", live->object);
		live->freed = true;
	}
}

void model_found_waiting(void *data, struct sheaf *sheaf, bool waits)
{
	(void)data;
	for (unsigned int i = 0; waits && i < sheaf_size(sheaf); i++) {
		struct live *live = *find(sheaf->objects[i]);

		if (live && live->freed)
			sim_fail("object %p waits for a grace period after a barrier",
				 sheaf->objects[i]);
	}
}

void model_all_freed(void)
{
	for (unsigned int i = 0; i < HEADS; i++)
		for (struct live **at = &heads[i]; *at;)
			if ((*at)->retired)
				forget(at);
			else
				at = &(*at)->next;
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
