/* SPDX-License-Identifier: MIT */
/* One JSON object, on one line for each cache. `sheaf info --json` prints the same names. */
#include <inttypes.h>
#include <unistd.h>

#include "stats/stats.h"

static void json_name(struct out *out, const char *between, const char *name)
{
	out_print(out, "%s{\"name\": ", between);
	out_quoted(out, name);
}

/* The figures of these kinds. */
static void print_figures(struct out *out, const void *of, const struct stats_field *field,
			  unsigned int kinds)
{
	for (; *field->name; field++)
		if (field->kind & kinds)
			out_print(out, ", \"%s\": %" PRIu64, field->name, stats_value(of, field));
}

static void json_caches(struct out *out, const struct stats *stats)
{
	for (uint64_t i = 0; i < stats->process.caches; i++) {
		const struct kmem_cache_stats *cache = &stats->caches[i];

		json_name(out, i ? ",\n" : "\n", cache->name);
		out_print(out, ", \"id\": %" PRIu64, cache->id);
		print_figures(out, cache, stats_of_cache,
			      STATS_SETTING | STATS_GAUGE | (cache->counted ? STATS_COUNTER : 0));
		out_print(out, "}");
	}
}

static void json_past(struct out *out, struct stats *all)
{
	const char *between = "\n";
	struct kmem_cache_stats *stats = &all->destroyed;

	for (const struct destroyed_stats *entry = destroyed_stats_next(NULL); entry;
	     entry = destroyed_stats_next(entry)) {
		uint64_t times = stats_read_destroyed(entry, stats);

		json_name(out, between, stats->name);
		out_print(out,
			  ", \"caches\": %" PRIu64 ", \"object_size\": %" PRIu64
			  ", \"peak_slab_bytes\": %" PRIu64,
			  times, stats->object_size, stats->peak_slab_bytes);
		print_figures(out, stats, stats_of_cache, STATS_COUNTER);
		out_print(out, "}");
		between = ",\n";
	}
}

static void json_parts(struct out *out, const struct group_table *table,
		       const struct group_row *row)
{
	const char *between = "";

	out_print(out, ", \"caches\": [");
	for (uint32_t at = row->parts; at; at = table->parts[at - 1].next) {
		const struct group_part *part = &table->parts[at - 1];

		json_name(out, between, part->name);
		out_print(out, ", \"bytes\": %" PRIu64 ", \"objects\": %" PRIu64 "}", part->bytes,
			  part->objects);
		between = ", ";
	}
	out_print(out, "]}");
}

void groups_print_json(struct out *out, const struct group_table *table)
{
	out_print(out, "[");
	for (uint32_t i = 0; i < table->n; i++) {
		const struct group_row *row = &table->groups[i];

		json_name(out, i ? ",\n" : "\n", row->stats.name);
		out_print(out, ", \"id\": %" PRIu64 ", \"parent\": %" PRIu64, row->stats.id,
			  row->stats.parent);
		print_figures(out, row, stats_of_group, STATS_GAUGE | STATS_COUNTER);
		json_parts(out, table, row);
	}
	out_print(out, "]");
}

void stats_print_json(struct out *out, struct stats *stats)
{
	out_print(out, "{\"pid\": %d, \"backend\": \"%s\", \"index\": \"%s\", \"options\": ",
		  (int)getpid(), stats->backend, stats->index);
	out_quoted(out, stats->options);
	out_print(out, ", \"counted\": %s", stats->process.counted ? "true" : "false");
	print_figures(out, &stats->process, stats_of_process, STATS_GAUGE);
	out_print(out, ", \"caches\": [");
	json_caches(out, stats);
	out_print(out, "],\n\"destroyed_caches\": [");
	json_past(out, stats);
	out_print(out, "],\n\"groups\": ");
	groups_print_json(out, &stats->groups);
	out_print(out, "}\n");
}
