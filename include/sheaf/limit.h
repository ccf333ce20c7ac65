/* SPDX-License-Identifier: MIT */
/*
 * Limits of the memory that the library holds in this process.
 *
 *     sheaf_set_limits(768 << 20, (size_t)1 << 30);   // aim at 768 MiB, never above 1 GiB
 *
 * Held memory is the pages in use by objects, large blocks and the library itself, and free pages
 * that have not returned to the system: held_bytes of sheaf_stats(). SHEAF_OPTIONS=soft_limit=N and
 * hard_limit=N set the limits at the start, in MiB. docs/memory.md describes them. The rules of
 * <sheaf/slab.h> for threads, signals, fork and errno apply here, too. The kernel has no such call;
 * a control group's memory.high and memory.max are like these two.
 */
#ifndef SHEAF_LIMIT_H
#define SHEAF_LIMIT_H

#include <sheaf/slab.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Set both limits, in bytes, rounded down to whole pages of 4 KiB; 0: none. They apply from the
 * next page that is taken from the system; any number is allowed.
 *
 * Above `soft` nothing fails: free memory returns immediately, during calls of the library and in
 * bounded pieces; the free objects of caches follow, one cache at a time; and shrinkers
 * (<sheaf/shrinker.h>) are asked for a part of what they can free, by allocations that may reclaim.
 *
 * At `hard` no more is taken. GFP_KERNEL allocations then ask shrinkers for everything they can
 * free, empty all caches in which something was freed, return free pages, and try again before they
 * return NULL: any memory that was free when the call began is found. A failure visits the caches
 * in which something was freed since the last failure; all caches, if those are many or a grace
 * period has passed (<sheaf/rcu.h>). GFP_NOWAIT allocations return NULL immediately, __GFP_NOFAIL
 * waits. If more is held already, this call reclaims as much as it can. If that is not enough, a
 * line says so, and the limit holds: what is held stays, and allocations that need memory fail
 * until enough is freed.
 *
 * Returns 0; -EINVAL after a report if `soft` is above `hard`; -ENOMEM if the library has no memory
 * to start. May sleep, and may call shrinkers. O(1); if more than `hard` is held, as sheaf_trim().
 */
int sheaf_set_limits(size_t soft, size_t hard) SHEAF_SYMBOL(sheaf_set_limits);

#ifdef __cplusplus
}
#endif

#endif
