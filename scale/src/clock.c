/* SPDX-License-Identifier: MIT */
/* See clock.h. */
#include "scale/src/clock.h"

static unsigned int leaves;
static uint64_t clocks[CLOCK_TASKS];
static uint16_t winners[2 * CLOCK_TASKS]; /* the root is 1, the leaves begin at `leaves` */

static void play(unsigned int node)
{
	unsigned int left = winners[2 * node], right = winners[2 * node + 1];

	winners[node] = (uint16_t)(clocks[right] < clocks[left] ? right : left);
}

void clock_start(unsigned int n)
{
	for (leaves = 1; leaves < n; leaves *= 2)
		;
	for (unsigned int i = 0; i < leaves; i++) {
		clocks[i] = i < n ? 0 : CLOCK_NEVER;
		winners[leaves + i] = (uint16_t)i;
	}
	for (unsigned int node = leaves - 1; node; node--)
		play(node);
}

void clock_set(unsigned int task, uint64_t at)
{
	clocks[task] = at;
	for (unsigned int node = (leaves + task) / 2; node; node /= 2)
		play(node);
}

uint64_t clock_of(unsigned int task)
{
	return clocks[task];
}

unsigned int clock_first(void)
{
	return winners[1];
}
