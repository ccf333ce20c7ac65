/* SPDX-License-Identifier: MIT */
/* See ahead.h. */
#include "scale/src/ahead.h"

static uint64_t later(uint64_t one, uint64_t other)
{
	return one > other ? one : other;
}

static struct ahead_load *load_at(struct ahead *a, unsigned int place)
{
	return &a->loads[(a->first_load + place) % AHEAD_LOADS];
}

/* Forget the oldest loads that have arrived. */
static void retire(struct ahead *a, uint64_t now)
{
	while (a->nr_loads && load_at(a, 0)->arrives <= now) {
		a->first_load = (a->first_load + 1) % AHEAD_LOADS;
		a->nr_loads--;
	}
}

uint64_t ahead_limit(struct ahead *a, uint64_t now, uint64_t most)
{
	retire(a, now);
	while (a->nr_loads && load_at(a, 0)->issued + most < now) {
		now = load_at(a, 0)->arrives;
		retire(a, now);
	}
	return now;
}

uint64_t ahead_known(const struct ahead *a, uintptr_t address, uint64_t now)
{
	for (unsigned int i = 0; i < a->nr_loads; i++) {
		const struct ahead_load *load = &a->loads[(a->first_load + i) % AHEAD_LOADS];

		if (address - load->value < AHEAD_REACH)
			now = later(now, load->arrives);
	}
	return now;
}

/* Forget the lines that have arrived. Returns when the first of the others will. */
static uint64_t first_arrival(struct ahead *a, uint64_t now)
{
	uint64_t first = UINT64_MAX;
	unsigned int kept = 0;

	for (unsigned int i = 0; i < a->nr_lines; i++) {
		if (a->lines[i].arrives <= now)
			continue;
		if (a->lines[i].arrives < first)
			first = a->lines[i].arrives;
		a->lines[kept++] = a->lines[i];
	}
	a->nr_lines = kept;
	return first;
}

uint64_t ahead_room(struct ahead *a, uint64_t now, unsigned int most)
{
	uint64_t first = first_arrival(a, now);

	if (a->nr_lines < most)
		return now;
	first_arrival(a, first);
	return first;
}

void ahead_asked(struct ahead *a, uintptr_t line, uint64_t arrives)
{
	a->lines[a->nr_lines++] = (struct ahead_line){line, arrives};
}

uint64_t ahead_arrival(const struct ahead *a, uintptr_t line, uint64_t now)
{
	for (unsigned int i = 0; i < a->nr_lines; i++)
		if (a->lines[i].line == line)
			now = later(now, a->lines[i].arrives);
	return now;
}

void ahead_loaded(struct ahead *a, uintptr_t value, uint64_t now, uint64_t arrives)
{
	if (arrives <= now)
		return;
	/* If there is no room, the oldest one is forgotten: the newer ones stall the CPU, too. */
	if (a->nr_loads == AHEAD_LOADS) {
		a->first_load = (a->first_load + 1) % AHEAD_LOADS;
		a->nr_loads--;
	}
	*load_at(a, a->nr_loads++) = (struct ahead_load){value, now, arrives};
}

uint64_t ahead_all(const struct ahead *a, uint64_t now)
{
	for (unsigned int i = 0; i < a->nr_lines; i++)
		now = later(now, a->lines[i].arrives);
	return now;
}
