/* SPDX-License-Identifier: MIT */
/* Reads machine files; see machine.h. */
#include "scale/src/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scale/src/ahead.h"

#define DEAREST	    1e9 /* ns */
#define MOST_CACHE  (1u << 22)
#define MOST_SLOWER 400		 /* percent */
#define MOST_PERIOD 1000000000ul /* ns */
#define AWAY	    3		 /* after the kinds of groups: node, socket, llc */

/* The text, and the position in it. */
struct reader {
	struct machine *machine;
	const char *path;
	unsigned int line;
	char *error;
	size_t size;
	bool memoryless[MACHINE_NODES];
	/* The lines of the file that gave each CPU its node, socket and group. */
	unsigned int said[4][MACHINE_CPUS];
	unsigned int said_node[MACHINE_NODES];
	unsigned int said_away;
};

static const char *const cost_names[] = {
#define X(name, what) #name,
	MACHINE_COSTS(X)
#undef X
};

const char *machine_cost_name(enum machine_cost cost)
{
	return cost_names[cost];
}

enum machine_cost machine_distance(const struct machine *m, unsigned int from, unsigned int to)
{
	if (from == to)
		return MACHINE_own;
	if (m->threads > 1 && from % (m->nr_cpus / 2) == to % (m->nr_cpus / 2))
		return MACHINE_same_core;
	if (m->group_of[from] == m->group_of[to])
		return MACHINE_same_llc;
	return m->socket_of[from] == m->socket_of[to] ? MACHINE_same_socket : MACHINE_other_socket;
}

/* Returns false, for callers to return. */
static __attribute__((format(printf, 2, 3))) bool wrong(struct reader *r, const char *format, ...)
{
	char what[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	snprintf(r->error, r->size, "%s:%u: %s", r->path, r->line, what);
	return false;
}

static bool whole_number(struct reader *r, const char *word, const char *what, unsigned long least,
			 unsigned long most, unsigned long *number)
{
	char *end = NULL;

	*number = word && *word >= '0' && *word <= '9' ? strtoul(word, &end, 10) : 0;
	if (!end || *end || *number < least || *number > most)
		return wrong(r, "%s wants a number from %lu to %lu", what, least, most);
	return true;
}

static bool read_cost(struct reader *r, enum machine_cost cost, const char *word)
{
	char *end = NULL;
	double ns = word ? strtod(word, &end) : 0;

	if (!end || end == word || *end || !(ns >= 0.001 && ns <= DEAREST))
		return wrong(r, "%s wants nanoseconds above 0, such as 1.5", cost_names[cost]);
	if (r->machine->cost[cost])
		return wrong(r, "%s is given twice", cost_names[cost]);
	r->machine->cost[cost] = (uint64_t)(ns * 1000 + 0.5);
	return true;
}

/* Put the CPUs first ... last into this group of a kind: node, socket, llc. */
static bool add_cpus(struct reader *r, unsigned int kind, const char *name, uint16_t *of,
		     unsigned int group, const unsigned long cpus[2])
{
	for (unsigned long cpu = cpus[0]; cpu <= cpus[1]; cpu++) {
		if (r->said[kind][cpu])
			return wrong(r, "CPU %lu is in two groups of the kind %s: see line %u", cpu,
				     name, r->said[kind][cpu]);
		r->said[kind][cpu] = r->line;
		of[cpu] = (uint16_t)group;
	}
	return true;
}

/* A list such as 0-7,16: the CPUs of a new group. */
static bool read_group(struct reader *r, unsigned int kind, const char *name, char *list,
		       uint16_t *of, unsigned int *groups, unsigned int most)
{
	char *rest = list, *part;
	unsigned long cpus[2];

	if (!r->machine->nr_cpus)
		return wrong(r, "say how many cpus there are before their groups");
	if (!list)
		return wrong(r, "%s without CPUs: list them, such as 0-7,16", name);
	if (*groups == most)
		return wrong(r, "more than %u groups of the kind %s", most, name);
	while ((part = strsep(&rest, ",")) != NULL) {
		char *dash = strchr(part, '-');

		if (dash)
			*dash++ = 0;
		if (!whole_number(r, part, name, 0, r->machine->nr_cpus - 1, &cpus[0]) ||
		    !whole_number(r, dash ? dash : part, name, cpus[0], r->machine->nr_cpus - 1,
				  &cpus[1]) ||
		    !add_cpus(r, kind, name, of, *groups, cpus))
			return false;
		if (kind == 2)
			r->machine->cpu_of_group[*groups] = (uint16_t)cpus[0];
	}
	++*groups;
	return true;
}

static bool read_node(struct reader *r, char *list, const char *flag)
{
	unsigned int node = r->machine->nr_nodes;

	if (flag && strcmp(flag, "memoryless"))
		return wrong(r, "a node's CPUs may be followed by memoryless, not by %s", flag);
	if (!read_group(r, 0, "node", list, r->machine->node_of, &r->machine->nr_nodes,
			MACHINE_NODES))
		return false;
	r->memoryless[node] = flag != NULL;
	r->said_node[node] = r->line;
	return true;
}

/* Which CPUs come and go, and when. */
static bool read_away(struct reader *r, char *list, const char *away, const char *period)
{
	struct machine *m = r->machine;
	unsigned long ns[2];
	unsigned int groups = 0;

	if (m->period)
		return wrong(r, "away is given twice");
	if (!whole_number(r, period, "the time in which CPUs come and go", 2, MOST_PERIOD,
			  &ns[1]) ||
	    !whole_number(r, away, "the time that CPUs are away", 1, ns[1] - 1, &ns[0]))
		return false;
	m->away = ns[0] * 1000;
	m->period = ns[1] * 1000;
	r->said_away = r->line;
	return read_group(r, AWAY, "away", list, m->refuge, &groups, 1);
}

static bool read_number(struct reader *r, const char *key, const char *value)
{
	struct machine *m = r->machine;
	unsigned long number;

	if (!strcmp(key, "cpus")) {
		if (m->nr_cpus)
			return wrong(r, "cpus is given twice");
		if (!whole_number(r, value, key, 1, MACHINE_CPUS, &number))
			return false;
		m->nr_cpus = (unsigned int)number;
	} else if (!strcmp(key, "threads")) {
		if (!whole_number(r, value, key, 1, 2, &number))
			return false;
		m->threads = (unsigned int)number;
	} else if (!strcmp(key, "misses")) {
		if (!whole_number(r, value, key, 1, AHEAD_LINES, &number))
			return false;
		m->misses = (unsigned int)number;
	} else if (!strcmp(key, "sibling")) {
		if (!whole_number(r, value, key, 0, MOST_SLOWER, &number))
			return false;
		m->sibling = (unsigned int)number;
	} else {
		if (!whole_number(r, value, key, 64, MOST_CACHE, &number))
			return false;
		m->cache_lines = number;
	}
	return true;
}

/* A line without its comment. */
static bool read_line(struct reader *r, char *line)
{
	static const char *const numbers[] = {"cpus", "threads", "cache", "misses", "sibling"};
	static const char blanks[] = " \t\n";
	struct machine *m = r->machine;
	char *rest, *key = strtok_r(line, blanks, &rest);
	char *value = key ? strtok_r(NULL, blanks, &rest) : NULL;
	char *more = value ? strtok_r(NULL, blanks, &rest) : NULL;

	if (!key)
		return true;
	if (!strcmp(key, "node"))
		return read_node(r, value, more);
	if (!strcmp(key, "away"))
		return read_away(r, value, more, more ? strtok_r(NULL, blanks, &rest) : NULL);
	if (more)
		return wrong(r, "%s has one value; %s is too much", key, more);
	if (!strcmp(key, "socket"))
		return read_group(r, 1, key, value, m->socket_of, &m->nr_sockets, MACHINE_NODES);
	if (!strcmp(key, "llc"))
		return read_group(r, 2, key, value, m->group_of, &m->nr_groups, MACHINE_CPUS);
	for (unsigned int i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!strcmp(key, numbers[i]))
			return read_number(r, key, value);
	for (enum machine_cost cost = 0; cost < MACHINE_NR_COSTS; cost++)
		if (!strcmp(key, cost_names[cost]))
			return read_cost(r, cost, value);
	return wrong(r,
		     "%s is no group (node, socket, llc, away), no number (cpus, threads, cache, "
		     "misses, "
		     "sibling) and no cost",
		     key);
}

/* Each CPU is in one group of each kind, and groups are in one socket (D1). */
static bool check_groups(struct reader *r)
{
	static const char *const kinds[] = {"node", "socket", "llc"};
	struct machine *m = r->machine;

	for (unsigned int kind = 0; kind < 3; kind++)
		for (unsigned int cpu = 0; cpu < m->nr_cpus; cpu++)
			if (!r->said[kind][cpu])
				return wrong(r, "CPU %u is in no %s", cpu, kinds[kind]);
	for (unsigned int cpu = 0; cpu < m->nr_cpus; cpu++) {
		unsigned int first = m->cpu_of_group[m->group_of[cpu]];

		r->line = r->said[2][cpu];
		if (m->socket_of[cpu] != m->socket_of[first])
			return wrong(r, "CPUs %u and %u share a cache, but are on two sockets",
				     first, cpu);
	}
	return true;
}

/* Where each node's pages come from (D3). */
static bool find_memory(struct reader *r)
{
	struct machine *m = r->machine;

	for (unsigned int node = 0; node < m->nr_nodes; node++) {
		unsigned int from = node, tried = 0;

		while (r->memoryless[from] && tried++ < m->nr_nodes)
			from = (from + 1) % m->nr_nodes;
		r->line = r->said_node[node];
		if (r->memoryless[from])
			return wrong(r, "no node has memory");
		m->memory_node[node] = (uint16_t)from;
	}
	return true;
}

/* The nearest CPU that stays; of several, the one after this CPU. MACHINE_CPUS: none. */
static unsigned int find_refuge(const struct reader *r, unsigned int cpu)
{
	const struct machine *m = r->machine;
	unsigned int found = MACHINE_CPUS;

	for (unsigned int i = 1; i < m->nr_cpus; i++) {
		unsigned int other = (cpu + i) % m->nr_cpus;

		if (!r->said[AWAY][other] &&
		    (found == MACHINE_CPUS ||
		     machine_distance(m, cpu, other) < machine_distance(m, cpu, found)))
			found = other;
	}
	return found;
}

/* Where tasks go while their CPU is away (D4). */
static bool find_refuges(struct reader *r)
{
	struct machine *m = r->machine;

	for (unsigned int cpu = 0; cpu < m->nr_cpus; cpu++) {
		unsigned int refuge = r->said[AWAY][cpu] ? find_refuge(r, cpu) : cpu;

		r->line = r->said_away;
		if (refuge == MACHINE_CPUS)
			return wrong(r, "no CPU stays");
		m->refuge[cpu] = (uint16_t)refuge;
	}
	return true;
}

static bool check(struct reader *r)
{
	struct machine *m = r->machine;

	if (!m->nr_cpus)
		return wrong(r, "no line says how many cpus there are");
	if (!m->cache_lines)
		return wrong(
			r, "no line says how many lines a CPU's cache holds, such as: cache 16384");
	if (!m->misses)
		return wrong(r, "no line says how many lines may be in flight for a CPU, such as: "
				"misses 24");
	if (m->threads > 1 && m->nr_cpus % 2)
		return wrong(r, "2 threads a core need an even number of CPUs, not %u", m->nr_cpus);
	for (enum machine_cost cost = 0; cost < MACHINE_NR_COSTS; cost++)
		if (!m->cost[cost])
			return wrong(r, "the cost %s is missing", cost_names[cost]);
	return check_groups(r) && find_memory(r) && find_refuges(r);
}

bool machine_read(struct machine *machine, const char *path, char *error, size_t size)
{
	struct reader *r = calloc(1, sizeof(*r));
	FILE *file = fopen(path, "r");
	char line[512];
	bool fine = r && file;

	*machine = (struct machine){.threads = 1};
	if (!fine)
		snprintf(error, size, "%s: cannot be read", path);
	else
		*r = (struct reader){
			.machine = machine, .path = path, .error = error, .size = size};
	while (fine && fgets(line, sizeof(line), file)) {
		r->line++;
		line[strcspn(line, "#")] = 0;
		fine = read_line(r, line);
	}
	fine = fine && check(r);
	if (file)
		fclose(file);
	free(r);
	return fine;
}
