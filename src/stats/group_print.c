/* SPDX-License-Identifier: MIT */
/* Groups as text, JSON and for Prometheus; see groups.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stats/groups.h"

/* X(name, counter, its text): the numbers of struct kmem_group_stats, except its two ids;
 * OWN(): two more, of struct group_row */
#define GROUP_NUMBERS(X, OWN)                                                                      \
	X(bytes, 0, "bytes charged to the group and those below it")                               \
	X(peak, 0, "most bytes so far, with stocks of CPUs")                                       \
	X(stocks, 0, "bytes in stocks of CPUs")                                                    \
	OWN(own_bytes, 0, "bytes of objects that the group owns")                                  \
	OWN(own_objects, 0, "objects that the group owns")                                         \
	X(hard_limit, 0, "hard limit in bytes, 0 without one")                                     \
	X(high, 0, "high mark in bytes, 0 without one")                                            \
	X(low, 0, "low mark in bytes, 0 without one")                                              \
	X(references, 0, "references to the group")                                                \
	X(failed, 1, "allocations that the hard limit made fail")                                  \
	X(reclaims, 1, "calls of the reclaim callback")                                            \
	X(high_events, 1, "times that the high mark was passed")                                   \
	X(low_events, 1, "times that the bytes fell to the low mark")                              \
	X(forced, 1, "bytes charged beyond the hard limit")

static const struct group_number {
	const char *name, *help;
	size_t offset;
	int counter;
} group_numbers[] = {
#define NUMBER(name, counter, help) {#name, help, offsetof(struct group_row, stats.name), counter},
#define OWN(name, counter, help)    {#name, help, offsetof(struct group_row, name), counter},
	GROUP_NUMBERS(NUMBER, OWN)
#undef NUMBER
#undef OWN
};

#define NR_NUMBERS (sizeof(group_numbers) / sizeof(group_numbers[0]))

_Static_assert(sizeof(struct kmem_group_stats) == KMEM_GROUP_NAME + NR_NUMBERS * 8,
	       "every number is in the list");

static uint64_t value(const struct group_row *row, const struct group_number *number)
{
	return *(const uint64_t *)(const void *)((const char *)row + number->offset);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void print_parts(struct out *out, const struct group_table *table,
			const struct group_row *row)
{
	const char *between = "";

	out_print(out, ", \"caches\": [");
	for (uint32_t at = row->parts; at; at = table->parts[at - 1].next) {
		const struct group_part *part = &table->parts[at - 1];

		out_print(out, "%s{\"name\": ", between);
		out_quoted(out, part->name);
		out_print(out, ", \"bytes\": %" PRIu64 ", \"objects\": %" PRIu64 "}", part->bytes,
			  part->objects);
		between = ", ";
	}
	out_print(out, "]");
}

void groups_print_json(struct out *out, const struct group_table *table)
{
	out_print(out, "[");
	for (uint32_t i = 0; i < table->n; i++) {
		const struct group_row *row = &table->groups[i];

		out_print(out, "%s{\"name\": ", i ? ",\n" : "\n");
		out_quoted(out, row->stats.name);
		out_print(out, ", \"id\": %" PRIu64 ", \"parent\": %" PRIu64, row->stats.id,
			  row->stats.parent);
		for (size_t n = 0; n < NR_NUMBERS; n++)
			out_print(out, ", \"%s\": %" PRIu64, group_numbers[n].name,
				  value(row, &group_numbers[n]));
		print_parts(out, table, row);
		out_print(out, "}");
	}
	out_print(out, "]");
}

/* --- Prometheus ------------------------------------------------------------------------------- */

void groups_print_prometheus(struct out *out, const struct group_table *table)
{
	for (size_t n = 0; table->n && n < NR_NUMBERS; n++) {
		const char *total = group_numbers[n].counter ? "_total" : "";

		out_print(out, "# HELP sheaf_group_%s%s %s\n# TYPE sheaf_group_%s%s %s\n",
			  group_numbers[n].name, total, group_numbers[n].help,
			  group_numbers[n].name, total,
			  group_numbers[n].counter ? "counter" : "gauge");
		for (uint32_t i = 0; i < table->n; i++) {
			const struct group_row *row = &table->groups[i];

			out_print(out, "sheaf_group_%s%s{group=", group_numbers[n].name, total);
			out_quoted(out, row->stats.name);
			out_print(out, ",id=\"%" PRIu64 "\",parent=\"%" PRIu64 "\"} %" PRIu64 "\n",
				  row->stats.id, row->stats.parent, value(row, &group_numbers[n]));
		}
	}
}

/* --- text ------------------------------------------------------------------------------------- */

#define NAME_COLUMNS 30
#define MOST_INDENT  12

static void print_line(struct out *out, const struct group_row *row, unsigned int depth)
{
	unsigned int indent = depth < MOST_INDENT ? depth : MOST_INDENT;
	char name[NAME_COLUMNS + 1], limit[24] = "-";

	snprintf(name, sizeof(name), "%*s%.*s", (int)indent, "", NAME_COLUMNS - MOST_INDENT,
		 row->stats.name);
	for (char *at = name + indent; *at; at++)
		if (*at == ' ')
			*at = '_';
	if (row->stats.hard_limit)
		snprintf(limit, sizeof(limit), "%" PRIu64, row->stats.hard_limit);
	out_print(out,
		  "%-*s %12" PRIu64 " %12" PRIu64 " %9" PRIu64 " %12" PRIu64 " %12s %8" PRIu64 "\n",
		  NAME_COLUMNS, name, row->stats.bytes, row->own_bytes, row->own_objects,
		  row->stats.peak, limit, row->stats.failed);
}

static void print_caches(struct out *out, const struct group_table *table,
			 const struct group_row *row, unsigned int depth)
{
	unsigned int indent = (depth < MOST_INDENT ? depth : MOST_INDENT) + 2;

	for (uint32_t at = row->parts; at; at = table->parts[at - 1].next) {
		const struct group_part *part = &table->parts[at - 1];

		out_print(out, "#%*s%s: %" PRIu64 " bytes, %" PRIu64 " objects\n", (int)indent, "",
			  part->name, part->bytes, part->objects);
	}
}

void groups_print_text(struct out *out, const struct group_table *table)
{
	unsigned int depth = 0;
	uint32_t at = 0;

	if (!table->n)
		return;
	out_print(
		out,
		"# groups: bytes with those of groups below; own: of its objects, which are listed "
		"by cache\n# %-*s %12s %12s %9s %12s %12s %8s\n",
		NAME_COLUMNS - 2, "name", "bytes", "own", "objects", "peak", "limit", "failed");
	for (;;) {
		const struct group_row *row = &table->groups[at];

		print_line(out, row, depth);
		print_caches(out, table, row, depth);
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
