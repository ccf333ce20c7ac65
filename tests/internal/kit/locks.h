/* SPDX-License-Identifier: MIT */
/* Holds the lock of caches, for tests of calls that must not wait for it. */
#ifndef SHEAF_TESTS_LOCKS_H
#define SHEAF_TESTS_LOCKS_H

#include "cache/cache.h"

static inline void lock_caches(void)
{
	os_lock(&caches.lock);
}

static inline void unlock_caches(void)
{
	os_unlock(&caches.lock);
}

#endif
