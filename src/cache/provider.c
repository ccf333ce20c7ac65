/* SPDX-License-Identifier: MIT */
/*
 * The calls by which a program names the RCU provider of the process, or says that it has no
 * readers.
 *
 * Locks: OS_RANK_CACHES. Callers: programs.
 */
#include <sheaf/rcu.h>

#include "cache/block.h"

static int refuse(int error, const char *why)
{
	os_misuse(NULL, "sheaf_rcu_register: %s; not registered", why);
	return error;
}

SHEAF_PUBLIC int sheaf_rcu_register(const struct sheaf_rcu_ops *ops)
{
	struct sheaf_rcu_ops own;
	const char *wrong = provider_read(&own, ops);
	bool memory, done;
	struct grace *grace;

	if (wrong)
		return refuse(-EINVAL, wrong);
	if (!caches_ready())
		return -ENOMEM;
	os_lock(&caches.lock);
	grace = grace_of(ops);
	memory = grace && rcu_any_init(grace, &block_rcu_ops);
	done = memory && !caches.no_readers && grace_register(ops);
	os_unlock(&caches.lock);
	if (!memory) {
		os_report("sheaf_rcu_register: out of memory; not registered");
		return -ENOMEM;
	}
	if (os_load_acquire(&caches.no_readers))
		return refuse(-EBUSY,
			      "sheaf_rcu_none() declared earlier that there are no readers");
	if (!done)
		return refuse(-EBUSY,
			      "another provider is already in use (use kmem_cache_args.rcu for "
			      "the provider of one cache)");
	return 0;
}

SHEAF_PUBLIC int sheaf_rcu_none(void)
{
	bool done;

	if (!caches_ready())
		return -ENOMEM;
	os_lock(&caches.lock);
	done = !grace_of(NULL);
	if (done)
		os_store_release(&caches.no_readers, 1);
	os_unlock(&caches.lock);
	if (!done)
		os_misuse(
			NULL,
			"sheaf_rcu_none: the process already has an RCU provider, so there may be "
			"readers; the call is ignored");
	return done ? 0 : -EBUSY;
}
