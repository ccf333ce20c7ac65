/* SPDX-License-Identifier: MIT */
/*
 * /proc/self/cgroup, and the files of the groups that it names. No limit is below the least number
 * in a file; every file is in the hierarchy.
 */
#include "fuzz/target.h"
#include "os/file.h"
#include "os/linux/linux.h"

#define ROOT "/root"

static struct fuzz_bytes files;
static size_t least, nr_found;

/* The numbers of a group's file, as the kernel's documentation describes them; the rest of the
 * input has one after the other. */
int os_file_read(const char *path, char *text, size_t size)
{
	const char *name = strrchr(path, '/') + 1;
	unsigned long long first, second;
	int numbers;

	FUZZ_CHECK(!strncmp(path, ROOT, strlen(ROOT)) && !strchr(path, '\n'));
	FUZZ_CHECK(strlen(path) < CGROUP_LONGEST + 32);
	fuzz_text(&files, '\0', text, size);
	numbers = *text < '0' || *text > '9' ? 0 : sscanf(text, "%llu %llu", &first, &second);
	if (!strcmp(name, "cpu.max"))
		first = numbers == 2 && second && first != SIZE_MAX
				? first / second + (first % second != 0)
				: SIZE_MAX;
	else
		FUZZ_CHECK(!strcmp(name, "memory.max") || !strcmp(name, "memory.high") ||
			   !strcmp(name, "memory.limit_in_bytes"));
	if (numbers > 0 && first < least)
		least = first;
	nr_found += numbers > 0;
	return *text ? (int)strlen(text) : -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char groups[4096];
	struct fuzz_bytes in = {data, size};

	fuzz_text(&in, '\0', groups, sizeof(groups));
	for (int i = 0; i < 2; i++) {
		files = in;
		least = SIZE_MAX;
		nr_found = 0;
		FUZZ_CHECK((i ? cgroup_cpus_of : cgroup_memory_of)(ROOT, groups) == least);
	}
	return 0;
}
