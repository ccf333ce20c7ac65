/* SPDX-License-Identifier: MIT */
/* The directory of cache lines and the private caches; see lines.h. */
#include "scale/src/lines.h"

#include <stdio.h>
#include <stdlib.h>

#define FIRST_ENTRIES (1u << 14) /* a power of two */
#define WORD_BITS     64u
/* A word of a private cache: the line's number, and */
#define WRITABLE       ((uintptr_t)1)
#define UNSEEN(thread) ((uintptr_t)2 << (thread)) /* the core's other thread wrote it since */
#define FLAGS	       3u			  /* bits */

struct entry {
	uintptr_t line; /* 0: unused */
	uint64_t busy_until;
	uint16_t owner;	     /* a core, plus one */
	uint16_t last_cache; /* a group, plus one */
	uint32_t nr_sharers;
};

struct lines {
	const struct machine *machine;
	size_t sets; /* of a private cache: a power of two */
	unsigned int cores;
	unsigned int words; /* of bits of an entry */
	size_t nr_entries, used;
	struct entry *entries;
	uint64_t *bits;	   /* `words` of each entry */
	uintptr_t *caches; /* of all cores */
};

/* --- private caches --------------------------------------------------------------------------- */

/* A core has the number of its first CPU. */
static unsigned int core_of(const struct lines *l, unsigned int cpu)
{
	return cpu % l->cores;
}

static unsigned int thread_of(const struct lines *l, unsigned int cpu)
{
	return cpu / l->cores;
}

static uintptr_t *set_of(const struct lines *l, unsigned int core, uintptr_t line)
{
	return l->caches + ((size_t)core * l->sets + (line & (l->sets - 1))) * LINES_WAYS;
}

/* Its place in its set; LINES_WAYS: not there. */
static unsigned int way_of(const uintptr_t *set, uintptr_t line)
{
	unsigned int way = 0;

	while (way < LINES_WAYS && set[way] >> FLAGS != line)
		way++;
	return way;
}

/* The word becomes the newest of its set; the ways before `way` move back by one. */
static void make_newest(uintptr_t *set, unsigned int way, uintptr_t word)
{
	for (; way; way--)
		set[way] = set[way - 1];
	set[0] = word;
}

bool lines_has(struct lines *l, unsigned int cpu, uintptr_t line, bool write)
{
	uintptr_t *set = set_of(l, core_of(l, cpu), line);
	unsigned int way = way_of(set, line), thread = thread_of(l, cpu);

	if (way == LINES_WAYS || (set[way] & UNSEEN(thread)) || (write && !(set[way] & WRITABLE)))
		return false;
	if (write)
		set[way] |= UNSEEN(!thread);
	if (way)
		make_newest(set, way, set[way]);
	return true;
}

static bool is_unseen(const struct lines *l, unsigned int cpu, uintptr_t line)
{
	const uintptr_t *set = set_of(l, core_of(l, cpu), line);
	unsigned int way = way_of(set, line);

	return way < LINES_WAYS && (set[way] & UNSEEN(thread_of(l, cpu)));
}

/* --- the directory ---------------------------------------------------------------------------- */

static size_t place_of(const struct lines *l, uintptr_t line)
{
	size_t place = (size_t)(line * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (l->nr_entries - 1);

	while (l->entries[place].line && l->entries[place].line != line)
		place = (place + 1) & (l->nr_entries - 1);
	return place;
}

static void *zeroed(size_t n, size_t size)
{
	void *memory = calloc(n, size);

	if (!memory) {
		fprintf(stderr, "sheaf sim scale: no memory for %zu cache lines\n", n);
		exit(1);
	}
	return memory;
}

static void make_room(struct lines *l, size_t nr_entries)
{
	struct lines old = *l;

	l->nr_entries = nr_entries;
	l->entries = zeroed(nr_entries, sizeof(*l->entries));
	l->bits = zeroed(nr_entries * l->words, sizeof(*l->bits));
	for (size_t i = 0; i < old.nr_entries; i++) {
		size_t place;

		if (!old.entries[i].line)
			continue;
		place = place_of(l, old.entries[i].line);
		l->entries[place] = old.entries[i];
		for (unsigned int word = 0; word < l->words; word++)
			l->bits[place * l->words + word] = old.bits[i * l->words + word];
	}
	free(old.entries);
	free(old.bits);
}

static struct entry *entry_of(struct lines *l, uintptr_t line)
{
	struct entry *entry = &l->entries[place_of(l, line)];

	if (entry->line)
		return entry;
	if (++l->used > l->nr_entries / 2) {
		make_room(l, 2 * l->nr_entries);
		entry = &l->entries[place_of(l, line)];
	}
	entry->line = line;
	return entry;
}

static uint64_t *bits_of(const struct lines *l, const struct entry *entry)
{
	return l->bits + (size_t)(entry - l->entries) * l->words;
}

static bool has_bit(const struct lines *l, const struct entry *entry, unsigned int core)
{
	return bits_of(l, entry)[core / WORD_BITS] >> core % WORD_BITS & 1;
}

static void set_bit(struct lines *l, struct entry *entry, unsigned int core)
{
	if (!has_bit(l, entry, core))
		entry->nr_sharers++;
	bits_of(l, entry)[core / WORD_BITS] |= UINT64_C(1) << core % WORD_BITS;
}

static void clear_bit(struct lines *l, struct entry *entry, unsigned int core)
{
	bits_of(l, entry)[core / WORD_BITS] &= ~(UINT64_C(1) << core % WORD_BITS);
	entry->nr_sharers--;
}

/* The first core from `core` on that has the line; nr_cpus: none. */
static unsigned int next_sharer(const struct lines *l, const struct entry *entry, unsigned int core)
{
	const uint64_t *bits = bits_of(l, entry);
	unsigned int word = core / WORD_BITS;
	uint64_t rest;

	if (core >= l->cores)
		return l->cores;
	rest = bits[word] >> core % WORD_BITS << core % WORD_BITS;
	while (!rest && ++word < l->words)
		rest = bits[word];
	return rest ? word * WORD_BITS + (unsigned int)__builtin_ctzll(rest) : l->cores;
}

/* --- moving ----------------------------------------------------------------------------------- */

/* This line leaves the core's private cache. */
static void lose(struct lines *l, struct entry *entry, unsigned int core)
{
	uintptr_t *set = set_of(l, core, entry->line);
	unsigned int way = way_of(set, entry->line);

	for (; way + 1 < LINES_WAYS; way++)
		set[way] = set[way + 1];
	set[LINES_WAYS - 1] = 0;
	clear_bit(l, entry, core);
	if (entry->owner == core + 1)
		entry->owner = 0;
}

/* The oldest line of a set makes room, and stays in the core's last-level cache. */
static void evict(struct lines *l, unsigned int core, uintptr_t line)
{
	struct entry *entry = &l->entries[place_of(l, line)];

	lose(l, entry, core);
	entry->last_cache = (uint16_t)(l->machine->group_of[core] + 1);
}

/* With these flags. */
static void insert(struct lines *l, struct entry *entry, unsigned int core, uintptr_t flags)
{
	uintptr_t *set = set_of(l, core, entry->line), word = entry->line << FLAGS | flags;
	unsigned int way = way_of(set, entry->line);

	if (way == LINES_WAYS) {
		way--;
		if (set[way])
			evict(l, core, set[way] >> FLAGS);
	}
	make_newest(set, way, word);
	set_bit(l, entry, core);
	entry->owner = flags & WRITABLE ? (uint16_t)(core + 1) : 0;
}

/* The nearest, or the farthest, other core that has the line; MACHINE_own: none. */
static enum machine_cost sharers_at(const struct lines *l, const struct entry *entry,
				    unsigned int core, bool farthest)
{
	enum machine_cost found = MACHINE_own;

	for (unsigned int other = next_sharer(l, entry, 0); other < l->cores;
	     other = next_sharer(l, entry, other + 1)) {
		enum machine_cost at = machine_distance(l->machine, other, core);

		if (other != core && (found == MACHINE_own || (farthest ? at > found : at < found)))
			found = at;
	}
	return found;
}

/* Where the line comes from. */
static enum machine_cost source(const struct lines *l, const struct entry *entry, unsigned int core,
				bool write, unsigned int home)
{
	const struct machine *m = l->machine;
	enum machine_cost from = sharers_at(l, entry, core, write);

	if (from != MACHINE_own || has_bit(l, entry, core))
		return from;
	if (!entry->last_cache)
		return m->memory_node[m->node_of[core]] == home ? MACHINE_near : MACHINE_far;
	if (entry->last_cache == m->group_of[core] + 1)
		return MACHINE_l3;
	from = machine_distance(m, m->cpu_of_group[entry->last_cache - 1], core);
	return from < MACHINE_same_socket ? MACHINE_same_socket : from;
}

/* What it costs. A core that has the line as the only one asks its last-level cache. */
static uint64_t price(const struct machine *m, enum machine_cost from)
{
	return m->cost[from == MACHINE_own ? MACHINE_l3 : from];
}

static void take_from_others(struct lines *l, struct entry *entry, unsigned int core)
{
	for (unsigned int other = next_sharer(l, entry, 0); other < l->cores;
	     other = next_sharer(l, entry, other + 1))
		if (other != core)
			lose(l, entry, other);
	entry->last_cache = 0;
}

/* The owner may only read from now on. */
static void share(struct lines *l, struct entry *entry)
{
	unsigned int owner = entry->owner - 1u;
	uintptr_t *set = set_of(l, owner, entry->line);

	set[way_of(set, entry->line)] &= ~WRITABLE;
	entry->owner = 0;
}

struct lines_move lines_get(struct lines *l, unsigned int cpu, uintptr_t line, bool write,
			    uint64_t now, unsigned int home)
{
	unsigned int core = core_of(l, cpu);
	struct entry *entry = entry_of(l, line);
	uint64_t start = entry->busy_until > now ? entry->busy_until : now, done;
	enum machine_cost from = source(l, entry, core, write, home);
	bool was_mine = entry->owner == core + 1, was_owned = entry->owner && !was_mine;
	uintptr_t flags = write ? WRITABLE | UNSEEN(!thread_of(l, cpu)) : 0;

	/* The other thread of the core wrote it. */
	if (from < MACHINE_same_core && is_unseen(l, cpu, line))
		from = MACHINE_same_core;
	done = start + price(l->machine, from);
	if (write || was_owned)
		entry->busy_until = done;
	if (write)
		take_from_others(l, entry, core);
	else if (was_owned)
		share(l, entry);
	if (was_mine || !entry->nr_sharers)
		flags |= WRITABLE;
	insert(l, entry, core, flags);
	return (struct lines_move){.done = done, .from = from};
}

/* --- making ----------------------------------------------------------------------------------- */

struct lines *lines_new(const struct machine *machine)
{
	struct lines *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->machine = machine;
	for (l->sets = 1; 2 * l->sets * LINES_WAYS <= machine->cache_lines; l->sets *= 2)
		;
	l->cores = machine->nr_cpus / machine->threads;
	l->words = (l->cores + WORD_BITS - 1) / WORD_BITS;
	l->caches = zeroed(l->cores * l->sets * LINES_WAYS, sizeof(*l->caches));
	make_room(l, FIRST_ENTRIES);
	return l;
}

void lines_delete(struct lines *l)
{
	if (!l)
		return;
	free(l->entries);
	free(l->bits);
	free(l->caches);
	free(l);
}

static void broken(const struct entry *entry, const char *what)
{
	fprintf(stderr, "line %#zx: %s\n", (size_t)entry->line, what);
	abort();
}

static void check_entry(const struct lines *l, const struct entry *entry)
{
	unsigned int sharers = 0;

	for (unsigned int core = 0; core < l->cores; core++) {
		const uintptr_t *set = set_of(l, core, entry->line);
		unsigned int way = way_of(set, entry->line);
		bool has = way < LINES_WAYS;

		if (has != has_bit(l, entry, core))
			broken(entry, "the directory and a private cache disagree (W2)");
		if (has && (bool)(set[way] & WRITABLE) != (entry->owner == core + 1))
			broken(entry, "the core that may write is not its owner (W1)");
		sharers += has;
	}
	if (sharers != entry->nr_sharers || (entry->owner && sharers != 1))
		broken(entry, "has an owner and is shared, or is counted wrong (W1)");
	if (!sharers && !entry->last_cache)
		broken(entry, "is nowhere (W3)");
}

void lines_check(const struct lines *l)
{
	for (size_t i = 0; i < l->nr_entries; i++)
		if (l->entries[i].line)
			check_entry(l, &l->entries[i]);
}
