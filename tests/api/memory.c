/* SPDX-License-Identifier: MIT */
/* Requests that the system may refuse: files with or without the right to execute, and more locked
 * memory; and how much memory the process has. */
#include <errno.h>
#include <grp.h>
#include <sheaf/kmalloc.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "kit/capture.h"
#include "kit/check.h"
#include "kit/options.h"
#include "kit/process.h"
#include "kit/refuse.h"
#include "kit/unit.h"

#define NOEXEC_SEAL 8u /* of memfd_create() */
#define MiB	    ((size_t)1 << 20)

/* Lines of /proc/self/maps that contain this. */
static unsigned int mappings_of(const char *name)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned int n = 0;
	char line[512];

	CHECK(file);
	while (fgets(line, sizeof(line), file))
		n += strstr(line, name) != NULL;
	fclose(file);
	return n;
}

/* From now on memfd_create() fails with this error if its flags contain, or lack, the given one. */
static void refuse_files(bool sealed, int error)
{
	const struct scmp_arg_cmp flags =
		SCMP_A1(SCMP_CMP_MASKED_EQ, NOEXEC_SEAL, sealed ? NOEXEC_SEAL : 0);

	refuse_where(SYS_memfd_create, error, 1, &flags);
}

/* Without the file, slots would cost memory for many CPUs that do not use them. */
static void make_cache_from_file(void)
{
	if (!ask_for_many_rows())
		return;
	CHECK(kmem_cache_create("from-file", 64, NULL, SLAB_NO_MERGE));
	CHECK(mappings_of("sheaf-slots") > 0);
}

static void only_sealed(void)
{
	refuse_files(false, EACCES);
	make_cache_from_file();
}

static void never_sealed(void)
{
	refuse_files(true, EINVAL);
	make_cache_from_file();
}

static void slots_with_memfd_noexec(void **state)
{
	(void)state;
	assert_int_equal(in_child(only_sealed), 0);
}

static void slots_on_an_old_system(void **state)
{
	(void)state;
	assert_int_equal(in_child(never_sealed), 0);
}

static struct capture captured;

static void lock_little(void)
{
	struct rlimit limit;

	CHECK(getrlimit(RLIMIT_MEMLOCK, &limit) == 0);
	if (limit.rlim_max > 1 * MiB)
		limit.rlim_max = 1 * MiB;
	limit.rlim_cur = limit.rlim_max;
	CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
	/* The superuser has no limit; a process that may lock no memory cannot call mlockall(). */
	CHECK(geteuid() || seteuid(65534) == 0);
	if (limit.rlim_cur == 0)
		return;
	CHECK(mlockall(MCL_FUTURE) == 0);
	capture_begin(&captured);
	CHECK(!kmem_cache_create("locked", 64, NULL, 0));
	CHECK(!kmalloc(64, GFP_KERNEL));
	CHECK(capture_end(&captured) == 1);
	CHECK(strstr(captured.text, "mlockall()") && strstr(captured.text, "ulimit -l"));
	CHECK(!strstr(captured.text, "ulimit -v"));
}

static void locked_memory_is_named(void **state)
{
	(void)state;
	assert_int_equal(in_child(lock_little), 0);
}

/* The first use fails, and says why. */
static void fails_because(const char *why)
{
	int lines;

	capture_begin(&captured);
	for (int i = 0; i < 3; i++)
		CHECK(!kmem_cache_create("refused", 64, NULL, 0) && !kmalloc(64, GFP_KERNEL));
	lines = capture_end(&captured);
	/* Statistics may have been refused first. */
	if (lines != 1 + !!strstr(captured.text, "nothing is counted") ||
	    !strstr(captured.text, why)) {
		fprintf(stderr, "%s", captured.text);
		_exit(1);
	}
}

static void limit_to(int resource, rlim_t bytes)
{
	const struct rlimit limit = {bytes, bytes};

	CHECK(setrlimit(resource, &limit) == 0);
}

static void little_data(void)
{
	limit_to(RLIMIT_DATA, 64 << 10);
	fails_because("limit of data, 64 KiB. Raise it (ulimit -d)");
}

static void few_addresses(void)
{
	limit_to(RLIMIT_AS, 1 * MiB);
	fails_because("limit of addresses, 1024 KiB. Raise it (ulimit -v)");
}

static void mprotect_forbidden(void)
{
	refuse_where(SYS_mprotect, EACCES, 0, NULL);
	fails_because("the system refuses memory (Permission denied). Allow mmap() and mprotect()");
}

static void many_mappings(void)
{
	int protection = PROT_READ;

	/* Mappings that differ do not merge. */
	while (mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), protection, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0) != MAP_FAILED)
		protection ^= PROT_READ;
	fails_because("Raise vm.max_map_count (sysctl)");
}

static long mappings_limit(void)
{
	FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
	long limit = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%ld", &limit), 1);
	fclose(file);
	return limit;
}

static void each_refusal_has_its_cause(void **state)
{
	(void)state;
	assert_int_equal(in_child(little_data), 0);
	assert_int_equal(in_child(few_addresses), 0);
	assert_int_equal(in_child(mprotect_forbidden), 0);
	if (mappings_limit() > 1 << 20)
		print_message("this system allows too many mappings to make them all\n");
	else
		assert_int_equal(in_child(many_mappings), 0);
}

/* Make the largest hole in the process's addresses appear to have this many bytes. */
static void leave_holes(size_t largest)
{
	const struct scmp_arg_cmp larger = SCMP_A1(SCMP_CMP_GT, largest, 0);

	refuse_where(SYS_mmap, ENOMEM, 1, &larger);
}

static void small_holes(void)
{
	struct kmem_cache *s;
	unsigned int n = 0;

	/* Hardened, there are 2 MiB without memory below a table. */
	leave_holes((has_option("hardened") ? 7 : 5) * MiB);
	s = kmem_cache_create("small", 1000, NULL, SLAB_NO_MERGE);
	CHECK(s);
	while (kmem_cache_alloc(s, GFP_NOWAIT))
		n++;
	CHECK(n > 1000);
	CHECK(kmem_cache_verify(s) == 0);
}

static void no_holes(void)
{
	leave_holes(3 * MiB);
	fails_because("no free range of ");
}

static void a_small_range_will_do(void **state)
{
	(void)state;
	assert_int_equal(in_child(small_holes), 0);
	assert_int_equal(in_child(no_holes), 0);
}

static size_t address_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages;

	CHECK(file && fscanf(file, "%lu", &pages) == 1);
	fclose(file);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* mlockall() compares the limit of locked memory with all addresses, used or not. */
static void reserve_little(void)
{
	size_t before = address_bytes();
	struct kmem_cache *s;
	unsigned int n = 0;
	void *block;

	CHECK(setenv("SHEAF_OPTIONS", "reserve=64", 1) == 0);
	s = kmem_cache_create("little", 1 << 20, NULL, SLAB_NO_MERGE);
	/* Slots of some thousand CPUs take as much as the slabs. */
	CHECK(s && address_bytes() - before < 64 * MiB * 8);
	while (kmem_cache_alloc(s, GFP_NOWAIT))
		n++;
	CHECK(n >= 32 && n <= 64);
	CHECK(kvmalloc(8 * MiB, GFP_KERNEL));
	/* Mappings replace slabs, except where only this node's memory will do. */
	for (n = 0; kmalloc_node(600000, GFP_KERNEL | __GFP_THISNODE | __GFP_NOWARN, 0); n++)
		CHECK(n < 64 * MiB / 600000);
	block = kmalloc(600000, GFP_KERNEL);
	CHECK(block && ksize(block) >= kmalloc_size_roundup(600000));
}

static void few_addresses_are_reserved(void **state)
{
	(void)state;
	assert_int_equal(in_child(reserve_little), 0);
}

/* The system lists a process's groups before its memory, in this case 5 KiB of them. */
static void join_many_groups(void)
{
	struct sheaf_stats stats;
	gid_t groups[500];

	for (unsigned int i = 0; i < 500; i++)
		groups[i] = 1000000000 + i;
	/* Only the superuser may. */
	CHECK(setgroups(500, groups) == 0 || errno == EPERM);
	kfree(kmalloc(64, GFP_KERNEL));
	sheaf_stats(&stats);
	CHECK(stats.resident_bytes > 64 << 10 && stats.resident_bytes < (size_t)1 << 40);
	CHECK(stats.peak_resident_bytes >= stats.resident_bytes);
}

static void memory_of_a_process_with_many_groups(void **state)
{
	(void)state;
	assert_int_equal(in_child(join_many_groups), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_with_memfd_noexec),
		cmocka_unit_test(slots_on_an_old_system),
		cmocka_unit_test(locked_memory_is_named),
		cmocka_unit_test(each_refusal_has_its_cause),
		cmocka_unit_test(a_small_range_will_do),
		cmocka_unit_test(few_addresses_are_reserved),
		cmocka_unit_test(memory_of_a_process_with_many_groups),
	};

	return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
