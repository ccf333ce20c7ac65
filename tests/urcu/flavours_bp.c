/* SPDX-License-Identifier: MIT */
/* See flavours.h. The flavour's header comes last. */
#include "flavours.h"

#include <sheaf/rcu.h>
#include <urcu-bp.h>

int bp_register(void)
{
	return sheaf_urcu_register(0);
}

const struct sheaf_rcu_ops *bp_provider(void)
{
	return sheaf_urcu_provider(urcu_bp, 0);
}

void bp_lock(void)
{
	rcu_read_lock();
}

void bp_unlock(void)
{
	rcu_read_unlock();
}
