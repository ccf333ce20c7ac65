/* SPDX-License-Identifier: MIT */
/*
 * What the library asks of the compiler. os/atomic.h includes it, and so nearly every file.
 *
 * Callers: every layer.
 */
#ifndef SHEAF_OS_COMPILER_H
#define SHEAF_OS_COMPILER_H

#include <errno.h>

#define os_likely(condition)   __builtin_expect(!!(condition), 1)
#define os_unlikely(condition) __builtin_expect(!!(condition), 0)

#define OS_COLD		 __attribute__((cold, noinline))
#define OS_NOINLINE	 __attribute__((noinline))
#define OS_ALWAYS_INLINE inline __attribute__((always_inline))
/* Each function of a fast path fits into one or two cache lines; if it were not aligned, it would
 * need one more. */
#define OS_FAST __attribute__((aligned(64)))

/*
 * A table of which most programs use a part, or nothing. These lie together, so that all other
 * variables without a value lie in a few pages, which a start uses. (clang needs a name that
 * linkers do not collect.)
 */
#ifdef __clang__
#define OS_LARGE __attribute__((section(".bss.large")))
#else
#define OS_LARGE __attribute__((section(".sbss.large")))
#endif

/* What the shared library exports, where a public function is defined; all else is hidden. A public
 * function whose return address identifies the calling place in the program is OS_NOINLINE, too:
 * inlined by whole-program optimisation, it would see its caller's return address. */
#define SHEAF_PUBLIC __attribute__((visibility("default")))

/* Which sanitizers this file is compiled with: gcc defines a macro, clang has a feature. The
 * simulator uses the thread sanitizer's calls for itself. */
#ifdef __has_feature
#define OS_FEATURE(name) __has_feature(name)
#else
#define OS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || OS_FEATURE(address_sanitizer)
#define OS_ASAN 1
#else
#define OS_ASAN 0
#endif
#if (defined(__SANITIZE_THREAD__) || OS_FEATURE(thread_sanitizer)) && !defined(SHEAF_SIM)
#define OS_TSAN	   1
#define OS_NO_TSAN __attribute__((no_sanitize("thread")))
#else
#define OS_TSAN 0
#define OS_NO_TSAN
#endif

/* Preserve errno from here to the end of the block. */
#define OS_KEEP_ERRNO int kept_errno __attribute__((cleanup(os_restore_errno), unused)) = errno

static inline void os_restore_errno(const int *kept)
{
	errno = *kept;
}

#endif
