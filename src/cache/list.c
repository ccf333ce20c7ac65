/* SPDX-License-Identifier: MIT */
/* The list of caches; see list.h. */
#include "cache/list.h"

#include "page/pool.h"
#include "slab/drain_marks.h"

#define CHAINS	   128u /* of each index: small, beside what a first use writes */
#define HASH_SEED  0x811c9dc5u
#define MOST_LOOKS 64 /* at caches, with the lock held */

/* All zero: in no index. */
struct link {
	struct link *next, **from;
};

struct entry {
	struct kmem_cache *s, *prev;
	uint32_t pins;
	uint32_t hash;	/* of the name: most others in its chain differ */
	uint64_t print; /* see list_print() */
	struct link by_name, by_layout;
	char name[];
};

#define ENTRY_OF(link, member) ((struct entry *)((char *)(link)-offsetof(struct entry, member)))

static struct {
	struct link *names[CHAINS], *layouts[CHAINS];
} chains;
static struct kmem_cache *visited_next[LIST_VISITORS]; /* see list_visit() */

static struct entry *entry_of(const struct kmem_cache *s)
{
	return ENTRY_OF(s->name, name);
}

static size_t size_of_name(const char *name)
{
	return sizeof(struct entry) + strlen(name) + 1;
}

/* --- the two indexes -------------------------------------------------------------------------- */

/* FNV-1a. */
static uint32_t hash(uint32_t so_far, const void *bytes, size_t size)
{
	for (const unsigned char *byte = bytes; size > 0; byte++, size--)
		so_far = (so_far ^ *byte) * 0x01000193u;
	return so_far;
}

static uint32_t hash_of_name(const char *name)
{
	return hash(HASH_SEED, name, strlen(name));
}

static struct link **chain_of_layout(uint32_t size, slab_flags_t flags)
{
	flags &= LIST_FLAGS;
	return &chains.layouts[hash(hash(HASH_SEED, &size, sizeof(size)), &flags, sizeof(flags)) %
			       CHAINS];
}

static void add_link(struct link **chain, struct link *link)
{
	link->next = *chain;
	link->from = chain;
	if (*chain)
		(*chain)->from = &link->next;
	*chain = link;
}

static void remove_link(struct link *link)
{
	if (!link->from)
		return;
	*link->from = link->next;
	if (link->next)
		link->next->from = link->from;
	link->from = NULL;
}

bool list_has_name(const char *name)
{
	uint32_t wanted = hash_of_name(name);
	struct link *link = chains.names[wanted % CHAINS];

	while (link && (ENTRY_OF(link, by_name)->hash != wanted ||
			strcmp(ENTRY_OF(link, by_name)->name, name) != 0))
		link = link->next;
	return link;
}

struct kmem_cache *list_find(size_t size, unsigned int align, slab_flags_t flags)
{
	/* Sizes of slabs and alignments are whole words, so the size is equal or wastes at least a
	 * word. */
	uint32_t wanted = (uint32_t)((size + align - 1) & ~((size_t)align - 1));

	for (struct link *link = *chain_of_layout(wanted, flags); link; link = link->next) {
		struct kmem_cache *s = ENTRY_OF(link, by_layout)->s;

		os_assert(os_peek(&s->nr_names) && !s->unmergeable); /* LIST-L2 */
		if (s->sheaf.slab.size == wanted && s->sheaf.slab.align >= align &&
		    !((s->flags ^ flags) & LIST_FLAGS))
			return s;
	}
	return NULL;
}

/* --- the list --------------------------------------------------------------------------------- */

bool list_name(struct kmem_cache *s, const char *name)
{
	struct entry *entry = pool_alloc(size_of_name(name));

	if (!entry)
		return false;
	entry->s = s;
	entry->hash = hash_of_name(name);
	s->name = strcpy(entry->name, name);
	tsan_release(s->name);
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
	os_assert(os_peek(&s->nr_names) && !s->ending);			/* LIST-L1 */
	s->next = caches.first;
	if (s->next)
		entry_of(s->next)->prev = s;
	caches.first = s;
	os_store_relaxed(&caches.nr, caches.nr + 1);
	add_link(&chains.names[entry->hash % CHAINS], &entry->by_name);
	if (!s->unmergeable)
		add_link(chain_of_layout(s->sheaf.slab.size, s->flags), &entry->by_layout);
}

void list_keep_apart(struct kmem_cache *s)
{
	remove_link(&entry_of(s)->by_layout);
}

void list_hide(struct kmem_cache *s)
{
	os_assert(!os_peek(&s->nr_names)); /* LIST-L1 */
	remove_link(&entry_of(s)->by_name);
	list_keep_apart(s);
	s->ending = true;
}

void list_remove(struct kmem_cache *s)
{
	struct entry *entry = entry_of(s);
	struct kmem_cache *prev = entry->prev, *next = s->next;

	os_assert(!os_peek(&s->nr_names) && s->ending);		   /* CACHE-C2 */
	os_assert(!entry->by_name.from && !entry->by_layout.from); /* LIST-L1, LIST-L2 */
	os_assert(!os_peek(&entry->pins));			   /* LIST-L3 */
	if (prev)
		prev->next = next;
	else
		caches.first = next;
	if (next)
		entry_of(next)->prev = prev;
	for (unsigned int i = 0; i < LIST_VISITORS; i++)
		if (visited_next[i] == s)
			visited_next[i] = next;
	os_store_relaxed(&caches.nr, caches.nr - 1);
}

void list_wait_unpinned(struct kmem_cache *s)
{
	struct entry *entry = entry_of(s);
	uint32_t pins;

	while ((pins = os_load_acquire(&entry->pins)) != 0)
		os_wait(&entry->pins, pins, 0);
}

void list_show(struct kmem_cache *s)
{
	os_lock(&caches.lock);
	s->ending = false;
	os_unlock(&caches.lock);
}

static void pin(struct kmem_cache *s)
{
	os_assert(!s->ending); /* LIST-L3 */
	os_store_relaxed(&entry_of(s)->pins, entry_of(s)->pins + 1);
}

/* The word on which threads wait for this stays readable: pools never return memory. */
void list_unpin(struct kmem_cache *s)
{
	struct entry *entry = entry_of(s);
	bool wake;

	os_lock(&caches.lock);
	wake = s->ending && entry->pins == 1;
	/* A child that was forked during this walk counts from 0. */
	if (entry->pins)
		os_store_release(&entry->pins, entry->pins - 1);
	os_unlock(&caches.lock);
	if (wake)
		os_wake(&entry->pins);
}

/* The next cache that is wanted; or another one, so that the lock is not held for long. */
static struct kmem_cache *pin_next(struct kmem_cache *s, bool (*wanted)(const struct kmem_cache *s))
{
	struct kmem_cache *next;
	unsigned int looks = 0;

	os_lock(&caches.lock);
	for (next = s ? s->next : caches.first; next; next = next->next)
		if (!next->ending && (!wanted || wanted(next) || ++looks == MOST_LOOKS))
			break;
	if (next)
		pin(next);
	os_unlock(&caches.lock);
	if (s)
		list_unpin(s);
	return next;
}

struct kmem_cache *list_next_if(struct kmem_cache *s, bool (*wanted)(const struct kmem_cache *s))
{
	do
		s = pin_next(s, wanted);
	while (s && wanted && !wanted(s));
	return s;
}

struct kmem_cache *list_next(struct kmem_cache *s)
{
	return list_next_if(s, NULL);
}

bool list_pin(struct kmem_cache *s, const char *call)
{
	bool known;

	os_lock(&caches.lock);
	known = s && !s->ending;
	if (known)
		pin(s);
	os_unlock(&caches.lock);
	if (!known) {
		cache_report_unusable(s, call);
		os_report_kept();
	}
	return known;
}

struct kmem_cache *list_pin_marked(uint64_t number, bool *lost)
{
	struct slab_cache *cache;
	struct kmem_cache *s;

	os_lock(&caches.lock);
	cache = slab_marked_cache(number, lost);
	s = cache ? cache_of_slab(cache) : NULL;
	if (s && s->ending)
		s = NULL;
	if (s)
		pin(s);
	os_unlock(&caches.lock);
	return s;
}

void list_after_fork(void)
{
	/*
	 * A page that is not written stays shared with the parent. What is being destroyed is not
	 * pinned here, either: the thread that destroys it may be the one that forked.
	 */
	for (struct kmem_cache *s = caches.first; s; s = s->next)
		if (entry_of(s)->pins)
			entry_of(s)->pins = 0;
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
	visited_next[visitor] = visited_next[visitor]->next;
}

uint64_t *list_print(struct kmem_cache *s)
{
	return &entry_of(s)->print;
}
