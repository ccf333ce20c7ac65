/* SPDX-License-Identifier: MIT */
/*
 * What the first use of the library costs a small program: system calls, page faults and resident
 * memory of a program that uses one cache once (first.c), beyond those of one that does nothing
 * (nothing.c). All that the loader does for libsheaf.so counts, except its search for the file.
 * Which libraries the program has in the end counts, too.
 *
 * Where CPUs or nodes are more, the library reads more files and has more rows of slots.
 */
#include <glob.h>
#include <unistd.h>

#include "start/cost.h"

/*
 * Measured with two CPUs and one node, without the part behind the plus: it is for what differs
 * between C libraries and kernels. The kernel maps pages of files 16 at a time, aligned, so their
 * number depends on random addresses; that of pages which are written does not.
 */
#define MOST_CALLS   (25 + 1)
#define MOST_FAULTS  (24 + 10)
#define MOST_WRITTEN (64 + 8)
#define MOST_KIB     (400 + 128)

int main(int argc, char **argv)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF), nodes, files, more;
	struct cost nothing, first;
	glob_t found = {.gl_pathc = 0};
	bool good;

	CHECK(argc == 3);
	glob("/sys/devices/system/node/node[0-9]*", 0, NULL, &found);
	nodes = found.gl_pathc ? (long)found.gl_pathc : 1;
	globfree(&found);
	nothing = least_cost_of(argv[1], NULL);
	first = least_cost_of(argv[2], NULL);
	/* Lists of CPUs and distances, of CPUs behind a cache; a file of slots, in mappings. */
	files = (cpus > 2 ? 1 + cpus : 0) + (nodes > 1 ? 1 + 2 * nodes : 0);
	good = is_at_most("system calls", first.calls - nothing.calls,
			  MOST_CALLS + 3 * files + (nodes > 1 ? nodes + 1 : 0) +
				  (cpus > 16 ? 48 : 0));
	good &= is_at_most("page faults", first.faults - nothing.faults,
			   MOST_FAULTS +
				   (cpus > 16  ? 40
				    : cpus > 2 ? cpus
					       : 0) +
				   2 * (nodes - 1));
	if (sysconf(_SC_PAGESIZE) != 4096)
		return !good;
	more = 4 * (cpus > 16 ? 40 : cpus > 2 ? cpus - 2 : 0) + 8 * (nodes - 1);
	good &= is_at_most("written KiB", first.written - nothing.written, MOST_WRITTEN + more);
	good &= is_at_most("resident KiB", first.kib - nothing.kib, MOST_KIB + more);
	return !good;
}
