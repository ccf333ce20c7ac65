/* SPDX-License-Identifier: MIT */
/*
 * Text for people, with the columns of `sheaf info`: one line for each cache that was used, and its
 * events in the lines below. At most 100 columns; a name is one word.
 */
#include <inttypes.h>
#include <stdio.h>
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

/* The figures of this kind that are not 0, in lines that begin like this. */
static void list_figures(struct out *out, const char *begin, const void *of,
			 const struct stats_field *field, enum stats_kind kind)
{
	int column = 0;

	for (; *field->name; field++) {
		unsigned long long value = stats_value(of, field);
		char word[64], bytes[SHORT];
		int length;

		if (field->kind != kind || !value)
			continue;
		if (field->bytes)
			length = snprintf(word, sizeof(word), " %s=%s", field->name,
					  in_short(bytes, value));
		else
			length = snprintf(word, sizeof(word), " %s=%llu", field->name, value);
		if (column && column + length > COLUMNS) {
			out_print(out, "\n");
			column = 0;
		}
		column += out_print(out, "%s%s", column ? "" : begin, word);
	}
	if (column)
		out_print(out, "\n");
}

static void print_head(struct out *out, const struct stats *stats)
{
	out_print(out,
		  "# libsheaf statistics of process %d: backend %s, index %s\n# options: %.88s\n",
		  (int)getpid(), stats->backend, stats->index,
		  *stats->options ? stats->options : "none");
	list_figures(out, "#", &stats->process, stats_of_process, STATS_GAUGE);
	if (!stats->process.counted)
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

static void print_past(struct out *out, struct stats *all)
{
	const struct destroyed_stats *entry = destroyed_stats_next(NULL);
	struct kmem_cache_stats *stats = &all->destroyed;

	if (entry)
		out_print(out,
			  "# destroyed caches: their number by name, and their events\n"
			  "# name             %8s %8s %8s %6s %12s %12s\n",
			  "caches", "objsize", "peak", "sheaf", "allocated", "freed");
	for (; entry; entry = destroyed_stats_next(entry)) {
		uint64_t times = stats_read_destroyed(entry, stats);
		char peak[SHORT];

		print_name(out, stats->name);
		out_print(out,
			  "%7" PRIu64 " %8" PRIu64 " %8s %6" PRIu64 " %12" PRIu64 " %12" PRIu64
			  "\n",
			  times, stats->object_size, in_short(peak, stats->peak_slab_bytes),
			  stats->sheaf_capacity, stats->alloc_fastpath + stats->alloc_slowpath,
			  stats->free_fastpath + stats->free_slowpath);
		list_figures(out, " ", stats, stats_of_cache, STATS_COUNTER);
	}
}

/* True if nothing shows that the cache was ever used: most programs have such caches. */
static bool is_unused(const struct kmem_cache_stats *cache)
{
	const struct stats_field *field = stats_of_cache;

	while (*field->name && !(field->kind == STATS_COUNTER && stats_value(cache, field)))
		field++;
	/* Samples are in no slab. */
	return !*field->name && !cache->slab_bytes && !cache->peak_slab_bytes &&
	       !cache->objects_in_use;
}

static void print_row(struct out *out, const struct kmem_cache_stats *cache)
{
	char memory[SHORT], peak[SHORT], waste[SHORT];

	print_name(out, cache->name);
	out_print(out,
		  "%7" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8s %8s %8s %6" PRIu64
		  " %8" PRIu64 "\n",
		  cache->objects_in_use, cache->objects_in_sheaves, cache->object_size,
		  cache->slabs, in_short(memory, cache->slab_bytes),
		  in_short(peak, cache->peak_slab_bytes), in_short(waste, cache->waste_bytes),
		  cache->sheaf_capacity, cache->aliases);
	list_figures(out, " ", cache, stats_of_cache, STATS_COUNTER);
}

/* --- groups: a tree, and below each one the caches of its objects ----------------------------- */

#define GROUP_COLUMNS 30
#define MOST_INDENT   12

static void group_line(struct out *out, const struct group_row *row, unsigned int depth)
{
	unsigned int indent = depth < MOST_INDENT ? depth : MOST_INDENT;
	char name[GROUP_COLUMNS + 1], limit[24] = "-";

	snprintf(name, sizeof(name), "%*s%.*s", (int)indent, "", GROUP_COLUMNS - MOST_INDENT,
		 row->stats.name);
	for (char *at = name + indent; *at; at++)
		if (*at == ' ')
			*at = '_';
	if (row->stats.hard_limit)
		snprintf(limit, sizeof(limit), "%" PRIu64, row->stats.hard_limit);
	out_print(out,
		  "%-*s %12" PRIu64 " %12" PRIu64 " %9" PRIu64 " %12" PRIu64 " %12s %8" PRIu64 "\n",
		  GROUP_COLUMNS, name, row->stats.bytes, row->own_bytes, row->own_objects,
		  row->stats.peak, limit, row->stats.failed);
}

static void print_parts_below(struct out *out, const struct group_table *table,
			      const struct group_row *row, unsigned int depth)
{
	unsigned int indent = (depth < MOST_INDENT ? depth : MOST_INDENT) + 2;

	for (uint32_t at = row->parts; at; at = table->parts[at - 1].next) {
		const struct group_part *part = &table->parts[at - 1];

		out_print(out, "#%*s%s: %" PRIu64 " bytes, %" PRIu64 " objects\n", (int)indent, "",
			  part->name, part->bytes, part->objects);
	}
}

static void print_groups(struct out *out, const struct group_table *table)
{
	unsigned int depth = 0;
	uint32_t at = 0;

	if (!table->n)
		return;
	out_print(
		out,
		"# groups: bytes with those of groups below; own: of its objects, which are listed "
		"by cache\n# %-*s %12s %12s %9s %12s %12s %8s\n",
		GROUP_COLUMNS - 2, "name", "bytes", "own", "objects", "peak", "limit", "failed");
	for (;;) {
		const struct group_row *row = &table->groups[at];

		group_line(out, row, depth);
		print_parts_below(out, table, row, depth);
		if (row->child) {
			at = row->child - 1;
			depth++;
			continue;
		}
		while (at && !table->groups[at].next) {
			at = table->groups[at].from - 1;
			depth--;
		}
		if (!at)
			break;
		at = table->groups[at].next - 1;
	}
	if (table->left_out)
		out_print(out, "# objects in further caches, not shown: %" PRIu64 "\n",
			  table->left_out);
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
	print_groups(out, &stats->groups);
}
