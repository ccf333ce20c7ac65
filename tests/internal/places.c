/* SPDX-License-Identifier: MIT */
/* CPUs by distance, on machines of any shape, and limits of control groups, in hierarchies of files
 * that look like those of the system. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/directory.h"
#include "kit/random.h"
#include "kit/unit.h"
#include "os/linux/linux.h"
#include "os/machine.h"
#include "os/memory.h"

/* --- places are CPUs in order of distance, nodes and caches are parts of that order ----------- */

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

/* --- control groups --------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
	char whole[256];
	FILE *file;

	snprintf(whole, sizeof(whole), "%s/%s", directory, path);
	for (char *slash = whole + strlen(directory) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(whole, 0700);
		*slash = '/';
	}
	file = fopen(whole, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void no_group_means_no_limit(void **state)
{
	(void)state;
	assert_true(cgroup_memory_of(directory, "") == SIZE_MAX);
	assert_true(cgroup_cpus_of(directory, "0::/nowhere\n") == SIZE_MAX);
	assert_true(cgroup_memory_of(directory, "nonsense\n0:\n::\n3:memory\n") == SIZE_MAX);
}

static void unified_groups(void **state)
{
	(void)state;
	write_file("a/b/memory.max", "max\n");
	write_file("a/b/cpu.max", "max 100000\n");
	assert_true(cgroup_memory_of(directory, "0::/a/b\n") == SIZE_MAX);
	assert_true(cgroup_cpus_of(directory, "0::/a/b\n") == SIZE_MAX);
	write_file("a/b/memory.max", "268435456\n");
	write_file("a/b/cpu.max", "250000 100000\n");
	assert_int_equal(cgroup_memory_of(directory, "0::/a/b\n"), 268435456);
	assert_int_equal(cgroup_cpus_of(directory, "0::/a/b\n"), 3);
	/* Less, before the kernel slows it down. */
	write_file("a/b/memory.high", "max\n");
	assert_int_equal(cgroup_memory_of(directory, "0::/a/b\n"), 268435456);
	write_file("a/b/memory.high", "134217728\n");
	assert_int_equal(cgroup_memory_of(directory, "0::/a/b\n"), 134217728);
	/* No more than the groups that contain it. */
	write_file("a/memory.max", "1000000\n");
	write_file("a/cpu.max", "100000 100000\n");
	assert_int_equal(cgroup_memory_of(directory, "0::/a/b\n"), 1000000);
	assert_int_equal(cgroup_cpus_of(directory, "0::/a/b\n"), 1);
	write_file("memory.max", "4096\n");
	assert_int_equal(cgroup_memory_of(directory, "0::/a/b"), 4096);
	assert_int_equal(cgroup_memory_of(directory, "0::/\n"), 4096);
	/* A group that the process cannot see may still be below the root that it sees. */
	assert_int_equal(cgroup_memory_of(directory, "0::/hidden/group\n"), 4096);
}

static void separate_hierarchies(void **state)
{
	static const char groups[] = "4:memory:/m/x\n3:cpu,cpuacct:/c\n2:cpuset:/s\n0::/\n";

	(void)state;
	write_file("memory/m/x/memory.limit_in_bytes", "9223372036854771712\n");
	write_file("memory/m/memory.limit_in_bytes", "123456789\n");
	assert_int_equal(cgroup_memory_of(directory, groups), 123456789);
	/* "memoryless" is not "memory". */
	assert_true(cgroup_memory_of(directory, "4:memoryless,xmemory:/m/x\n") == SIZE_MAX);
}

static void long_paths_are_left_out(void **state)
{
	static char groups[3000];

	(void)state;
	write_file("memory.max", "4096\n");
	memset(groups, 'x', sizeof(groups) - 1);
	memcpy(groups, "0::/", 4);
	assert_true(cgroup_memory_of(directory, groups) == SIZE_MAX);
}

static void a_quota_bounds_the_cpus_in_use(void **state)
{
	(void)state;
	os.nr_cpus = 8;
	os.nr_nodes = 2;
	for (uint32_t cpu = 0; cpu < os.nr_cpus; cpu++) {
		os.node_of_row[cpu] = cpu / 4;
		os.place_of[cpu].allowed = 1;
	}
	os_find_places();
	assert_true(os.nr_allowed == 8 && os.node_allowed == 4);
	os.quota = 3;
	os_find_places();
	assert_true(os.nr_allowed == 3 && os.node_allowed == 3);
	os.quota = 100;
	os_find_places();
	assert_true(os.nr_allowed == 8 && os.node_allowed == 4);
}

static void memory_is_what_the_group_grants(void **state)
{
	(void)state;
	assert_true(os_memory() > 0 && os_memory() <= cgroup_memory());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_are_an_order),
		cmocka_unit_test_setup_teardown(no_group_means_no_limit, make_directory,
						remove_directory),
		cmocka_unit_test_setup_teardown(unified_groups, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(separate_hierarchies, make_directory,
						remove_directory),
		cmocka_unit_test_setup_teardown(long_paths_are_left_out, make_directory,
						remove_directory),
		cmocka_unit_test(a_quota_bounds_the_cpus_in_use),
		cmocka_unit_test(memory_is_what_the_group_grants),
	};

	return cmocka_run_group_tests_name("places", tests, NULL, NULL);
}
