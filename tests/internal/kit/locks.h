/* SPDX-License-Identifier: MIT */
/* Holds the lock of caches or of drains, for tests of calls that must not wait for it. */
#ifndef SHEAF_TESTS_LOCKS_H
#define SHEAF_TESTS_LOCKS_H

#include "cache/cache.h"
#include "percpu/drain.h"

static inline void lock_caches(void)
{
	os_lock(&caches.lock);
}

static inline void unlock_caches(void)
{
	os_unlock(&caches.lock);
}

static inline void lock_drains(void)
{
	os_lock(&sheaf_drains);
}

static inline void unlock_drains(void)
{
	os_unlock(&sheaf_drains);
}

#endif
