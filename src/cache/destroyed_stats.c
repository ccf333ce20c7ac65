/* SPDX-License-Identifier: MIT */
/* Counts of destroyed caches; see destroyed_stats.h. */
#include "cache/destroyed_stats.h"

#include "cache/events.h"
#include "page/pool.h"
#include "percpu/rows.h"

static struct {
	struct destroyed_stats *first;
	uint32_t nr;
} list;

bool cache_read_counts(struct kmem_cache *s, uint64_t words[OS_WORDS])
{
	uint64_t any = 0;

	memset(words, 0, OS_WORDS * sizeof(*words));
	for (unsigned int i = OS_NR_SHOWN; i < NR_RCU_WORDS; i++)
		any |= words[i] = rows_counted((char *)s, i);
	return any != 0;
}

/* For this cache; NULL: for all of this name. */
static struct destroyed_stats *find_entry(const struct kmem_cache *s, const char *name)
{
	struct destroyed_stats *entry = list.first;

	while (entry && (strcmp(entry->name, name) != 0 ||
			 (s && (entry->object_size != s->sheaf.slab.object_size ||
				entry->slab_size != s->sheaf.slab.size))))
		entry = entry->next;
	return entry;
}

static struct destroyed_stats *make_entry(const char *name)
{
	struct destroyed_stats *entry = pool_alloc(sizeof(*entry) + strlen(name) + 1);

	if (!entry)
		return NULL;
	os_assert(os.counting); /* DESTROYED-E1 */
	memset(entry, 0, sizeof(*entry));
	strcpy(entry->name, name);
	entry->next = list.first;
	list.nr++;
	os_store_release(&list.first, entry);
	return entry;
}

static void add(struct destroyed_stats *entry, const struct kmem_cache *s, const uint64_t *words)
{
	os_store_relaxed(&entry->object_size, s->sheaf.slab.object_size);
	os_store_relaxed(&entry->slab_size, s->sheaf.slab.size);
	os_store_relaxed(&entry->objs_per_slab, s->sheaf.slab.oo.objects);
	os_store_relaxed(&entry->sheaf_capacity, sheaf_capacity(&s->sheaf));
	os_store_relaxed(&entry->times, entry->times + 1);
	for (unsigned int i = 0; i < NR_RCU_WORDS; i++)
		if (i != STAT_peak_slab_bytes)
			os_store_relaxed(&entry->words[i], entry->words[i] + words[i]);
	if (entry->words[STAT_peak_slab_bytes] < words[STAT_peak_slab_bytes])
		os_store_relaxed(&entry->words[STAT_peak_slab_bytes], words[STAT_peak_slab_bytes]);
}

void destroyed_stats_add(struct kmem_cache *s)
{
	uint64_t words[OS_WORDS];
	struct destroyed_stats *entry;

	os_assert(os_peek(&caches.lock.word)); /* DESTROYED-E2: one thread adds at a time */
	if (!s->sheaf.slab.counted || !cache_read_counts(s, words))
		return;
	entry = find_entry(s, s->name);
	if (!entry && list.nr >= DESTROYED_ENTRIES)
		entry = find_entry(NULL, DESTROYED_OTHERS);
	if (!entry)
		entry = make_entry(list.nr < DESTROYED_ENTRIES ? s->name : DESTROYED_OTHERS);
	if (entry)
		add(entry, s, words);
}

const struct destroyed_stats *destroyed_stats_next(const struct destroyed_stats *entry)
{
	return entry ? entry->next : os_load_acquire(&list.first);
}

void destroyed_stats_forget(void)
{
	memset(&list, 0, sizeof(list));
}
