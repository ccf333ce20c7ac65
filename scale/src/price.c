/* SPDX-License-Identifier: MIT */
/* See price.h. */
#include "scale/src/price.h"

#include <string.h>

#include "scale/src/homes.h"
#include "scale/src/kinds.h"
#include "scale/src/lines.h"
#include "scale/src/task.h"
#include "sim/state.h"

#define LINES_OF_PAGE_SHIFT (HOMES_PAGE_SHIFT - LINES_SHIFT)
#define BY_ADDRESS	    TALLY_NR_KINDS /* the kind of a line, by its address */
#define RECENT		    4096	   /* pages whose numbers are cached */

struct access {
	uintptr_t address, line, value; /* value: what a pointer's size of bytes has, or 0 */
	enum price_access how;
	enum tally_kind kind;
	const void *pc;
};

static const struct machine *machine;
static struct lines *lines;
static struct homes *homes;
static uint64_t pages; /* that the library has touched and not returned */
static struct {
	uintptr_t page;
	uint32_t number;
} recent[RECENT];

void price_start(const struct machine *m)
{
	machine = m;
	lines = lines_new(m);
	homes = homes_new();
	if (!lines || !homes)
		sim_fail("no memory");
}

/* The number of the line, by the number of its page. */
static uintptr_t line_of(uintptr_t address)
{
	uintptr_t page = address >> HOMES_PAGE_SHIFT, place = page % RECENT;
	uintptr_t in_page = address >> LINES_SHIFT & ((1u << LINES_OF_PAGE_SHIFT) - 1);

	if (recent[place].page != page) {
		recent[place].page = page;
		recent[place].number = homes_number(homes, page);
	}
	return (uintptr_t)recent[place].number << LINES_OF_PAGE_SHIFT | in_page;
}

static bool writes(const struct access *a)
{
	return a->how == PRICE_WRITE || a->how == PRICE_CHANGE || a->how == PRICE_PREFETCH_WRITE;
}

static bool is_prefetch(const struct access *a)
{
	return a->how == PRICE_PREFETCH || a->how == PRICE_PREFETCH_WRITE;
}

static bool moved(enum machine_cost from)
{
	return from >= MACHINE_same_core && from <= MACHINE_other_socket;
}

/* The program writes an object only on the CPU that allocated it; others read it. So a line that
 * moves for a write returns from the CPU that freed the object: the allocator caused that. */
static void note(const struct task *task, const struct access *a, enum machine_cost from)
{
	enum tally_kind kind = a->kind == BY_ADDRESS ? kind_of(a->address) : a->kind;
	struct tally *tally = tally_at(task->clock);
	enum tally_side side = task->side;

	if (side == TALLY_PROGRAM && kind == TALLY_object && writes(a)) {
		kind = TALLY_back;
		side = TALLY_ALLOCATOR;
	}
	tally->from[side][from]++;
	if (!moved(from))
		return;
	tally->moved[side][kind]++;
	tally_heat((uintptr_t)a->pc, 1, 0);
}

/* The node of the page. A first touch is a page fault, which costs nothing before tasks run. */
static unsigned int find_home(unsigned int cpu, uintptr_t address, bool *first)
{
	unsigned int node = machine->memory_node[machine->node_of[cpu]];
	unsigned int home = homes_touch(homes, address >> HOMES_PAGE_SHIFT, node, first);

	pages += *first && sim_reserved(address);
	return home;
}

/* Request a line that the CPU does not have, when it is this task's turn and the address is known.
 * Returns when it arrives. */
static uint64_t ask(struct task *task, const struct access *a)
{
	unsigned int home;
	uint64_t from;
	bool first;
	struct lines_move move;

	task->clock = ahead_room(&task->ahead, task->clock, machine->misses);
	task_pass();
	home = find_home(task->cpu, a->address, &first);
	if (first)
		task->clock += machine->cost[MACHINE_fault];
	if (first && tally_at(task->clock)->pages_most < pages)
		tally_at(task->clock)->pages_most = pages;
	if (lines_has(lines, task->cpu, a->line, writes(a)))
		return task->clock;
	from = ahead_known(&task->ahead, a->address, task->clock);
	move = lines_get(lines, task->cpu, a->line, writes(a), from, home);
	note(task, a, move.from);
	ahead_asked(&task->ahead, a->line, move.done);
	return move.done;
}

static void touch(struct task *task, const struct access *a)
{
	uint64_t arrives, before = task->clock;

	task->clock = ahead_limit(&task->ahead, task->clock, machine->cost[MACHINE_ahead]);
	if (task->clock > task->until)
		task_pass();
	if (lines_has(lines, task->cpu, a->line, writes(a)))
		arrives = ahead_known(&task->ahead, a->address,
				      ahead_arrival(&task->ahead, a->line, task->clock));
	else
		arrives = ask(task, a);
	if (task->clock > before)
		tally_heat((uintptr_t)a->pc, 0, task->clock - before);
	if (sim.current->section)
		task_work_in_section(task, writes(a));
	else
		task_work(task, MACHINE_own);
	before = task->clock;
	if (a->how == PRICE_READ)
		ahead_loaded(&task->ahead, a->value, task->clock, arrives);
	else if ((a->how == PRICE_LOOK || a->how == PRICE_CHANGE) && arrives > task->clock)
		task->clock = arrives;
	if (a->how == PRICE_CHANGE) {
		/* It waits and does not work, so the core's other thread does not slow it down. */
		task_spend(MACHINE_atomic);
		ahead_loaded(&task->ahead, 0, task->clock, ahead_all(&task->ahead, task->clock));
	}
	if (task->clock > before)
		tally_heat((uintptr_t)a->pc, 0, task->clock - before);
}

/* What the program is about to read, if it may be a pointer. */
static uintptr_t value_of(const volatile void *at, size_t size, enum price_access how)
{
	uintptr_t value = 0;

	if (size == sizeof(value) && how == PRICE_READ)
		memcpy(&value, (const void *)at, sizeof(value));
	return value;
}

void price_access(const volatile void *at, size_t size, enum price_access how, const void *pc)
{
	struct access a = {.address = (uintptr_t)at, .how = how, .kind = BY_ADDRESS, .pc = pc};
	uintptr_t last = a.address + size - 1;
	struct task *task = task_now();
	bool first;

	/* Elsewhere, such as on a stack, addresses differ from run to run. */
	if (!task && sim_reserved(a.address))
		find_home(sim.outside.cpu, a.address, &first);
	if (!task || !size)
		return;
	/* It causes no page fault. */
	if (is_prefetch(&a) && !homes_is_touched(homes, a.address >> HOMES_PAGE_SHIFT))
		return;
	a.value = value_of(at, size, how);
	for (; a.address >> LINES_SHIFT <= last >> LINES_SHIFT; a.address += 1u << LINES_SHIFT) {
		a.line = line_of(a.address);
		touch(task, &a);
	}
}

void price_lock(const void *lock, enum price_access how, const void *pc)
{
	struct access a = {.address = (uintptr_t)lock,
			   .line = line_of((uintptr_t)lock),
			   .how = how,
			   .kind = TALLY_lock,
			   .pc = pc};
	struct task *task = task_now();

	if (!task)
		return;
	touch(task, &a);
	/* A lock is seen as free in the order of time, wherever its line is. */
	task_pass();
}

void price_discard(void *address, size_t size)
{
	uintptr_t first = (uintptr_t)address >> HOMES_PAGE_SHIFT, n = size >> HOMES_PAGE_SHIFT;

	pages -= homes_discard(homes, first, n);
	for (uintptr_t page = first; page < first + n; page++)
		if (recent[page % RECENT].page == page)
			recent[page % RECENT].page = 0;
}

uint64_t price_pages(void)
{
	return pages;
}
