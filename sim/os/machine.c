/* SPDX-License-Identifier: MIT */
/* The simulated machine: CPUs, nodes, barriers, yields, and random bits from the seed. */
#include "os/machine.h"

#include <string.h>

#include "os/atomic.h"
#include "os/current.h"
#include "os/memory.h"
#include "os/options/options.h"
#include "sim/state.h"

#define CPUS_PER_LLC 4
#define BRIEFLY_NS   50000

struct os_machine os;

void os_init(void)
{
	const struct sim_prices *prices = sim.config.prices;

	os_options_parse(sim.config.options ? sim.config.options : "");
	os.backend = sim.config.backend;
	os.nr_cpus = sim.config.cpus;
	os.nr_nodes = sim.config.nodes;
	os.page_size = sim.config.page_size ? sim.config.page_size : OS_PAGE;
	os.memory = SIZE_MAX;
	for (uint32_t cpu = 0; cpu < os.nr_cpus; cpu++) {
		os.node_of_row[cpu] = prices ? prices->node_of_cpu[cpu]
					     : (uint16_t)(cpu * os.nr_nodes / os.nr_cpus);
		os.place_of[cpu].cache =
			prices ? prices->llc_of_cpu[cpu] : (uint16_t)(cpu / CPUS_PER_LLC);
		os.place_of[cpu].allowed = 1;
	}
	os_find_places();
	os_order_nodes(false);
}

/* A simulation may try any options on any machine, so it reports nothing. */
void os_report_start(void)
{
}

unsigned int os_cpu(void)
{
	sim_step(CPU, NULL, 0);
	return sim.current->cpu;
}

/* With cpu_id, the CPU number. With mm_cid, CPUs have rows in the order in which they first run,
 * until fibres migrate. */
unsigned int os_row(void)
{
	unsigned int cpu = os_cpu();

	if (!os_options.index_mm_cid || os.nr_cpu_nodes > 1)
		return cpu;
	if (!sim.mm_cids[cpu])
		sim.mm_cids[cpu] = (uint16_t)++sim.nr_mm_cids;
	return sim.mm_cids[cpu] - 1u;
}

bool os_sim_restarts(void)
{
	return os.backend == OS_BACKEND_RSEQ;
}

bool os_registered(void)
{
	return true;
}

bool os_membarrier(void)
{
	sim_step(BARRIER, NULL, 0);
	if (os.backend != OS_BACKEND_RSEQ)
		return true;
	if (sim.faults && sim_chance(sim.config.membarrier_refused))
		return false;
	for (unsigned int i = 0; i < sim.nr_fibres; i++)
		sim_abort_section(&sim.fibres[i]);
	if (sim.config.prices)
		sim.config.prices->barrier();
	return true;
}

void os_register_early(void)
{
}

void os_stay_loaded(void)
{
}

bool os_is_constant(const void *address)
{
	(void)address;
	return false;
}

void os_after_fork(void)
{
}

int os_policy_node(void)
{
	return sim_below(2) ? OS_NO_NODE : (int)sim_below(os.nr_nodes);
}

uintptr_t os_self(void)
{
	return (uintptr_t)sim.current;
}

uint32_t os_thread(void)
{
	return (uint32_t)(sim.current - sim.fibres);
}

void os_sleep_briefly(void)
{
	sim_step(SLEEP, NULL, 0);
	if (sim.config.prices)
		sim.config.prices->sleep(BRIEFLY_NS);
	else if (sim.current != &sim.outside)
		sim_pass();
	else if (!sim.nr_fibres)
		sim_fail("waits when everything is quiet");
}

uint64_t sim_step_ns(void)
{
	return sim.config.step_ns ? sim.config.step_ns : 1000;
}

uint64_t os_now(void)
{
	return sim.config.prices ? sim.config.prices->now() : sim.steps * sim_step_ns();
}

uint32_t os_now_ms(void)
{
	return (uint32_t)(os_now() / 1000000);
}

uint64_t os_random(void)
{
	return sim_random();
}

void os_forget_nodes(void)
{
	os.nr_nodes = 1;
	memset(os.node_of_row, 0, sizeof(os.node_of_row));
	os_find_places();
}

unsigned int os_nr_cpus(void)
{
	return os.nr_cpus;
}

struct os_current *os_current_group(void)
{
	return &sim.current->group;
}

/* Fibres leave their group themselves. */
bool os_at_thread_end(void (*end)(uint32_t group))
{
	(void)end;
	return true;
}

bool os_has_group(void)
{
	return true;
}

size_t os_mappings_limit(void)
{
	return 65530;
}
