/* SPDX-License-Identifier: MIT */
/*
 * Objects that readers may still see, and the ways to retire them: the common part of the RCU
 * benchmarks. The flavour of liburcu is BENCH_URCU, its header; every thread that retires is
 * registered with it.
 *
 *   immediate    freed without a grace period: the lower bound, and wrong in a program
 *   call_rcu     a callback of each object frees it
 *   batch        an array of BENCH_ARRAY objects and one callback, which frees them all
 *   kfree_rcu    libsheaf only: through the head in the object
 *   cache        kmem_cache_free_rcu(), which needs no head
 *   mightsleep   kfree_rcu_mightsleep(), likewise
 */
#ifndef BENCH_RETIRE_H
#define BENCH_RETIRE_H

#include BENCH_URCU
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define BENCH_THREAD_SHIFT 18 /* two writers share no object, whose lines would move between CPUs */
#include "allocators/allocator.h"
#include "common/threads.h"

#define BENCH_ARRAY 64 /* objects of a hand-made batch */

enum bench_way {
	IMMEDIATE,
	CALL_RCU,
	BATCH,
	KFREE_RCU,
	CACHE_FREE_RCU,
	MIGHTSLEEP
};

static const char *const bench_ways[] = {"immediate", "call_rcu",   "batch", "kfree_rcu",
					 "cache",     "mightsleep", NULL};

/* The beginning of an object. The stamp lies where the free lists of the mallocs have no link. */
struct bench_object {
	struct rcu_head head;
	uint64_t key, check; /* check is ~key as long as a reader may look */
	uint64_t unused[3];
	uint64_t stamp; /* ns: time of retiring; 0: in use */
};

struct bench_array {
	struct rcu_head head;
	size_t n;
	void *objects[BENCH_ARRAY];
};

/* Belongs to one thread. */
struct bench_retirer {
	void *context;
	struct bench_array *array;
	atomic_size_t retired; /* so far; only this thread writes it */
};

static void *bench_retire_context; /* the allocator's, for callbacks */
static atomic_size_t bench_freed;  /* by callbacks; only liburcu's worker writes it */

static inline void bench_count_freed(size_t n)
{
	size_t before = atomic_load_explicit(&bench_freed, memory_order_relaxed);

	atomic_store_explicit(&bench_freed, before + n, memory_order_relaxed);
}

static void bench_free_one(struct rcu_head *head)
{
	bench_free(bench_retire_context, caa_container_of(head, struct bench_object, head));
	bench_count_freed(1);
}

static void bench_free_array(struct rcu_head *head)
{
	struct bench_array *array = caa_container_of(head, struct bench_array, head);

	bench_free_bulk(bench_retire_context, array->objects, (unsigned int)array->n);
	bench_count_freed(array->n);
	free(array);
}

static inline void bench_hand_over(struct bench_retirer *retirer)
{
	if (!retirer->array)
		return;
	call_rcu(&retirer->array->head, bench_free_array);
	retirer->array = NULL;
}

static inline void bench_retire_by_array(struct bench_retirer *retirer, void *object)
{
	struct bench_array *array = retirer->array;

	if (!array) {
		array = malloc(sizeof(*array));
		if (!array)
			bench_out_of_memory();
		array->n = 0;
		retirer->array = array;
	}
	array->objects[array->n++] = object;
	if (array->n == BENCH_ARRAY)
		bench_hand_over(retirer);
}

/* With a constant `way`, the compiler leaves only the code of that way. */
static inline __attribute__((always_inline)) void
bench_retire(struct bench_retirer *retirer, enum bench_way way, struct bench_object *object)
{
	switch (way) {
	case IMMEDIATE:
		bench_free(retirer->context, object);
		break;
	case CALL_RCU:
		call_rcu(&object->head, bench_free_one);
		break;
	case BATCH:
		bench_retire_by_array(retirer, object);
		break;
#ifdef BENCH_KFREE_RCU
	case KFREE_RCU:
		kfree_rcu(object, head);
		break;
	case CACHE_FREE_RCU:
		kmem_cache_free_rcu(retirer->context, object);
		break;
	case MIGHTSLEEP:
		kfree_rcu_mightsleep(object);
		break;
#else
	default:
		abort(); /* refused at the start */
#endif
	}
}

#ifndef BENCH_KFREE_RCU
static inline void bench_count(void *context, unsigned int look)
{
	(void)context;
	(void)look;
}

static inline void bench_print_counted(void)
{
}
#endif

static inline bool bench_way_known(enum bench_way way)
{
#ifdef BENCH_KFREE_RCU
	(void)way;
	return true;
#else
	return way < KFREE_RCU;
#endif
}

static inline void bench_did_retire(struct bench_retirer *retirer, size_t n)
{
	size_t before = atomic_load_explicit(&retirer->retired, memory_order_relaxed);

	atomic_store_explicit(&retirer->retired, before + n, memory_order_relaxed);
}

/* Wait until all objects that this thread retired are free. Waits for a grace period and liburcu's
 * worker. */
static inline void bench_retire_barrier(struct bench_retirer *retirer, enum bench_way way)
{
	if (way == IMMEDIATE)
		return;
	bench_hand_over(retirer);
#ifdef BENCH_KFREE_RCU
	if (way >= KFREE_RCU) {
		kvfree_rcu_barrier();
		return;
	}
#endif
	rcu_barrier();
}

/* The calls that readers of this flavour must make. */
#ifdef BENCH_QSBR
#define BENCH_QUIESCENT() rcu_quiescent_state()
#define BENCH_OFFLINE()	  rcu_thread_offline()
#define BENCH_ONLINE()	  rcu_thread_online()
#else
#define BENCH_QUIESCENT() ((void)0)
#define BENCH_OFFLINE()	  ((void)0)
#define BENCH_ONLINE()	  ((void)0)
#endif

#endif
