/* SPDX-License-Identifier: MIT */
/* Bulk probe of DPDK's mempool: bulk-dpdk N. See bulk.h. */
#include <rte_eal.h>
#include <rte_mempool.h>

#include "bulk.h"

int main(int argc, char **argv)
{
	unsigned int n = bulk_count(argc, argv);
	char *arguments[] = {
		"bulk-dpdk",	  "-l", "0",  "--no-huge",	  "--no-pci", "--no-shconf",
		"--no-telemetry", "-m", "64", "--log-level=error"};
	struct rte_mempool *pool;

	if (rte_eal_init(sizeof(arguments) / sizeof(arguments[0]), arguments) < 0)
		return 1;
	pool = rte_mempool_create("bulk", 16383, 64, RTE_MEMPOOL_CACHE_MAX_SIZE, 0, NULL, NULL,
				  NULL, NULL, SOCKET_ID_ANY, 0);
	if (!pool)
		return 1;
	bulk_probe(
		n,
		{
			if (rte_mempool_get_bulk(pool, objects, n))
				return 1;
		},
		rte_mempool_put_bulk(pool, objects, n));
	return 0;
}
