/* SPDX-License-Identifier: MIT */
/*
 * CPUs that come and go, on a machine of its own (NODES in scripts/lib/guests.py): switched off and
 * on, and taken from and given to a control group. Those of a whole node are off when the library
 * begins.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal/kit/node_load.h"
#include "os/section.h"

enum {
	NR_OBJECTS = 2000,
	LOAD_TURN = 1000 /* rounds of the load between two changes */
};

#define GROUP "/tmp/groups/test"

static bool write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");
	bool done = file && fputs(text, file) >= 0;

	return file && fclose(file) == 0 && done;
}

static bool switch_cpu(unsigned int cpu, bool on)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
	return write_file(path, on ? "1" : "0");
}

static void go_anywhere(void)
{
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	CHECK(sched_setaffinity(0, sizeof(all), &all) == 0);
}

/* Allocate on this CPU, and free there: its slot and its shard keep objects. Returns how many were
 * of its node; other nodes supply objects as soon as their CPUs are idle. */
static unsigned int use(struct kmem_cache *s, unsigned int cpu)
{
	static void *objects[NR_OBJECTS];
	unsigned int near = 0;

	CHECK(pin(cpu));
	for (unsigned int i = 0; i < NR_OBJECTS; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		CHECK(objects[i]);
		memset(objects[i], 1, 64);
		CHECK(is_placed_on(page_node(objects[i]), objects[i]));
		near += page_node(objects[i]) == os.node_of_row[cpu];
	}
	for (unsigned int i = 0; i < NR_OBJECTS; i++)
		kmem_cache_free(s, objects[i]);
	go_anywhere();
	return near;
}

static void empty_and_destroy(struct kmem_cache *s)
{
	CHECK(kmem_cache_verify(s) == 0);
	CHECK(kmem_cache_shrink(s) == 0);
	CHECK(look(s).slabs == 0);
	kmem_cache_destroy(s);
}

/* All of the third node's CPUs are off at first. */
static const unsigned int first_off = 20, last_cpu = 31;

static void some_are_off_at_first(void)
{
	struct kmem_cache *s;

	for (unsigned int cpu = first_off; cpu <= last_cpu; cpu++)
		CHECK(switch_cpu(cpu, false));
	s = make("late", 64, 0);
	for (unsigned int cpu = first_off; cpu <= last_cpu; cpu++) {
		CHECK(os.node_of_row[cpu] == 2);
		CHECK(switch_cpu(cpu, true));
	}
	CHECK(os.nr_nodes == 4 && os.memory_of_node[2] == 1);
	CHECK(use(s, first_off) == NR_OBJECTS);
	CHECK(use(s, last_cpu) == NR_OBJECTS);
	empty_and_destroy(s);
	printf("CPUs %u to %u came\n", first_off, last_cpu);
}

static void they_leave_objects_behind(void)
{
	struct kmem_cache *s = make("gone", 64, 0);

	for (unsigned int cpu = 1; cpu <= last_cpu; cpu += 5) {
		use(s, cpu);
		CHECK(look(s).objects_in_sheaves > 0);
		CHECK(switch_cpu(cpu, false));
	}
	empty_and_destroy(s);
	for (unsigned int cpu = 1; cpu <= last_cpu; cpu += 5)
		CHECK(switch_cpu(cpu, true));
	printf("objects of CPUs that are off were returned\n");
}

static void they_go_under_load(void)
{
	unsigned int turns = 0;

	load_begin();
	do {
		unsigned int cpu = 1 + turns++ * 7 % last_cpu;

		CHECK(switch_cpu(cpu, false));
		CHECK(switch_cpu(cpu, true));
	} while (load_goes_on(LOAD_TURN));
	CHECK(load_end());
	printf("%u CPUs went and came under load\n", turns);
}

static bool set_group(const char *cpus)
{
	return write_file(GROUP "/cpuset.cpus", cpus);
}

/* Threads get their affinity back when the group has those CPUs again. */
static void a_group_loses_and_gets_cpus(void)
{
	static const char *const parts[] = {"0", "8-11", "20-31", "0-31", "5,15,25"};
	unsigned int turns = 0;
	char self[16];

	snprintf(self, sizeof(self), "%d", (int)getpid());
	mkdir("/tmp/groups", 0755);
	CHECK(mount("cgroup2", "/tmp/groups", "cgroup2", 0, NULL) == 0);
	CHECK(write_file("/tmp/groups/cgroup.subtree_control", "+cpuset"));
	CHECK(mkdir(GROUP, 0755) == 0);
	CHECK(set_group(parts[0]));
	CHECK(write_file(GROUP "/cgroup.procs", self));
	load_begin();
	do {
		CHECK(set_group(parts[turns++ % (sizeof(parts) / sizeof(*parts))]));
	} while (load_goes_on(LOAD_TURN));
	CHECK(load_end());
	CHECK(write_file("/tmp/groups/cgroup.procs", self));
	CHECK(rmdir(GROUP) == 0 && umount("/tmp/groups") == 0);
	printf("the group's CPUs changed %u times\n", turns);
}

int main(void)
{
	/* Set by the first process of an emulated machine. */
	if (!getenv("EMULATED_MACHINE")) {
		printf("this would switch off your machine's CPUs\n");
		return 77;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	some_are_off_at_first();
	they_leave_objects_behind();
	they_go_under_load();
	a_group_loses_and_gets_cpus();
	printf("CPUs came and went\n");
	return 0;
}
