/* SPDX-License-Identifier: MIT */
/* The part of sheaf.h for the RCU benchmarks: libsheaf's own retiring, and its counters during the
 * measurement. */
#include <sheaf/rcu.h>
#include <string.h>

#include "cache/events.h"

#define BENCH_KFREE_RCU 1

/*
 * Before the first object is retired: register liburcu's flavour as the provider of grace periods.
 */
static inline bool bench_rcu_begin(void)
{
	bool registered;

	rcu_register_thread();
	registered = sheaf_urcu_register(0) == 0;
	rcu_unregister_thread();
	return registered;
}

static inline size_t bench_pending(void *context)
{
	struct kmem_cache_stats stats;

	return kmem_cache_stats(context, &stats) ? 0 : stats.rcu_pending_objects;
}

static const struct {
	const char *name;
	size_t at;
} bench_events[] = {
#define BENCH_EVENT(name, words, help) {#name, offsetof(struct kmem_cache_stats, name)},
	STAT_EVENTS(BENCH_EVENT)
#undef BENCH_EVENT
};

static struct kmem_cache_stats bench_counted[2]; /* before and after the measurement */

/* Read the counters for the first or the second time. */
static inline void bench_count(void *context, unsigned int look)
{
	kmem_cache_stats(context, &bench_counted[look]);
}

/* Print the difference of the two, if requested, in the form of the library's own statistics, which
 * tools/sheaf_bench/counters.py reads. */
static inline void bench_print_counted(void)
{
	if (!getenv("BENCH_COUNTERS"))
		return;
	for (size_t i = 0; i < sizeof(bench_events) / sizeof(bench_events[0]); i++) {
		uint64_t before, after;

		memcpy(&before, (char *)&bench_counted[0] + bench_events[i].at, sizeof(before));
		memcpy(&after, (char *)&bench_counted[1] + bench_events[i].at, sizeof(after));
		printf("sheaf_cache_%s_total{cache=\"%s\",id=\"1\"} %llu\n", bench_events[i].name,
		       bench_counted[1].name, (unsigned long long)(after - before));
	}
}
