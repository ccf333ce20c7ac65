/* SPDX-License-Identifier: MIT */
/*
 * SHEAF_OPTIONS="name=value;name;...": the one environment variable, its options named as the
 * kernel's boot options are. A misspelt one is reported with the nearest name; the rest counts.
 *
 * Callers: every layer reads os_options; os_init() fills it.
 */
#ifndef SHEAF_OS_OPTIONS_H
#define SHEAF_OS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct os_options {
	uint32_t backend_trylock; /* backend=trylock */
	uint32_t backend_rseq;	  /* backend=rseq: complain if it cannot be had */
	uint32_t index_mm_cid;	  /* index=mm_cid */
	uint32_t index_cpu_id;	  /* index=cpu_id */
	uint32_t numa_fake;	  /* numa=fake=N */
	uint32_t nomerge;	  /* slab_nomerge */
	uint32_t debug_checks;	  /* slab_debug=F: each free is checked */
	uint32_t strict_numa;	  /* slab_strict_numa */
	uint32_t max_order;	  /* slab_max_order=N, 0 ... 9 */
	uint32_t min_order;	  /* slab_min_order=N */
	uint32_t min_objects;	  /* slab_min_objects=N */
	uint32_t hardened;	  /* slab_freelist_hardened */
	uint32_t random;	  /* slab_freelist_random */
	uint32_t stats;		  /* stats: count events, show them to others, print them at exit */
	uint32_t stats_live;	  /* stats=live: the same, but print nothing */
	uint32_t page_keep;	  /* page_keep=N: MiB of free pages that do not go back */
	/* slab_prebuilt_freelist: a new slab's comes first, as before 7.1; benchmarks compare */
	uint32_t prebuilt_freelist;
	uint32_t rcu_delay; /* rcu_delay=MS: how long a partly filled rcu_free sheaf may stay */
	uint32_t rcu_limit; /* rcu_limit=MIB of retired memory */
	uint32_t rcu_stall; /* rcu_stall=MS: a grace period that long is reported */
	uint32_t
		random_kmalloc_caches; /* random_kmalloc_caches=N: kmalloc() has N sets of caches */
	uint32_t no_spare_rule; /* slab_nospare: an empty main goes to the barn, as before 7.0 */
	uint32_t verbose;	/* verbose: say which backend runs, and why */
};

extern struct os_options os_options;

/* Read SHEAF_OPTIONS (not in a set-user-ID program). */
void os_options_init(void);
/* Write the options that are not at their defaults, as SHEAF_OPTIONS would have them. */
void os_options_text(char *text, size_t size);
/* Read this text instead; true if every option in it was understood. */
bool os_options_parse(const char *text);

#endif
