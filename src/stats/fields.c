/* SPDX-License-Identifier: MIT */
/* The figures of the process, of a cache and of a group, as tables for the printers. */
#include "cache/events.h"
#include "stats/stats.h"

#define FIELD(record, member, of, name, kind, help, bytes)                                         \
#name, offsetof(struct record, member), STATS_##kind, "sheaf_" of #name METRIC_##kind,     \
		help, bytes
#define METRIC_SETTING
#define METRIC_GAUGE
#define METRIC_COUNTER "_total"

#define NUMBER(name, help)	   FIELD(sheaf_stats, name, "", name, GAUGE, help, false)
#define BYTES(name, help)	   FIELD(sheaf_stats, name, "", name, GAUGE, help, true)
#define OF_CACHE(name, kind, help) FIELD(kmem_cache_stats, name, "cache_", name, kind, help, false)
#define SETTING(name, help)	   {OF_CACHE(name, SETTING, help)},
#define GAUGE(name, help)	   {OF_CACHE(name, GAUGE, help)},
#define COUNTER(name, words, help) {OF_CACHE(name, COUNTER, help)},
#define OF_GROUP(name, kind, help) FIELD(group_row, stats.name, "group_", name, kind, help, false)
#define OF_ROW(name, help)	   FIELD(group_row, name, "group_", name, GAUGE, help, false)

const struct stats_field stats_of_process[] = {
	{NUMBER(cpus, "sets of sheaves a cache has")},
	{NUMBER(nodes, "nodes of memory")},
	{BYTES(committed_bytes, "memory made usable")},
	{BYTES(used_bytes, "memory in slabs and of the library itself")},
	{BYTES(free_bytes, "free memory not yet returned to the system")},
	{BYTES(returned_bytes, "memory returned to the system so far")},
	{BYTES(held_bytes, "memory in use, free or mapped, which the limits count")},
	{BYTES(soft_limit, "held_bytes above which the library reclaims, 0: none")},
	{BYTES(hard_limit, "held_bytes above which allocations fail, 0: none")},
	{NUMBER(limit_failures, "allocations that failed at the hard limit")},
	{NUMBER(shrinker_objects, "objects that shrinkers freed")},
	{NUMBER(decay_ms, "milliseconds for which free memory stays, 4294967295: always")},
	{NUMBER(decay_set_by, "who set that: 0 the library, 2 SHEAF_OPTIONS, 3 sheaf tune")},
	{NUMBER(fork_lost, "sheaves lost at fork")},
	{BYTES(mapped_bytes, "memory in large blocks")},
	{BYTES(resident_bytes, "resident memory of the whole process")},
	{BYTES(peak_resident_bytes, "peak of the resident memory of the whole process")},
	{BYTES(peak_bytes,
	       "peak of the memory in slabs, blocks and the library itself, if counted")},
	{NUMBER(split_mappings,
		"additional mappings in the system, because parts of huge pages were returned")},
	{NUMBER(split_limit, "how many of them there may be")},
	{BYTES(rcu_bytes, "retired memory, neither freed nor allocated again")},
	{BYTES(sheaf_bytes, "objects for which sheaves have room")},
	{BYTES(sheaf_budget, "sheaf_bytes above which barns store no sheaves")},
	{.name = ""},
};

const struct stats_field stats_of_cache[] = {STAT_SETTINGS(SETTING) STAT_GAUGES(GAUGE)
						     STAT_EVENTS(COUNTER){.name = ""}};

const struct stats_field stats_of_group[] = {
	{OF_GROUP(bytes, GAUGE, "bytes charged to the group and those below it")},
	{OF_GROUP(peak, GAUGE, "most bytes so far, with stocks of CPUs")},
	{OF_GROUP(stocks, GAUGE, "bytes in stocks of CPUs")},
	{OF_ROW(own_bytes, "bytes of objects that the group owns")},
	{OF_ROW(own_objects, "objects that the group owns")},
	{OF_GROUP(hard_limit, GAUGE, "hard limit in bytes, 0 without one")},
	{OF_GROUP(high, GAUGE, "high mark in bytes, 0 without one")},
	{OF_GROUP(low, GAUGE, "low mark in bytes, 0 without one")},
	{OF_GROUP(references, GAUGE, "references to the group")},
	{OF_GROUP(failed, COUNTER, "allocations that the hard limit made fail")},
	{OF_GROUP(reclaims, COUNTER, "calls of the reclaim callback")},
	{OF_GROUP(high_events, COUNTER, "times that the high mark was passed")},
	{OF_GROUP(low_events, COUNTER, "times that the bytes fell to the low mark")},
	{OF_GROUP(forced, COUNTER, "bytes charged beyond the hard limit")},
	{.name = ""},
};

#define NR(table) (sizeof(table) / sizeof((table)[0]) - 1)
/* Not in the tables: counted, caches; name, id, counted; a group's name and its two ids, but two
 * figures of its row are. */
_Static_assert(sizeof(struct sheaf_stats) == (NR(stats_of_process) + 2) * 8 &&
		       sizeof(struct kmem_cache_stats) ==
			       SHEAF_STATS_NAME + (NR(stats_of_cache) + 2) * 8 &&
		       sizeof(struct kmem_group_stats) == KMEM_GROUP_NAME + NR(stats_of_group) * 8,
	       "every number is in a table");
