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

/* What the shared library exports, where a public function is defined; all else is hidden. A public
 * function whose return address identifies the calling place in the program is OS_NOINLINE, too:
 * inlined by whole-program optimisation, it would see its caller's return address. */
#define SHEAF_PUBLIC __attribute__((visibility("default")))

/* Preserve errno from here to the end of the block. */
#define OS_KEEP_ERRNO int kept_errno __attribute__((cleanup(os_restore_errno), unused)) = errno

static inline void os_restore_errno(const int *kept)
{
	errno = *kept;
}

#endif
