/* SPDX-License-Identifier: MIT */
/*
 * A bounded ring of pointers from one thread to another, in groups, and the wait for its other end.
 * Each end uses its own cache lines, and reads the other's index only when the last value that it
 * read does not suffice.
 *
 * Invariants: head <= tail <= head + BENCH_RING; both are multiples of BENCH_GROUP, so that a group
 * lies in one piece.
 */
#ifndef BENCH_RING_H
#define BENCH_RING_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "threads.h"

#ifndef BENCH_RING
#define BENCH_RING  1024 /* pointers; a power of two */
#define BENCH_GROUP 32	 /* divides it */
#endif
#define BENCH_SPINS (1 << 14) /* if each thread has a CPU, before it yields: about 1 ms */

#if defined(__x86_64__)
#define BENCH_RELAX __builtin_ia32_pause()
#elif defined(__aarch64__)
#define BENCH_RELAX __asm__ volatile("yield")
#else
#define BENCH_RELAX ((void)0)
#endif

struct bench_ring {
	_Alignas(BENCH_APART) atomic_size_t tail; /* pointers put in; the producer's */
	size_t head_seen;
	_Alignas(BENCH_APART) atomic_size_t head; /* pointers taken out; the consumer's */
	size_t tail_seen;
	_Alignas(BENCH_APART) void *slots[BENCH_RING];
};

/* Room for a group, to be filled and then published by bench_ring_put(); NULL: none. */
static inline void **bench_ring_room(struct bench_ring *ring)
{
	size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	if (tail - ring->head_seen > BENCH_RING - BENCH_GROUP) {
		ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
		if (tail - ring->head_seen > BENCH_RING - BENCH_GROUP)
			return NULL;
	}
	return &ring->slots[tail % BENCH_RING];
}

static inline void bench_ring_put(struct bench_ring *ring)
{
	size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	atomic_store_explicit(&ring->tail, tail + BENCH_GROUP, memory_order_release);
}

/* The oldest group, whose slots bench_ring_took() returns; NULL: none. */
static inline void **bench_ring_group(struct bench_ring *ring)
{
	size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

	if (head == ring->tail_seen) {
		ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
		if (head == ring->tail_seen)
			return NULL;
	}
	return &ring->slots[head % BENCH_RING];
}

static inline void bench_ring_took(struct bench_ring *ring)
{
	size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

	atomic_store_explicit(&ring->head, head + BENCH_GROUP, memory_order_release);
}

/* The other end is behind: wait a little, then let another thread run. */
static inline void bench_wait(unsigned int *waited, unsigned int spins)
{
	if ((*waited)++ < spins)
		BENCH_RELAX;
	else
		sched_yield();
}

#endif
