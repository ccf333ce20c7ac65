/* SPDX-License-Identifier: MIT */
/* The process's budget of sheaves; see budget.h. */
#include "percpu/budget.h"

#include "os/machine.h"
#include "os/options.h"

struct sheaf_budget sheaf_budget;

void sheaf_budget_init(void)
{
	size_t wanted = (size_t)os_options.sheaf_budget << 20;

	sheaf_budget.limit = wanted ? wanted : os.memory / BUDGET_PART;
}
