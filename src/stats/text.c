/* SPDX-License-Identifier: MIT */
/*
 * Text for people, with the columns of `sheaf info`: one line for each cache that was used, and its
 * events in the lines below. At most 100 columns; a name is one word.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stats/stats.h"

#define COLUMNS	     100
#define NAME_COLUMNS 20

/* The name without spaces, because readers of the table split lines at spaces; returns its width in
 * columns. */
static unsigned int one_word(char *word, const char *name)
{
	unsigned int columns = 0;

	for (; *name; name++, word++) {
		*word = *name == ' ' ? '_' : *name;
		columns += ((unsigned char)*name & 0xc0) != 0x80;
	}
	*word = '\0';
	return columns;
}

/* Names end before the column where numbers begin; a longer name has its own line. */
static void print_name(struct out *out, const char *name)
{
	char word[SHEAF_STATS_NAME];
	unsigned int columns = one_word(word, name);

	if (columns > COLUMNS)
		word[COLUMNS - 3] = '\0';
	if (columns > NAME_COLUMNS)
		out_print(out, "%s%s\n%*s", word, columns > COLUMNS ? "..." : "", NAME_COLUMNS, "");
	else
		out_print(out, "%s%*s", word, (int)(NAME_COLUMNS - columns), "");
}

static void print_events(struct out *out, const struct kmem_cache_stats *cache)
{
	unsigned int column = 0;

	for (unsigned int i = 0; i < stats_nr_fields; i++) {
		const struct stats_field *field = &stats_fields[i];
		unsigned long long value = stats_value(cache, field);
		char word[64];
		unsigned int length;

		if (field->kind != STATS_COUNTER || !value)
			continue;
		length = (unsigned int)snprintf(word, sizeof(word), " %s=%llu", field->name, value);
		if (column && column + length > COLUMNS) {
			out_print(out, "\n");
			column = 0;
		}
		out_print(out, "%s%s", column ? "" : " ", word);
		column += length + !column;
	}
	if (column)
		out_print(out, "\n");
}

static void print_head(struct out *out, const struct stats *stats)
{
	const struct sheaf_stats *process = &stats->process;

	out_print(out,
		  "# libsheaf statistics of process %d: backend %s, index %s, %llu cpus, "
		  "%llu nodes\n",
		  (int)getpid(), stats->backend, stats->index, (unsigned long long)process->cpus,
		  (unsigned long long)process->nodes);
	out_print(out, "# options: %.88s\n", *stats->options ? stats->options : "none");
	out_print(out,
		  "# memory: %llu KiB committed, %llu KiB used, %llu KiB free; fork_lost %llu\n"
		  "# mappings split by parts that went back: %llu of at most %llu\n"
		  "# large blocks: %llu KiB in page runs, %llu KiB in mappings; retired: %llu KiB\n"
		  "# barns: %llu KiB, sheaves included, of at most %llu MiB\n"
		  "# resident memory of the process: %llu KiB, at most %llu KiB\n",
		  (unsigned long long)process->committed_bytes >> 10,
		  (unsigned long long)process->used_bytes >> 10,
		  (unsigned long long)process->free_bytes >> 10,
		  (unsigned long long)process->fork_lost,
		  (unsigned long long)process->split_mappings,
		  (unsigned long long)process->split_limit,
		  (unsigned long long)process->large_bytes >> 10,
		  (unsigned long long)process->mapped_bytes >> 10,
		  (unsigned long long)process->rcu_bytes >> 10,
		  (unsigned long long)process->sheaf_bytes >> 10,
		  (unsigned long long)process->sheaf_budget >> 20,
		  (unsigned long long)process->resident_bytes >> 10,
		  (unsigned long long)process->peak_resident_bytes >> 10);
	if (process->soft_limit || process->hard_limit)
		out_print(out,
			  "# limits: %llu KiB held; soft %llu KiB, hard %llu KiB (0: none), "
			  "%llu failures\n",
			  (unsigned long long)process->held_bytes >> 10,
			  (unsigned long long)process->soft_limit >> 10,
			  (unsigned long long)process->hard_limit >> 10,
			  (unsigned long long)process->limit_failures);
	if (process->counted)
		out_print(out, "# most that was used, large blocks included: %llu KiB\n",
			  (unsigned long long)process->peak_bytes >> 10);
	if (!process->counted)
		out_print(out, "# events are not counted: run with SHEAF_OPTIONS=stats\n");
	out_print(out,
		  "# in_use: objects that the program uses; parked: free in sheaves; "
		  "memory: of slabs now, and peak\n"
		  "# waste: bytes of slabs that no object can use; sheaf: its capacity; aliases: "
		  "further names\n"
		  "# name             %8s %8s %8s %8s %8s %8s %8s %6s %8s\n",
		  "in_use", "parked", "objsize", "slabs", "memory", "peak", "waste", "sheaf",
		  "aliases");
}

/* A size in at most five characters, as `sheaf info` writes it, but an exact half is rounded up. */
#define SHORT 24

/* In integers, because printf() needs a kilobyte of stack to print a double. */
static const char *in_short(char text[SHORT], uint64_t bytes)
{
	static const char units[] = "\0KMGT";
	unsigned int unit = 0;

	while (unit < 4 && bytes >= UINT64_C(10000) << 10 * unit)
		unit++;
	bytes += (UINT64_C(1) << 10 * unit) / 2;
	snprintf(text, SHORT, "%llu%.1s", (unsigned long long)(bytes >> 10 * unit), &units[unit]);
	return text;
}

static void print_past(struct out *out, struct stats *all)
{
	const struct past *past = past_next(NULL);
	struct kmem_cache_stats *stats = &all->past;

	if (past)
		out_print(out,
			  "# destroyed caches: their number by name, and their events\n"
			  "# name             %8s %8s %8s %6s %12s %12s\n",
			  "caches", "objsize", "peak", "sheaf", "allocated", "freed");
	for (; past; past = past_next(past)) {
		unsigned long long times = stats_read_past(past, stats);
		char peak[SHORT];

		print_name(out, stats->name);
		out_print(out, "%7llu %8llu %8s %6llu %12llu %12llu\n", times,
			  (unsigned long long)stats->object_size,
			  in_short(peak, stats->peak_slab_bytes),
			  (unsigned long long)stats->sheaf_capacity,
			  (unsigned long long)(stats->alloc_fastpath + stats->alloc_slowpath),
			  (unsigned long long)(stats->free_fastpath + stats->free_slowpath));
		print_events(out, stats);
	}
}

/* True if nothing shows that the cache was ever used: kmalloc() alone creates dozens of caches. */
static bool is_unused(const struct kmem_cache_stats *cache)
{
	bool used = cache->slab_bytes || cache->peak_slab_bytes;

	for (unsigned int i = 0; i < stats_nr_fields && !used; i++)
		used = stats_fields[i].kind == STATS_COUNTER &&
		       stats_value(cache, &stats_fields[i]);
	return !used;
}

static void print_row(struct out *out, const struct kmem_cache_stats *cache)
{
	char memory[SHORT], peak[SHORT], waste[SHORT];

	print_name(out, cache->name);
	out_print(out, "%7llu %8llu %8llu %8llu %8s %8s %8s %6llu %8llu\n",
		  (unsigned long long)cache->objects_in_use,
		  (unsigned long long)cache->objects_in_sheaves,
		  (unsigned long long)cache->object_size, (unsigned long long)cache->slabs,
		  in_short(memory, cache->slab_bytes), in_short(peak, cache->peak_slab_bytes),
		  in_short(waste, cache->waste_bytes), (unsigned long long)cache->sheaf_capacity,
		  (unsigned long long)cache->aliases);
	print_events(out, cache);
}

void stats_print_text(struct out *out, struct stats *stats)
{
	unsigned long long unused = 0;

	print_head(out, stats);
	for (uint64_t i = 0; i < stats->process.caches; i++)
		if (is_unused(&stats->caches[i]))
			unused++;
		else
			print_row(out, &stats->caches[i]);
	if (unused)
		out_print(out, "# unused caches, not shown: %llu\n", unused);
	print_past(out, stats);
	groups_print_text(out, &stats->groups);
}
