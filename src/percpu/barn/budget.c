/* SPDX-License-Identifier: MIT */
/* The process's budget of sheaves; see budget.h. */
#include "percpu/barn/budget.h"

#include "os/machine.h"
#include "os/options/options.h"
#include "page/decay.h"
#include "page/page.h"
#include "page/pool.h"

/* All parts together are this part of the limit. Half: CPUs that send each other sheaves write the
 * shared sum twice as often; double: barns hold up to an eighth too much, or too little. */
#define PARTS_PART 16

struct sheaf_budget sheaf_budget;

/* The part of a CPU, alone in its line. */
struct part {
	intptr_t bytes;
	intptr_t added; /* so much of it to the shared sum */
} __attribute__((aligned(64)));

static struct part *parts; /* os.nr_cpus */

static void add_part(struct part *part)
{
	intptr_t added = os_load_relaxed(&part->added), bytes = os_load_relaxed(&part->bytes);

	if (os_cmpxchg(&part->added, &added, bytes))
		os_fetch_add_relaxed(&sheaf_budget.used, bytes - added);
}

void sheaf_budget_set_limit(size_t bytes)
{
	intptr_t limit = (intptr_t)bytes, before = os_load_relaxed(&sheaf_budget.limit);

	os_store_relaxed(&sheaf_budget.set_at, os_now_ms());
	os_store_relaxed(&sheaf_budget.share, limit / PARTS_PART / (intptr_t)os.nr_cpus);
	os_store_relaxed(&sheaf_budget.limit, limit);
	/* They may be above the new share. */
	for (uint32_t cpu = 0; cpu < os.nr_cpus && limit < before; cpu++)
		if (os_load_relaxed(&parts[cpu].bytes) != os_load_relaxed(&parts[cpu].added))
			add_part(&parts[cpu]);
}

void sheaf_budget_follow(void)
{
	size_t wanted = (size_t)os_options.sheaf_budget << 20;

	sheaf_budget_set_limit(wanted ? wanted : page_bound());
}

bool sheaf_budget_init(void)
{
	if (!parts && !(parts = pool_alloc(os.nr_cpus * sizeof(*parts))))
		return false;
	os_store_relaxed(&decay_time.cpus, os.nr_allowed);
	sheaf_budget_follow();
	return true;
}

/* The program may use more by now than when the limit was set. */
bool sheaf_budget_is_over_now(void)
{
	if (os_now_ms() != os_load_relaxed(&sheaf_budget.set_at))
		sheaf_budget_follow();
	return os_load_relaxed(&sheaf_budget.used) > os_load_relaxed(&sheaf_budget.limit);
}

void sheaf_budget_add(intptr_t bytes)
{
	struct part *part = &parts[os_cpu()];
	intptr_t now = os_fetch_add_relaxed(&part->bytes, bytes) + bytes -
		       os_load_relaxed(&part->added),
		 share = os_load_relaxed(&sheaf_budget.share);

	if (now > share || now < -share)
		add_part(part);
}

size_t sheaf_budget_used(void)
{
	intptr_t used = 0;

	for (uint32_t cpu = 0; cpu < os.nr_cpus; cpu++)
		used += os_load_relaxed(&parts[cpu].bytes);
	/* Others may add to one while this reads another. */
	return used > 0 ? (size_t)used : 0;
}

void sheaf_budget_after_fork(void)
{
	sheaf_budget.used = 0;
	/* A first use that was refused has none. */
	for (uint32_t cpu = 0; parts && cpu < os.nr_cpus; cpu++)
		sheaf_budget.used += parts[cpu].added;
}
