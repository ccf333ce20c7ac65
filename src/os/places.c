/* SPDX-License-Identifier: MIT */
/* CPUs and nodes by distance; see machine.h. */
#include "os/machine.h"

#include <string.h>

/* Place the CPU, and those that share its hardware cache, at the end of their node's places. */
static void place_near(unsigned int cpu)
{
	unsigned int its_node = os.node_of_row[cpu];
	struct os_node *node = &os.node[its_node];
	unsigned int begin = node->n;

	for (unsigned int other = cpu; other < os.nr_cpus; other++)
		if (os.node_of_row[other] == its_node &&
		    os.place_of[other].cache == os.place_of[cpu].cache)
			os.place_of[node->first + node->n++].cpu_at = (uint16_t)other;
	for (unsigned int place = begin; place < node->n; place++) {
		struct os_place *of = &os.place_of[os_cpu_at(its_node, place)];

		of->place = (uint16_t)place;
		of->llc = (uint16_t)begin;
		of->llc_end = node->n;
	}
}

static unsigned int allowed_of(unsigned int node)
{
	unsigned int n = 0;

	for (unsigned int place = 0; place < os.node[node].n; place++)
		n += os.place_of[os_cpu_at(node, place)].allowed;
	return n;
}

static void add_stand_ins(void)
{
	unsigned int room = (OS_MAX_ROWS - os.nr_cpus) / os.nr_nodes;

	os.nr_stand_ins = os.backend == OS_BACKEND_RSEQ ? 0
			  : room < OS_STAND_INS		? room
							: OS_STAND_INS;
	os.nr_rows = os.nr_cpus + os.nr_nodes * os.nr_stand_ins;
	for (unsigned int i = 0; i < os.nr_nodes * os.nr_stand_ins; i++)
		os.node_of_row[os.nr_cpus + i] = (uint16_t)(i / os.nr_stand_ins);
}

void os_find_places(void)
{
	unsigned int first = 0;

	os.nr_allowed = os.node_allowed = os.nr_cpu_nodes = 0;
	for (unsigned int cpu = 0; cpu < os.nr_cpus; cpu++)
		os.place_of[cpu].llc_end = 0;
	for (unsigned int node = 0; node < os.nr_nodes; node++) {
		unsigned int allowed;

		os.node[node] = (struct os_node){.first = (uint16_t)first};
		for (unsigned int cpu = 0; cpu < os.nr_cpus; cpu++)
			if (os.node_of_row[cpu] == node && !os.place_of[cpu].llc_end)
				place_near(cpu);
		first += os.node[node].n;
		os.nr_cpu_nodes += os.node[node].n != 0;
		allowed = allowed_of(node);
		os.nr_allowed += allowed;
		os.node_allowed = allowed > os.node_allowed ? allowed : os.node_allowed;
	}
	add_stand_ins();
}

/* Insert the node before those that are farther away. */
static void order_node(uint8_t *near, unsigned int n, unsigned int node, const uint8_t *distance)
{
	while (n > 1 && distance[near[n - 1]] > distance[node]) {
		near[n] = near[n - 1];
		n--;
	}
	near[n] = (uint8_t)node;
}

void os_order_nodes(bool known)
{
	for (unsigned int from = 0; from < os.nr_nodes && os.nr_nodes > 1; from++) {
		uint8_t distance[OS_MAX_NODES] = {0};

		if (known)
			memcpy(distance, os.near[from], sizeof(distance));
		for (unsigned int i = 0; i < os.nr_nodes; i++)
			order_node(os.near[from], i, (from + i) % os.nr_nodes, distance);
	}
}
