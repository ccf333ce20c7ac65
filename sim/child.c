/* SPDX-License-Identifier: MIT */
/* Runs one simulation in a separate process; see sim.h. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/sim.h"

int sim_in_child(int (*run)(void *data), void *data, uint64_t *hash)
{
	int ends[2], status, result;
	pid_t child;

	*hash = 0;
	if (pipe(ends) || (child = fork()) < 0)
		return -1;
	if (child == 0) {
		result = run(data);
		*hash = sim_hash();
		if (write(ends[1], hash, sizeof(*hash)) != sizeof(*hash))
			result = 255;
		_exit(result);
	}
	close(ends[1]);
	if (read(ends[0], hash, sizeof(*hash)) != sizeof(*hash))
		*hash = 0;
	close(ends[0]);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}
