/* SPDX-License-Identifier: MIT */
/*
 * One point of a curve of `sheaf sim scale`: a workload with an allocator on so many CPUs of a
 * machine. Each run is a process of its own, because the library begins once in a process. The
 * command (scale/tools/sim.py) runs it for each point, and makes tables of what it prints.
 *
 *   work.c, workloads.c, rings.c, maps.c what runs, instrumented but for work.c
 *   allocators.c, kernel/, retire.c      with what; the library, the baseline and the kernel's
 *                                        designs are instrumented
 *   periods.c                            grace periods
 *   tsan.c, price.c                      what each access costs
 *   lines.c, homes.c, machine.c          cache lines, pages, the machine file
 *   ahead.c                              misses that overlap
 *   task.c, clock.c, cpus.c, locks.c     who goes next, on the fibres of sim/schedule.c
 *   tally.c, kinds.c, report.c           what is counted, and printed
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scale/src/clock.h"
#include "scale/src/locks.h"
#include "scale/src/periods.h"
#include "scale/src/report.h"
#include "scale/src/task.h"
#include "scale/src/workloads.h"

#define MOST_WINDOWS 40
/* A window has room for several batches of one CPU, because frees are counted, and alternate with
 * allocations. CPUs that pass objects on take longer to become steady. */
#define WINDOW_NS_OWN 20000
#define WINDOW_NS     100000
#define WINDOW_NS_ALL 2000000 /* shared by the CPUs */

struct request {
	const char *machine, *options;
	const struct workload *workload;
	const struct allocator *allocator;
	unsigned long cpus, per_cpu, seed, size, windows;
};

static const char usage[] =
	"usage: sheaf-sim-scale --machine FILE --workload NAME [--allocator NAME] [--cpus N]\n"
	"                       [--per-cpu N] [--size BYTES] [--seed N] [--windows N]\n"
	"                       [--options TEXT] [--list]\n"
	"`sheaf sim scale` runs this.\n";

static _Noreturn void refuse(const char *what, const char *value)
{
	fprintf(stderr, "sheaf sim scale: %s%s\n", what, value ? value : "");
	exit(2);
}

static void list(void)
{
	for (const struct workload *w = workloads; w->name; w++)
		printf("workload %s %u %s\n", w->name, w->in_pairs ? 2 : 1, w->what);
	for (const struct allocator *a = allocators; a->name; a++)
		printf("%s %s %s\n", a->variant ? "variant" : "allocator", a->name, a->what);
	exit(0);
}

static const struct workload *find_workload(const char *name)
{
	for (const struct workload *w = workloads; w->name; w++)
		if (!strcmp(w->name, name))
			return w;
	refuse("there is no workload ", name);
}

static const struct allocator *find_allocator(const char *name)
{
	for (const struct allocator *a = allocators; a->name; a++)
		if (!strcmp(a->name, name))
			return a;
	refuse("there is no allocator ", name);
}

static unsigned long number(const char *text, const char *name)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*end || end == text || *text == '-')
		refuse("a number is wanted for ", name);
	return value;
}

static struct request parse(int argc, char **argv)
{
	static const struct option options[] = {
		{"machine", 1, NULL, 'm'},
		{"workload", 1, NULL, 'w'},
		{"allocator", 1, NULL, 'a'},
		{"cpus", 1, NULL, 'c'},
		{"per-cpu", 1, NULL, 'p'},
		{"size", 1, NULL, 's'},
		{"seed", 1, NULL, 'r'},
		{"windows", 1, NULL, 'n'},
		{"options", 1, NULL, 'o'},
		{"list", 0, NULL, 'l'},
		{0},
	};
	struct request r = {.allocator = allocators,
			    .per_cpu = 1,
			    .seed = 1,
			    .size = 64,
			    .windows = MOST_WINDOWS};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'm')
			r.machine = optarg;
		else if (option == 'w')
			r.workload = find_workload(optarg);
		else if (option == 'a')
			r.allocator = find_allocator(optarg);
		else if (option == 'c')
			r.cpus = number(optarg, "--cpus");
		else if (option == 'p')
			r.per_cpu = number(optarg, "--per-cpu");
		else if (option == 's')
			r.size = number(optarg, "--size");
		else if (option == 'r')
			r.seed = number(optarg, "--seed");
		else if (option == 'n')
			r.windows = number(optarg, "--windows");
		else if (option == 'o')
			r.options = optarg;
		else if (option == 'l')
			list();
		else
			refuse(usage, NULL);
	}
	if (!r.machine || !r.workload || optind < argc)
		refuse(usage, NULL);
	if (r.workload->retires && !r.allocator->retire)
		refuse("nothing can be retired with ", r.allocator->name);
	return r;
}

/* Cores before their second threads. The two tasks of a far pair are half of the cores apart. */
static unsigned int cpu_of(const struct machine *m, const struct workload *w, unsigned int task)
{
	unsigned int half = m->nr_cpus / m->threads / 2, pair = task / 2;

	if (!w->far_apart)
		return task;
	return pair / half * 2 * half + task % 2 * half + pair % half;
}

static unsigned int cpus_of(const struct machine *m, const struct request *r)
{
	unsigned int cpus = (unsigned int)(r->cpus ? r->cpus : m->nr_cpus);

	if (r->cpus > m->nr_cpus) {
		fprintf(stderr, "sheaf sim scale: %s has %u CPUs, not %lu\n", r->machine,
			m->nr_cpus, r->cpus);
		exit(2);
	}
	if (!r->per_cpu || r->per_cpu * cpus > CLOCK_TASKS)
		refuse("too many or no tasks, with so many on each CPU", NULL);
	if (r->workload->in_pairs && cpus % 2)
		refuse("CPUs work in pairs in the workload ", r->workload->name);
	if (r->workload->far_apart && m->nr_cpus / m->threads % 2)
		refuse("an even number of cores is needed for ", r->workload->name);
	return cpus;
}

/* In ps, and whole rounds of CPUs that come and go. Each task runs twice, and a grace period ends.
 */
static uint64_t window_of(const struct machine *m, const struct request *r, unsigned int cpus)
{
	uint64_t least = r->workload->own ? WINDOW_NS_OWN : WINDOW_NS;
	uint64_t window = (least + WINDOW_NS_ALL / cpus) * UINT64_C(1000);

	if (r->per_cpu > 1)
		window += 2 * r->per_cpu * m->cost[MACHINE_slice];
	if (r->workload->retires)
		window += PERIOD_NS * UINT64_C(1000);
	if (r->workload->bursts)
		window = BURST_ROUND_NS * UINT64_C(1000);
	if (m->period)
		window = (window + m->period - 1) / m->period * m->period;
	return window;
}

int main(int argc, char **argv)
{
	static unsigned int cpu_of_task[CLOCK_TASKS];
	static struct machine machine;
	struct request r = parse(argc, argv);
	unsigned int cpus, tasks;
	uint64_t window;
	char error[512];

	if (!machine_read(&machine, r.machine, error, sizeof(error)))
		refuse(error, NULL);
	cpus = cpus_of(&machine, &r);
	tasks = cpus * (unsigned int)r.per_cpu;
	for (unsigned int i = 0; i < tasks; i++)
		cpu_of_task[i] = cpu_of(&machine, r.workload, i % cpus);
	window = window_of(&machine, &r, cpus);
	tally_start(window, (unsigned int)r.windows);
	task_start(&machine, tasks, r.seed, r.options);
	if (r.allocator->kernel)
		locks_are_queued();
	if (!workload_prepare(r.workload, r.allocator, r.size, cpu_of_task, tasks))
		refuse("there is no memory for ", r.workload->name);
	task_run(cpu_of_task, r.workload->run);
	report_print(cpus, window);
	return 0;
}
