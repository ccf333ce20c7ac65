/* SPDX-License-Identifier: MIT */
/* Limits of control groups, in hierarchies of files that look like those of the system. */
#include "os/linux/linux.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/directory.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "os/memory.h"

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

	return cmocka_run_group_tests(tests, NULL, NULL);
}
