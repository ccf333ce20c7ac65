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
 *     sheaf_set_report(to_log, log, NULL);
 *
 * docs/debugging.md and libsheaf(7) describe what is reported, and which options find more. The
 * rules of <sheaf/slab.h> for threads, signals, fork and errno apply here, too.
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

/* Where reports go: to a function, which gets `data`. If `report` is NULL: to standard error,
 * or to the file of SHEAF_OPTIONS=report=PATH. */
struct sheaf_report_to {
	void (*report)(void *data, const char *text, size_t length);
	void *data;
};

/*
 * From now on, call report(data, text, length) for each report, instead of writing it to standard
 * error or to the file of SHEAF_OPTIONS=report=PATH. If `report` is NULL, write reports there
 * again. The text is one report of one or more lines. It has `length` bytes, ends with a line feed,
 * and is not terminated by a zero byte.
 *
 * The callback runs in the thread that reports, before that thread's call of the library returns.
 * It may run in several threads at the same time. No lock of the library is held. The callback may
 * use the library, except this function; reports of its own calls are written as if there were no
 * callback. So are reports where no callback may run: in calls that never wait (their names end in
 * _nolock), in a forked child before fork() has returned, before abort(), and at exit.
 *
 * The callback must return: leaving it by longjmp(), an exception or pthread_exit() is an error.
 * The library reports that in one line when it next calls the callback in that thread; until then,
 * other threads cannot set another. The thread is not cancelled in it.
 *
 * The call waits until the previous callback has returned in all threads. Afterwards the program
 * may free what that callback used. Unless `before` is NULL, *before receives the previous setting
 * before `report` is first called: so `report` can pass reports on, and the caller can restore the
 * earlier callback. Returns 0, or -EBUSY in a callback, and then changes nothing. O(1). The kernel
 * has no such call.
 */
int sheaf_set_report(void (*report)(void *data, const char *text, size_t length), void *data,
		     struct sheaf_report_to *before) SHEAF_SYMBOL(sheaf_set_report);

/*
 * Explain a SIGSEGV or SIGBUS: if the address is in or next to an object between guard pages
 * (SHEAF_OPTIONS=slab_debug=G or S), report which object it was, who allocated and who freed it,
 * and which code accessed it. Returns whether the address was one of these.
 *
 * The library installs a handler that does this when the first cache needs guard pages. The handler
 * then passes the signal on to the previous handler. A program that installs its own handler later
 * should call this function in it if si_code is above 0, and pass si_addr and the third argument of
 * the handler. If `context` is NULL, the report does not say which code it was.
 *
 * Async-signal-safe: no callback of sheaf_set_report() runs. Writes the report before it returns,
 * and blocks while standard error is a full pipe. O(1). Kernel: kfence_handle_page_fault().
 */
bool sheaf_explain_fault(const void *address, const void *context)
	SHEAF_SYMBOL(sheaf_explain_fault);

/*
 * Report what is known about an address, for example in a program's own check of a pointer: in
 * which object of which cache it is or next to which, or in which large block; with slab_debug=U
 * who allocated and freed the object, and with other letters its bytes. False, and no report, if it
 * is none of these. Takes no lock, but the callback of sheaf_set_report() may run. O(1). Kernel:
 * the same call; <linux/slab.h> declares it.
 */
bool kmem_dump_obj(void *object) SHEAF_SYMBOL(kmem_dump_obj);

/*
 * Check the slabs of a cache while the program uses it: the bits and the count of each slab, and,
 * with slab_debug, the bytes of free objects and the red zones around used ones. Objects in
 * quarantine (slab_debug=Q) leave it, and are checked then. Each fault is reported. Overwritten
 * bytes of a free object are restored; those of a used object are not changed.
 *
 * kmem_cache_verify() finds more, because it proves that each object is in exactly one place, but
 * no other thread may use the cache meanwhile. This call may be made at any time. While it checks a
 * slab, other threads take objects from other slabs. If another thread is taking objects from a
 * slab, the call waits for it, and skips the slab if that takes long. It also skips objects between
 * guard pages.
 *
 * Returns the number of faults, 0 if there are none; -EINVAL after a report if the cache is NULL or
 * was destroyed. O(pages that the library uses + bytes of the cache). Kernel: a write to
 * /sys/kernel/slab/NAME/validate.
 */
int kmem_cache_validate(struct kmem_cache *s) SHEAF_SYMBOL(kmem_cache_validate);

enum sheaf_traces {
	SHEAF_ALLOC_TRACES, /* who allocated the objects that are in use */
	SHEAF_FREE_TRACES,  /* who freed them last, before that */
};

/*
 * Write to a file descriptor which stacks allocated (or freed) the objects in use of a cache with
 * SLAB_STORE_USER (slab_debug=U), or those between guard pages of a cache with slab_debug=G or S;
 * the output says so ("guarded objects", and in JSON "guarded": true). There is a group for each
 * stack, and groups with most objects come first. Each has the number of objects, the bytes that
 * were requested, the least, average and greatest age, threads and CPUs, the address of one object,
 * and the stack. If `s` is NULL, write this for all such caches. The format is SHEAF_STATS_TEXT or
 * SHEAF_STATS_JSON.
 *
 * The program may use the cache meanwhile, as with kmem_cache_validate(). No lock is held while
 * writing. After 4096 stacks, objects with other stacks are counted without their stacks.
 *
 * Returns 0 or a negative error number: the error of write(2), -ENOMEM, -ENOTSUP if the cache has
 * none of these letters, -EINVAL for a destroyed cache or an unknown format. O(pages that the
 * library uses + objects in use). Raises no SIGPIPE and no SIGXFSZ. Kernel: the files alloc_traces
 * and free_traces in debugfs.
 */
int kmem_cache_print_traces(struct kmem_cache *s, int fd, enum sheaf_traces which,
			    enum sheaf_stats_format format) SHEAF_SYMBOL(kmem_cache_print_traces);

#ifdef __cplusplus
}
#endif

#endif
