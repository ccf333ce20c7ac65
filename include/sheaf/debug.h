/* SPDX-License-Identifier: MIT */
/*
 * Finding bugs in a running program: where reports go, what a fault was, checks of a cache in use,
 * and who allocated its objects.
 *
 *     static void to_log(void *data, const char *text, size_t length)
 *     {
 *         log_write(data, LOG_ERROR, text, length);
 *     }
 *     ...
 *     sheaf_set_report(to_log, log);
 *
 * What is reported, and how a program is run so that more is found, docs/debugging.md and
 * libsheaf(7) describe.
 */
#ifndef SHEAF_DEBUG_H
#define SHEAF_DEBUG_H

#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Call report(data, text, length) for each report, instead of writing it to standard error or the
 * file of SHEAF_OPTIONS=report=PATH; NULL: do that again. The text is one report, or several lines,
 * ends with a line feed, and is not terminated by a zero byte.
 *
 * The callback runs in the thread that reports, before its call of the library returns, and in
 * several threads at once. No lock of the library is held. It may use the library, except this
 * function; what these calls report is written as if there were no callback. So are reports of calls
 * that never wait (those whose names end in _nolock), of a forked child before fork() has returned,
 * before abort() and at exit, because no callback may run there.
 *
 * Waits until the former callback has returned in all threads: afterwards it and its data may go
 * away. Returns 0, or -EBUSY in a callback. Not for signal handlers. O(1).
 */
int sheaf_set_report(void (*report)(void *data, const char *text, size_t length), void *data)
	SHEAF_SYMBOL(sheaf_set_report);

/*
 * Explain a SIGSEGV or SIGBUS: if the address is in or beside an object between guard pages
 * (SHEAF_OPTIONS=slab_debug=G), report which object it was, who allocated and who freed it, and
 * which code touched it. Returns whether the address was such a one.
 *
 * The library does this by itself, in a handler that it installs when the first cache wants guard
 * pages, and that then hands the signal over to the handler before it. A program that installs its
 * own handler later calls this function in it if si_code is above 0, with si_addr and with the
 * third argument of the handler. context may be NULL: the report then cannot say which code it was.
 *
 * Async-signal-safe: no callback of sheaf_set_report() runs. Writes the report before it returns,
 * and waits for a reader of standard error if that is a full pipe. errno is preserved. O(1). The
 * kernel has kfence_handle_page_fault().
 */
bool sheaf_explain_fault(const void *address, const void *context)
	SHEAF_SYMBOL(sheaf_explain_fault);

/*
 * Check the slabs of a cache while the program uses it: what each says of its objects, and, with
 * slab_debug, the bytes of free objects and the red zones around used ones. Each fault is reported.
 * What was overwritten in a free object is restored; what belongs to a used one is left alone.
 *
 * kmem_cache_verify() needs a cache that nobody uses, and finds more: it proves that each object is
 * in exactly one place. This call may be made at any time. Other threads take no objects from a
 * slab while it is looked at, and use others; those that are being taken from just then are left
 * out, and so are objects between guard pages.
 *
 * Returns the number of faults, 0 if there are none; -1 after a report if the cache was destroyed.
 * Any thread, but no signal handler. O(pages that the library uses + bytes of the cache). As the
 * kernel's /sys/kernel/slab/NAME/validate.
 */
int kmem_cache_validate(struct kmem_cache *s) SHEAF_SYMBOL(kmem_cache_validate);

enum sheaf_traces {
	SHEAF_ALLOC_TRACES, /* who allocated the objects that are in use */
	SHEAF_FREE_TRACES,  /* who freed them the last time before that */
};

/*
 * Write the objects in use of a cache with SLAB_STORE_USER (slab_debug=U), grouped by stack, most
 * objects first, to a file descriptor: for each group the number of objects, the bytes that were
 * asked for, the least, average and greatest age, threads and CPUs, one of the objects, and the
 * stack. NULL: all such caches. The format is SHEAF_STATS_TEXT or SHEAF_STATS_JSON. As the kernel's
 * files alloc_traces and free_traces.
 *
 * The program may use the cache meanwhile; kmem_cache_validate() says how it is looked at. No lock
 * is held while writing. Objects of more than 4096 stacks are counted without their stacks.
 *
 * Returns 0 or a negative error number: the error of write(2), -ENOMEM, -ENOTSUP if the cache stores
 * no users, -EINVAL for a destroyed cache or an unknown format. Any thread, but no signal handler.
 * O(pages that the library uses + objects in use). A cancellation point.
 */
int kmem_cache_print_traces(struct kmem_cache *s, int fd, enum sheaf_traces which,
			    enum sheaf_stats_format format) SHEAF_SYMBOL(kmem_cache_print_traces);

#ifdef __cplusplus
}
#endif

#endif
