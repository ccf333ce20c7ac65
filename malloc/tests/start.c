/* SPDX-License-Identifier: MIT */
/*
 * What the library costs a program that allocates nothing, or little: system calls, page faults and
 * memory with it preloaded, beyond those without. The boot heap serves these programs, so no number
 * of CPUs or nodes matters. Measured, and behind the plus for what differs between C libraries and
 * kernels: see tests/start/start.c.
 */
#include "start/cost.h"

#define MOST_CALLS   (10 + 2)
#define MOST_FAULTS  (14 + 4)
#define MOST_WRITTEN (36 + 8)
#define MOST_KIB     (240 + 128)

static bool is_cheap(const char *program, const char *preload)
{
	struct cost plain = least_cost_of(program, NULL);
	struct cost ours = least_cost_of(program, preload);
	bool good;

	printf("%s\n", program);
	good = is_at_most("system calls", ours.calls - plain.calls, MOST_CALLS);
	good &= is_at_most("page faults", ours.faults - plain.faults, MOST_FAULTS);
	if (sysconf(_SC_PAGESIZE) != 4096)
		return good;
	good &= is_at_most("written KiB", ours.written - plain.written, MOST_WRITTEN);
	good &= is_at_most("resident KiB", ours.kib - plain.kib, MOST_KIB);
	return good;
}

int main(int argc, char **argv)
{
	char preload[4096];
	bool good = true;

	CHECK(argc > 2);
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", argv[1]);
	for (int i = 2; i < argc; i++)
		good &= is_cheap(argv[i], preload);
	return !good;
}
