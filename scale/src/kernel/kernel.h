/* SPDX-License-Identifier: MIT */
/*
 * The kernel's sheaves, as its documents describe them, for comparison on invented machines:
 *
 *   CPU     main, spare, rcu_free                 its own; preemption is off meanwhile
 *   CPU     rcu_free sheaves of grace periods     called back on the CPU that filled them
 *   node    barn: full <-> ..., empty <-> ...     10 of each, one spinlock (barn.c)
 *   node    partial slabs                         one spinlock (slabs.c)
 *   slab    a freelist through its objects        any CPU frees by one exchange
 *
 * Or three tiers below the sheaves (bench/rivals/cpu_slab/), which some kernels had.
 *
 * This shows what the algorithms cost in lines and locks, not what the kernel's instructions cost:
 * a fast path costs as much as one of ours.
 *
 * Invariants
 *  K1. Between kernel_stay() and kernel_go() a task keeps its CPU, so that what belongs to the CPU
 *      is its own. Spinlocks are held only then.
 *  K2. A slab is LISTED, or HELD by one task, or full, as in slab/slab.h. Its state's count says
 *      how many objects are in use; the bits above it are the first object of its freelist.
 *
 * Callers: scale/src/allocators.c.
 */
#ifndef SHEAF_SCALE_KERNEL_H
#define SHEAF_SCALE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu_slab.h"
#include "slab/slab.h"

#define KERNEL_BARN 10 /* full sheaves, and as many empty ones */

/* What changed over time. */
struct kernel_rules {
	unsigned int capacity; /* of a sheaf; 0: by the size of objects */
	bool keeps_main;       /* an empty main becomes the spare, if there is none */
	/* Callers that must not block refill sheaves, too, and no refill waits for another node's
	 * list. */
	bool refills;
	/* Three tiers are below the sheaves, as in kernels that had both: objects are cached twice.
	 */
	bool over_tiers;
	bool atomic; /* all callers must not block */
};

struct kernel_sheaf {
	struct kernel_sheaf *next;
	uint64_t due; /* when its grace period is over, in ns */
	unsigned int size, node;
	void *objects[];
};

struct kernel_cpu {
	struct kernel_sheaf *main, *spare, *rcu_free;
	struct kernel_sheaf *first_due, *last_due;
	struct kernel_sheaf *unused; /* as from kmalloc */
	uint64_t apart[10];
};

struct kernel_barn {
	struct os_lock lock;
	unsigned int nr_full, nr_empty;
	struct kernel_sheaf *full, *empty;
	uint64_t apart[12];
};

struct kernel_cache {
	struct kernel_rules rules;
	struct cpu_slab *tiers; /* or NULL: kernel_slabs_ calls use nodes' lists */
	struct slab_cache slab;
	struct kernel_cpu *cpus;
	struct kernel_barn *barns;
};

/* --- sheaves.c ------------------------------------------------------------------------------ */

/* NULL: no memory. */
struct kernel_cache *kernel_create(size_t size, const struct kernel_rules *rules);
void *kernel_alloc(struct kernel_cache *cache);
void kernel_free(struct kernel_cache *cache, void *object);
void kernel_free_rcu(struct kernel_cache *cache, void *object);

/* --- barn.c: each returns NULL, or false, if the barn has none, or no room ------------------ */

struct kernel_sheaf *kernel_barn_get_empty(struct kernel_barn *barn);
/* The empty one goes there, and a full one comes back. */
struct kernel_sheaf *kernel_barn_replace_empty(struct kernel_barn *barn,
					       struct kernel_sheaf *empty);
/* The reverse; *too_big: the barn has enough full ones. */
struct kernel_sheaf *kernel_barn_replace_full(struct kernel_barn *barn, struct kernel_sheaf *full,
					      bool *too_big);
/* Regardless of its limit. */
void kernel_barn_put(struct kernel_barn *barn, struct kernel_sheaf *sheaf);
bool kernel_barn_put_full(struct kernel_barn *barn, struct kernel_sheaf *full);
bool kernel_barn_put_empty(struct kernel_barn *barn, struct kernel_sheaf *empty);

/* --- slabs.c -------------------------------------------------------------------------------- */

/* Up to n objects. */
unsigned int kernel_slabs_refill(struct kernel_cache *cache, void **objects, unsigned int n);
/* One, without a sheaf. */
void *kernel_slabs_alloc(struct kernel_cache *cache);
void kernel_slabs_free(struct kernel_cache *cache, void *object);

/* --- of the simulator: scale/src/work.c ----------------------------------------------------- */

/* Switch preemption off and on. */
void kernel_stay(void);
void kernel_go(void);
/* A fast path's own work. */
void kernel_work(void);

#endif
