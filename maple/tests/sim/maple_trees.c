/* SPDX-License-Identifier: MIT */
/* Trees and stores for the simulator; see maple_trees.h. */
#include "maple_trees.h"

#include <string.h>

#include "maple_nodes.h"
#include "sim/sim.h"

struct maple_tree tree;
struct store_call stores[MOST_STORES];
unsigned int nr_stores;

static const struct shape {
	unsigned int ranges, width, gap; /* widths are 1 ... width and 0 ... gap */
	bool ascending;
	/* In how many is one erased again: free slots become neighbours. From REFUSED_SHAPE on, all
	 * others are erased, without nodes. */
	unsigned int erased;
	bool rcu; /* stored beside readers: some leaves were cut */
} shapes[NR_SHAPES] = {
	{0, 1, 0, true, 0, false},   {1, 3, 3, true, 0, false},	  {5, 4, 3, true, 0, false},
	{16, 3, 0, true, 0, false},  {20, 3, 2, true, 0, false},  {60, 3, 2, true, 0, false},
	{190, 2, 1, true, 0, false}, {60, 4, 0, false, 0, false}, {300, 2, 0, false, 0, false},
	{100, 2, 0, false, 6, true}, {60, 3, 1, true, 0, true},	  {24, 3, 2, true, 2, false},
	{60, 3, 1, true, 3, false},  {90, 3, 1, true, 5, false},  {100, 2, 0, false, 4, true},
	{90, 3, 1, true, 12, true},
};

static enum store_type store(const struct store_call *call)
{
	const struct model *m = &history.content[0];
	MA_STATE(mas, &tree, cell_min(m, call->first), cell_max(m, call->last));

	mtree_lock(&tree);
	nodes_refused = call->refused;
	if (mas_store_gfp(&mas, call->entry, GFP_KERNEL))
		sim_fail("a store fails");
	nodes_refused = false;
	store_ends();
	mtree_unlock(&tree);
	return mas.store_type;
}

void write_all(void)
{
	for (unsigned int i = 0; i < nr_stores; i++) {
		history.begun = i + 1;
		store(&stores[i]);
		history.done = i + 1;
	}
}

void restart(void)
{
	nodes_restore(&tree);
	history.begun = history.done = 0;
}

static void change(struct model *m, const struct store_call *call)
{
	model_store(m, call->first, call->last, call->entry);
}

static void make_empty(unsigned int flags)
{
	nodes_begin();
	mt_init_flags(&tree, flags);
	for (unsigned int i = 0; i <= MOST_STORES; i++) {
		free(history.content[i].cells);
		model_init(&history.content[i], CELLS, 1);
	}
}

static void *entry_of(unsigned int number)
{
	return (void *)(uintptr_t)(0x10000 + 16 * number);
}

void make_dense(unsigned int ranges)
{
	make_empty(0);
	for (unsigned int i = 0; i < ranges; i++) {
		struct store_call call = a_store(i, i, entry_of(i));

		store(&call);
		change(&history.content[0], &call);
	}
	mt_set_in_rcu(&tree);
	nodes_save(&tree);
}

void make_tree(unsigned int number, unsigned int flags)
{
	const struct shape *shape = &shapes[number];
	struct model *m = &history.content[0];
	unsigned int at = 0;

	make_empty(flags | (shape->rcu ? MT_FLAGS_USE_RCU : 0));
	for (unsigned int i = 0; i < shape->ranges; i++) {
		unsigned int first = shape->ascending ? at + sim_below(shape->gap + 1)
						      : sim_below(CELLS - shape->width);
		struct store_call call =
			a_store(first, first + sim_below(shape->width), entry_of(i));

		if (call.last >= CELLS - 1)
			break;
		at = call.last + 1;
		store(&call);
		change(m, &call);
	}
	for (unsigned int c = 0; shape->erased && c < CELLS; c = model_last(m, c) + 1) {
		struct store_call call = {c, model_last(m, c), NULL, number >= REFUSED_SHAPE};

		if (!m->cells[c].entry || !sim_below(shape->erased) == call.refused)
			continue;
		store(&call);
		change(m, &call);
	}
	mt_set_in_rcu(&tree);
	nodes_save(&tree);
}

struct store_call propose(const struct model *m, unsigned long number)
{
	unsigned int kind = sim_below(9), c = sim_below(CELLS), last = model_last(m, c);
	struct store_call call =
		a_store(c, least(c + sim_below(4), CELLS - 1), (void *)(0x20000 + 16 * number));

	if (kind < 3) { /* a whole range is replaced, erased or extended */
		call.first = model_first(m, c);
		call.last = kind == 2 ? least(last + 1 + sim_below(2), CELLS - 1) : last;
		if (kind == 2)
			call.entry = m->cells[c].entry;
	} else if (kind == 3) { /* in the gap after a range */
		c = least(last + 1 + sim_below(2), CELLS - 1);
		call.first = c;
		call.last = least(c + sim_below(2), CELLS - 1);
	} else if (kind < 6) {
		call.last = least(c + sim_below(kind == 4 ? 90 : 300), CELLS - 1);
	} else if (kind == 6) {
		call.first = 0;
		call.last = CELLS - 1;
	}
	if (kind == 1 || (kind > 3 && sim_below(3) == 0))
		call.entry = NULL;
	call.refused = kind == 1 && m->cells[c].entry && sim_below(2);
	return call;
}

void change_content(unsigned int n, const struct store_call *call)
{
	struct model *from = &history.content[n], *to = from + 1;

	to->stores = from->stores;
	memcpy(to->cells, from->cells, CELLS * sizeof(struct cell));
	change(to, call);
}

void end_tree(const struct model *m)
{
	if (mt_validate(&tree))
		sim_fail("the tree has faults");
	for (unsigned int c = 0; c < CELLS; c++)
		if (mtree_load(&tree, cell_max(m, c)) != m->cells[c].entry)
			sim_fail("the tree has another entry than the model at %u", c);
	mtree_destroy(&tree);
	if (nodes_left())
		sim_fail("%u nodes are lost", nodes_left());
}

enum store_type try_stores(void)
{
	enum store_type type = wr_none;

	restart();
	nodes_learn(false);
	for (unsigned int i = 0; i < nr_stores; i++) {
		change_content(i, &stores[i]);
		type = store(&stores[i]);
	}
	nodes_learned();
	end_tree(&history.content[nr_stores]);
	return type;
}
