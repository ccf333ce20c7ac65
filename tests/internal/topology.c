/* SPDX-License-Identifier: MIT */
/*
 * How the library sees machines that /sys describes (internal/kit/invented_machine.c): nodes
 * without memory, without CPUs, with offline CPUs, with holes between their numbers; CPU numbers
 * beyond all tables; CPUs that a program may use only at times. Each test runs in a child that
 * never used the library.
 */
#include <sheaf/slab.h>
#include <stdlib.h>
#include <string.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/machine.h"
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_are_found),
		cmocka_unit_test(a_node_has_only_memory),
		cmocka_unit_test(cpus_beyond_the_tables),
		cmocka_unit_test(the_cpuset_changes),
	};

	return cmocka_run_group_tests_name("topology", tests, NULL, NULL);
}
