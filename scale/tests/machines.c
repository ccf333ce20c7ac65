/* SPDX-License-Identifier: MIT */
/* Machine files: those that come with the simulator, and nonsense, which gets one line with its
 * number. */
#include "scale/src/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/unit.h"

static struct machine machine;
static char error[512];

#define CPUS "cpus 4\nnode 0-1\nnode 2-3\nsocket 0-3\nllc 0-1\nllc 2-3\ncache 1024\nmisses 8\n"
#define WAYS                                                                                       \
	"own 1\nl3 2\nsame_core 3\nsame_llc 4\nsame_socket 5\nother_socket 6\nnear 7\nfar 8.25\n"
#define OTHERS                                                                                     \
	"atomic 1\nsection 1\nahead 1\npause 1\ncall 1\nwake 1\nwoken 1\nfault 1\nbarrier 1\n"
#define LAST  "barrier_cpu 1\nslice 1\nchange 1\n"
#define COSTS WAYS OTHERS LAST

static bool read_text(const char *text)
{
	char path[] = "/tmp/machine-XXXXXX";
	int file = mkstemp(path);
	bool fine;

	assert_true(file >= 0);
	assert_int_equal(write(file, text, strlen(text)), strlen(text));
	close(file);
	fine = machine_read(&machine, path, error, sizeof(error));
	/* The message after the file name. */
	if (!fine)
		memmove(error, error + sizeof(path) - 1, strlen(error + sizeof(path) - 1) + 1);
	unlink(path);
	return fine;
}

static void refused(const char *text, const char *why)
{
	assert_false(read_text(text));
	assert_string_equal(error, why);
}

static void a_small_one(void **state)
{
	(void)state;
	assert_true(read_text("# four CPUs\n\n" CPUS COSTS));
	assert_int_equal(machine.nr_cpus, 4);
	assert_int_equal(machine.nr_nodes, 2);
	assert_int_equal(machine.nr_groups, 2);
	assert_int_equal(machine.threads, 1);
	assert_int_equal(machine.misses, 8);
	assert_int_equal(machine.sibling, 0);
	assert_int_equal(machine.cost[MACHINE_far], 8250);
	assert_int_equal(machine_distance(&machine, 1, 1), MACHINE_own);
	assert_int_equal(machine_distance(&machine, 0, 1), MACHINE_same_llc);
	assert_int_equal(machine_distance(&machine, 1, 2), MACHINE_same_socket);
	assert_int_equal(machine.memory_node[1], 1);
}

static void memoryless_nodes_use_the_next_one(void **state)
{
	(void)state;
	assert_true(read_text("cpus 3\nnode 0\nnode 1 memoryless # no memory\nnode 2 memoryless\n"
			      "socket 0-2\nllc 0,1,2\ncache 64\nmisses 1\n" COSTS));
	assert_int_equal(machine.memory_node[0], 0);
	assert_int_equal(machine.memory_node[1], 0);
	assert_int_equal(machine.memory_node[2], 0);
	refused("cpus 1\nnode 0 memoryless\nsocket 0\nllc 0\ncache 64\nmisses 1\n" COSTS,
		":2: no node has memory");
}

static void groups_are_checked(void **state)
{
	(void)state;
	refused("node 0\n", ":1: say how many cpus there are before their groups");
	refused("cpus 4\nnode\n", ":2: node without CPUs: list them, such as 0-7,16");
	refused("cpus 4\nnode 0-1\nnode 1-3\n",
		":3: CPU 1 is in two groups of the kind node: see line 2");
	refused("cpus 4\nllc 0-1,3\nllc 2,3\n",
		":3: CPU 3 is in two groups of the kind llc: see line 2");
	refused("cpus 4\nnode 0-4\n", ":2: node wants a number from 0 to 3");
	refused("cpus 4\nnode 3-1\n", ":2: node wants a number from 3 to 3");
	refused("cpus 4\nnode 0-3 full\n",
		":2: a node's CPUs may be followed by memoryless, not by full");
	refused("cpus 4\nnode 0-2\nsocket 0-3\nllc 0-3\ncache 64\nmisses 1\n" COSTS,
		":26: CPU 3 is in no node");
	refused("cpus 4\nnode 0-3\nsocket 0-1\nsocket 2-3\nllc 0\nllc 1-3\ncache 64\nmisses "
		"1\n" COSTS,
		":6: CPUs 1 and 2 share a cache, but are on two sockets");
}

static void cpus_come_and_go(void **state)
{
	(void)state;
	assert_true(read_text(CPUS "away 1,3 500 2000\n" COSTS));
	assert_int_equal(machine.away, 500 * 1000);
	assert_int_equal(machine.period, 2000 * 1000);
	assert_int_equal(machine.refuge[0], 0);
	assert_int_equal(machine.refuge[1], 0);
	assert_int_equal(machine.refuge[3], 2);
	/* No CPU of its cache stays. */
	assert_true(read_text(CPUS "away 2-3 500 2000\n" COSTS));
	assert_int_equal(machine.refuge[2], 0);
	assert_true(read_text(CPUS COSTS));
	assert_int_equal(machine.period, 0);
	refused(CPUS "away 0-3 500 2000\n" COSTS, ":9: no CPU stays");
	refused(CPUS "away 1\n",
		":9: the time in which CPUs come and go wants a number from 2 to 1000000000");
	refused(CPUS "away 1 2000 2000\n",
		":9: the time that CPUs are away wants a number from 1 to 1999");
	refused(CPUS "away 4 500 2000\n", ":9: away wants a number from 0 to 3");
	refused(CPUS "away 1 5 20\naway 2 5 20\n", ":10: away is given twice");
}

static void costs_are_checked(void **state)
{
	(void)state;
	refused(CPUS "own 0\n", ":9: own wants nanoseconds above 0, such as 1.5");
	refused(CPUS "own -1\n", ":9: own wants nanoseconds above 0, such as 1.5");
	refused(CPUS "own nan\n", ":9: own wants nanoseconds above 0, such as 1.5");
	refused(CPUS "own 1ns\n", ":9: own wants nanoseconds above 0, such as 1.5");
	refused(CPUS "own\n", ":9: own wants nanoseconds above 0, such as 1.5");
	refused(CPUS "own 1\nown 1\n", ":10: own is given twice");
	refused(CPUS WAYS OTHERS, ":25: the cost barrier_cpu is missing");
}

static void numbers_are_checked(void **state)
{
	(void)state;
	refused("", ":0: no line says how many cpus there are");
	refused("cpus 0\n", ":1: cpus wants a number from 1 to 1024");
	refused("cpus 99999\n", ":1: cpus wants a number from 1 to 1024");
	refused("cpus 2\ncpus 2\n", ":2: cpus is given twice");
	refused("cpus 2 3\n", ":1: cpus has one value; 3 is too much");
	refused("threads 3\n", ":1: threads wants a number from 1 to 2");
	refused("cache x\n", ":1: cache wants a number from 64 to 4194304");
	refused("misses 0\n", ":1: misses wants a number from 1 to 64");
	refused("sibling 401\n", ":1: sibling wants a number from 0 to 400");
	refused("cpus 1\nnode 0\nsocket 0\nllc 0\ncache 64\n" COSTS,
		":25: no line says how many lines may be in flight for a CPU, such as: misses 24");
	refused("cpus 3\nthreads 2\nnode 0-2\nsocket 0-2\nllc 0-2\ncache 64\nmisses 1\n" COSTS,
		":27: 2 threads a core need an even number of CPUs, not 3");
	refused("cpus 1\nspeed 3\n",
		":2: speed is no group (node, socket, llc, away), no number (cpus, "
		"threads, cache, misses, "
		"sibling) and no cost");
	assert_false(machine_read(&machine, "/nowhere", error, sizeof(error)));
	assert_string_equal(error, "/nowhere: cannot be read");
}

static void shipped(const char *name, unsigned int cpus, unsigned int nodes, unsigned int groups)
{
	char path[4096];

	snprintf(path, sizeof(path), MACHINES "/%s", name);
	if (!machine_read(&machine, path, error, sizeof(error)))
		fail_msg("%s", error);
	assert_int_equal(machine.nr_cpus, cpus);
	assert_int_equal(machine.nr_nodes, nodes);
	assert_int_equal(machine.nr_groups, groups);
}

static void shipped_ones_are_right(void **state)
{
	(void)state;
	shipped("epyc-2x96-smt", 384, 2, 24);
	assert_int_equal(machine_distance(&machine, 0, 192), MACHINE_same_core);
	assert_int_equal(machine_distance(&machine, 7, 192), MACHINE_same_llc);
	assert_int_equal(machine_distance(&machine, 7, 8), MACHINE_same_socket);
	assert_int_equal(machine_distance(&machine, 95, 96), MACHINE_other_socket);
	assert_int_equal(machine_distance(&machine, 191, 288), MACHINE_same_socket);
	shipped("granite-rapids-2s", 344, 4, 4);
	shipped("snc3-6node", 384, 6, 6);
	shipped("graviton3-64", 64, 1, 1);
	shipped("ryzen-5700", 16, 1, 1);
	shipped("this-2cpu", 2, 1, 1);
	assert_int_equal(machine_distance(&machine, 0, 1), MACHINE_same_llc);
	shipped("this-2cpu-core", 2, 1, 1);
	assert_int_equal(machine_distance(&machine, 0, 1), MACHINE_same_core);
	shipped("hotplug-2node", 16, 2, 2);
	assert_int_equal(machine.refuge[15], 8);
	shipped("sapphire-rapids-2s", 192, 2, 2);
	shipped("memoryless-node", 16, 4, 4);
	assert_int_equal(machine.memory_node[2], 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_small_one),
		cmocka_unit_test(memoryless_nodes_use_the_next_one),
		cmocka_unit_test(groups_are_checked),
		cmocka_unit_test(cpus_come_and_go),
		cmocka_unit_test(costs_are_checked),
		cmocka_unit_test(numbers_are_checked),
		cmocka_unit_test(shipped_ones_are_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
