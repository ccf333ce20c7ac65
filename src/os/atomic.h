/* SPDX-License-Identifier: MIT */
/*
 * Atomic operations on lines shared between CPUs: the only place under src/ that uses the
 * compiler's built-ins. Each call is one step for the simulator (os/step.h).
 *
 * Callers: every layer. A plain load or store of a shared word is a data race; use these.
 */
#ifndef SHEAF_OS_ATOMIC_H
#define SHEAF_OS_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#include "os/compiler.h"
#include "os/step.h"

#define os_load_relaxed(p)     __atomic_load_n(os_step_at(LOAD, p), __ATOMIC_RELAXED)
#define os_load_acquire(p)     __atomic_load_n(os_step_at(LOAD, p), __ATOMIC_ACQUIRE)
#define os_store_relaxed(p, v) os_step_change(STORE, __atomic_store_n, p, v, __ATOMIC_RELAXED)
#define os_store_release(p, v) os_step_change(STORE, __atomic_store_n, p, v, __ATOMIC_RELEASE)
#define os_exchange(p, v)      os_step_change(CHANGE, __atomic_exchange_n, p, v, __ATOMIC_ACQ_REL)
#define os_fetch_add(p, v)     os_step_change(CHANGE, __atomic_fetch_add, p, v, __ATOMIC_ACQ_REL)
#define os_fetch_sub(p, v)     os_step_change(CHANGE, __atomic_fetch_sub, p, v, __ATOMIC_ACQ_REL)
#define os_fetch_or(p, v)      os_step_change(CHANGE, __atomic_fetch_or, p, v, __ATOMIC_ACQ_REL)
#define os_fetch_and(p, v)     os_step_change(CHANGE, __atomic_fetch_and, p, v, __ATOMIC_ACQ_REL)
#define os_fetch_add_relaxed(p, v)                                                                 \
	os_step_change(CHANGE, __atomic_fetch_add, p, v, __ATOMIC_RELAXED)

/* On failure *expected becomes the value found. Strong: fails only if the values differ. */
#define os_cmpxchg(p, expected, v) os_step_change(COMPARE, OS_CMPXCHG, p, v, expected)
#define OS_CMPXCHG(p, v, expected)                                                                 \
	__atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

/* Raise a word to this value, if it is less; both are signed. */
static inline void os_raise(uint64_t *word, uint64_t value)
{
	uint64_t before = os_load_relaxed(word);

	while ((int64_t)value > (int64_t)before && !os_cmpxchg(word, &before, value))
		;
}

/* Order an exchange before later loads. On x86-64, locked instructions already do this. */
#ifdef __x86_64__
#define os_order_rmw() ((void)0)
#else
#define os_order_rmw() os_fence()
#endif

#if OS_TSAN
/* The thread sanitizer does not see fences. An exchange of one shared word gives the same order. */
extern unsigned int os_fence_word;
#define os_fence() ((void)__atomic_fetch_add(&os_fence_word, 1, __ATOMIC_SEQ_CST))
#else
#define os_fence() (os_step(FENCE, NULL, 0, ""), __atomic_thread_fence(__ATOMIC_SEQ_CST))
#endif

#endif
