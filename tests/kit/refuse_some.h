/* SPDX-License-Identifier: MIT */
/*
 * System calls that fail now and then: those by which the library gets, changes and returns memory,
 * opens files and stops other threads' sections.
 *
 * A statically linked library calls these like any other functions. The program includes this file
 * once. In a build with a sanitizer, which has functions of its own in their place, no call fails.
 */
#ifndef SHEAF_TESTS_REFUSE_SOME_H
#define SHEAF_TESTS_REFUSE_SOME_H

#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kit/sanitizers.h"

static struct {
	unsigned int percent; /* 0: no call */
	uint64_t seed, calls, refused;
} refuse_some;

/* From now on this many of 100 calls fail. */
static inline void refuse_begin(unsigned int percent)
{
	__atomic_store_n(&refuse_some.percent, percent, __ATOMIC_RELAXED);
}

#if !HAS_ASAN && !HAS_TSAN

/* Which calls fail depends on the seed and on their order only. */
static bool refuse_next(int error)
{
	uint64_t mixed =
		(__atomic_fetch_add(&refuse_some.calls, 1, __ATOMIC_RELAXED) + refuse_some.seed) *
		UINT64_C(0x9e3779b97f4a7c15);

	mixed = (mixed ^ mixed >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
	if ((mixed >> 40) % 100 >= __atomic_load_n(&refuse_some.percent, __ATOMIC_RELAXED))
		return false;
	__atomic_fetch_add(&refuse_some.refused, 1, __ATOMIC_RELAXED);
	errno = error;
	return true;
}

/* What syscall() does, which is replaced, too. */
static long refuse_raw(long number, long a, long b, long c, long d, long e, long f)
{
	long result;

#if defined(__x86_64__)
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
#else
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b,
			 x2 __asm__("x2") = c, x3 __asm__("x3") = d, x4 __asm__("x4") = e,
			 x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	result = x0;
#endif
	if (result >= -4095 && result < 0) {
		errno = (int)-result;
		return -1;
	}
	return result;
}

/* A thread that waits may wake at any time. The other calls here never fail. */
static bool refuse_syscall(long number, long b)
{
	switch (number) {
	case SYS_futex:
		return (b & FUTEX_CMD_MASK) == FUTEX_WAIT && refuse_next(EINTR);
	case SYS_membarrier:
		return refuse_next(EPERM);
	case SYS_openat:
	case SYS_memfd_create:
		return refuse_next(EMFILE);
	case SYS_fallocate:
	case SYS_pwrite64:
	case SYS_ftruncate:
		return refuse_next(ENOSPC);
	case SYS_mbind:
		return refuse_next(ENOSYS);
	default:
		return false;
	}
}

long syscall(long number, ...)
{
	va_list list;
	long a[6];

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	return refuse_syscall(number, a[1])
		       ? -1
		       : refuse_raw(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

void *mmap64(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
	return refuse_next(ENOMEM) ? MAP_FAILED
				   : (void *)refuse_raw(SYS_mmap, (long)at, (long)size, protection,
							flags, file, offset);
}

/* Fails where it would cut a mapping in two, beyond vm.max_map_count. */
int munmap(void *at, size_t size)
{
	return refuse_next(ENOMEM) ? -1
				   : (int)refuse_raw(SYS_munmap, (long)at, (long)size, 0, 0, 0, 0);
}

int mprotect(void *at, size_t size, int protection)
{
	return refuse_next(ENOMEM)
		       ? -1
		       : (int)refuse_raw(SYS_mprotect, (long)at, (long)size, protection, 0, 0, 0);
}

int madvise(void *at, size_t size, int advice)
{
	return refuse_next(EINVAL)
		       ? -1
		       : (int)refuse_raw(SYS_madvise, (long)at, (long)size, advice, 0, 0, 0);
}

void *mremap(void *at, size_t size, size_t new_size, int flags, ...)
{
	va_list list;
	long place;

	va_start(list, flags);
	place = flags & MREMAP_FIXED ? va_arg(list, long) : 0;
	va_end(list);
	return refuse_next(ENOMEM) ? MAP_FAILED
				   : (void *)refuse_raw(SYS_mremap, (long)at, (long)size,
							(long)new_size, flags, place, 0);
}

int mlock(const void *at, size_t size)
{
	return refuse_next(ENOMEM) ? -1
				   : (int)refuse_raw(SYS_mlock, (long)at, (long)size, 0, 0, 0, 0);
}

#endif

#endif
