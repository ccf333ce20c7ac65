/* SPDX-License-Identifier: MIT */
/*
 * What the thread sanitizer is told, in a program that is built with it.
 *
 * It sees what the program does with memory, but not what this library does, unless that is built with it,
 * too: neither how an object comes from one thread to another, nor that it was free in between. So the
 * last access before a free and the first one after the next allocation would look like a race. It
 * has to be told:
 *
 *   given: all that this thread has done happens before ...   (__tsan_release)
 *   taken: ... what the thread does that takes it next        (__tsan_acquire)
 *
 * An object is known by its first address, and so is a lent sheaf, an element of a pool or a lock. Pages
 * are known one by one. What frees an object writes to all of it, so that a use after free in another
 * thread is a race. What retires one does not: readers may still be in it. And since two owners of an
 * object are ordered, a race that lies only across its reuse may stay hidden.
 *
 * Invariants
 *  Z1. Whatever the program can reach is taken after it left the library's structures and before a
 *      pointer to it is returned, or a callback of the program's gets one.
 *  Z2. It is given after the program's last access and before it enters those structures.
 *  Z3. A slab takes its pages and gives each of its objects when it is made; when it goes, it
 *      takes each of its objects and gives its pages.
 *  Z4. What memcpy() and its like do with the library's own structures is seen, too. They take what they read
 *      and give what they wrote, unless the program or a lock that is told of (os/linux/lock.c) orders them.
 *
 * Callers: every layer.
 */
#ifndef SHEAF_OS_TSAN_H
#define SHEAF_OS_TSAN_H

#include "os/machine.h"
#include "os/memory.h"

/* The sanitizer's own names, which a program built with it has. */
extern void __tsan_acquire(void *address) __attribute__((weak));
extern void __tsan_release(void *address) __attribute__((weak));
extern void __tsan_write_range(void *address, unsigned long bytes) __attribute__((weak));

/* A library that is built with it, too, hides nothing. */
#ifdef __SANITIZE_THREAD__
#define TSAN_SEES_US true
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN_SEES_US true
#endif
#endif
#ifndef TSAN_SEES_US
#define TSAN_SEES_US false
#endif

/* Is this program built with it? */
static inline bool tsan_is_there(void)
{
	return &__tsan_acquire && &__tsan_release && &__tsan_write_range;
}

/* NULL is nobody's. */
static inline void tsan_taken(const void *address)
{
	if (__builtin_expect(os.tsan, 0) && address)
		__tsan_acquire((void *)(uintptr_t)address);
}

static inline void tsan_given(const void *address)
{
	if (__builtin_expect(os.tsan, 0))
		__tsan_release((void *)(uintptr_t)address);
}

/* Given, and nobody may use it any more. */
static inline void tsan_freed(void *address, size_t bytes)
{
	if (__builtin_expect(os.tsan, 0)) {
		__tsan_write_range(address, bytes);
		__tsan_release(address);
	}
}

static inline void tsan_all_taken(void *const *objects, size_t n)
{
	for (size_t i = 0; __builtin_expect(os.tsan, 0) && i < n; i++)
		tsan_taken(objects[i]);
}

static inline void tsan_all_given(void *const *objects, size_t n)
{
	for (size_t i = 0; __builtin_expect(os.tsan, 0) && i < n; i++)
		tsan_given(objects[i]);
}

static inline void tsan_pages_taken(char *address, size_t bytes)
{
	for (size_t at = 0; os.tsan && at < bytes; at += OS_PAGE)
		__tsan_acquire(address + at);
}

static inline void tsan_pages_given(char *address, size_t bytes)
{
	for (size_t at = 0; os.tsan && at < bytes; at += OS_PAGE)
		__tsan_release(address + at);
}

#endif
