/* SPDX-License-Identifier: MIT */
/* Counts of durations: eight steps per doubling. */
#ifndef BENCH_LATENCY_H
#define BENCH_LATENCY_H

#include <stdint.h>
#include <string.h>

#define LATENCY_STEPS 8
#define LATENCY_SHIFT 3
#define LATENCY_CELLS (64 * LATENCY_STEPS)

struct latency {
	uint64_t cells[LATENCY_CELLS], sum;
	uint64_t first; /* earlier stamps are of other memory */
};

static inline void latency_clear(struct latency *latency)
{
	memset(latency, 0, sizeof(*latency));
}

static inline void latency_add(struct latency *latency, uint64_t from, uint64_t now)
{
	uint64_t took = now - from + 1;
	unsigned int log;

	if (!latency->first)
		latency->first = now;
	if (from < latency->first || from > now)
		return;
	if (took < LATENCY_STEPS) {
		log = 0;
	} else {
		unsigned int bits = 63 - (unsigned int)__builtin_clzll(took);

		log = (bits - LATENCY_SHIFT + 1) * LATENCY_STEPS +
		      (unsigned int)(took >> (bits - LATENCY_SHIFT)) % LATENCY_STEPS;
	}
	latency->cells[log]++;
	latency->sum++;
}

static inline void latency_merge(struct latency *into, const struct latency *from)
{
	for (unsigned int i = 0; i < LATENCY_CELLS; i++)
		into->cells[i] += from->cells[i];
	into->sum += from->sum;
}

/*
 * The end of the cell that this percentage of durations do not exceed; 0 if there are no durations.
 */
static inline double latency_percentile(const struct latency *latency, unsigned int percent)
{
	uint64_t left = (latency->sum * percent + 99) / 100;

	for (unsigned int i = 0; i < LATENCY_CELLS && latency->sum; i++) {
		if (latency->cells[i] >= left) {
			unsigned int step = i % LATENCY_STEPS + 1, doublings = i / LATENCY_STEPS;

			return doublings ? (double)(LATENCY_STEPS + step) *
						   (double)(UINT64_C(1) << (doublings - 1))
					 : step;
		}
		left -= latency->cells[i];
	}
	return 0;
}

#endif
