/* SPDX-License-Identifier: MIT */
/* The directory of cache lines and the private caches; see lines.h. */
#include "sim/scale/lines.h"

#include <stdio.h>
#include <stdlib.h>

#define FIRST_ENTRIES (1u << 14) /* a power of two */
#define WORD_BITS     64u
#define WRITABLE      ((uintptr_t)1)

struct entry {
	uintptr_t line; /* 0: unused */
	uint64_t busy_until;
	uint16_t owner;	     /* a CPU, plus one */
	uint16_t last_cache; /* a group, plus one */
	uint32_t nr_sharers;
};

struct lines {
	const struct machine *machine;
	size_t sets;	    /* of a private cache: a power of two */
	unsigned int words; /* of bits of an entry */
	size_t nr_entries, used;
	struct entry *entries;
	uint64_t *bits;	   /* `words` of each entry */
	uintptr_t *caches; /* of all CPUs */
};

/* --- private caches --------------------------------------------------------------------------- */

static uintptr_t *set_of(const struct lines *l, unsigned int cpu, uintptr_t line)
{
	return l->caches + ((size_t)cpu * l->sets + (line & (l->sets - 1))) * LINES_WAYS;
}

/* Where it is in its set; LINES_WAYS: nowhere. */
static unsigned int way_of(const uintptr_t *set, uintptr_t line)
{
	unsigned int way = 0;

	while (way < LINES_WAYS && set[way] >> 1 != line)
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
	uintptr_t *set = set_of(l, cpu, line);
	unsigned int way = way_of(set, line);

	if (way == LINES_WAYS || (write && !(set[way] & WRITABLE)))
		return false;
	if (way)
		make_newest(set, way, set[way]);
	return true;
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

static bool has_bit(const struct lines *l, const struct entry *entry, unsigned int cpu)
{
	return bits_of(l, entry)[cpu / WORD_BITS] >> cpu % WORD_BITS & 1;
}

static void set_bit(struct lines *l, struct entry *entry, unsigned int cpu)
{
	if (!has_bit(l, entry, cpu))
		entry->nr_sharers++;
	bits_of(l, entry)[cpu / WORD_BITS] |= UINT64_C(1) << cpu % WORD_BITS;
}

static void clear_bit(struct lines *l, struct entry *entry, unsigned int cpu)
{
	bits_of(l, entry)[cpu / WORD_BITS] &= ~(UINT64_C(1) << cpu % WORD_BITS);
	entry->nr_sharers--;
}

/* The first CPU from `cpu` on that has the line; nr_cpus: none. */
static unsigned int next_sharer(const struct lines *l, const struct entry *entry, unsigned int cpu)
{
	const uint64_t *bits = bits_of(l, entry);
	unsigned int word = cpu / WORD_BITS;
	uint64_t rest;

	if (cpu >= l->machine->nr_cpus)
		return l->machine->nr_cpus;
	rest = bits[word] >> cpu % WORD_BITS << cpu % WORD_BITS;
	while (!rest && ++word < l->words)
		rest = bits[word];
	return rest ? word * WORD_BITS + (unsigned int)__builtin_ctzll(rest) : l->machine->nr_cpus;
}

/* --- moving ----------------------------------------------------------------------------------- */

/* This line leaves the CPU's private cache. */
static void lose(struct lines *l, struct entry *entry, unsigned int cpu)
{
	uintptr_t *set = set_of(l, cpu, entry->line);
	unsigned int way = way_of(set, entry->line);

	for (; way + 1 < LINES_WAYS; way++)
		set[way] = set[way + 1];
	set[LINES_WAYS - 1] = 0;
	clear_bit(l, entry, cpu);
	if (entry->owner == cpu + 1)
		entry->owner = 0;
}

/* The oldest line of a set makes room, and stays behind the CPU's last-level cache. */
static void evict(struct lines *l, unsigned int cpu, uintptr_t line)
{
	struct entry *entry = &l->entries[place_of(l, line)];

	lose(l, entry, cpu);
	entry->last_cache = (uint16_t)(l->machine->group_of[cpu] + 1);
}

static void insert(struct lines *l, struct entry *entry, unsigned int cpu, bool writable)
{
	uintptr_t *set = set_of(l, cpu, entry->line), word = entry->line << 1 | writable;
	unsigned int way = way_of(set, entry->line);

	if (way == LINES_WAYS) {
		way--;
		if (set[way])
			evict(l, cpu, set[way] >> 1);
	}
	make_newest(set, way, word);
	set_bit(l, entry, cpu);
	entry->owner = writable ? (uint16_t)(cpu + 1) : 0;
}

/* The nearest, or the farthest, other CPU that has the line; MACHINE_own: none. */
static enum machine_cost sharers_at(const struct lines *l, const struct entry *entry,
				    unsigned int cpu, bool farthest)
{
	enum machine_cost found = MACHINE_own;

	for (unsigned int other = next_sharer(l, entry, 0); other < l->machine->nr_cpus;
	     other = next_sharer(l, entry, other + 1)) {
		enum machine_cost at = machine_distance(l->machine, other, cpu);

		if (other != cpu && (found == MACHINE_own || (farthest ? at > found : at < found)))
			found = at;
	}
	return found;
}

/* Where the line comes from. */
static enum machine_cost source(const struct lines *l, const struct entry *entry, unsigned int cpu,
				bool write, unsigned int home)
{
	const struct machine *m = l->machine;
	enum machine_cost from = sharers_at(l, entry, cpu, write);

	if (from != MACHINE_own || has_bit(l, entry, cpu))
		return from;
	if (!entry->last_cache)
		return m->memory_node[m->node_of[cpu]] == home ? MACHINE_near : MACHINE_far;
	if (entry->last_cache == m->group_of[cpu] + 1)
		return MACHINE_l3;
	from = machine_distance(m, m->cpu_of_group[entry->last_cache - 1], cpu);
	return from < MACHINE_same_socket ? MACHINE_same_socket : from;
}

/* What it costs. A CPU that has the line, and nobody else, asks its last-level cache. */
static uint64_t price(const struct machine *m, enum machine_cost from)
{
	return m->cost[from == MACHINE_own ? MACHINE_l3 : from];
}

static void take_from_others(struct lines *l, struct entry *entry, unsigned int cpu)
{
	for (unsigned int other = next_sharer(l, entry, 0); other < l->machine->nr_cpus;
	     other = next_sharer(l, entry, other + 1))
		if (other != cpu)
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
	struct entry *entry = entry_of(l, line);
	uint64_t start = entry->busy_until > now ? entry->busy_until : now;
	enum machine_cost from = source(l, entry, cpu, write, home);
	bool was_owned = entry->owner, alone;
	uint64_t done = start + price(l->machine, from);

	if (write || was_owned)
		entry->busy_until = done;
	if (write)
		take_from_others(l, entry, cpu);
	else if (was_owned)
		share(l, entry);
	alone = !entry->nr_sharers;
	insert(l, entry, cpu, write || alone);
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
	l->words = (machine->nr_cpus + WORD_BITS - 1) / WORD_BITS;
	l->caches = zeroed(machine->nr_cpus * l->sets * LINES_WAYS, sizeof(*l->caches));
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

	for (unsigned int cpu = 0; cpu < l->machine->nr_cpus; cpu++) {
		const uintptr_t *set = set_of(l, cpu, entry->line);
		unsigned int way = way_of(set, entry->line);
		bool has = way < LINES_WAYS;

		if (has != has_bit(l, entry, cpu))
			broken(entry, "the directory and a private cache disagree (W2)");
		if (has && (bool)(set[way] & WRITABLE) != (entry->owner == cpu + 1))
			broken(entry, "who may write is not its owner (W1)");
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
