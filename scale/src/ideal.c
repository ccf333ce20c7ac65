/* SPDX-License-Identifier: MIT */
/* See ideal.h. */
#include "scale/src/ideal.h"

#include <stdlib.h>

#include "cache/process.h"
#include "os/machine.h"
#include "scale/src/kernel/kernel.h"
#include "scale/src/machine.h"
#include "scale/src/periods.h"
#include "scale/src/task.h"
#include "sim/sim.h"

#define FIRST_ROOM 256u /* objects; a power of two */

/* A row of objects, from `first` to before `end`, modulo its room. */
struct row {
	size_t first, end, room;
	struct entry {
		void *object;
		uint64_t due; /* of a retired one, in ns */
	} * at;
};

struct ideal {
	struct slab_cache slab;
	struct row free[MACHINE_CPUS], retired[MACHINE_CPUS];
};

static size_t size_of(const struct row *row)
{
	return row->end - row->first;
}

static struct entry *entry_at(const struct row *row, size_t place)
{
	return &row->at[place & (row->room - 1)];
}

static void push(struct row *row, void *object, uint64_t due)
{
	struct row larger = {.end = size_of(row), .room = row->room ? 2 * row->room : FIRST_ROOM};

	if (size_of(row) == row->room) {
		larger.at = malloc(larger.room * sizeof(*larger.at));
		if (!larger.at)
			sim_fail("no memory for %zu objects", larger.room);
		for (size_t i = 0; i < larger.end; i++)
			larger.at[i] = *entry_at(row, row->first + i);
		free(row->at);
		*row = larger;
	}
	*entry_at(row, row->end++) = (struct entry){object, due};
}

static void *pop(struct row *row)
{
	return entry_at(row, --row->end)->object;
}

struct ideal *ideal_create(size_t size)
{
	const struct slab_request request = {
		.name = "ideal", .object_size = (uint32_t)size, .align = sizeof(void *)};
	struct ideal *ideal = calloc(1, sizeof(*ideal));

	if (!ideal || !caches_ready() || !slab_cache_init(&ideal->slab, &request))
		return NULL;
	return ideal;
}

/* Free what this CPU retired and is due. */
static void reclaim(struct ideal *ideal, unsigned int cpu)
{
	struct row *retired = &ideal->retired[cpu];

	while (size_of(retired) && entry_at(retired, retired->first)->due <= os_now())
		push(&ideal->free[cpu], entry_at(retired, retired->first++)->object, 0);
}

/* The nearest CPU that has free objects; of several, the one with most. MACHINE_CPUS: none. */
static unsigned int find_rich(const struct ideal *ideal, unsigned int cpu)
{
	enum machine_cost nearest = MACHINE_own;
	unsigned int found = MACHINE_CPUS;

	for (unsigned int other = 0; other < task_machine->nr_cpus; other++) {
		enum machine_cost at = machine_distance(task_machine, other, cpu);

		if (other == cpu || !size_of(&ideal->free[other]))
			continue;
		if (found == MACHINE_CPUS || at < nearest ||
		    (at == nearest &&
		     size_of(&ideal->free[other]) > size_of(&ideal->free[found]))) {
			found = other;
			nearest = at;
		}
	}
	return found;
}

static void take_half(struct ideal *ideal, unsigned int from, unsigned int to)
{
	struct row *rich = &ideal->free[from];

	for (size_t n = (size_of(rich) + 1) / 2; n; n--)
		push(&ideal->free[to], entry_at(rich, rich->first++)->object, 0);
}

static bool take_new(struct ideal *ideal, unsigned int cpu)
{
	struct slab *slab = page_alloc(os.node_of_row[cpu], ideal->slab.oo.order);

	if (!slab)
		return false;
	page_own(slab, ideal->slab.oo.order, &ideal->slab);
	for (unsigned int i = ideal->slab.oo.objects; i; i--)
		push(&ideal->free[cpu], slab_object(&ideal->slab, slab, i - 1), 0);
	return true;
}

void *ideal_alloc(struct ideal *ideal)
{
	unsigned int cpu = os_cpu(), rich;

	kernel_work();
	reclaim(ideal, cpu);
	if (!size_of(&ideal->free[cpu])) {
		rich = find_rich(ideal, cpu);
		if (rich < MACHINE_CPUS)
			take_half(ideal, rich, cpu);
		else if (!take_new(ideal, cpu))
			return NULL;
	}
	return pop(&ideal->free[cpu]);
}

void ideal_free(struct ideal *ideal, void *object)
{
	kernel_work();
	push(&ideal->free[os_cpu()], object, 0);
}

void ideal_retire(struct ideal *ideal, void *object)
{
	kernel_work();
	push(&ideal->retired[os_cpu()], object, periods_end());
}
