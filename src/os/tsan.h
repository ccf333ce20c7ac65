/* SPDX-License-Identifier: MIT */
/*
 * What the library reports to the thread sanitizer, in a program that is built with it.
 *
 * The sanitizer sees the program's memory accesses. It does not see this library's, unless the
 * library is built with it too: it sees neither how an object moves from one thread to another, nor
 * that the object was free in between. So the last access before a free and the first access after
 * the next allocation would look like a race. The library reports:
 *
 *   given: all that this thread has done happens before ...   (__tsan_release)
 *   taken: ... what the thread does that takes it next        (__tsan_acquire)
 *
 * An object is identified by its first address, and so are a lent sheaf, an element of a pool and a
 * lock. Pages are identified one by one. A call that frees an object reports a write to all of it,
 * so that a use after free in another thread is a race. A call that retires an object does not,
 * because readers may still use it. Two successive owners of an object are ordered, so a race
 * between an access by the first and an access by the second may stay hidden.
 *
 * Invariants
 *  TSAN-Z1. Anything that the program can reach is taken after it leaves the library's structures,
 *      and before the library returns a pointer to it or passes one to a callback.
 *  TSAN-Z2. It is given after the program's last access and before it enters those structures.
 *  TSAN-Z3. A new slab takes its pages and gives each of its objects; a slab that is freed takes
 *      each of its objects and gives its pages.
 *  TSAN-Z4. The sanitizer also sees memcpy() and similar calls on the library's own structures.
 *      They take what they read and give what they wrote, unless the program or a reported lock
 *      (os/linux/lock.c) orders them.
 *
 * Callers: every layer.
 */
#ifndef SHEAF_OS_TSAN_H
#define SHEAF_OS_TSAN_H

#include "os/compiler.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/tools.h"

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
static inline void tsan_taken(const void *address)
{
	if (tsan_is_on() && address)
		__tsan_acquire((void *)(uintptr_t)address);
}

static inline void tsan_given(const void *address)
{
	if (tsan_is_on())
		__tsan_release((void *)(uintptr_t)address);
}

/* Given, and no thread may use it any more. */
static inline void tsan_freed(void *address, size_t bytes)
{
	if (tsan_is_on()) {
		__tsan_write_range(address, bytes);
		__tsan_release(address);
	}
}

static inline void tsan_all_taken(void *const *objects, size_t n)
{
	for (size_t i = 0; tsan_is_on() && i < n; i++)
		tsan_taken(objects[i]);
}

static inline void tsan_all_given(void *const *objects, size_t n)
{
	for (size_t i = 0; tsan_is_on() && i < n; i++)
		tsan_given(objects[i]);
}

static inline void tsan_pages_taken(char *address, size_t bytes)
{
	for (size_t at = 0; tsan_is_on() && at < bytes; at += OS_PAGE)
		__tsan_acquire(address + at);
}

static inline void tsan_pages_given(char *address, size_t bytes)
{
	for (size_t at = 0; tsan_is_on() && at < bytes; at += OS_PAGE)
		__tsan_release(address + at);
}

#endif
