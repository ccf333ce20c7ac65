/* SPDX-License-Identifier: MIT */
/* Batch worker: DPDK's mempool, with its per-lcore cache at the largest. Built if libdpdk is there.
 */
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mempool.h>
#include <stdio.h>

#include "batch.h"

#define POOL_OBJECTS 16383 /* a power of two less one is what the ring behind it holds best */

static void *open_pool(bool no_sheaf, int cpu)
{
	char lcore[16];
	char *arguments[] = {
		"batch-dpdk",	  "-l", lcore, "--no-huge",	   "--no-pci", "--no-shconf",
		"--no-telemetry", "-m", "64",  "--log-level=error"};
	struct rte_mempool *pool;

	(void)no_sheaf;
	snprintf(lcore, sizeof(lcore), "%d", cpu);
	if (rte_eal_init(sizeof(arguments) / sizeof(arguments[0]), arguments) < 0) {
		fprintf(stderr, "dpdk: rte_eal_init: %s\n", rte_strerror(rte_errno));
		return NULL;
	}
	pool = rte_mempool_create("batch", POOL_OBJECTS, BATCH_OBJECT_SIZE,
				  RTE_MEMPOOL_CACHE_MAX_SIZE, 0, NULL, NULL, NULL, NULL,
				  SOCKET_ID_ANY, 0);
	if (!pool)
		fprintf(stderr, "dpdk: rte_mempool_create: %s\n", rte_strerror(rte_errno));
	return pool;
}

static void *alloc(void *pool)
{
	void *object;

	return rte_mempool_get(pool, &object) ? NULL : object;
}

static void release(void *pool, void *object)
{
	rte_mempool_put(pool, object);
}

static void run(void *pool, const struct batch_job *job)
{
	batch_run(pool, job, alloc, release);
}

const struct batch_allocator batch_allocator = {
	.open = open_pool,
	.run = run,
};
