/* SPDX-License-Identifier: MIT */
/* The list of caches; see list.h. */
#include "cache/list.h"

#include "cache/index.h"
#include "page/pool.h"

struct entry {
	struct kmem_cache *s, *prev;
	uint32_t pins, pinned; /* now, and since the cache was made */
	uint64_t print;	       /* see list_print() */
	struct index_link by_name, by_layout;
	char name[];
};

static struct index by_name, by_layout;
static struct kmem_cache *visited_next[LIST_VISITORS]; /* see list_visit() */

static struct entry *entry_of(const struct kmem_cache *s)
{
	return (struct entry *)(s->name - offsetof(struct entry, name));
}

static struct entry *entry_of_name(struct index_link *link)
{
	return (struct entry *)((char *)link - offsetof(struct entry, by_name));
}

static struct entry *entry_of_layout(struct index_link *link)
{
	return (struct entry *)((char *)link - offsetof(struct entry, by_layout));
}

static size_t size_of_name(const char *name)
{
	return sizeof(struct entry) + strlen(name) + 1;
}

static uint32_t hash_of_name(const char *name)
{
	return index_hash(INDEX_HASH, name, strlen(name));
}

static uint32_t hash_of_layout(uint32_t size, slab_flags_t flags)
{
	flags &= LIST_FLAGS;
	return index_hash(index_hash(INDEX_HASH, &size, sizeof(size)), &flags, sizeof(flags));
}

bool list_name(struct kmem_cache *s, const char *name)
{
	struct entry *entry = pool_alloc(size_of_name(name));

	if (!entry)
		return false;
	entry->s = s;
	s->name = strcpy(entry->name, name);
	return true;
}

void list_forget_name(struct kmem_cache *s)
{
	pool_free(entry_of(s), size_of_name(s->name));
	s->name = NULL;
}

void list_add(struct kmem_cache *s)
{
	struct entry *entry = entry_of(s);

	os_assert(os_peek(&s->calls.alloc) && os_peek(&s->calls.free)); /* CACHE-C1 */
	os_assert(os_peek(&s->nr_names) && !s->gone);			/* LIST-L1 */
	s->next = caches.first;
	if (s->next)
		entry_of(s->next)->prev = s;
	caches.first = s;
	os_store_relaxed(&caches.nr, caches.nr + 1);
	index_add(&by_name, &entry->by_name, hash_of_name(s->name));
	if (!s->unmergeable)
		index_add(&by_layout, &entry->by_layout,
			  hash_of_layout(s->sheaf.slab.size, s->flags));
}

void list_keep_apart(struct kmem_cache *s)
{
	index_remove(&by_layout, &entry_of(s)->by_layout);
}

void list_hide(struct kmem_cache *s)
{
	os_assert(!os_peek(&s->nr_names)); /* LIST-L1 */
	index_remove(&by_name, &entry_of(s)->by_name);
	list_keep_apart(s);
}

static void unlink_entry(struct entry *entry)
{
	struct kmem_cache *prev = entry->prev, *next = entry->s->next;

	os_assert(!os_peek(&entry->s->nr_names) && !entry->s->gone); /* CACHE-C2 */
	os_assert(!entry->by_name.from && !entry->by_layout.from);   /* LIST-L1, LIST-L2 */
	os_assert(!os_peek(&entry->pins));			     /* LIST-L3 */
	if (prev)
		prev->next = next;
	else
		caches.first = next;
	if (next)
		entry_of(next)->prev = prev;
	for (unsigned int i = 0; i < LIST_VISITORS; i++)
		if (visited_next[i] == entry->s)
			visited_next[i] = next;
	os_store_relaxed(&caches.nr, caches.nr - 1);
}

static void lock_unpinned(struct entry *entry)
{
	uint32_t pins;

	os_lock(&caches.lock);
	while ((pins = entry->pins) != 0) {
		os_unlock(&caches.lock);
		os_wait(&entry->pins, pins, 0);
		os_lock(&caches.lock);
	}
}

uint32_t list_wait_unpinned(struct kmem_cache *s)
{
	struct entry *entry = entry_of(s);
	uint32_t pinned;

	lock_unpinned(entry);
	pinned = entry->pinned;
	os_unlock(&caches.lock);
	return pinned;
}

void list_remove(struct kmem_cache *s)
{
	struct entry *entry = entry_of(s);

	lock_unpinned(entry);
	unlink_entry(entry);
	s->gone = true;
	os_unlock(&caches.lock);
}

static void pin(struct kmem_cache *s)
{
	struct entry *entry = entry_of(s);

	os_assert(!s->gone); /* LIST-L3 */
	os_store_relaxed(&entry->pins, entry->pins + 1);
	entry->pinned++;
}

/* The word on which threads wait for this stays readable: pools never return memory. */
void list_unpin(struct kmem_cache *s)
{
	struct entry *entry = entry_of(s);
	bool wake;

	os_lock(&caches.lock);
	os_assert(!s->gone); /* LIST-L3 */
	/* A child that was forked during this walk counts from 0. */
	if (entry->pins)
		os_store_relaxed(&entry->pins, entry->pins - 1);
	wake = !entry->pins && !s->nr_names;
	os_unlock(&caches.lock);
	if (wake)
		os_wake(&entry->pins);
}

struct kmem_cache *list_next_if(struct kmem_cache *s, bool (*wanted)(const struct kmem_cache *s))
{
	struct kmem_cache *next;

	os_lock(&caches.lock);
	next = s ? s->next : caches.first;
	while (next && wanted && !wanted(next))
		next = next->next;
	if (next)
		pin(next);
	os_unlock(&caches.lock);
	if (s)
		list_unpin(s);
	return next;
}

struct kmem_cache *list_next(struct kmem_cache *s)
{
	return list_next_if(s, NULL);
}

bool list_pin(struct kmem_cache *s)
{
	bool known;

	if (!s)
		return false;
	os_lock(&caches.lock);
	known = !s->gone;
	if (known)
		pin(s);
	os_unlock(&caches.lock);
	return known;
}

void list_after_fork(void)
{
	/* A page that is not written stays shared with the parent. */
	for (struct kmem_cache *s = caches.first; s; s = s->next)
		if (entry_of(s)->pins)
			entry_of(s)->pins = 0;
}

bool list_has_name(const char *name)
{
	struct index_link *link = index_find(&by_name, hash_of_name(name));

	while (link && strcmp(entry_of_name(link)->name, name) != 0)
		link = index_next(link);
	return link;
}

struct kmem_cache *list_find(size_t size, unsigned int align, slab_flags_t flags)
{
	/* Sizes of slabs and alignments are whole words, so the size is equal or wastes at least a
	 * word. */
	uint32_t wanted = (uint32_t)((size + align - 1) & ~((size_t)align - 1));
	struct index_link *link = index_find(&by_layout, hash_of_layout(wanted, flags));

	for (; link; link = index_next(link)) {
		struct kmem_cache *s = entry_of_layout(link)->s;

		os_assert(os_peek(&s->nr_names) && !s->unmergeable); /* LIST-L2 */
		if (s->sheaf.slab.size == wanted && s->sheaf.slab.align >= align &&
		    !((s->flags ^ flags) & LIST_FLAGS))
			return s;
	}
	return NULL;
}

void list_visit_first(unsigned int visitor)
{
	visited_next[visitor] = caches.first;
}

struct kmem_cache *list_visit(unsigned int visitor)
{
	struct kmem_cache **next = &visited_next[visitor];

	while (*next && !(*next)->nr_names)
		*next = (*next)->next;
	return *next;
}

void list_visited(unsigned int visitor)
{
	if (visited_next[visitor])
		visited_next[visitor] = visited_next[visitor]->next;
}

uint64_t *list_print(struct kmem_cache *s)
{
	return &entry_of(s)->print;
}
