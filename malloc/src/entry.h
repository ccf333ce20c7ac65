/* SPDX-License-Identifier: MIT */
/*
 * The C library's allocator on libsheaf's kmalloc(): what the files of libsheaf-malloc.so share.
 *
 *   malloc()       kmalloc_pop(), the section of the size's cache, in place
 *     `----------> malloc_rest(): everything else; whether the library is open for this call
 *   free()         page_owner(), and the section of that cache, in place
 *     `----------> malloc_free_rest()
 *
 *   state          malloc_rest(), malloc_free_rest()
 *   MALLOC_NEW     start (begin.c); of the thread that starts, the boot heap (boot.h)
 *   MALLOC_BOOT    the boot heap, until a call is not for it: begin; of the thread that begins or
 *                  forks, the boot heap; blocks that libsheaf's own calls made go back to it
 *   MALLOC_OPEN    libsheaf
 *   MALLOC_FORKS   libsheaf; of the thread that forks, the boot heap, and frees wait (fork.c)
 *   MALLOC_ASIDE   the program's own allocator, or a sanitizer's (aside.c)
 *
 * Blocks are those of kmalloc(), whose caches are made for at least 16 bytes here: so kfree() takes
 * a block of malloc(), and free() one of kmalloc().
 *
 * Invariants
 *  MALLOC-M1. A pointer names its owner: the boot heap, libsheaf, or after MALLOC_ASIDE another
 *      allocator. No block comes from the C library otherwise. Aside, libsheaf has blocks if the
 *      program calls it itself, and fast paths here may take those that it frees.
 *  MALLOC-M2. A call that succeeds keeps errno, and a free keeps it always.
 *  MALLOC-M3. The usable size of a block is constant until it is resized: all of it is copied then.
 *  MALLOC-M4. A thread that holds a lock of libsheaf takes no lock of stdio.
 *  MALLOC-M5. A thread that may hold a lock of libsheaf is inside. What it calls then, in a handler
 *      of signals, waits for no lock: the calls of libsheaf for any context, or a mapping.
 *
 * Callers: the program; malloc/src/.
 */
#ifndef SHEAF_MALLOC_H
#define SHEAF_MALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kmalloc/kmalloc.h"

/* Unversioned in the shared library, so that a program that asks for the C library's version of a
 * name finds it. */
#define MALLOC_PUBLIC __attribute__((visibility("default")))
#define MALLOC_LEAST  16u /* bytes: the alignment of each block */

enum {
	MALLOC_NEW,
	MALLOC_BOOT,
	MALLOC_OPEN,
	MALLOC_FORKS,
	MALLOC_ASIDE
};
extern uint32_t malloc_state __attribute__((visibility("hidden")));
/* SHEAF_OPTIONS=check_sizes. */
extern uint32_t malloc_checks_sizes __attribute__((visibility("hidden")));

/* --- begin.c ---------------------------------------------------------------------------------- */

/* May the boot heap serve this call? Starts at the first call. */
bool malloc_boots(void) OS_COLD;
/* May this thread use libsheaf now? Begins at the first call. */
bool malloc_is_open(void) OS_COLD;
/* Become the worker, when no thread is. False: this thread is the worker already. */
bool malloc_work(void);
void malloc_work_done(void);

static inline bool malloc_open(void)
{
	return os_likely(os_load_acquire(&malloc_state) == MALLOC_OPEN) || malloc_is_open();
}

/* MALLOC-M5. Of the initial-exec model, since the other one may allocate. */
extern __thread volatile bool malloc_inside
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* --- rest.c ----------------------------------------------------------------------------------- */

/* With errno; returns NULL. */
void *malloc_no_memory(void) OS_COLD;
/* A block of any size, by the state. flags: GFP_KERNEL, or with __GFP_ZERO. The last thing that its
 * callers do, so that it returns to the program. */
void *malloc_rest(size_t size, gfp_t flags);
/* align: a power of two, of any size. */
void *malloc_aligned(size_t align, size_t size, uint64_t caller);
void malloc_free_rest(void *block);
/* Resize a block that is not NULL to at least a byte. */
void *malloc_resize(void *block, size_t size, uint64_t caller);
/* Report a sized free of another size; align is that of the request, or 1. resized: realloc() may
 * have left the block as it was. */
void malloc_check_size(void *block, size_t size, size_t align, bool resized,
		       const char *call) OS_COLD;

/* --- the fast paths --------------------------------------------------------------------------- */

static OS_ALWAYS_INLINE void *malloc_fast(size_t size)
{
	void *block;

	if (os_likely(kmalloc_pop(size, GFP_KERNEL, &block)))
		return block;
	return malloc_rest(size, GFP_KERNEL);
}

static OS_ALWAYS_INLINE bool malloc_push(void *block)
{
	struct slab_cache *owner = page_owner(block);

	return os_likely(owner) && os_likely(cache_push_found(cache_of_slab(owner), block));
}

static OS_ALWAYS_INLINE void malloc_free_fast(void *block)
{
	if (os_unlikely(!malloc_push(block)))
		malloc_free_rest(block);
}

/* --- fork.c ----------------------------------------------------------------------------------- */

/* Register the handlers of fork(), libsheaf's and then ours; twice does no harm. */
void malloc_handle_forks(void);
/* Is this the thread between the handlers that lock and unlock? */
bool malloc_forks_here(void);
/* In that thread: free this block later. */
void malloc_free_later(void *block);

/* --- aside.c: another allocator in the program ------------------------------------------------ */

/* Does the program have an allocator of its own? Calls malloc() and free() of the program. */
bool malloc_is_foreign(void) OS_COLD;
/* A call of malloc() came to this library: malloc_is_foreign() may be asking for that. */
void malloc_came_here(void);
/* Find the allocator that is next in the program; false, after a report: there is none. */
bool malloc_step_aside(void) OS_COLD;

/* Its calls. */
struct malloc_calls {
	void *(*malloc)(size_t size);
	void (*free)(void *block);
	void *(*calloc)(size_t n, size_t size);
	void *(*realloc)(void *block, size_t size);
	void *(*memalign)(size_t align, size_t size);
	size_t (*malloc_usable_size)(void *block);
};
extern struct malloc_calls malloc_next __attribute__((visibility("hidden")));

/* Does this block, which is none of the boot heap, belong to another allocator? MALLOC-M1. */
static inline bool malloc_is_elsewhere(const void *block)
{
	return os_unlikely(os_load_acquire(&malloc_state) == MALLOC_ASIDE) && !page_owner(block);
}

#endif
