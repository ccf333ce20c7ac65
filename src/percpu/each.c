/* SPDX-License-Identifier: MIT */
/*
 * Visits every sheaf of a cache that no thread uses: in slots, barns, and queues of retired ones.
 * It takes nothing out: its callers are kmem_cache_verify() and tests.
 */
#include "percpu/barn/barn.h"
#include "percpu/drain.h"
#include "percpu/remote.h"
#include "percpu/rows.h"

struct visitor {
	void (*visit)(void *data, struct sheaf *sheaf);
	void *data;
};

static void visit_queued(void *data, struct sheaf *sheaf, bool waits)
{
	struct visitor *visitor = data;

	(void)waits;
	visitor->visit(visitor->data, sheaf);
}

void sheaf_for_each(struct sheaf_cache *cache, void (*visit)(void *data, struct sheaf *sheaf),
		    void *data)
{
	struct visitor visitor = {visit, data};

	if (!cache->barns)
		return;
	rows_for_each (cache->at.handle, row) {
		struct slot *slot = slot_of_row(cache->at.handle, row);
		struct sheaf *spare = slot_spare(slot);

		if (slot->main != &sheaf_bootstrap)
			visit(data, slot->main);
		if (spare && spare != &sheaf_bootstrap)
			visit(data, spare);
		if (slot->rcu_free != &sheaf_bootstrap)
			visit(data, slot->rcu_free);
		for (unsigned int i = 0; i < 2 * slot_remotes(); i++) {
			struct sheaf *remote = slot_remote(slot, i, i >= slot_remotes());

			if (remote)
				visit(data, remote);
		}
	}
	barn_for_each_cell (cache, cell)
		if (*cell)
			visit(data, barn_sheaf(*cell));
	sheaf_for_each_retired(cache, visit_queued, &visitor);
}
