/* SPDX-License-Identifier: MIT */
/* Shows steps: the last ones before a failure, or each one. See state.h. */
#include <stdio.h>
#include <string.h>

#include "sim/state.h"

#define SHOWN_TEXT 60 /* characters of the source's text */

static const char *const texts[] = {
#define TEXT(name, text, changes) text,
	OS_STEPS(TEXT)
#undef TEXT
};

static bool is_lock(enum os_step_kind kind)
{
	return kind == OS_STEP_LOCK || kind == OS_STEP_TRYLOCK || kind == OS_STEP_UNLOCK;
}

/* The simulated memory is at the same addresses in every run. */
static void print_address(uintptr_t address)
{
	unsigned int row;
	uintptr_t begin;

	if (sim_row(address, &row, &begin))
		fprintf(stderr, "row %u, slot %zu, %#zx", row, (address - begin) >> SLOT_SHIFT,
			(address - begin) % (1 << SLOT_SHIFT));
	else
		fprintf(stderr, "%#zx", address);
}

/* "file:line: text", whose text may have slashes, too. */
static const char *without_folder(const char *where)
{
	const char *slash = memrchr(where, '/', (size_t)(strchr(where, ':') - where));

	return slash ? slash + 1 : where;
}

void trace_print(const struct trace *trace)
{
	const struct sim_access *access = &trace->access;
	const char *where = access->step->where;

	fprintf(stderr, "sim: %8llu: fibre %u on CPU %u %s", (unsigned long long)trace->number,
		(unsigned int)(trace->fibre - sim.fibres), trace->cpu, texts[access->step->kind]);
	if (access->address) {
		fprintf(stderr, " %zu bytes at ", access->size);
		print_address((uintptr_t)access->address);
	}
	if (is_lock(access->step->kind))
		fprintf(stderr, ", rank %u",
			((const volatile struct os_lock *)access->address)->rank);
	if (where)
		fprintf(stderr, " (%.*s)", SHOWN_TEXT, without_folder(where));
	fputc('\n', stderr);
}

void trace_print_last(void)
{
	for (unsigned int i = 0; i < SIM_TRACES; i++) {
		const struct trace *trace = &sim.traces[(sim.nr_traces + i) % SIM_TRACES];

		if (trace->number)
			trace_print(trace);
	}
}
