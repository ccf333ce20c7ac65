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

/* Of builds with benchmarks, and of the simulator: what others do, to compare. */
#ifdef SHEAF_BENCH
#define OS_BENCH_OPTIONS(OPTION)                                                                   \
	/* a new slab's freelist comes first, as before 7.1 */                                     \
	OPTION(prebuilt_freelist, "slab_prebuilt_freelist")                                        \
	/* an empty main goes to the barn, as before 7.0 */                                        \
	OPTION(no_spare_rule, "slab_nospare")
#define OS_BENCH_OPTION(field) (os_options.field != 0)
#else
#define OS_BENCH_OPTIONS(OPTION)
#define OS_BENCH_OPTION(field) false
#endif

/*
 * Every option: SWITCH(field, name) and NUMBER(field, name, least, most, default), where a default
 * below the least means that the library chooses. man/libsheaf.7 describes them.
 */
#define OS_OPTIONS(SWITCH, NUMBER)                                                                 \
	/* which backend and index; the second: complain if restartable sequences cannot be had */ \
	SWITCH(backend_trylock, "backend=trylock")                                                 \
	SWITCH(backend_rseq, "backend=rseq")                                                       \
	SWITCH(index_mm_cid, "index=mm_cid")                                                       \
	SWITCH(index_cpu_id, "index=cpu_id")                                                       \
	NUMBER(numa_fake, "numa=fake=", 1, 64, 0)                                                  \
	SWITCH(nomerge, "slab_nomerge")                                                            \
	/* each free is checked */                                                                 \
	SWITCH(debug_checks, "slab_debug=F")                                                       \
	SWITCH(strict_numa, "slab_strict_numa")                                                    \
	NUMBER(max_order, "slab_max_order=", 0, 9, 3)                                              \
	NUMBER(min_order, "slab_min_order=", 0, 9, 0)                                              \
	NUMBER(min_objects, "slab_min_objects=", 1, 32767, 0)                                      \
	SWITCH(hardened, "slab_freelist_hardened")                                                 \
	SWITCH(random, "slab_freelist_random")                                                     \
	/* count events, show them to others, print them at exit; nothing; as JSON */              \
	SWITCH(stats, "stats")                                                                     \
	SWITCH(stats_live, "stats=live")                                                           \
	SWITCH(stats_json, "stats=json")                                                           \
	/* the descriptor that they are printed to at exit */                                      \
	NUMBER(stats_fd, "stats_fd=", 0, 1 << 20, 2)                                               \
	/* MiB of free pages that do not go back */                                                \
	NUMBER(page_keep, "page_keep=", 1, 1 << 20, 0)                                             \
	/* milliseconds a partly filled rcu_free sheaf may stay */                                 \
	NUMBER(rcu_delay, "rcu_delay=", 1, 3600000, 50)                                            \
	/* MiB of retired memory */                                                                \
	NUMBER(rcu_limit, "rcu_limit=", 1, 1 << 20, 64)                                            \
	/* milliseconds from which on a grace period is reported */                                \
	NUMBER(rcu_stall, "rcu_stall=", 10, 3600000, 10000)                                        \
	/* sets of caches that kmalloc() has */                                                    \
	NUMBER(random_kmalloc_caches, "random_kmalloc_caches=", 1, 16, 0)                          \
	/* say which backend runs, and why */                                                      \
	SWITCH(verbose, "verbose")                                                                 \
	OS_BENCH_OPTIONS(SWITCH)

#define OS_OPTION(field, ...) uint32_t field;
struct os_options {
	OS_OPTIONS(OS_OPTION, OS_OPTION)
};
#undef OS_OPTION

extern struct os_options os_options;

/* Read SHEAF_OPTIONS (not in a set-user-ID program). */
void os_options_init(void);
/* Write the options that are not at their defaults, as SHEAF_OPTIONS would have them. */
void os_options_text(char *text, size_t size);
/* Read this text instead; true if every option in it was understood. */
bool os_options_parse(const char *text);

#endif
