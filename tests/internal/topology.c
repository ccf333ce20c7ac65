/* SPDX-License-Identifier: MIT */
/*
 * How the library sees machines that /sys describes (internal/kit/invented_machine.c): nodes
 * without memory, without CPUs, with offline CPUs, with holes between their numbers; CPU numbers
 * beyond all tables; CPUs that a program may use only at times; CPUs by distance; limits of control
 * groups. A test that uses the library does so in a child that never used it.
 */
#include <sheaf/slab.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "internal/kit/invented_machine.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/directory.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/unit.h"
#include "os/linux/linux.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/memory_tools.h"
#include "page/page.h"

enum {
	NR_OBJECTS = 2000
};

static struct capture captured;

static void invent(const char *machine)
{
	CHECK(setenv("INVENTED_MACHINE", machine, 1) == 0);
}

static void four_nodes(void)
{
	invent("possible=0-1023;present=0-11;node0=0-3;node1=4-7;node2=8-9;offline2=10-11;node3=;"
	       "memory=0-1,3;distance2=40 15 10 30");
	os_init();
	CHECK(os.nr_nodes == 4 && os.nr_cpus == 1024);
	for (unsigned int cpu = 0; cpu < 12; cpu++)
		CHECK(os.node_of_row[cpu] == cpu / 4);
	/* Not present: they may come later, and their node is not known. */
	CHECK(os.node_of_row[12] == 0 && os.node_of_row[1023] == 0);
	CHECK(os.node[2].n == 4 && os.node[3].n == 0);
	CHECK(os.memory_of_node[0] == 0 && os.memory_of_node[1] == 1);
	CHECK(os.memory_of_node[2] == 1 && os.memory_of_node[3] == 3);
	/* By their distances; those from node 1 are not known. */
	CHECK(os_near(2, 0) == 2 && os_near(2, 1) == 1 && os_near(2, 2) == 3 && os_near(2, 3) == 0);
	CHECK(os_near(1, 0) == 1 && os_near(1, 1) == 2 && os_near(1, 2) == 3 && os_near(1, 3) == 0);
}

static void holes_between_nodes(void)
{
	invent("possible=0-1023;node0=0-15;node8=16-31;node9=32-47;memory=0,8;"
	       "distance9=40 20 10");
	os_init();
	CHECK(os.nr_nodes == 10 && os.node_of_row[20] == 8 && os.node_of_row[40] == 9);
	CHECK(os.memory_of_node[8] == 8 && os.memory_of_node[9] == 8);
	CHECK(os.memory_of_node[1] == 8);
	/* The distances from nodes 0 and 8. */
	CHECK(invented_misses == 2);
}

/* What CPUs are possible, and which nodes are online. */
static void two_files_say_all(void)
{
	invent("possible=0-1;present=0;node0=0-1;memory=0;distance0=10");
	os_init();
	CHECK(os.nr_nodes == 1 && os.nr_cpus == 2 && os_nr_cpus() == 2);
	CHECK(os.node_of_row[1] == 0 && os.memory_of_node[0] == 0 && os_near(0, 0) == 0);
	CHECK(invented_reads == 2 && invented_misses == 0);
}

static void an_old_kernel(void)
{
	invent("possible=0-1023;node0=0-15;node1=16-31");
	os_init();
	CHECK(os.nr_nodes == 2 && os.memory_of_node[0] == 0 && os.memory_of_node[1] == 1);
}

/* The rows depend on the nodes that have CPUs, not on those that only have memory. */
static void rows_of_one_node_of_cpus(void)
{
	uint32_t alone;

	invent("possible=0-1023;node0=0-15;memory=0");
	os_init();
	alone = os.id_offset;
	CHECK(os.nr_nodes == 1);
	invent("possible=0-1023;node0=0-15;node1=;memory=0-1");
	os_init();
	CHECK(os.nr_nodes == 2 && os.id_offset == alone);
	invent("possible=0-1023;node0=0-7;node1=8-15;memory=0-1");
	os_init();
	CHECK(os.nr_nodes == 2 && os.id_offset == RSEQ_CPU_ID);
}

static void nothing_is_said(void)
{
	invent("possible=");
	os_init();
	CHECK(os.nr_nodes == 1 && os.nr_cpus >= 1);
}

static void nodes_are_found(void **state)
{
	(void)state;
	/* MACHINE-M3 */
	assert_int_equal(in_child(four_nodes), 0);
	assert_int_equal(in_child(holes_between_nodes), 0);
	assert_int_equal(in_child(two_files_say_all), 0);
	assert_int_equal(in_child(an_old_kernel), 0);
	assert_int_equal(in_child(rows_of_one_node_of_cpus), 0);
	assert_int_equal(in_child(nothing_is_said), 0);
}

/* Use a cache on every CPU that we may use; it must come out empty. */
static void use_everywhere(struct kmem_cache *s)
{
	static void *objects[NR_OBJECTS];

	for (unsigned int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!pin(cpu))
			continue;
		for (unsigned int i = 0; i < NR_OBJECTS; i++) {
			objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
			CHECK(objects[i]);
			memset(objects[i], (int)cpu, 64);
		}
		for (unsigned int i = 0; i < NR_OBJECTS; i++)
			kmem_cache_free(s, objects[i]);
	}
	CHECK(kmem_cache_verify(s) == 0);
}

static void empty_and_destroy(struct kmem_cache *s)
{
	CHECK(kmem_cache_shrink(s) == 0);
	CHECK(look(s).slabs == 0);
	kmem_cache_destroy(s);
}

static void use_invented(void)
{
	struct kmem_cache *s = make("everywhere", 64, no_samples());

	use_everywhere(s);
	empty_and_destroy(s);
}

/* One node has all CPUs, and another one only memory. */
static void on_memory_alone(void)
{
	static void *objects[NR_OBJECTS];
	struct kmem_cache *s;

	invent("possible=0-1023;node0=0-1023;node1=;memory=0-1");
	CHECK(setenv("SHEAF_OPTIONS", "", 1) == 0);
	s = make("memory-alone", 64, no_samples());
	CHECK(os.nr_nodes == 2);
	use_everywhere(s);
	for (unsigned int i = 0; i < NR_OBJECTS; i++) {
		objects[i] = kmem_cache_alloc_node(s, GFP_KERNEL, 1);
		CHECK(objects[i] && page_node(objects[i]) == 1);
	}
	for (unsigned int i = 0; i < NR_OBJECTS; i++)
		kmem_cache_free(s, objects[i]);
	use_everywhere(s);
	empty_and_destroy(s);
}

static void a_node_has_only_memory(void **state)
{
	(void)state;
	assert_int_equal(in_child(on_memory_alone), 0);
}

/* More CPU numbers than rows. */
static void on_8192(void)
{
	invent("possible=0-8191");
	CHECK(setenv("SHEAF_OPTIONS", "", 1) == 0);
	use_invented();
	CHECK(os.nr_cpus == OS_MAX_ROWS && os.cpu_beyond == 8191);
	CHECK(os.backend == OS_BACKEND_TRYLOCK);
}

/* The possible CPUs are not those of this system. */
static void on_more_than_possible(void)
{
	invent("possible=0;present=0");
	CHECK(setenv("SHEAF_OPTIONS", "", 1) == 0);
	use_invented();
	CHECK(os.nr_cpus == 1 && os.cpu_beyond);
	CHECK(os.backend == OS_BACKEND_TRYLOCK);
}

/* As after a move to another machine: the old description does not match this system. */
static void on_unforeseen(void)
{
	struct kmem_cache *s;

	invent("possible=0;present=0");
	/* A checked cache would not look at the CPU. */
	CHECK(pin(0) && setenv("SHEAF_OPTIONS", "backend=trylock;slab_debug=-", 1) == 0);
	s = make("unforeseen", 64, no_samples());
	CHECK(os.nr_cpus == 1 && !os.cpu_beyond);
	use_everywhere(s);
	empty_and_destroy(s);
}

static int lines_of(void (*body)(void))
{
	capture_begin(&captured);
	assert_int_equal(in_child(body), 0);
	return capture_end(&captured);
}

static void cpus_beyond_the_tables(void **state)
{
	cpu_set_t allowed;

	(void)state;
	/* MACHINE-M2 */
	assert_int_equal(lines_of(on_8192), 1);
	assert_non_null(strstr(captured.text,
			       "CPU numbers go up to 8191, and the library's tables end "
			       "at 4095: several CPUs share sheaves"));
	if (sched_getaffinity(0, sizeof(allowed), &allowed) || CPU_COUNT(&allowed) < 2 ||
	    !CPU_ISSET(0, &allowed))
		skip();
	assert_int_equal(lines_of(on_more_than_possible), 1);
	assert_non_null(strstr(captured.text, "the library's tables end at 0: "));
	assert_int_equal(lines_of(on_unforeseen), 1);
	assert_non_null(strstr(captured.text,
			       "CPU numbers ended at 0 when the program started: several "
			       "CPUs share sheaves"));
}

/* A file that does not exist is no reason for a report. */
static void without_sys(void)
{
	invent("possible=0-3;present=0-3");
	os_init();
	os_report_start();
	CHECK(os.nr_nodes == 1);
}

static void without_descriptors(void)
{
	const struct rlimit few = {0, 0};

	invent("possible=0-3;present=0-3");
	CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
	os_init();
	os_report_start();
}

static void what_cannot_be_read_is_reported(void **state)
{
	(void)state;
	/* On a machine with more CPUs other lines say so. */
	lines_of(without_sys);
	assert_null(strstr(captured.text, "/sys"));
	if (tools_find() & TOOL_MEMCHECK) {
		print_message("skipped: valgrind lets no program lower the limit on its files\n");
		skip();
	}
	lines_of(without_descriptors);
	assert_non_null(strstr(captured.text, "to read /sys: until the process ends, the library "
					      "sees 4 CPUs and 1 node. Create a cache"));
}

static cpu_set_t all;

/* First use on one CPU; then on all, then only on the last one. */
static void more_and_fewer_cpus(void)
{
	struct kmem_cache *s;
	unsigned int last = CPU_SETSIZE - 1;

	while (last && !CPU_ISSET(last, &all))
		last--;
	CHECK(pin((unsigned int)sched_getcpu()) && setenv("SHEAF_OPTIONS", "", 1) == 0);
	s = make("cpuset", 64, no_samples());
	CHECK(os.nr_allowed == 1);
	CHECK(sched_setaffinity(0, sizeof(all), &all) == 0);
	use_everywhere(s);
	CHECK(pin(last));
	empty_and_destroy(s);
}

static void the_cpuset_changes(void **state)
{
	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	assert_int_equal(lines_of(more_and_fewer_cpus), 0);
}

/* --- places are CPUs in order of distance, nodes and caches are parts of that order ----------- */

#define MACHINES 300

static uint64_t seed = 1;

/* Random numbers of nodes and caches: neither in blocks nor in order. */
static void invent_places(void)
{
	os.nr_cpus = 1 + random_below(&seed, random_below(&seed, 4) ? 64 : 1000);
	os.nr_nodes = 1 + random_below(&seed, random_below(&seed, 2) ? 4 : OS_MAX_NODES);
	for (uint32_t cpu = 0; cpu < os.nr_cpus; cpu++) {
		os.node_of_row[cpu] = (uint16_t)random_below(&seed, os.nr_nodes);
		os.place_of[cpu].cache = (uint16_t)random_below(&seed, 8);
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
				 os.place_of[other].cache == os.place_of[cpu].cache);
	}
}

static void places_are_an_order(void **state)
{
	(void)state;
	for (int machine = 0; machine < MACHINES; machine++) {
		unsigned int allowed, all = 0, most = 0;

		invent_places();
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
	assert_true(os_within_quota(8) == 3 && os_within_quota(2) == 2);
	os.quota = 100;
	assert_true(os_within_quota(8) == 8);
	os.quota = 0;
	assert_true(os_within_quota(8) == 8);
}

static void memory_is_what_the_group_grants(void **state)
{
	(void)state;
	os_memory_refresh();
	assert_true(os.memory > 0 && os.memory < SIZE_MAX);
	assert_true(os.memory <= cgroup_memory_of(CGROUP_ROOT, cgroup_list()));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_are_found),
		cmocka_unit_test(a_node_has_only_memory),
		cmocka_unit_test(cpus_beyond_the_tables),
		cmocka_unit_test(what_cannot_be_read_is_reported),
		cmocka_unit_test(the_cpuset_changes),
		/* These change what the process knows of the machine. */
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

	return cmocka_run_group_tests_name("topology", tests, NULL, NULL);
}
