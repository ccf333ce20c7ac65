/* SPDX-License-Identifier: MIT */
/*
 * The maple tree under every short schedule: one writer and a reader, then several readers at
 * random.
 *
 * A case is a tree, a store of a known type and a reader. It runs under all schedules with as many
 * preemptions as the budget allows, each time from the same nodes. Readers change nothing that
 * others read, so two fibres are enough. Stores are random, except stores in place, which cover
 * every border of some trees, appends, which cover leaves of every size, splits of leaves that are
 * cut, and stores where a reader goes from one node above the leaves to the next. Some cases have
 * two stores: a range is erased, and its indices are used with other borders. In some trees erases
 * were refused nodes, so that leaves have no entry, and more are. Then random schedules of three
 * readers and eight stores. maple_readers.h says what readers may see, maple_nodes.h which
 * nodes may be freed.
 *
 * The same schedules must find each planted bug (enum plant), or the test fails: replaced nodes are
 * not marked dead; nodes are freed without a grace period, or before their successor is published;
 * nodes are published before they are filled; an append or a slot store stores pivots last, in the
 * wrong order; a leaf that is cut gets no marks, or its slots move without META_MOVING. A change in
 * place that is not counted in meta is not planted: no test could find it, because a reader that
 * continues from a slot also checks the slot's borders.
 *
 *     sim-maple [--budget SCHEDULES] [--stores OF-EACH-TYPE-FOR-A-TREE] [--seeds N]
 */
#include "maple_trees.h"

#include <stdio.h>
#include <string.h>

#include "../../src/tree.h"
#include "maple_nodes.h"
#include "sim/sim.h"

enum {
	MOST_SWITCHES = 8,
	TYPES = wr_spanning_store + 1,
	TRIES = 600,
	READERS = 3,
	/* The minimum: a reader must run in the middle of a store of many words. */
	INSERT_BUDGET = 2400,
	NODE_STORES = 6 /* at each border between nodes */
};

static unsigned long budget = 60, stores_of_type = 1, seeds = 100, schedules, cases;
static unsigned int met[TYPES]; /* stores of each type */

/* --- a schedule ------------------------------------------------------------------------------ */

/* `first` takes run[0] steps, the other one run[1], and so on; after n runs no fibre is preempted.
 */
static struct schedule {
	unsigned int first, n, run[MOST_SWITCHES];
} schedule;
static unsigned int running, switches, steps; /* steps of the last run while both fibres ran */
static bool begun, alone;

static unsigned int decide(unsigned int fibre)
{
	if (fibre == SIM_NOBODY) {
		alone = begun;
		running = begun ? !running : schedule.first;
		begun = true;
	} else if (!alone && switches < schedule.n && steps == schedule.run[switches]) {
		switches++;
		steps = 0;
		running = !fibre;
	} else if (!alone && ++steps > 1000000) {
		sim_fail("fibre %u comes to no end", fibre);
	}
	return running;
}

/* --- the fibres ------------------------------------------------------------------------------ */

static struct reader reader;

static void fibre_of_case(unsigned int fibre, void *unused)
{
	(void)unused;
	fibre_begins(fibre);
	if (fibre == WRITER)
		write_all();
	else
		reader_run(&tree, &reader);
}

static void run_schedule(void)
{
	restart();
	switches = steps = 0;
	begun = alone = false;
	sim_run(2, fibre_of_case, NULL);
	if (switches != schedule.n)
		sim_fail("a schedule cannot be repeated");
	schedules++;
}

/* --- all schedules --------------------------------------------------------------------------- */

static double choose(double n, unsigned int k)
{
	double result = 1;

	for (unsigned int i = 0; i < k; i++)
		result = result * (n - i) / (i + 1);
	return result > 0 ? result : 0;
}

/* The largest number of preemptions that the budget allows, if the fibres take this many steps. */
static unsigned int most_switches(unsigned int reads, unsigned int writes)
{
	double sum = 2;
	unsigned int n;

	for (n = 1; n < MOST_SWITCHES; n++) {
		sum += choose(reads, (n + 1) / 2) * choose(writes, n / 2) +
		       choose(writes, (n + 1) / 2) * choose(reads, n / 2);
		if (sum > (double)budget)
			break;
	}
	return n > 1 ? n - 1 : 1;
}

/* Run this schedule, and all schedules that preempt its last run. */
static void explore(unsigned int most)
{
	unsigned int length, n = schedule.n;

	run_schedule();
	length = steps;
	for (unsigned int i = n == 0; n < most && i < length; i++) {
		schedule.run[n] = i;
		schedule.n = n + 1;
		explore(most);
	}
	schedule.n = n;
}

static unsigned long bounds[MOST_SWITCHES];

static void explore_case(void)
{
	unsigned int length[2], most;

	for (schedule.first = 0; schedule.first < 2; schedule.first++) {
		schedule.n = 0;
		run_schedule();
		length[schedule.first] = steps;
	}
	most = most_switches(length[!WRITER], length[WRITER]);
	for (schedule.first = 0; schedule.first < 2; schedule.first++)
		explore(most);
	bounds[most]++;
	cases++;
}

static void read_around(const struct store_call *call)
{
	const struct model *m = &history.content[0];
	unsigned int before = call->first ? call->first - 1 : 0;
	const unsigned int cells[] = {before, call->first, call->last,
				      least(call->last + 1, CELLS - 1)};

	for (unsigned int i = 0; i < 4; i++)
		for (reader.reading = READ_LOAD; reader.reading <= READ_WALK; reader.reading++) {
			reader.at = cell_min(m, cells[i]);
			explore_case();
		}
	/* Readers that start before the stored range, that start inside it, and that end with
	 * it. */
	for (reader.reading = READ_FIND; reader.reading < NR_READINGS; reader.reading++) {
		reader.at = before > 5 ? before - 5 : 0;
		reader.limit = cell_max(m, least(call->last + 6, CELLS - 1));
		explore_case();
		reader.at = call->first;
		explore_case();
		reader.at = before > 5 ? before - 5 : 0;
		reader.limit = cell_max(m, call->last);
		explore_case();
	}
}

/* This many random stores of each type. */
static void explore_tree(unsigned int shape, unsigned int flags)
{
	unsigned int here[TYPES] = {0};

	make_tree(shape, flags);
	nr_stores = 1;
	for (unsigned long i = 0; i < TRIES; i++) {
		enum store_type type;

		stores[0] = propose(&history.content[0], i);
		type = try_stores();
		if (type == wr_none || here[type] == stores_of_type)
			continue;
		here[type]++;
		met[type]++;
		read_around(&stores[0]);
	}
}

/* --- known stores ---------------------------------------------------------------------------- */

static void read_known(enum store_type type, unsigned int at, unsigned int limit)
{
	const struct model *m = &history.content[0];

	if (try_stores() != type)
		return;
	met[type]++;
	for (reader.reading = READ_LOAD; reader.reading < NR_READINGS; reader.reading++) {
		reader.at = cell_min(m, at);
		reader.limit = cell_max(m, limit);
		explore_case();
	}
}

/* Each border between two ranges moves while a reader is at one of them, also at a leaf's end. */
static void explore_borders(unsigned int shape)
{
	const struct model *m = &history.content[0];
	unsigned int second;

	make_tree(shape, 0);
	nr_stores = 1;
	for (unsigned int c = 0; c < CELLS - 1; c = second) {
		unsigned int last;

		second = model_last(m, c) + 1;
		if (second >= CELLS - 1)
			break;
		last = model_last(m, second);
		if (!m->cells[c].entry || !m->cells[second].entry)
			continue;
		stores[0] = a_store(second - 1, last, m->cells[second].entry);
		read_known(wr_slot_store, c, least(last + 2, CELLS - 1));
		stores[0] = a_store(c, second, m->cells[c].entry);
		read_known(wr_slot_store, c, least(last + 2, CELLS - 1));
	}
}

/* An append to a leaf with this many slots, before and after the index that a reader is at. */
static void explore_appends(void)
{
	for (unsigned int ranges = 1; ranges < 16; ranges++) {
		make_dense(ranges);
		nr_stores = 1;
		stores[0] = a_store(ranges + 4, ranges + 6, (void *)0x20000);
		for (unsigned int at = ranges + 3; at < ranges + 9; at++)
			read_known(wr_append, at, CELLS - 1);
	}
}

/* A part of each range or gap is stored to, so that slots behind it move, while a reader is at one
 * of them. */
static void explore_inserts(unsigned int shape)
{
	const struct model *m = &history.content[0];

	make_tree(shape, 0);
	nr_stores = 1;
	for (unsigned int c = 0, last; c < CELLS - 8; c = last + 1) {
		last = model_last(m, c);
		if (c == last)
			continue;
		for (unsigned int kind = 0; kind < 3; kind++) {
			unsigned int from = kind == 1 ? c : c + 1, to = kind == 0 ? last : from;

			stores[0] = a_store(from, to, sim_below(4) ? (void *)0x20000 : NULL);
			for (unsigned int at = c; at <= last + 1; at++)
				read_known(wr_insert, at, least(last + 6, CELLS - 1));
		}
	}
}

/*
 * A range is erased, and then its indices are stored to with other borders: a reader may have read
 * the entry before it was erased, and read its borders after they moved.
 */
static void explore_runs(unsigned int shape)
{
	const struct model *m = &history.content[0];

	make_tree(shape, 0);
	nr_stores = 2;
	for (unsigned int c = 0, last; c < CELLS - 4; c = last + 1) {
		last = model_last(m, c);
		if (!m->cells[c].entry || !c || c == last)
			continue;
		stores[0] = a_store(c, last, NULL);
		for (unsigned int from = c - 1; from <= last; from++) {
			stores[1] = a_store(from, least(from + 1, last + 1), (void *)0x20000);
			for (unsigned int at = c - 1; at <= last; at++)
				read_known(wr_run_store, at, least(last + 2, CELLS - 1));
		}
		stores[1] = a_store(model_first(m, c - 1), c, m->cells[c - 1].entry);
		read_known(wr_slot_store, c, least(last + 2, CELLS - 1));
		read_known(wr_slot_store, last, least(last + 2, CELLS - 1));
	}
}

/*
 * A range is erased without nodes, and then its indices are stored to, without nodes or with them:
 * a reader may be in a leaf that has no entry any more, or gets one again, or is joined.
 */
static void explore_erases(unsigned int shape)
{
	const struct model *m = &history.content[0];

	make_tree(shape, shape % 2 ? MT_FLAGS_ALLOC_RANGE : 0);
	for (unsigned int c = 0, last; c < CELLS - 4; c = last + 1) {
		last = model_last(m, c);
		if (!m->cells[c].entry)
			continue;
		stores[0] = (struct store_call){c, last, NULL, true};
		nr_stores = 1;
		read_known(wr_exact_fit, c, least(last + 20, CELLS - 1));
		stores[1] = (struct store_call){c, last, (void *)0x20000, sim_below(2)};
		if (sim_below(2))
			stores[1] = a_store(c, c + 1, (void *)0x20000);
		nr_stores = 2;
		for (unsigned int type = wr_exact_fit; type < TYPES; type++)
			read_known(type, c - least(c, 10), least(last + 20, CELLS - 1));
	}
}

/* Erase and store in full leaves, which are cut, also at indices that the new leaf gets. */
static void explore_cuts(unsigned int shape)
{
	const struct model *m = &history.content[0];

	make_tree(shape, MT_FLAGS_ALLOC_RANGE);
	nr_stores = 1;
	for (unsigned int c = 0, last; c < CELLS - 20; c = last + 1) {
		unsigned int at = sim_below(2) ? c : c + 1;

		last = model_last(m, c);
		if (c == last || sim_below(2))
			continue;
		stores[0] = a_store(at, at, (void *)0x20000);
		read_known(wr_split_store, at - least(at, sim_below(9)),
			   least(at + sim_below(12), CELLS - 1));
		read_known(wr_split_store, at + sim_below(12), least(at + 20, CELLS - 1));
	}
}

/* The first cell of the next node above the leaves, after the one with this cell; CELLS: there is
 * none. */
static unsigned int next_node(unsigned int cell)
{
	const struct model *m = &history.content[0];
	MA_STATE(mas, &tree, cell_min(m, cell), cell_min(m, cell));

	restart();
	mas_walk(&mas);
	return mas.parent && mas.parent_max < cell_min(m, CELLS - 1)
		       ? cell_of(m, mas.parent_max) + 1
		       : CELLS;
}

/* Stores into the first and the last leaves of nodes, while a reader goes from one node to the next
 * or back. */
static void explore_nodes(unsigned int shape)
{
	const struct model *m = &history.content[0];

	make_tree(shape, MT_FLAGS_ALLOC_RANGE);
	nr_stores = 1;
	for (unsigned int c = next_node(0); c < CELLS - 16; c = next_node(c)) {
		for (unsigned int i = 0; i < NODE_STORES; i++) {
			unsigned int at = c - least(c, 8) + sim_below(16);
			enum store_type type;

			stores[0] = a_store(at, at + sim_below(2), (void *)0x20000);
			type = try_stores();
			if (type == wr_none)
				continue;
			met[type]++;
			reader.at = cell_min(m, c - least(c, 9));
			reader.limit = cell_max(m, c + 9);
			for (reader.reading = READ_FIND; reader.reading <= READ_FIND_RANGE_REV;
			     reader.reading++)
				explore_case();
		}
	}
}

static const struct sim_config decided = {.seed = 1, .cpus = 1, .decide = decide, .max_steps = -1};

static int explore_all(void *unused)
{
	struct sim_config config = decided;
	unsigned long usual = budget;

	(void)unused;
	sim_start(&config);
	for (unsigned int i = 0; i < NR_SHAPES; i++)
		for (unsigned int flags = 0; flags <= MT_FLAGS_ALLOC_RANGE; flags++)
			explore_tree(i, flags);
	for (unsigned int i = 2; i < 6; i++)
		explore_borders(i);
	explore_appends();
	for (unsigned int i = REFUSED_SHAPE; i < NR_SHAPES; i++)
		explore_erases(i);
	explore_runs(REFUSED_SHAPE - 2);
	budget = usual > INSERT_BUDGET ? usual : INSERT_BUDGET;
	for (unsigned int i = 1; i < 3; i++)
		explore_inserts(i);
	for (unsigned int i = 5; i < REFUSED_SHAPE - 2; i++)
		explore_cuts(i);
	for (unsigned int i = 6; i < 10; i++)
		explore_nodes(i);
	budget = usual;
	for (unsigned int type = wr_new_root; type < TYPES; type++)
		if (!met[type] && !planted)
			sim_fail("no store of type %u was met", type);
	return 0;
}

/* --- random schedules ------------------------------------------------------------------------ */

static void fibre_of_seed(unsigned int fibre, void *unused)
{
	(void)unused;
	fibre_begins(fibre);
	if (fibre == WRITER)
		write_all();
	for (unsigned int i = 0; fibre != WRITER && i < 6; i++) {
		const struct store_call *call = &stores[sim_below(nr_stores)];
		unsigned int c = sim_below(2) ? call->first : call->last;
		struct reader of = {sim_below(NR_READINGS), c, least(c + 20, CELLS - 2)};

		reader_run(&tree, &of);
		fibre_begins(fibre);
	}
}

static void run_seed(uint64_t seed)
{
	struct sim_config config = {.seed = seed, .cpus = 4, .max_steps = sim_steps() + (1 << 22)};

	config.switching = SIM_ALWAYS / (1u << (1 + seed / 7 % 6));
	config.stall = seed % 5 ? 0 : SIM_ALWAYS / 64;
	config.stall_steps = 200;
	sim_start(&config);
	make_tree(seed % NR_SHAPES, seed / 3 % 2 ? MT_FLAGS_ALLOC_RANGE : 0);
	nr_stores = MOST_STORES;
	for (unsigned int i = 0; i < nr_stores; i++) {
		stores[i] = propose(&history.content[i], i);
		change_content(i, &stores[i]);
	}
	restart();
	nodes_learn(true);
	sim_run(1 + READERS, fibre_of_seed, NULL);
	fibre_begins(WRITER);
	end_tree(&history.content[nr_stores]);
}

/* --- all ------------------------------------------------------------------------------------- */

static int run_planted(void *plant)
{
	planted = *(enum plant *)plant;
	if (!freopen("/dev/null", "w", stderr))
		return 2;
	return explore_all(NULL);
}

static int find_planted(void)
{
	int missed = 0;

	for (enum plant plant = 1; plant < NR_PLANTS; plant++) {
		uint64_t hash;

		if (sim_in_child(run_planted, &plant, &hash) == -1)
			continue;
		fprintf(stderr, "the planted bug %u is not found\n", plant);
		missed++;
	}
	return missed;
}

int main(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2)
		*(!strcmp(argv[i], "--seeds")	 ? &seeds
		  : !strcmp(argv[i], "--stores") ? &stores_of_type
						 : &budget) = strtoul(argv[i + 1], NULL, 0);
	explore_all(NULL);
	printf("%lu cases, %lu schedules; cases by preemptions:", cases, schedules);
	for (unsigned int i = 1; i < MOST_SWITCHES; i++)
		printf(" %u: %lu%s", i, bounds[i], i < MOST_SWITCHES - 1 ? "," : "\n");
	fflush(stdout); /* before children have a copy of it */
	for (unsigned long seed = 1; seed <= seeds; seed++)
		run_seed(seed);
	if (find_planted())
		return 1;
	printf("%lu seeds, all planted bugs found\n", seeds);
	return 0;
}
