/* SPDX-License-Identifier: MIT */
/*
 * A memory control group of 64 MiB: a program whose blocks take 40 MiB, small and large ones in
 * turns, is not killed, since what it frees is used again or returns to the system.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "check.h"

enum {
	SKIPPED = 77,
	TURNS = 3,
	GROUP = 64 << 20,
	IN_USE = 40 << 20
};

struct version {
	const char *root, *limit;
};
static const struct version versions[] = {
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
	{"/sys/fs/cgroup", "memory.max"},
};

static char group[200];

static bool set(const char *file, int value)
{
	char path[300];
	bool done;
	int to;

	snprintf(path, sizeof(path), "%s/%s", group, file);
	to = open(path, O_WRONLY);
	done = to >= 0 && dprintf(to, "%d", value) > 0;
	close(to);
	return done;
}

static bool make(const struct version *version)
{
	snprintf(group, sizeof(group), "%s/libsheaf-malloc-test-%d", version->root, (int)getpid());
	if (mkdir(group, 0700))
		return false;
	if (set(version->limit, GROUP))
		return true;
	rmdir(group);
	return false;
}

static void fill(size_t size)
{
	struct block {
		struct block *next;
	} *first = NULL, *block;

	for (size_t used = 0; used < IN_USE; used += size) {
		block = memset(malloc(size), 1, size);
		block->next = first;
		first = block;
	}
	while (first) {
		block = first->next;
		free(first);
		first = block;
	}
}

int main(int argc, char **argv)
{
	int status;
	pid_t child;

	if (argc > 1) { /* the new image of the child below */
		check_ours();
		for (int i = 0; i < TURNS; i++) {
			fill(HIDDEN((size_t)200));
			fill(HIDDEN((size_t)3 << 20));
		}
		return 0;
	}
	if (!make(&versions[0]) && !make(&versions[1])) {
		printf("skipped: cgroup\n");
		return SKIPPED;
	}
	child = fork();
	if (!child) {
		if (!set("cgroup.procs", 0))
			_exit(SKIPPED);
		execl("/proc/self/exe", argv[0], "in the group", (char *)NULL);
		_exit(1);
	}
	CHECK(waitpid(child, &status, 0) == child);
	while (rmdir(group) && errno == EBUSY)
		usleep(1000);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		printf("skipped: cgroup\n");
	else
		CHECK(status == 0);
	return WEXITSTATUS(status);
}
