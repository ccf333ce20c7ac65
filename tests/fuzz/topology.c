/* SPDX-License-Identifier: MIT */
/* Lists of CPUs and nodes in /sys, and the groups' CPU limits: whatever these say, the library's
 * tables describe a machine that can exist. The first byte of an input says what is else known. */
#include <stdbool.h>

#include "fuzz/files.h"
#include "fuzz/target.h"
#include "os/linux/linux.h"
#include "os/machine.h"
#include "os/options/options.h"

static void check_places(void)
{
	unsigned int listed = 0;

	for (unsigned int node = 0; node < os.nr_nodes; node++) {
		FUZZ_CHECK(os.node[node].first == listed);
		for (unsigned int i = 0; i < os.node[node].n; i++) {
			unsigned int cpu = os_cpu_at(node, i);

			FUZZ_CHECK(cpu < os.nr_cpus && os.node_of_row[cpu] == node);
			FUZZ_CHECK(os.place_of[cpu].place == i && os.place_of[cpu].llc <= i &&
				   i < os.place_of[cpu].llc_end &&
				   os.place_of[cpu].llc_end <= os.node[node].n);
		}
		listed += os.node[node].n;
	}
	FUZZ_CHECK(listed == os.nr_cpus);
}

/* Each node comes first in its own order, and each other one once. */
static void check_order(void)
{
	for (unsigned int from = 0; from < os.nr_nodes; from++) {
		uint64_t seen = 0;

		FUZZ_CHECK(os_near(from, 0) == from);
		for (unsigned int i = 0; i < os.nr_nodes; i++)
			seen |= UINT64_C(1) << os_near(from, i);
		FUZZ_CHECK(seen == ~UINT64_C(0) >> (64 - os.nr_nodes));
	}
}

static void check_memory(void)
{
	for (unsigned int node = 0; node < os.nr_nodes; node++) {
		int of = os.memory_of_node[node];

		FUZZ_CHECK(of == OS_NO_NODE || (of >= 0 && (unsigned int)of < os.nr_nodes &&
						os.memory_of_node[of] == of));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes in = {data, size};
	uint8_t what = fuzz_byte(&in);

	memset(&os, 0, sizeof(os));
	os_options.numa_fake = what & 1 ? 1 + (what >> 2) : 0;
	os.backend = what & 2 ? OS_BACKEND_RSEQ : OS_BACKEND_TRYLOCK;
	fuzz_files = in;
	topology_find();
	os_find_places();
	FUZZ_CHECK(os.nr_cpus >= 1 && os.nr_cpus <= OS_MAX_ROWS && os_nr_cpus() >= 1);
	FUZZ_CHECK(os.nr_nodes >= 1 && os.nr_nodes <= OS_MAX_NODES);
	FUZZ_CHECK(os.nr_rows >= os.nr_cpus && os.nr_rows <= OS_MAX_ROWS);
	FUZZ_CHECK(os.nr_cpu_nodes >= 1 && os.nr_cpu_nodes <= os.nr_nodes);
	FUZZ_CHECK(os.node_allowed <= os.nr_allowed && os.nr_allowed <= os.nr_cpus);
	for (unsigned int row = 0; row < os.nr_rows; row++)
		FUZZ_CHECK(os.node_of_row[row] < os.nr_nodes);
	check_places();
	check_order();
	check_memory();
	os_mappings_limit();
	return 0;
}
