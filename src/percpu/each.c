/* SPDX-License-Identifier: MIT */
/*
 * Visits every sheaf of a cache that no thread uses: in slots, barns, and queues of retired ones.
 * It takes nothing out: its callers are kmem_cache_verify() and tests.
 */
#include "percpu/barn/barn.h"
#include "percpu/drain.h"
#include "percpu/remote.h"
#include "percpu/rows.h"

void sheaf_for_each(struct sheaf_cache *cache, sheaf_visit *visit, void *data)
{
	if (!cache->barns)
		return;
	rows_for_each (cache->at.handle, row) {
		struct slot *slot = slot_of_row(cache->at.handle, row);
		struct sheaf *spare = slot_spare(slot);

		if (slot->main != &sheaf_bootstrap)
			visit(data, slot->main, false);
		if (spare && spare != &sheaf_bootstrap)
			visit(data, spare, false);
		if (slot->rcu_free != &sheaf_bootstrap)
			visit(data, slot->rcu_free, false);
		for (unsigned int i = 0; i < 2 * slot_remotes(); i++) {
			struct sheaf *remote = slot_remote(slot, i, i >= slot_remotes());

			if (remote)
				visit(data, remote, false);
		}
	}
	barn_for_each_cell (cache, cell)
		if (*cell)
			visit(data, barn_sheaf(*cell), false);
	sheaf_for_each_retired(cache, visit, data);
}
