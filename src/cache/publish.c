/* SPDX-License-Identifier: MIT */
/* Describes the process and its caches for other processes; see publish.h. */
#include "cache/publish.h"

#include <stdio.h>
#include <unistd.h>

#include "os/quote.h"
#include "page/decay.h"
#include "percpu/barn/barn.h"

#define OPTIONS 512 /* bytes of text */

const char *publish_backend(void)
{
	return os.backend == OS_BACKEND_RSEQ ? "rseq" : "trylock";
}

const char *publish_index(void)
{
	return os.backend == OS_BACKEND_RSEQ && os.id_offset != RSEQ_CPU_ID ? "mm_cid" : "cpu_id";
}

struct number {
	const char *name;
	uint64_t words; /* 0: it is not an event, and the reader finds it elsewhere */
	const char *help;
};

#define OTHER(name, help)	 {#name, 0, help},
#define EVENT(name, words, help) {#name, words, help},
static const struct number numbers[] = {STAT_SETTINGS(OTHER) STAT_GAUGES(OTHER) STAT_EVENTS(EVENT)};

#define PROCESS_WORD(name) #name,
static const char *const process_words[] = {OS_PROCESS_WORDS(PROCESS_WORD)};

#define NR_NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

/* The options as they are between quotes. */
static void quote_options(char *quoted, size_t size)
{
	char options[OPTIONS];
	const char *at = options;
	size_t used = 0, length;

	os_options_text(options, sizeof(options));
	while ((length = os_quote_next(&at, quoted + used)) != 0)
		used += length;
	os_assert(used < size);
	quoted[used] = '\0';
}

/* No other text here needs escaping: the library itself has all names and help texts. There is room
 * for all of them. */
static void write_text(struct publish_head *head)
{
	char options[OS_QUOTED * OPTIONS];
	size_t used = 0, room = sizeof(head->text);

	quote_options(options, sizeof(options));
	used += (size_t)snprintf(
		head->text, room,
		"{\"backend\":\"%s\",\"index\":\"%s\",\"options\":\"%s\",\"cpus\":%u,"
		"\"total_objects\":%u,\"slab_bytes\":%u,\"peak_slab_bytes\":%u,\"size_bits\":%u,"
		"\"settings\":%zu,\"process_at\":%zu,\"process\":[",
		publish_backend(), publish_index(), options, os.nr_cpus, STAT_total_objects,
		STAT_slab_bytes, STAT_peak_slab_bytes, SHEAF_SIZE_BITS,
		sizeof(struct publish_settings) / sizeof(uint32_t), OS_PROCESS_AT);
	for (size_t i = 0; i < OS_NR_PROCESS_WORDS; i++)
		used += (size_t)snprintf(head->text + used, room - used, "%s\"%s\"", i ? "," : "",
					 process_words[i]);
	used += (size_t)snprintf(head->text + used, room - used, "],\"numbers\":[");
	for (size_t i = 0; i < NR_NUMBERS; i++)
		used += (size_t)snprintf(head->text + used, room - used,
					 "%s{\"name\":\"%s\",\"words\":%llu,\"help\":\"%s\"}",
					 i ? "," : "", numbers[i].name,
					 (unsigned long long)numbers[i].words, numbers[i].help);
	used += (size_t)snprintf(head->text + used, room - used, "]}");
	os_assert(used < room);
	head->text_size = (uint32_t)used;
}

void publish_decay(enum size_setter by)
{
	os_store_relaxed(&decay_time.set_by, by);
	if (!os_counters_head())
		return;
	os_store_relaxed(os_process_word(OS_PROCESS_decay_ms), decay_ms());
	os_store_relaxed(os_process_word(OS_PROCESS_decay_set_by), by);
}

void publish_process(void)
{
	struct publish_head *head = os_counters_head();
	bool preset = os_options_is_preset(&os_options.decay) && !os_options.decay_never;

	publish_decay(preset ? SIZE_BY_LIBRARY : SIZE_BY_OPTIONS);
	if (!head)
		return;
	os_assert(!os_peek(&head->version)); /* PUBLISH-D1 */
	head->magic = PUBLISH_MAGIC;
	head->pid = getpid();
	head->nr_rows = os.nr_rows;
	head->nr_areas = os_counters_areas();
	head->nr_nodes = os.nr_nodes;
	head->nr_planes = OS_PLANES;
	head->row_shift = ROW_SHIFT;
	head->slot_shift = SLOT_SHIFT;
	memcpy(head->node_of_row, os.node_of_row, sizeof(head->node_of_row));
	write_text(head);
	os_store_release(&head->version, PUBLISH_VERSION);
}

static struct publish_cache *description_of(struct kmem_cache *s)
{
	return (struct publish_cache *)os_counter((char *)s - ((size_t)1 << ROW_SHIFT), 0);
}

static char *aliases_of(struct kmem_cache *s)
{
	return os_counter((char *)s - ((size_t)1 << ROW_SHIFT), OS_PLANE_WORDS);
}

static bool names_contain(const char *lines, const char *line)
{
	size_t length = strlen(line);

	for (const char *end; *lines; lines = end + 1) {
		end = strchrnul(lines, '\n');
		if ((size_t)(end - lines) == length && !memcmp(lines, line, length))
			return true;
		if (!*end)
			return false;
	}
	return false;
}

static void begin_change(struct publish_cache *to)
{
	os_assert(os_peek(&to->generation) % 2 == 0); /* PUBLISH-D2 */
	os_store_relaxed(&to->generation, to->generation + 1);
	/* First the odd generation, then the words. The reader, in another process, is Python and
	 * has no fence. */
	os_fence();
}

static void end_change(struct publish_cache *to)
{
	os_assert(os_peek(&to->generation) % 2 == 1); /* PUBLISH-D2 */
	os_store_release(&to->generation, to->generation + 1);
}

/* Two words, each of which is always consistent: no lock is held that would keep other threads from
 * describing the cache. */
static void describe_capacity(struct publish_settings *to, const struct kmem_cache *s)
{
	uint32_t capacity, full;

	do {
		capacity = sheaf_capacity(&s->sheaf);
		full = capacity ? barn_most_full(&s->sheaf) : 0;
		os_store_relaxed(&to->sheaf_capacity, capacity);
		os_store_relaxed(&to->limit_barn_full, full);
		/* Several threads may do this: the fence pairs with the same one in another
		 * thread. */
		os_fence();
	} while (sheaf_capacity(&s->sheaf) != capacity ||
		 (capacity && barn_most_full(&s->sheaf) != full));
}

void publish_read(struct publish_settings *to, const struct kmem_cache *s)
{
	const struct slab_cache *slab = &s->sheaf.slab;
	slab_flags_t flags = cache_debug_flags(s);
	uint32_t names = os_load_relaxed(&s->nr_names);

	describe_capacity(to, s);
	to->object_size = slab->object_size;
	to->slab_size = slab->size;
	to->align = slab->align;
	to->objs_per_slab = slab->oo.objects;
	to->order = slab->oo.order;
	to->min_partial = os_load_relaxed(&slab->min_partial);
	to->aliases = names ? names - 1 : 0;
	to->hwcache_align = (s->flags & SLAB_HWCACHE_ALIGN) != 0;
	to->reclaim_account = (s->flags & SLAB_RECLAIM_ACCOUNT) != 0;
	to->account = (s->flags & SLAB_ACCOUNT) != 0;
	to->ctor = slab->ctor != NULL;
	to->destroyed = !names;
	to->usersize = slab_rest(slab)->usersize;
	to->destroy_by_rcu = (flags & SLAB_TYPESAFE_BY_RCU) != 0;
	to->sanity_checks = (flags & SLAB_CONSISTENCY_CHECKS) != 0;
	to->red_zone = (flags & SLAB_RED_ZONE) != 0;
	to->poison = (flags & SLAB_POISON) != 0;
	to->store_user = (flags & SLAB_STORE_USER) != 0;
	to->trace = (flags & SLAB_TRACE) != 0;
	to->failslab = (flags & SLAB_FAILSLAB) != 0;
	to->limit_barn_empty = os_load_relaxed(&slab_rest(slab)->barn_empty);
	to->set_by = os_load_relaxed(&slab_rest(slab)->set_by);
}

static void describe(struct publish_cache *to, const struct kmem_cache *s)
{
	to->id = s->id;
	to->flags = cache_debug_flags(s);
	to->limit = slab_rest(&s->sheaf.slab)->limit;
	strncpy(to->name, s->name, sizeof(to->name) - 1);
	publish_read(&to->now, s);
}

void publish_cache(struct kmem_cache *s)
{
	struct publish_head *head = os_counters_head();
	struct publish_cache *to;

	if (!head)
		return;
	to = description_of(s);
	begin_change(to);
	describe(to, s);
	end_change(to);
	os_store_release(&head->nr_areas, os_counters_areas());
}

void publish_alias(struct kmem_cache *s, const char *name)
{
	struct publish_cache *to;
	char *names;
	size_t used;

	if (!os_counters_head())
		return;
	names = aliases_of(s);
	if (!strcmp(name, s->name) || names_contain(names, name))
		return;
	to = description_of(s);
	used = strlen(names);
	begin_change(to);
	snprintf(names + used, PUBLISH_ALIASES - used, "%s%s", used ? "\n" : "", name);
	end_change(to);
}

void publish_capacity(struct kmem_cache *s)
{
	if (os_counters_head())
		describe_capacity(&description_of(s)->now, s);
}

void publish_end(struct kmem_cache *s)
{
	struct publish_cache *to;

	if (!os_counters_head())
		return;
	to = description_of(s);
	begin_change(to);
	to->id = 0;
	memset(aliases_of(s), 0, PUBLISH_ALIASES);
	end_change(to);
}
