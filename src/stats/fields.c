/* SPDX-License-Identifier: MIT */
/* The fields that cache/events.h lists, as a table for the printers. */
#include "cache/events.h"
#include "stats/stats.h"

#define FIELD(name, kind, help)                                                                    \
	{#name, offsetof(struct kmem_cache_stats, name), STATS_##kind, help},
#define SETTING_FIELD(name, help)      FIELD(name, SETTING, help)
#define GAUGE_FIELD(name, help)	       FIELD(name, GAUGE, help)
#define EVENT_FIELD(name, words, help) FIELD(name, COUNTER, help)

const struct stats_field stats_fields[] = {STAT_SETTINGS(SETTING_FIELD) STAT_GAUGES(GAUGE_FIELD)
						   STAT_EVENTS(EVENT_FIELD)};
const unsigned int stats_nr_fields = sizeof(stats_fields) / sizeof(stats_fields[0]);

/* Three fields are not in the list: name, id and counted. */
_Static_assert(sizeof(struct kmem_cache_stats) ==
		       SHEAF_STATS_NAME + sizeof(stats_fields) / sizeof(stats_fields[0]) * 8 + 16,
	       "every number is in the list");
