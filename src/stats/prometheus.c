/* SPDX-License-Identifier: MIT */
/*
 * Prometheus' text format: each metric's samples together, below its HELP and TYPE. A cache is also
 * identified by its id, because two caches may have the same name.
 */
#include <inttypes.h>

#include "stats/stats.h"

static void begin_metric(struct out *out, const struct stats_field *field)
{
	out_print(out, "# HELP %s %s\n# TYPE %s %s\n", field->metric, field->help, field->metric,
		  field->kind == STATS_COUNTER ? "counter" : "gauge");
}

static void begin_sample(struct out *out, const struct stats_field *field, const char *kind,
			 const char *name)
{
	out_print(out, "%s{%s=", field->metric, kind);
	out_quoted(out, name);
}

static void sample_caches(struct out *out, const struct stats_field *field,
			  const struct stats *stats)
{
	begin_metric(out, field);
	for (uint64_t i = 0; i < stats->process.caches; i++) {
		const struct kmem_cache_stats *cache = &stats->caches[i];

		begin_sample(out, field, "cache", cache->name);
		out_print(out, ",id=\"%" PRIu64 "\"} %" PRIu64 "\n", cache->id,
			  stats_value(cache, field));
	}
}

static void sample_groups(struct out *out, const struct stats_field *field,
			  const struct group_table *table)
{
	begin_metric(out, field);
	for (uint32_t i = 0; i < table->n; i++) {
		const struct group_row *row = &table->groups[i];

		begin_sample(out, field, "group", row->stats.name);
		out_print(out, ",id=\"%" PRIu64 "\",parent=\"%" PRIu64 "\"} %" PRIu64 "\n",
			  row->stats.id, row->stats.parent, stats_value(row, field));
	}
}

void stats_print_prometheus(struct out *out, const struct stats *stats)
{
	const struct stats_field *field;

	out_print(out,
		  "# HELP sheaf_info how the library runs\n# TYPE sheaf_info gauge\n"
		  "sheaf_info{backend=\"%s\",index=\"%s\",options=",
		  stats->backend, stats->index);
	out_quoted(out, stats->options);
	out_print(out, "} 1\n");
	for (field = stats_of_process; *field->name; field++) {
		begin_metric(out, field);
		out_print(out, "%s %" PRIu64 "\n", field->metric,
			  stats_value(&stats->process, field));
	}
	for (field = stats_of_cache; *field->name; field++)
		if (field->kind != STATS_COUNTER || stats->process.counted)
			sample_caches(out, field, stats);
	for (field = stats_of_group; *field->name && stats->groups.n; field++)
		sample_groups(out, field, &stats->groups);
}
