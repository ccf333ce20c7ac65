/* SPDX-License-Identifier: MIT */
/* The library in its process: first use, fork and exit; see process.c. Callers: src/cache/ and the
 * layers above. */
#ifndef SHEAF_CACHE_PROCESS_H
#define SHEAF_CACHE_PROCESS_H

#include "cache/cache.h"

/* A layer above that has its own locks, of a rank after all others, provides this for fork(). */
struct fork_part {
	void (*lock)(void);
	void (*unlock)(void);
	void (*in_child)(void); /* before unlock() */
};

/* Initialise the library at its first use. Returns false if there is no memory for it. */
bool caches_ready(void);

/* Take part in each fork() from now on. Memory pools are the only layer above that has locks. */
void cache_join_fork(const struct fork_part *pools);

/* --- in src/stats/ print.c -------------------------------------------------------------------- */

/* At the first use: remember the file that statistics go to at exit. */
void stats_begin(void);
/* At exit, with SHEAF_OPTIONS=stats. Referenced here, so that a program linked with the static
 * library includes it. */
void stats_at_exit(void);
/* The same with SHEAF_OPTIONS=leaks: caches with objects in use. */
void leaks_at_exit(void);

/* --- in src/control/ control.c ---------------------------------------------------------------- */

/* Answer another process, if one asks. The caller holds no lock and has nothing in hand. */
void control_look(void) OS_COLD;

#endif
