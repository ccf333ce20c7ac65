/* SPDX-License-Identifier: MIT */
/*
 * A writer of the rcu benchmark: it replaces the objects of its own table, which readers walk, and
 * retires the old ones, either as fast as it can with a barrier after every round, or at a given
 * rate.
 */
#ifndef BENCH_WRITER_H
#define BENCH_WRITER_H

#include "retire.h"

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "common/common.h"
#include "latency.h"

#define TABLE	 64	   /* objects of a writer that readers see; also the work between checks */
#define SLICE_NS 1000000.0 /* the rate is kept over slices of this length */

/* Common to all writers. */
static struct {
	void *context; /* the allocator's */
	enum bench_way way;
	size_t round; /* objects between barriers */
	size_t rate;  /* objects per second; 0: as fast as it can */
} job;

struct writer {
	_Alignas(BENCH_APART) _Atomic(struct bench_object *) table[TABLE];
	struct bench_retirer retirer;
	struct latency latency;
	double busy; /* ns, in measured rounds, without barriers */
	unsigned int index;
	pthread_t thread;
};

static void sleep_ns(double ns)
{
	struct timespec pause = {.tv_sec = (time_t)(ns / 1e9), .tv_nsec = (long)ns % 1000000000};

	nanosleep(&pause, NULL);
}

static inline struct bench_object *new_object(uint64_t key)
{
	struct bench_object *object = bench_alloc(job.context);

	if (!object)
		bench_out_of_memory();
	object->key = key;
	object->check = ~key;
	return object;
}

/* Replace the whole table. `stamped`: note when each object was retired, and measure when it is
 * reused. */
static inline __attribute__((always_inline)) void replace(struct writer *writer, enum bench_way how,
							  bool stamped, uint64_t key)
{
	uint64_t now = stamped ? (uint64_t)bench_time() : 0;

	for (size_t i = 0; i < TABLE; i++) {
		struct bench_object *object = new_object(key + i);
		struct bench_object *old =
			atomic_load_explicit(&writer->table[i], memory_order_relaxed);

		if (stamped) {
			latency_add(&writer->latency, object->stamp, now);
			object->stamp = 0;
			old->stamp = now;
		}
		atomic_store_explicit(&writer->table[i], object, memory_order_release);
		bench_retire(&writer->retirer, how, old);
	}
}

static __attribute__((noinline)) void run_tables(struct writer *writer, size_t tables)
{
	for (size_t i = 0; i < tables; i++) {
		uint64_t key = i * TABLE;

#define CASE(how)                                                                                  \
	case how:                                                                                  \
		replace(writer, how, false, key);                                                  \
		break
		switch (job.way) {
			CASE(IMMEDIATE);
			CASE(CALL_RCU);
			CASE(BATCH);
			CASE(KFREE_RCU);
			CASE(CACHE_FREE_RCU);
			CASE(MIGHTSLEEP);
		}
#undef CASE
		bench_did_retire(&writer->retirer, TABLE);
		BENCH_QUIESCENT();
	}
}

/* Like replace_table(), but at most at --rate. */
static __attribute__((noinline)) void run_paced(struct writer *writer, size_t tables)
{
	double began = bench_time(), tick = 1e9 / (double)job.rate;

	for (size_t i = 0; i < tables; i++) {
		double ahead = began + (double)(i * TABLE) * tick - bench_time();

		if (ahead > SLICE_NS) {
			BENCH_OFFLINE();
			sleep_ns(ahead);
			BENCH_ONLINE();
		}
		replace(writer, job.way, true, i * TABLE);
		bench_did_retire(&writer->retirer, TABLE);
		BENCH_QUIESCENT();
	}
}

static void run_rounds(struct writer *writer, size_t rounds)
{
	size_t tables = job.round / TABLE;

	for (size_t i = 0; i < rounds; i++) {
		double began = bench_time();

		if (job.rate)
			run_paced(writer, tables);
		else
			run_tables(writer, tables);
		writer->busy += bench_time() - began;
		if (!job.rate)
			bench_retire_barrier(&writer->retirer, job.way);
	}
	bench_retire_barrier(&writer->retirer, job.way);
}

#endif
