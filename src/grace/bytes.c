/* SPDX-License-Identifier: MIT */
/* Retired bytes, counted by each CPU; see grace.h. */
#include "grace/grace.h"
#include "os/machine.h"
#include "os/options/options.h"

/*
 * What a CPU counts by itself before it adds that to the sum. In steady use a CPU allocates as much
 * as it retires, so it rarely does. The sum of 384 CPUs may lack 12 MiB. With a quarter, each sheaf
 * of 32 objects of 256 bytes is added to the sum; with double, it may lack twice as much.
 */
#define LEAST_PART ((int64_t)32 << 10)
#define ALL_PARTS  16 /* of the limit */

static int64_t limit(void)
{
	return (int64_t)os_options.rcu_limit << 20;
}

static int64_t most_of_a_part(void)
{
	int64_t most = (limit() / ALL_PARTS) >> (64 - __builtin_clzll(os.nr_cpus));

	return most > LEAST_PART ? most : LEAST_PART;
}

static void add_bytes(struct grace *grace, int64_t bytes)
{
	int64_t *part = &grace->parts[os_row()].bytes, most = most_of_a_part();
	int64_t now = os_fetch_add_relaxed(part, bytes) + bytes;

	if (now < most && now > -most)
		return;
	os_fetch_add_relaxed(&grace->bytes, now);
	os_fetch_add_relaxed(part, -now);
}

bool grace_is_over_limit(struct grace *grace)
{
	return os_load_relaxed(&grace->bytes) > limit();
}

bool grace_retired(struct grace *grace, uint64_t bytes)
{
	add_bytes(grace, (int64_t)bytes);
	return grace_is_over_limit(grace);
}

void grace_reused(struct grace *grace, uint64_t bytes)
{
	add_bytes(grace, -(int64_t)bytes);
}

uint64_t grace_sum(struct grace *grace)
{
	int64_t sum = os_load_relaxed(&grace->bytes);

	for (unsigned int row = 0; row < os.nr_cpus; row++)
		sum += os_load_relaxed(&grace->parts[row].bytes);
	return sum > 0 ? (uint64_t)sum : 0;
}
