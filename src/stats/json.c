/* SPDX-License-Identifier: MIT */
/* One JSON object, on one line for each cache. `sheaf info --json` prints the same names. */
#include <inttypes.h>
#include <unistd.h>

#include "stats/stats.h"

static void print_cache(struct out *out, const struct kmem_cache_stats *cache)
{
	out_print(out, "{\"name\": ");
	out_quoted(out, cache->name);
	out_print(out, ", \"id\": %" PRIu64, cache->id);
	for (unsigned int i = 0; i < stats_nr_fields; i++) {
		const struct stats_field *field = &stats_fields[i];

		if (field->kind != STATS_COUNTER || cache->counted)
			out_print(out, ", \"%s\": %" PRIu64, field->name,
				  stats_value(cache, field));
	}
	out_print(out, "}");
}

static void print_past_caches(struct out *out, struct stats *all)
{
	const char *between = "\n";
	struct kmem_cache_stats *stats = &all->past;

	for (const struct past *past = past_next(NULL); past; past = past_next(past)) {
		uint64_t times = stats_read_past(past, stats);

		out_print(out, "%s{\"name\": ", between);
		out_quoted(out, stats->name);
		out_print(out, ", \"caches\": %" PRIu64, times);
		for (unsigned int i = 0; i < stats_nr_fields; i++)
			if (stats_fields[i].kind == STATS_COUNTER)
				out_print(out, ", \"%s\": %" PRIu64, stats_fields[i].name,
					  stats_value(stats, &stats_fields[i]));
		out_print(out, "}");
		between = ",\n";
	}
}

void stats_print_json(struct out *out, struct stats *stats)
{
	const struct sheaf_stats *process = &stats->process;

	out_print(out, "{\"pid\": %d, \"backend\": \"%s\", \"index\": \"%s\", \"options\": ",
		  (int)getpid(), stats->backend, stats->index);
	out_quoted(out, stats->options);
	out_print(out,
		  ", \"cpus\": %" PRIu64 ", \"nodes\": %" PRIu64 ", \"counted\": %s, "
		  "\"committed_bytes\": %" PRIu64 ", \"used_bytes\": %" PRIu64
		  ", \"free_bytes\": %" PRIu64 ", \"fork_lost\": %" PRIu64
		  ", \"large_bytes\": %" PRIu64 ", \"mapped_bytes\": %" PRIu64
		  ", \"split_mappings\": %" PRIu64 ", \"split_limit\": %" PRIu64
		  ", \"rcu_bytes\": %" PRIu64 ", \"resident_bytes\": %" PRIu64
		  ", \"peak_resident_bytes\": %" PRIu64 ", \"peak_bytes\": %" PRIu64
		  ", \"sheaf_bytes\": %" PRIu64 ", \"sheaf_budget\": %" PRIu64
		  ", \"returned_bytes\": %" PRIu64 ", \"held_bytes\": %" PRIu64
		  ", \"soft_limit\": %" PRIu64 ", \"hard_limit\": %" PRIu64
		  ", \"limit_failures\": %" PRIu64 ", \"shrinker_objects\": %" PRIu64
		  ", \"caches\": [",
		  process->cpus, process->nodes, process->counted ? "true" : "false",
		  process->committed_bytes, process->used_bytes, process->free_bytes,
		  process->fork_lost, process->large_bytes, process->mapped_bytes,
		  process->split_mappings, process->split_limit, process->rcu_bytes,
		  process->resident_bytes, process->peak_resident_bytes, process->peak_bytes,
		  process->sheaf_bytes, process->sheaf_budget, process->returned_bytes,
		  process->held_bytes, process->soft_limit, process->hard_limit,
		  process->limit_failures, process->shrinker_objects);
	for (uint64_t i = 0; i < process->caches; i++) {
		out_print(out, i ? ",\n" : "\n");
		print_cache(out, &stats->caches[i]);
	}
	out_print(out, "],\n\"destroyed_caches\": [");
	print_past_caches(out, stats);
	out_print(out, "],\n\"groups\": ");
	groups_print_json(out, &stats->groups);
	out_print(out, "}\n");
}
