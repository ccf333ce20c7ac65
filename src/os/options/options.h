/* SPDX-License-Identifier: MIT */
/*
 * SHEAF_OPTIONS="name=value;name;...": the only environment variable. Its options have the names of
 * the kernel's boot options, and also the old ones (slub_nomerge). An option that is misspelt, or
 * contradicts another, is reported; the others apply.
 *
 * slab_debug has the kernel's grammar, in which commas and semicolons have a meaning:
 *
 *   slab_debug[=BLOCK[;BLOCK]...]        BLOCK: letters[,name[*]]...
 *
 * After slab_debug, a comma separates names. A word after a semicolon is another block if it
 * consists of slab_debug's letters, up to a comma or its end. Before a comma, other capital letters
 * are allowed, too, and are reported. The name of an option is that option, also "stats".
 *
 * Callers: every layer reads os_options; os_init() fills it.
 */
#ifndef SHEAF_OS_OPTIONS_H
#define SHEAF_OS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/atomic.h"
#include "os/options/names.h"

/* The letters of slab_debug: X(letter, its flag in debug/flags.h, its meaning). man/libsheaf.7 and
 * docs/debugging.md describe them at length. */
#define OS_DEBUG_LETTERS(X)                                                                        \
	X(F, SLAB_CONSISTENCY_CHECKS, "check each call")                                           \
	X(Z, SLAB_RED_ZONE, "red zones")                                                           \
	X(P, SLAB_POISON, "poison")                                                                \
	X(U, SLAB_STORE_USER, "who allocated and freed")                                           \
	X(T, SLAB_TRACE, "trace")                                                                  \
	X(A, SLAB_FAILSLAB, "make allocations fail")                                               \
	X(O, DEBUG_NOT_LARGER, "none that makes slabs larger")                                     \
	X(G, DEBUG_GUARD, "guard pages")                                                           \
	X(S, DEBUG_SAMPLE, "guard pages for samples")                                              \
	X(Q, DEBUG_QUARANTINE, "quarantine")
#define OS_LETTER(letter, flag, meaning) #letter
#define OS_LETTERS			 OS_DEBUG_LETTERS(OS_LETTER)
#define OS_USUAL_LETTERS		 "FZPU" /* of a block without letters */

/* Bytes for one sample of the heap profile: the default, and the limits of `profile=`. */
#define PROFILE_MEAN  524288
#define PROFILE_LEAST 4096
#define PROFILE_MOST  (1 << 30)

/* Only in builds with benchmarks and in the simulator: other designs, for comparison. */
#ifdef SHEAF_BENCH
#define OS_BENCH_OPTIONS(OPTION)                                                                   \
	OPTION(no_spare_rule, "slab_nospare", "an empty main goes to the barn, as before 7.0")
#define OS_BENCH_OPTION(field) (os_options.field != 0)
#else
#define OS_BENCH_OPTIONS(OPTION)
#define OS_BENCH_OPTION(field) false
#endif

/*
 * Every option: SWITCH(field, name, meaning), NUMBER(field, name, least, most, default, meaning),
 * where a default outside these limits means that the library chooses, and TEXT(field, name,
 * meaning), which another layer parses. `help` prints them; man/libsheaf.7 describes them at
 * length.
 */
#define OS_OPTIONS(SWITCH, NUMBER, TEXT)                                                           \
	SWITCH(help, "help", "print this list at the first use")                                   \
	SWITCH(verbose, "verbose", "report backend, nodes, CPUs and options at the first use")     \
	SWITCH(panic_on_warn, "panic_on_warn",                                                     \
	       "abort the program after the first report of misuse")                               \
	TEXT(report, "report=", "append reports to this file; %p in it is the PID")                \
	SWITCH(backend_trylock, "backend=trylock", "use try-locks, not restartable sequences")     \
	SWITCH(backend_rseq, "backend=rseq", "report if restartable sequences are unavailable")    \
	SWITCH(index_mm_cid, "index=mm_cid", "number sheaves by the process's running threads")    \
	SWITCH(index_cpu_id, "index=cpu_id", "number sheaves by CPU")                              \
	NUMBER(numa_fake, "numa=fake=", 1, 64, 0, "split the CPUs into N simulated memory nodes")  \
	SWITCH(merge, "slab_merge", "let caches share slabs: the default")                         \
	SWITCH(nomerge, "slab_nomerge", "never let caches share slabs")                            \
	TEXT(slab_debug, "slab_debug=",                                                            \
	     "check caches: letters of " OS_LETTERS ", then names of caches; see the page")        \
	NUMBER(guard, "slab_guard=", 8, 65536, 0, "N MiB of addresses for guarded objects")        \
	NUMBER(sample, "slab_sample=", 1, 1 << 30, 524288,                                         \
	       "with slab_debug=S, guard one object in N bytes on average")                        \
	SWITCH(profile, "profile", "sample allocations for a heap profile, one in 524288 bytes")   \
	NUMBER(profile_mean, "profile=", 4096, 1 << 30, 524288,                                    \
	       "the same, one in N bytes on average")                                              \
	SWITCH(profile_leaks, "profile_leaks",                                                     \
	       "the same, and report at exit what samples have in use, by stack")                  \
	NUMBER(quarantine, "slab_quarantine=", 1, 1 << 20, 0,                                      \
	       "with slab_debug=Q, keep N MiB of freed objects in quarantine")                     \
	NUMBER(failslab_probability, "failslab_probability=", 0, 100, 1,                           \
	       "percentage of allocations that fail in caches with slab_debug=A")                  \
	NUMBER(failslab_interval, "failslab_interval=", 1, 1 << 30, 1,                             \
	       "make only every Nth of these fail")                                                \
	NUMBER(failslab_times, "failslab_times=", 1, 1 << 30, 0, "make at most N fail in total")   \
	NUMBER(fail_nth, "fail_nth=", 0, 1 << 30, 1073741825,                                      \
	       "make the Nth thing fail that may; 0 counts them, and prints the number at exit")   \
	NUMBER(fail_times, "fail_times=", 0, 1 << 30, 1,                                           \
	       "make N of them fail, from that one on; 0: all")                                    \
	SWITCH(leaks, "leaks", "report objects that are in use at exit")                           \
	SWITCH(tiny, "slub_tiny", "use little memory: no sheaves, no empty slabs kept")            \
	SWITCH(control, "control", "answer `sheaf debug`, `leaks`, `tune`, `profile` and others")  \
	SWITCH(strict_numa, "slab_strict_numa", "follow the memory policy for each object")        \
	NUMBER(max_order, "slab_max_order=", 0, 9, 3, "slabs of at most 2^N pages")                \
	NUMBER(min_order, "slab_min_order=", 0, 9, 0, "slabs of at least 2^N pages")               \
	NUMBER(min_objects, "slab_min_objects=", 1, 32767, 0, "slabs that hold N objects")         \
	SWITCH(hardened, "hardened",                                                               \
	       "slab_check_double, slab_guard_pools, random_kmalloc_caches=16")                    \
	SWITCH(check_pop, "slab_freelist_hardened", "check each pointer that a sheaf hands out")   \
	SWITCH(check_free, "slab_check_free", "check on each free that it is the cache's object")  \
	SWITCH(check_double, "slab_check_double", "both, and find each double free")               \
	NUMBER(init_on_alloc, "init_on_alloc=", 0, 1, 0, "clear each object when it is allocated") \
	NUMBER(init_on_free, "init_on_free=", 0, 1, 0, "clear each object when it is freed")       \
	SWITCH(guard_pools, "slab_guard_pools",                                                    \
	       "keep the library's structures between guard pages")                                \
	SWITCH(random, "slab_freelist_random", "hand out a new slab's objects in random order")    \
	SWITCH(stats, "stats", "count events, show them to `sheaf info`, print them at exit")      \
	SWITCH(stats_live, "stats=live", "the same, but print nothing at exit")                    \
	SWITCH(stats_json, "stats=json", "the same, but print JSON at exit")                       \
	NUMBER(stats_fd, "stats_fd=", 0, 1 << 20, 2, "print them to file descriptor N")            \
	TEXT(stats_file, "stats_file=", "only if that is this file: device:inode")                 \
	NUMBER(process, "process=", 1, 1 << 30, 0, "stats and control only if this is the PID")    \
	TEXT(sheaf_capacity, "sheaf_capacity=", "objects of a sheaf by cache: NAME:N,NAME*:N,...") \
	NUMBER(sheaf_budget, "sheaf_budget=", 1, 1 << 24, 0,                                       \
	       "at most N MiB of objects in sheaves; by default, a part of what is in use")        \
	NUMBER(reserve, "reserve=", 2, 1 << 24, 0, "reserve at most N MiB of addresses for slabs") \
	SWITCH(decay_never, "decay=never", "keep free memory until the program trims")             \
	NUMBER(decay, "decay=", 0, 3600000, 1000,                                                  \
	       "milliseconds for which free memory stays that was in use")                         \
	NUMBER(soft_limit, "soft_limit=", 1, 1 << 30, 0, "reclaim above N MiB")                    \
	NUMBER(hard_limit, "hard_limit=", 1, 1 << 30, 0,                                           \
	       "hold at most N MiB, then allocations fail")                                        \
	SWITCH(background, "background", "return free memory in a thread, not in calls")           \
	SWITCH(pressure, "pressure", "reclaim while the system reports memory pressure")           \
	NUMBER(rcu_delay, "rcu_delay=", 1, 3600000, 50,                                            \
	       "milliseconds that a partly filled sheaf of retired objects may wait")              \
	NUMBER(rcu_limit, "rcu_limit=", 1, 1 << 20, 64,                                            \
	       "MiB of retired memory above which grace periods are requested immediately")        \
	NUMBER(rcu_stall, "rcu_stall=", 10, 3600000, 10000,                                        \
	       "report a grace period that takes more milliseconds")                               \
	NUMBER(random_kmalloc_caches, "random_kmalloc_caches=", 1, 16, 0,                          \
	       "N sets of kmalloc caches")                                                         \
	SWITCH(keep_going, "keep_going", "libsheaf-malloc: go on after a wrong free")              \
	SWITCH(check_sizes, "check_sizes", "libsheaf-malloc: report wrong sizes of sized frees")   \
	SWITCH(deepbind, "deepbind", "libsheaf-malloc: leave RTLD_DEEPBIND to dlopen()")           \
	OS_BENCH_OPTIONS(SWITCH)

#define OS_FAIL_NONE 1073741825u /* fail_nth is not given */

#define OS_OPTION(field, ...)	   uint32_t field;
#define OS_TEXT_OPTION(field, ...) char field[OS_TEXT]; /* empty: not given */
struct os_options {
	OS_OPTIONS(OS_OPTION, OS_OPTION, OS_TEXT_OPTION)
};

extern struct os_options os_options;

/* Have the options been read? The first report may come before the first use. */
enum {
	OS_OPTIONS_UNREAD,
	OS_OPTIONS_READING,
	OS_OPTIONS_READ
};
extern uint32_t os_options_read;

/* Read SHEAF_OPTIONS (not in a set-user-ID program), once. */
void os_options_init(void);
/* Read them for a report, which any context may make: does not wait for a thread that is reading
 * them. */
void os_options_find(void) OS_COLD;
static inline void os_options_need(void)
{
	if (os_unlikely(os_load_acquire(&os_options_read) != OS_OPTIONS_READ))
		os_options_find();
}
/* In a forked child: the thread that read them may have vanished. */
void os_options_after_fork(void);
/* Read this text instead; true if every option in it was understood. Contradictions are
 * reported. */
bool os_options_parse(const char *text);

/* --- option_debug.c --------------------------------------------------------------------------- */

/* Does a block of slab_debug have this letter? */
bool os_options_debug_has(char letter);

/* --- option_capacity.c ------------------------------------------------------------------------ */

#define OS_CAPACITY_MOST 4096

/* What sheaf_capacity says. */
extern struct os_names os_capacities;

/* --- option_print.c --------------------------------------------------------------------------- */

/* Has this option its default? */
bool os_options_is_preset(const uint32_t *value);
/* Write the options that are not at their defaults, as SHEAF_OPTIONS would have them. */
void os_options_text(char *text, size_t size);
/* Print every option to standard error. The caller holds no lock. */
void os_options_help(void) OS_COLD;

#endif
