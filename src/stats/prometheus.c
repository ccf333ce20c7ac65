/* SPDX-License-Identifier: MIT */
/*
 * Prometheus' text format: each metric's samples together, below its HELP and TYPE. A cache is also
 * identified by its id, because two caches may have the same name.
 */
#include <inttypes.h>

#include "stats/stats.h"

static void print_value(struct out *out, const char *name, const char *help, uint64_t value)
{
	out_print(out, "# HELP sheaf_%s %s\n# TYPE sheaf_%s gauge\nsheaf_%s %" PRIu64 "\n", name,
		  help, name, name, value);
}

static void print_field(struct out *out, const struct stats_field *field, const struct stats *stats)
{
	bool counter = field->kind == STATS_COUNTER;
	const char *total = counter ? "_total" : "";

	out_print(out, "# HELP sheaf_cache_%s%s %s\n# TYPE sheaf_cache_%s%s %s\n", field->name,
		  total, field->help, field->name, total, counter ? "counter" : "gauge");
	for (uint64_t i = 0; i < stats->process.caches; i++) {
		const struct kmem_cache_stats *cache = &stats->caches[i];

		out_print(out, "sheaf_cache_%s%s{cache=", field->name, total);
		out_quoted(out, cache->name);
		out_print(out, ",id=\"%" PRIu64 "\"} %" PRIu64 "\n", cache->id,
			  stats_value(cache, field));
	}
}

void stats_print_prometheus(struct out *out, const struct stats *stats)
{
	const struct sheaf_stats *process = &stats->process;

	out_print(out,
		  "# HELP sheaf_info how the library runs\n# TYPE sheaf_info gauge\n"
		  "sheaf_info{backend=\"%s\",index=\"%s\",options=",
		  stats->backend, stats->index);
	out_quoted(out, stats->options);
	out_print(out, "} 1\n");
	print_value(out, "cpus", "sets of sheaves a cache has", process->cpus);
	print_value(out, "nodes", "nodes of memory", process->nodes);
	print_value(out, "committed_bytes", "memory made usable", process->committed_bytes);
	print_value(out, "used_bytes", "memory in slabs and of the library itself",
		    process->used_bytes);
	print_value(out, "free_bytes", "free memory not yet returned to the system",
		    process->free_bytes);
	print_value(out, "returned_bytes", "memory returned to the system so far",
		    process->returned_bytes);
	print_value(out, "held_bytes", "memory in use, free or mapped, which the limits count",
		    process->held_bytes);
	print_value(out, "soft_limit", "held_bytes above which the library reclaims, 0: none",
		    process->soft_limit);
	print_value(out, "hard_limit", "held_bytes above which allocations fail, 0: none",
		    process->hard_limit);
	print_value(out, "limit_failures", "allocations that failed by the hard limit",
		    process->limit_failures);
	print_value(out, "shrinker_objects", "objects that shrinkers freed",
		    process->shrinker_objects);
	print_value(out, "fork_lost", "sheaves lost at fork", process->fork_lost);
	print_value(out, "large_bytes", "memory in page runs of large blocks",
		    process->large_bytes);
	print_value(out, "mapped_bytes", "memory in blocks that are separate mappings",
		    process->mapped_bytes);
	print_value(out, "resident_bytes", "resident memory of the whole process",
		    process->resident_bytes);
	print_value(out, "peak_resident_bytes", "peak of the resident memory of the whole process",
		    process->peak_resident_bytes);
	print_value(out, "peak_bytes",
		    "peak of the memory in slabs, blocks and the library itself, if counted",
		    process->peak_bytes);
	print_value(out, "split_mappings",
		    "additional mappings in the system, because parts of huge pages were returned",
		    process->split_mappings);
	print_value(out, "split_limit", "how many of them there may be", process->split_limit);
	print_value(out, "rcu_bytes", "retired memory, neither freed nor allocated again",
		    process->rcu_bytes);
	print_value(out, "sheaf_bytes", "objects in barns, and the sheaves themselves",
		    process->sheaf_bytes);
	print_value(out, "sheaf_budget", "sheaf_bytes above which barns store no sheaves",
		    process->sheaf_budget);
	for (unsigned int i = 0; i < stats_nr_fields; i++)
		if (stats_fields[i].kind != STATS_COUNTER || process->counted)
			print_field(out, &stats_fields[i], stats);
	groups_print_prometheus(out, &stats->groups);
}
