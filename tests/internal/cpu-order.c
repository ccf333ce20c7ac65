/* SPDX-License-Identifier: MIT */
/* CPUs by distance, on machines of any shape: places are CPUs in order of distance, nodes and
 * caches are parts of that order. */
#include <stdint.h>

#include "kit/random.h"
#include "kit/unit.h"
#include "os/machine.h"

#define MACHINES 300

static uint64_t seed = 1;

/* Random numbers of nodes and caches: neither in blocks nor in order. */
static void invent(void)
{
	os.nr_cpus = 1 + random_below(&seed, random_below(&seed, 4) ? 64 : 1000);
	os.nr_nodes = 1 + random_below(&seed, random_below(&seed, 2) ? 4 : OS_MAX_NODES);
	for (uint32_t cpu = 0; cpu < os.nr_cpus; cpu++) {
		os.node_of_row[cpu] = (uint16_t)random_below(&seed, os.nr_nodes);
		os.llc_of_cpu[cpu] = (uint16_t)random_below(&seed, 8);
		os.place_of[cpu].allowed = random_below(&seed, 2) != 0;
	}
	os_find_places();
}

static void check_node(unsigned int node, unsigned int *allowed)
{
	unsigned int n = 0;

	*allowed = 0;
	for (uint32_t cpu = 0; cpu < os.nr_cpus; cpu++)
		if (os.node_of_row[cpu] == node) {
			n++;
			*allowed += os.place_of[cpu].allowed;
		}
	assert_int_equal(os.node[node].n, n);
}

static void check_cpu(unsigned int cpu)
{
	const struct os_place *place = &os.place_of[cpu];
	unsigned int node = os.node_of_row[cpu];

	assert_int_equal(os_cpu_at(node, place->place), cpu);
	assert_in_range(place->place, place->llc, place->llc_end - 1);
	for (unsigned int i = 0; i < os.node[node].n; i++) {
		unsigned int other = os_cpu_at(node, i);

		assert_int_equal(os.node_of_row[other], node);
		assert_int_equal(i >= place->llc && i < place->llc_end,
				 os.llc_of_cpu[other] == os.llc_of_cpu[cpu]);
	}
}

static void places_are_an_order(void **state)
{
	(void)state;
	for (int machine = 0; machine < MACHINES; machine++) {
		unsigned int allowed, all = 0, most = 0;

		invent();
		for (unsigned int node = 0; node < os.nr_nodes; node++) {
			check_node(node, &allowed);
			all += allowed;
			most = allowed > most ? allowed : most;
		}
		assert_int_equal(os.nr_allowed, all);
		assert_int_equal(os.node_allowed, most);
		for (unsigned int cpu = 0; cpu < os.nr_cpus; cpu += 1 + os.nr_cpus / 32)
			check_cpu(cpu);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_are_an_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
