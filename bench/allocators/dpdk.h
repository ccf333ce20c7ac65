/* SPDX-License-Identifier: MIT */
/* DPDK's mempool, with its per-lcore cache at the largest size. Built if libdpdk is installed. */
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mempool.h>
#include <stdio.h>
#include <stdlib.h>

#define BENCH_POOL_LEAST 16383 /* a power of two less one uses the pool's ring best */

#define BENCH_CALL NULL

static inline void *bench_open(const struct bench_setup *setup)
{
	struct rte_mempool *pool;
	size_t objects = BENCH_POOL_LEAST;
	char lcore[16], megabytes[16];
	char *arguments[] = {
		"bench",	  "-l", lcore,	   "--no-huge",	       "--no-pci", "--no-shconf",
		"--no-telemetry", "-m", megabytes, "--log-level=error"};

	while (objects < setup->objects)
		objects = 2 * objects + 1;
	snprintf(lcore, sizeof(lcore), "%d", setup->cpu);
	/* Header, padding, the ring, and some spare room. */
	snprintf(megabytes, sizeof(megabytes), "%zu", 64 + ((objects * (setup->size + 192)) >> 20));
	if (rte_eal_init(sizeof(arguments) / sizeof(arguments[0]), arguments) < 0) {
		fprintf(stderr, "dpdk: rte_eal_init: %s\n", rte_strerror(rte_errno));
		return NULL;
	}
	pool = rte_mempool_create("bench", (unsigned int)objects, (unsigned int)setup->size,
				  RTE_MEMPOOL_CACHE_MAX_SIZE, 0, NULL, NULL, NULL, NULL,
				  SOCKET_ID_ANY, 0);
	if (!pool)
		fprintf(stderr, "dpdk: rte_mempool_create: %s\n", rte_strerror(rte_errno));
	return pool;
}

/* Otherwise this thread would have no cache. */
static inline void bench_thread_begin(unsigned int index)
{
	(void)index;
	if (rte_thread_register()) {
		fprintf(stderr, "dpdk: rte_thread_register: %s\n", rte_strerror(rte_errno));
		exit(1);
	}
}

static inline void *bench_alloc(void *context)
{
	void *object;

	return rte_mempool_get(context, &object) ? NULL : object;
}

static inline void bench_free(void *context, void *object)
{
	rte_mempool_put(context, object);
}

static inline bool bench_alloc_bulk(void *context, void **objects, unsigned int n)
{
	return !rte_mempool_get_bulk(context, objects, n);
}

static inline void bench_free_bulk(void *context, void **objects, unsigned int n)
{
	rte_mempool_put_bulk(context, objects, n);
}

static inline void bench_trim(void *context)
{
	(void)context;
}

static inline bool bench_make_countable(void)
{
	return true;
}
