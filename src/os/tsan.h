/* SPDX-License-Identifier: MIT */
/*
 * What the library reports to the thread sanitizer, in a program that is built with it.
 *
 * The sanitizer sees the program's memory accesses. It does not see this library's, unless the
 * library is built with it too: it sees neither how an object moves from one thread to another, nor
 * that the object was free in between. So the last access before a free and the first access after
 * the next allocation would look like a race. The library reports:
 *
 *   release: all that this thread has done happens before ...
 *   acquire: ... what the thread does that acquires the same address next
 *
 * An object is identified by its first address, and so are a lent sheaf, an element of a pool and a
 * lock. Pages are identified one by one. A call that frees an object reports a write to all of it,
 * so that a use after free in another thread is a race. A call that retires an object does not,
 * because readers may still use it. Two successive owners of an object are ordered, so a race
 * between an access by the first and an access by the second may stay hidden.
 *
 * Invariants
 *  TSAN-Z1. Anything that the program can reach is acquired after it leaves the library's
 *      structures, and before the library returns a pointer to it or passes one to a callback.
 *  TSAN-Z2. It is released after the program's last access and before it enters those structures.
 *  TSAN-Z3. A new slab acquires its pages and releases each of its objects; a slab that is freed
 *      acquires each of its objects and releases its pages.
 *  TSAN-Z4. The sanitizer also sees memcpy() and similar calls on the library's own structures.
 *      They acquire and release what they read and what they wrote, unless the program or a
 *      reported lock (os/linux/lock.c) orders them.
 *
 * Callers: every layer.
 */
#ifndef SHEAF_OS_TSAN_H
#define SHEAF_OS_TSAN_H

#include "os/compiler.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/memory_tools.h"

/* The sanitizer's own functions, which a program built with it contains. */
extern void __tsan_acquire(void *address) __attribute__((weak));
extern void __tsan_release(void *address) __attribute__((weak));
extern void __tsan_write_range(void *address, long bytes) __attribute__((weak));

/* True if the program is built with the sanitizer. */
static inline bool tsan_is_there(void)
{
	return &__tsan_acquire && &__tsan_release && &__tsan_write_range;
}

/* True if the library annotates its calls for it. */
static inline bool tsan_is_on(void)
{
	return os_unlikely(os.tools & TOOL_TSAN);
}

/* NULL is allowed. */
static inline void tsan_acquire(const void *address)
{
	if (tsan_is_on() && address)
		__tsan_acquire((void *)(uintptr_t)address);
}

static inline void tsan_release(const void *address)
{
	if (tsan_is_on())
		__tsan_release((void *)(uintptr_t)address);
}

/* Release it; no thread may use it after that. */
static inline void tsan_freed(void *address, size_t bytes)
{
	if (tsan_is_on()) {
		__tsan_write_range(address, bytes);
		__tsan_release(address);
	}
}

static inline void tsan_acquire_all(void *const *objects, size_t n)
{
	for (size_t i = 0; tsan_is_on() && i < n; i++)
		tsan_acquire(objects[i]);
}

static inline void tsan_release_all(void *const *objects, size_t n)
{
	for (size_t i = 0; tsan_is_on() && i < n; i++)
		tsan_release(objects[i]);
}

static inline void tsan_acquire_pages(char *address, size_t bytes)
{
	for (size_t at = 0; tsan_is_on() && at < bytes; at += OS_PAGE)
		__tsan_acquire(address + at);
}

static inline void tsan_release_pages(char *address, size_t bytes)
{
	for (size_t at = 0; tsan_is_on() && at < bytes; at += OS_PAGE)
		__tsan_release(address + at);
}

#endif
