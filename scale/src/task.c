/* SPDX-License-Identifier: MIT */
/* See task.h. */
#include "scale/src/task.h"

#include "os/section.h"
#include "scale/src/clock.h"
#include "scale/src/price.h"
#include "sim/state.h"

#define QUANTUM 500000 /* ps: how far a task may be ahead with lines of its own */

const struct machine *task_machine;
static struct task tasks[CLOCK_TASKS];
static unsigned int nr_tasks;
static uint64_t nr_moves;
static void (*body_of)(unsigned int i);

struct task *task_now(void)
{
	return sim.current == &sim.outside ? NULL : &tasks[sim.current - sim.fibres];
}

unsigned int task_number(const struct task *task)
{
	return (unsigned int)(task - tasks);
}

struct task *task_at(unsigned int number)
{
	return &tasks[number];
}

unsigned int task_count(void)
{
	return nr_tasks;
}

/* The earliest one, which may continue. */
static unsigned int next_task(void)
{
	unsigned int next = clock_first();
	uint64_t at = clock_of(next);

	if (at == CLOCK_NEVER)
		sim_fail("every task waits for another one");
	tally_see(at, price_pages());
	tasks[next].until = at + QUANTUM;
	return next;
}

static void go_on(void)
{
	struct fibre *next = &sim.fibres[next_task()];

	if (next != sim.current)
		sim_go_on(next);
}

/* The CPU on which the task should run now. */
static unsigned int cpu_now(const struct task *task)
{
	const struct machine *m = task_machine;

	if (!m->period || task->clock % m->period < m->period - m->away)
		return task->home;
	return m->refuge[task->home];
}

/* It goes to the end of that CPU's queue. */
static void move(struct task *task, unsigned int cpu)
{
	cpus_leave(task, task->clock);
	task->cpu = sim.current->cpu = cpu;
	nr_moves++;
	cpus_ready(task);
}

void task_pass(void)
{
	struct task *task = task_now();
	bool may_leave = !task->stays && !sim.current->section;

	if (may_leave && cpu_now(task) != task->cpu) {
		move(task, cpu_now(task));
	} else if (may_leave && cpus_over(task)) {
		cpus_leave(task, task->clock);
		cpus_ready(task);
	} else {
		clock_set(task_number(task), task->clock);
	}
	go_on();
}

void task_block(void)
{
	struct task *task = task_now();

	cpus_leave(task, task->clock);
	go_on();
}

void task_spin(void)
{
	clock_set(task_number(task_now()), CLOCK_NEVER);
	go_on();
}

void task_wake(struct task *task, uint64_t at)
{
	if (task->clock < at)
		task->clock = at;
	cpus_ready(task);
}

void task_sleep(uint64_t ps)
{
	struct task *task = task_now();
	uint64_t from = task->clock;

	task->clock += ps;
	if (cpus_wanted(task)) {
		cpus_leave(task, from);
		cpus_ready(task);
	} else {
		clock_set(task_number(task), task->clock);
	}
	go_on();
}

void task_spend(enum machine_cost cost)
{
	struct task *task = task_now();

	if (task)
		task->clock += task_machine->cost[cost];
}

static void work_for(struct task *task, uint64_t ps)
{
	task->clock += task->slower ? ps * (100 + task->slower) / 100 : ps;
}

void task_work(struct task *task, enum machine_cost cost)
{
	work_for(task, task_machine->cost[cost]);
}

void task_work_in_section(struct task *task, bool write)
{
	uint64_t own = task_machine->cost[MACHINE_own];
	uint64_t ps = write || own > task->section ? task->section : own;

	task->section -= ps;
	work_for(task, ps);
}

/* --- what the simulator asks ------------------------------------------------------------------ */

/* The running fibre continues; at the start, and when one ends, the earliest does. */
static unsigned int decide(unsigned int fibre)
{
	return fibre == SIM_NOBODY ? next_task() : fibre;
}

static uint64_t now(void)
{
	struct task *task = task_now();

	return (task ? task->clock : clock_of(clock_first())) / 1000;
}

static void section(void)
{
	struct task *task = task_now();

	if (task)
		task->section = task_machine->cost[MACHINE_section];
}

static void barrier(void)
{
	struct task *task = task_now();

	if (task)
		task->clock += task_machine->cost[MACHINE_barrier] +
			       nr_tasks * task_machine->cost[MACHINE_barrier_cpu];
}

static void sleep_for(uint64_t ns)
{
	if (task_now())
		task_sleep(ns * 1000);
}

static struct sim_prices prices = {
	.now = now,
	.section = section,
	.barrier = barrier,
	.sleep = sleep_for,
	.discard = price_discard,
};

/* --- running ---------------------------------------------------------------------------------- */

static void begin(unsigned int i, void *data)
{
	(void)data;
	sim_go_to(tasks[i].cpu);
	body_of(i);
	cpus_leave(&tasks[i], tasks[i].clock);
}

void task_start(const struct machine *machine, unsigned int n, uint64_t seed, const char *options)
{
	struct sim_config config = {
		.seed = seed,
		.cpus = machine->nr_cpus,
		.nodes = machine->nr_nodes,
		.backend = OS_BACKEND_RSEQ,
		.options = options,
		.max_steps = UINT64_MAX,
		.decide = decide,
		.prices = &prices,
	};

	task_machine = machine;
	nr_tasks = n;
	prices.node_of_cpu = machine->node_of;
	prices.llc_of_cpu = machine->group_of;
	clock_start(n);
	price_start(machine);
	sim_start(&config);
}

/* Does a task run on the other thread of this task's core? */
static bool has_sibling(const unsigned int *cpus, unsigned int i)
{
	for (unsigned int k = 0; k < nr_tasks; k++)
		if (machine_distance(task_machine, cpus[i], cpus[k]) == MACHINE_same_core)
			return true;
	return false;
}

void task_run(const unsigned int *cpus, void (*body)(unsigned int i))
{
	body_of = body;
	cpus_start();
	for (unsigned int i = 0; i < nr_tasks; i++) {
		tasks[i] = (struct task){.cpu = cpus[i], .home = cpus[i]};
		if (has_sibling(cpus, i))
			tasks[i].slower = task_machine->sibling;
		cpus_ready(&tasks[i]);
	}
	sim_run(nr_tasks, begin, NULL);
}

uint64_t task_moves(void)
{
	return nr_moves;
}

double task_speed(void)
{
	static bool counted[MACHINE_CPUS];
	double speed = 0;

	for (unsigned int i = 0; i < nr_tasks; i++) {
		speed += counted[tasks[i].home] ? 0 : 100.0 / (100 + tasks[i].slower);
		counted[tasks[i].home] = true;
	}
	return speed;
}
