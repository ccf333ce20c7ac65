/* SPDX-License-Identifier: MIT */
/*
 * Returning free memory to the system when the program says so.
 *
 *     sheaf_trim(0);              // everything that is free
 *     sheaf_trim(64 << 20);       // all but 64 MiB
 *
 * Without these calls, free memory returns over time, during calls of the library:
 * SHEAF_OPTIONS=decay=MS. docs/memory.md describes both. The rules of <sheaf/slab.h> for threads,
 * signals, fork and errno apply here, too.
 */
#ifndef SHEAF_TRIM_H
#define SHEAF_TRIM_H

#include <sheaf/slab.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Return free memory to the system until at most `keep` bytes of free pages are left. The sheaves
 * of every CPU, the barns of every node and the objects in quarantine of every cache are emptied
 * first, and slabs that are then empty become free pages. Caches whose sheaves grew start over with
 * their first capacity. What is left returns over time. Shrinkers (<sheaf/shrinker.h>) are first
 * asked for everything they can free.
 *
 * Returns the number of bytes returned to the system meanwhile, including those returned by other
 * threads. Retired objects whose grace period has not passed stay, and so do objects that other
 * threads free meanwhile.
 *
 * Any thread may call it at any time, even in a read-side critical section: it waits for no grace
 * period. It may sleep. It works cache by cache, and returns pages in steps of at most 32 MiB; no
 * lock is held between steps, so other threads wait for at most one. A signal handler must not call
 * it. Other threads may use memory again immediately. O(caches * CPUs + free memory). The kernel
 * has no such call; it is like malloc_trim() of glibc.
 */
size_t sheaf_trim(size_t keep) SHEAF_SYMBOL(sheaf_trim);

#ifdef __cplusplus
}
#endif

#endif
