/* SPDX-License-Identifier: MIT */
/*
 * Threads that all do one kind of work until they are stopped, and the speed of that work.
 *
 *     bench_threads_start()   create the threads; they prepare what they need, and wait
 *     bench_begin()           call this before the allocator's first use
 *     bench_threads_run()     they work, with a line "window PAIRS NANOSECONDS" for each window of
 *                             time, and then "peak KIB", the most resident memory; then they have
 *                             left their work and sleep until the process ends
 *
 * Each thread has its own CPU if there are enough; otherwise the system places them.
 */
#ifndef BENCH_THREADS_H
#define BENCH_THREADS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define BENCH_APART 128 /* bytes: lines are fetched in pairs */

struct bench_thread {
	_Alignas(BENCH_APART) atomic_size_t pairs; /* so far; only this thread writes it */
	unsigned int index;
};

struct bench_work {
	unsigned int threads;
	void (*prepare)(unsigned int index); /* must not allocate; or NULL */
	void (*run)(struct bench_thread *thread);
};

/* More threads than CPUs: a thread that waits for another one should yield. */
bool bench_oversubscribed(unsigned int threads);

void bench_threads_start(const struct bench_work *work);
/* Without windows, threads are stopped immediately. */
void bench_threads_run(size_t milliseconds, size_t windows);

/* True if the threads must stop; each thread reads it between small pieces of work. */
extern atomic_bool bench_stopped;
static inline bool bench_goes_on(void)
{
	return !atomic_load_explicit(&bench_stopped, memory_order_relaxed);
}

static inline void bench_did(struct bench_thread *thread, size_t pairs)
{
	size_t done = atomic_load_explicit(&thread->pairs, memory_order_relaxed);

	atomic_store_explicit(&thread->pairs, done + pairs, memory_order_relaxed);
}

/* Zeroed memory from the system, not from the allocator that is measured. */
void *bench_room(size_t bytes);

#endif
