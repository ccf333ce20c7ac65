/* SPDX-License-Identifier: MIT */
/*
 * Shrinkers: callbacks with which a program frees memory that it can do without, such as entries of
 * its caches, when memory is short.
 *
 *     struct shrinker *shrinker = shrinker_alloc(0, "lookups");
 *
 *     shrinker->count_objects = count;        // how many objects could be freed
 *     shrinker->scan_objects = scan;          // free some of them
 *     shrinker_register(shrinker);
 *
 * They are called by an allocation that may reclaim (GFP_KERNEL) before it returns NULL, at the
 * hard limit of <sheaf/limit.h> or because the system has no memory; and above the soft limit, from
 * time to time by such allocations; by sheaf_trim(); and by the library's thread
 * (SHEAF_OPTIONS=background) above the soft limit. Frees and GFP_NOWAIT allocations call none. No
 * lock of the library is held, so a callback may allocate and free; a reclaim inside it calls no
 * shrinker. Several threads may call one shrinker at the same time.
 *
 * A callback must not wait for a lock that its own thread may hold while it allocates with
 * GFP_KERNEL: try the lock, and return SHRINK_STOP if it is held. It must return: leaving it by
 * longjmp(), an exception or pthread_exit() is an error, which the library reports when that thread
 * next asks shrinkers. The thread is not cancelled in it. With the option background, it must not
 * wait for grace periods (<sheaf/rcu.h>), because the library's thread is registered with no
 * provider.
 *
 * Any thread may make these calls at any time, but a signal handler may not. errno is preserved.
 * Kernel: the calls and names are the same; shrinkers know neither nodes nor groups.
 */
#ifndef SHEAF_SHRINKER_H
#define SHEAF_SHRINKER_H

#include <sheaf/slab.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From scan_objects: no progress is possible now; do not call it again in this reclaim. */
#define SHRINK_STOP (~0UL)
/* From count_objects: there are no objects, as with 0. */
#define SHRINK_EMPTY (~0UL - 1)
/* The usual cost of making an object again. A higher one means that fewer are freed; 0: half of
 * them. */
#define DEFAULT_SEEKS 2
/* The longest name, with the zero byte at its end. */
#define SHRINKER_NAME 64

/* Accepted without effect. */
#define SHRINKER_NUMA_AWARE  1u
#define SHRINKER_MEMCG_AWARE 2u

/*
 * Both structures may grow at their end: shrinker_alloc() passes their sizes. Members that an older
 * header lacks count as zero. Those of a newer header that this version does not know are zero in
 * struct shrink_control, and must be zero in struct shrinker. docs/versioning.md has the rule.
 */

/* One call of a shrinker. */
struct shrink_control {
	gfp_t gfp_mask; /* of the allocation that reclaims */
	int nid;	/* always 0 */
	/* For scan_objects: look at this many objects at most. */
	unsigned long nr_to_scan;
	/* How many it looked at: set to nr_to_scan before the call; it may change this. */
	unsigned long nr_scanned;
};

/* Set the members after shrinker_alloc(), before shrinker_register(). */
struct shrinker {
	/* Return the number of objects that could be freed: 0 or SHRINK_EMPTY if there is none. It
	 * is called often, and should take no lock. */
	unsigned long (*count_objects)(struct shrinker *shrinker, struct shrink_control *sc);
	/* Free up to sc->nr_to_scan objects. Return the number freed, or SHRINK_STOP. */
	unsigned long (*scan_objects)(struct shrinker *shrinker, struct shrink_control *sc);
	long batch; /* objects per call of scan_objects; 0: 128 */
	int seeks;  /* cost of making an object again: DEFAULT_SEEKS from shrinker_alloc() */
	void *private_data;
};

/* The call behind shrinker_alloc(). */
struct shrinker *__shrinker_alloc(size_t shrinker_size, size_t control_size, unsigned int flags,
				  const char *fmt, ...) SHEAF_SYMBOL(__shrinker_alloc)
	__attribute__((format(printf, 4, 5)));

/*
 * Make a shrinker with a name, which is formatted as by printf() and cut off at SHRINKER_NAME
 * bytes: shrinker_alloc(unsigned int flags, const char *fmt, ...). `flags`: 0, or names above. It
 * is called only after shrinker_register(). Returns NULL if there is no memory, or after a report
 * if this version of the library cannot know the header's structures. O(1).
 */
#define shrinker_alloc(...)                                                                        \
	__shrinker_alloc(sizeof(struct shrinker), sizeof(struct shrink_control), __VA_ARGS__)

/*
 * From now on the shrinker is called. One without both callbacks, and one that is registered
 * already, is reported and ignored, and so is one with a member set that this version does not
 * know. NULL is ignored. Takes a lock. O(shrinkers).
 */
void shrinker_register(struct shrinker *shrinker) SHEAF_SYMBOL(shrinker_register);

/*
 * Free a shrinker, registered or not. Waits until no other thread is in its callbacks and no
 * reference is held; then they are not called again. A callback may free its own shrinker, and
 * others: then it does not wait, and the memory is freed when the last callback has returned and
 * the last reference was dropped. NULL is allowed. May sleep. O(shrinkers).
 */
void shrinker_free(struct shrinker *shrinker) SHEAF_SYMBOL(shrinker_free);

/*
 * shrinker_try_get() takes a reference to a registered shrinker, and shrinker_put() drops it;
 * shrinker_free() waits for that. False if the shrinker is NULL, not registered, or being freed.
 * The program must ensure that the shrinker is not freed before the call. shrinker_put() ignores
 * NULL; a call without a reference is reported and ignored. Both take a lock. O(1).
 */
SHEAF_CHECK_RESULT bool shrinker_try_get(struct shrinker *shrinker) SHEAF_SYMBOL(shrinker_try_get);
void shrinker_put(struct shrinker *shrinker) SHEAF_SYMBOL(shrinker_put);

#ifdef __cplusplus
}
#endif

#endif
