/* SPDX-License-Identifier: MIT */
/*
 * Returning free memory to the system when the program says so.
 *
 *     sheaf_trim(0);              // everything that is free
 *     sheaf_trim(64 << 20);       // but 64 MiB
 *
 * Without these calls, free memory goes back by time, inside calls of the library:
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
 * first, and slabs that are then empty become free pages. Sheaves of caches that became larger in
 * use get their first capacity again. What is left goes back by time. Shrinkers
 * (<sheaf/shrinker.h>) are asked first for all that they have.
 *
 * Returns the bytes that went back to the system meanwhile, also by other threads. Retired objects
 * whose grace period has not passed stay, and so do objects that other threads free meanwhile.
 *
 * Any thread may call it at any time, also in a read-side critical section: it waits for no grace
 * period. It may sleep. It goes cache by cache, and returns pages in steps of at most 32 MiB; no
 * lock is held between these, so that other threads wait for at most one. A signal handler must not
 * call it. Memory may be used again at once by other threads. O(caches * CPUs + free memory). The
 * kernel has no such call; it is like malloc_trim() of glibc.
 */
size_t sheaf_trim(size_t keep) SHEAF_SYMBOL(sheaf_trim);

#ifdef __cplusplus
}
#endif

#endif
