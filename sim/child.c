/* SPDX-License-Identifier: MIT */
/* Runs one simulation in a separate process, and forks inside one; see sim.h. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/state.h"

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

int sim_first_seeds(int (*run)(void *data), struct sim_config config, unsigned int seeds)
{
	uint64_t hash;

	for (config.seed = 1; config.seed <= seeds; config.seed++) {
		config.switching = config.seed % 3 ? SIM_ALWAYS / 2 : SIM_ALWAYS / 16;
		if (sim_in_child(run, &config, &hash))
			return 1;
	}
	return 0;
}

static bool forks;

static void let_others_vanish(void)
{
	if (!forks)
		return;
	for (unsigned int i = 0; i < sim.nr_fibres; i++)
		sim.fibres[i].done = &sim.fibres[i] != sim.current;
	memset(sim.running, 0, sizeof(sim.running));
	sim.running[sim.current->cpu] = sim.current;
	sim_faults(false);
}

/* Handlers run in a child in the order in which they were registered: this one before the
 * library's, in which other fibres would continue. */
static void register_handler(void)
{
	if (pthread_atfork(NULL, NULL, let_others_vanish))
		sim_fail("no memory for a handler of forks");
}

static void (*const at_start)(void)
	__attribute__((section(".preinit_array"), used)) = register_handler;

int sim_fork(int (*run)(void *data), void *data)
{
	int status;
	pid_t child;

	/* Others run while the library's handlers wait, and the C library's fork() must not be
	 * called again in that time: it is the same thread. */
	if (forks)
		return 0;
	forks = true;
	child = fork();
	if (child == 0)
		_exit(run(data));
	forks = false;
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}
