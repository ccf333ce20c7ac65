/* SPDX-License-Identifier: MIT */
/* The library in its process: first use, fork and exit; see process.c. Callers: src/cache/ and the
 * layers above. */
#ifndef SHEAF_CACHE_PROCESS_H
#define SHEAF_CACHE_PROCESS_H

#include "cache/cache.h"
#include "os/channel.h"

/* Initialise the library at its first use. Returns false if there is no memory for it. */
bool caches_ready(void);
/* Register the handlers of fork(), if they are not. */
void caches_handle_forks(void);

/* --- in src/stats/ print.c -------------------------------------------------------------------- */

/* At the first use: remember the file that statistics go to at exit, if it is not standard output
 * or error, which a program may exchange. */
void stats_begin(void);
/* At exit, with SHEAF_OPTIONS=stats. Referenced here, so that a program linked with the static
 * library includes it. */
void stats_at_exit(void);
/* At exit, with SHEAF_OPTIONS=leaks: report caches with objects in use. */
void leaks_at_exit(void);
/* The same with SHEAF_OPTIONS=profile_leaks, by samples; in profile.c. */
void profile_leaks_at_exit(void);

/* --- in src/kmalloc/ mempool_make.c ----------------------------------------------------------- */

/* Around fork(): the locks of all memory pools; in the child, before they are unlocked. */
void mempool_lock_all(void);
void mempool_unlock_all(void);
void mempool_in_child(void);

/* --- in src/control/ control.c ---------------------------------------------------------------- */

/* Answer another process, if one asks. The caller holds no lock and has nothing in hand. */
void control_look(void) OS_COLD;

static inline void control_look_if_on(void)
{
	if (os_unlikely(os_load_relaxed(&os_channel_is_on) > CHANNEL_OFF))
		control_look();
}

#endif
