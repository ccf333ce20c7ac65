/* SPDX-License-Identifier: MIT */
/* Runs every schedule of a program; see enumerate.h. */
#include "sim/enumerate.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/state.h"

#define MOST_CHOICES 4096 /* of one schedule */

struct choice {
	uint8_t chosen, left; /* a fibre, and bits of those that have not been chosen here */
};

/* Shared by the parent and the child that runs a schedule. */
static struct path {
	unsigned int planned, n; /* choices to repeat, and all of the last schedule */
	uint64_t steps;
	double product; /* of the numbers of fibres that could have been chosen */
	struct choice at[MOST_CHOICES];
} * path;

/* The schedule that this child runs. */
static struct run {
	bool by_chance, begun;
	unsigned int bound, preemptions, place;
	unsigned int resting; /* bits: fibres that slept, and nothing has changed since */
} now;

static bool may_change(const struct fibre *fibre)
{
#define CHANGES(name, text, changes) changes,
	static const bool changes[] = {OS_STEPS(CHANGES)};
#undef CHANGES

	return changes[fibre->next.step->kind];
}

static bool will_wait(const struct fibre *fibre)
{
	return fibre->next.step->kind == OS_STEP_LOCK &&
	       ((const volatile struct os_lock *)fibre->next.address)->word;
}

/* Bits of the fibres that can continue; if none can, of those that the simulator may tell so. */
static unsigned int able(void)
{
	unsigned int all = 0, awake = 0;

	for (unsigned int i = 0; i < sim.nr_fibres; i++) {
		if (!sim_can_go_on(&sim.fibres[i]))
			continue;
		all |= 1u << i;
		if (!will_wait(&sim.fibres[i]))
			awake |= 1u << i;
	}
	if (awake & ~now.resting)
		return awake & ~now.resting;
	return awake ? awake : all;
}

static unsigned int nth_bit(unsigned int bits, unsigned int n)
{
	while (n--)
		bits &= bits - 1;
	return (unsigned int)__builtin_ctz(bits);
}

/* One of several fibres; `running` is one of them, or SIM_NOBODY. */
static unsigned int choose(unsigned int options, unsigned int running)
{
	unsigned int n = (unsigned int)__builtin_popcount(options), chosen;
	struct choice *choice = &path->at[now.place];

	path->product *= n;
	if (now.place == MOST_CHOICES)
		sim_fail("more than %d choices", MOST_CHOICES);
	if (now.place++ < path->planned) {
		if (!(options >> choice->chosen & 1))
			sim_fail("the schedule is not the same when it is repeated");
		return choice->chosen;
	}
	chosen = now.by_chance		 ? nth_bit(options, sim_below(n))
		 : running != SIM_NOBODY ? running
					 : nth_bit(options, 0);
	*choice = (struct choice){(uint8_t)chosen, (uint8_t)(options & ~(1u << chosen))};
	path->n = now.place;
	return chosen;
}

/* A fibre that has made no step yet, or SIM_NOBODY. */
static unsigned int not_begun(void)
{
	for (unsigned int i = 0; i < sim.nr_fibres; i++)
		if (!sim.fibres[i].next.step && !sim.fibres[i].done)
			return i;
	return SIM_NOBODY;
}

static unsigned int decide(unsigned int fibre)
{
	unsigned int options, chosen = not_begun();
	bool goes_on;

	if (chosen != SIM_NOBODY)
		return chosen;
	/* It passes next, and then somebody is chosen. */
	if (fibre != SIM_NOBODY && sim.fibres[fibre].next.step->kind == OS_STEP_SLEEP) {
		now.resting |= 1u << fibre;
		return fibre;
	}
	options = able();
	goes_on = now.begun && fibre != SIM_NOBODY && options >> fibre & 1;
	now.begun = true;
	if (goes_on && now.preemptions == now.bound)
		options = 1u << fibre;
	chosen = options & (options - 1) ? choose(options, goes_on ? fibre : SIM_NOBODY)
					 : nth_bit(options, 0);
	now.preemptions += goes_on && chosen != fibre;
	if (may_change(&sim.fibres[chosen]))
		now.resting = 0;
	return chosen;
}

static void run_child(const struct sim_program *program, uint64_t seed)
{
	sim.config.decide = decide;
	sim.config.spread = sim.config.patient = true;
	sim.random += seed;
	sim_run(program->fibres, program->body, NULL);
	path->steps = sim.steps;
	program->check();
	_exit(0);
}

/* False: it failed. `quiet`: a file in place of stderr, or -1. */
static bool run(const struct sim_program *program, int quiet, uint64_t seed)
{
	uint64_t before = sim.steps;
	int status;
	pid_t child;

	path->product = 1;
	child = _Fork(); /* without the library's handlers: nothing else runs */
	if (child < 0)
		sim_fail("no process for a schedule");
	if (child == 0) {
		if (quiet >= 0)
			dup2(quiet, STDERR_FILENO);
		run_child(program, seed);
	}
	if (waitpid(child, &status, 0) != child)
		sim_fail("a schedule is lost");
	path->steps -= before;
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

/* Take the last choice that has an alternative. False: all are done. */
static bool plan_next(void)
{
	while (path->n) {
		struct choice *last = &path->at[path->n - 1];

		if (last->left) {
			last->chosen = (uint8_t)nth_bit(last->left, 0);
			last->left &= (uint8_t)(last->left - 1);
			path->planned = path->n;
			return true;
		}
		path->n--;
	}
	return false;
}

static void show(const struct sim_program *program, uint64_t seed, uint64_t number)
{
	fprintf(stderr, "sim: schedule %llu fails. Its steps:\n", (unsigned long long)number);
	path->planned = path->n;
	sim.config.trace = true;
	run(program, -1, seed);
	sim.config.trace = false;
}

static struct sim_schedules run_all(const struct sim_program *program, unsigned int preemptions,
				    uint64_t most, bool by_chance)
{
	struct sim_schedules found = {.complete = false};
	int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
	double products = 0;

	fflush(NULL);
	path = mmap(NULL, sizeof(*path), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (path == MAP_FAILED || quiet < 0)
		sim_fail("no memory for schedules");
	now = (struct run){.by_chance = by_chance, .bound = preemptions};
	do {
		uint64_t seed = by_chance ? found.schedules * UINT64_C(0xd1342543de82ef95) : 0;

		path->n = by_chance ? 0 : path->n;
		found.schedules++;
		if (!run(program, quiet, seed)) {
			show(program, seed, found.schedules);
			found.failed = true;
			break;
		}
		found.steps += path->steps;
		found.longest = path->steps > found.longest ? path->steps : found.longest;
		products += path->product;
		found.complete = !by_chance && !plan_next();
	} while (!found.complete && found.schedules < most);
	found.estimate = products / (double)found.schedules;
	munmap(path, sizeof(*path));
	close(quiet);
	return found;
}

struct sim_schedules sim_enumerate(const struct sim_program *program, unsigned int preemptions,
				   uint64_t most)
{
	return run_all(program, preemptions, most, false);
}

struct sim_schedules sim_sample(const struct sim_program *program, unsigned int preemptions,
				uint64_t n)
{
	return run_all(program, preemptions, n, true);
}
