/* SPDX-License-Identifier: MIT */
/* The scheduler: chooses the next fibre and its CPU, and aborts sections. See sim/sim.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/assert.h"
#include "os/atomic.h"
#include "os/report/report.h"
#include "os/section_c.h"
#include "sim/state.h"

struct sim sim = {.current = &sim.outside};

void sim_fail(const char *format, ...)
{
	char line[512];
	va_list arguments;
	int length = snprintf(line, sizeof(line),
			      "sim: seed %llu: step %llu: ", (unsigned long long)sim.config.seed,
			      (unsigned long long)sim.steps);

	va_start(arguments, format);
	vsnprintf(line + length, sizeof(line) - (size_t)length, format, arguments);
	va_end(arguments);
	fprintf(stderr, "%s\n", line);
	if (!sim.config.trace)
		trace_print_last();
	abort();
}

uint64_t sim_random(void)
{
	uint64_t z = sim.random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

unsigned int sim_below(unsigned int n)
{
	return (unsigned int)((sim_random() >> 32) * n >> 32);
}

bool sim_chance(unsigned int probability)
{
	return probability && (sim_random() & 0xffff) < probability;
}

void sim_note(uint64_t what)
{
	sim.hash = (sim.hash ^ what) * UINT64_C(0x100000001b3);
	sim.hash ^= sim.hash >> 29;
}

uint64_t sim_hash(void)
{
	return sim.hash;
}

uint64_t sim_steps(void)
{
	return sim.steps;
}

bool sim_holds_locks(void)
{
	return sim.current->held_ranks != 0;
}

void sim_faults(bool on)
{
	sim.faults = on;
}

void sim_abort_section(struct fibre *fibre)
{
	if (fibre->section)
		fibre->aborted = true;
}

/* Only another fibre can end the wait. */
static bool waits(const struct fibre *fibre)
{
	return fibre->waits_for || (fibre->waits_on && !fibre->gives_up);
}

bool sim_can_go_on(const struct fibre *fibre)
{
	return !fibre->done && !waits(fibre) && fibre->asleep_until <= sim.steps;
}

/* Find the fibres that could continue now. */
static unsigned int find_candidates(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < sim.nr_fibres; i++) {
		struct fibre *fibre = &sim.fibres[i];

		if (sim_can_go_on(fibre))
			sim.candidates[n++] = fibre;
	}
	return n;
}

/* No fibre can continue: wake the first sleeper, or all fibres wait for each other, or all are
 * done. */
static struct fibre *first_sleeper(void)
{
	struct fibre *first = NULL, *waiting = NULL;

	for (unsigned int i = 0; i < sim.nr_fibres; i++) {
		struct fibre *fibre = &sim.fibres[i];

		if (fibre->done)
			continue;
		if (waits(fibre))
			waiting = fibre;
		else if (!first || fibre->asleep_until < first->asleep_until)
			first = fibre;
	}
	if (!first && waiting && waiting->waits_on)
		sim_fail("no fibre can continue, and fibre %d waits to be woken",
			 (int)(waiting - sim.fibres));
	if (!first && waiting)
		sim_fail(
			"deadlock: no fibre can continue, and fibre %d waits for a lock of rank %u",
			(int)(waiting - sim.fibres), waiting->waits_for->rank);
	return first ? first : &sim.outside;
}

/* Exchange the mm_cids of two CPUs: fibres that run there must stop for this. */
static void exchange_mm_cids(unsigned int one, unsigned int other)
{
	uint16_t mm_cid = sim.mm_cids[one];

	if (sim.running[one])
		sim_abort_section(sim.running[one]);
	if (sim.running[other])
		sim_abort_section(sim.running[other]);
	sim.mm_cids[one] = sim.mm_cids[other];
	sim.mm_cids[other] = mm_cid;
}

/* The fibre that was on its CPU is preempted. */
static void take_cpu(struct fibre *fibre)
{
	if (sim.running[fibre->cpu] && sim.running[fibre->cpu] != fibre)
		sim_abort_section(sim.running[fibre->cpu]);
	sim.running[fibre->cpu] = fibre;
}

void sim_go_to(unsigned int cpu)
{
	sim.current->cpu = cpu;
	if (sim.current != &sim.outside)
		take_cpu(sim.current);
}

/* Move to any CPU; the mm_cid moves along, as it does if no other thread runs. */
static void migrate(struct fibre *fibre)
{
	unsigned int from = fibre->cpu;

	sim_abort_section(fibre);
	fibre->cpu = sim_below(sim.config.cpus);
	if (sim.nr_mm_cids)
		exchange_mm_cids(from, fibre->cpu);
}

/* Continue this fibre on its CPU, or on another one. */
void sim_go_on(struct fibre *fibre)
{
	struct fibre *from = sim.current;

	if (fibre != &sim.outside) {
		if (sim_chance(sim.config.migration))
			migrate(fibre);
		take_cpu(fibre);
		sim_note((uint64_t)(fibre - sim.fibres) << 32 | fibre->cpu);
	}
	sim_note(sim.steps);
	if (fibre == from)
		return;
	sim.current = fibre;
	stack_switch(from->stack, fibre->stack);
}

void sim_pass(void)
{
	unsigned int n = find_candidates();
	struct fibre *chosen = n ? sim.candidates[sim_below(n)] : first_sleeper();

	if (n && sim.config.decide) {
		struct fibre *decided = &sim.fibres[sim.config.decide(SIM_NOBODY)];

		/* One that vanished in a fork does not continue. */
		chosen = decided->done ? chosen : decided;
	} else if (chosen == sim.current && n > 1) {
		/* Do not choose the yielding fibre again if there is another. */
		chosen = sim.candidates[sim_below(n)];
	}
	sim_go_on(chosen);
}

/* Another fibre may continue before this one does what it announced. */
static void choose(struct fibre *fibre)
{
	uint64_t dice;

	if (sim.config.decide) {
		struct fibre *next = &sim.fibres[sim.config.decide((unsigned)(fibre - sim.fibres))];

		if (next != fibre)
			sim_go_on(next);
		return;
	}
	dice = sim_random();
	if ((dice & 0xffff) < sim.config.signal)
		sim_abort_section(fibre);
	if ((dice >> 16 & 0xffff) < sim.config.stall) {
		fibre->asleep_until = sim.steps + 1 + sim_below(sim.config.stall_steps);
		sim_pass();
	} else if ((dice >> 32 & 0xffff) < sim.config.switching) {
		sim_pass();
	}
}

/* The fibre does now what it announced. */
static inline void note_access(const struct fibre *fibre, struct sim_access access)
{
	struct trace *trace = &sim.traces[sim.nr_traces++ % SIM_TRACES];

	*trace = (struct trace){sim.steps, fibre, fibre->cpu, access};
	if (sim.config.trace)
		trace_print(trace);
}

void os_sim_step(const struct os_step *step, const volatile void *address, size_t size)
{
	struct fibre *fibre = sim.current;

	if (os_asserting)
		sim_fail("an assertion makes a step (%s): it must use os_peek()",
			 step->where ? step->where : "a call of the machine");
	if (fibre == &sim.outside)
		return;
	fibre->steps++;
	if (++sim.steps > sim.config.max_steps)
		sim_fail("no progress: more than max_steps steps");
	if (os_reports && sim.config.silent)
		sim_fail("the library reported something, and nothing was misused");
	fibre->next = (struct sim_access){step, address, size};
	choose(fibre);
	note_access(fibre, (struct sim_access){step, address, size});
}

bool os_sim_section_enter(struct slot *slot)
{
	if (sim.current->section)
		sim_fail("a section begins inside a section");
	sim.current->section = slot;
	sim.current->aborted = false;
	if (sim.config.prices)
		sim.config.prices->section();
	return true;
}

bool os_sim_section_aborted(void)
{
	return sim.current->aborted;
}

void os_sim_section_leave(struct slot *slot)
{
	if (sim.current->section != slot)
		sim_fail("a section ends that is not in progress");
	sim.current->section = NULL;
	sim.current->aborted = false;
}

void sim_interrupt(void (*handler)(void))
{
	struct fibre *fibre = sim.current;
	struct slot *section = fibre->section;

	fibre->section = NULL;
	handler();
	fibre->section = section;
	sim_abort_section(fibre);
}

static void fibre_entry(void)
{
	struct fibre *fibre = sim.current;

	sim.body((unsigned int)(fibre - sim.fibres), sim.data);
	if (fibre->held_ranks)
		sim_fail("fibre %d ends with a lock held", (int)(fibre - sim.fibres));
	fibre->done = true;
	if (sim.running[fibre->cpu] == fibre)
		sim.running[fibre->cpu] = NULL;
	sim_pass();
}

void sim_start(const struct sim_config *config)
{
	sim.config = *config;
	os_assert_off = config->no_assertions;
	sim.random = config->seed * UINT64_C(0x9e3779b97f4a7c15) ^ UINT64_C(0x5eaf5eaf5eaf5eaf);
	sim.outside.stack = stack_outside();
}

/* Fibres keep their stacks between runs. */
static void want_fibres(unsigned int n)
{
	if (n <= sim.nr_candidates)
		return;
	sim.fibres = realloc(sim.fibres, n * sizeof(*sim.fibres));
	sim.candidates = realloc(sim.candidates, n * sizeof(*sim.candidates));
	if (!sim.fibres || !sim.candidates)
		sim_fail("no memory for %u fibres", n);
	for (; sim.nr_candidates < n; sim.nr_candidates++)
		sim.fibres[sim.nr_candidates].stack = stack_new(fibre_entry);
}

void sim_run(unsigned int n, void (*body)(unsigned int fibre, void *data), void *data)
{
	want_fibres(n);
	for (unsigned int i = 0; i < n; i++) {
		struct stack *stack = sim.fibres[i].stack;
		unsigned int cpu =
			sim.config.spread ? i % sim.config.cpus : sim_below(sim.config.cpus);

		stack_reset(stack);
		sim.fibres[i] = (struct fibre){.stack = stack, .cpu = cpu};
	}
	memset(sim.running, 0, sizeof(sim.running));
	sim.nr_fibres = n;
	sim.body = body;
	sim.data = data;
	sim_pass();
	sim.nr_fibres = 0;
	if (os_reports_kept)
		sim_fail("all fibres are done, and a report is still kept");
}
