/* SPDX-License-Identifier: MIT */
/*
 * The maple tree under every short schedule: one writer and a reader, then several readers at random.
 *
 * A case is a tree, a store of a known type and a reader. It is run under all schedules with up to so
 * many preemptions that their number is within the budget (readers change nothing that others look at,
 * so two fibres are enough for this), each time from the same nodes. Then seeds: three readers, and
 * eight stores one after the other. What readers may see: maple_readers.h; what is freed: maple_nodes.h.
 *
 * Planted bugs (enum plant), each of which must be found by the same schedules, or the test fails:
 * replaced nodes not marked dead; nodes freed without a grace period; freed before the successor is
 * published; published before they are filled; pivots stored last and in the wrong order by an append
 * or a slot store. That a change in place is counted in meta is not among them: who goes on from a slot
 * looks at its borders, too.
 *
 *     sim-maple [--budget SCHEDULES] [--seeds N]
 */
#include "maple_readers.h"

#include <stdio.h>
#include <string.h>

#include "../../maple/tree.h"
#include "maple_nodes.h"
#include "sim/sim.h"

enum {
	MOST_SWITCHES = 8,
	TYPES = wr_spanning_store + 1,
	STORES_OF_TYPE = 2, /* for each tree */
	TRIES = 600,
	READERS = 3
};

struct store_call {
	unsigned int first, last; /* cells */
	void *entry;
};

static struct maple_tree tree;
static unsigned long budget = 400, seeds = 400, schedules, cases;
static unsigned int met[TYPES]; /* stores of each type */

static void *entry_of(unsigned long n)
{
	return (void *)(0x10000 + 16 * n);
}

/* --- a schedule ------------------------------------------------------------------------------ */

/* `first` takes run[0] steps, the other one run[1], and so on; after n of them nobody is put aside. */
static struct schedule {
	unsigned int first, n, run[MOST_SWITCHES];
} schedule;
static unsigned int running, switches, steps; /* steps of the last run while both were there */
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

static struct store_call stores[MOST_STORES];
static unsigned int nr_stores;
static struct reader reader;

static enum store_type store(const struct store_call *call)
{
	const struct model *m = &history.content[0];
	MA_STATE(mas, &tree, cell_min(m, call->first), cell_max(m, call->last));

	mtree_lock(&tree);
	if (mas_store_gfp(&mas, call->entry, GFP_KERNEL))
		sim_fail("a store fails");
	store_ends();
	mtree_unlock(&tree);
	return mas.store_type;
}

static void write_all(void)
{
	for (unsigned int i = 0; i < nr_stores; i++) {
		history.begun = i + 1;
		store(&stores[i]);
		history.done = i + 1;
	}
}

static void fibre_of_case(unsigned int fibre, void *unused)
{
	(void)unused;
	fibre_begins(fibre);
	if (fibre == WRITER)
		write_all();
	else
		reader_run(&tree, &reader);
}

static void restart(void)
{
	nodes_restore(&tree);
	history.begun = history.done = 0;
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

/* The most preemptions that the budget allows, if the fibres take so many steps. */
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

/* This schedule, and each that puts its last run aside somewhere. */
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

/* --- trees and stores ------------------------------------------------------------------------ */

static const struct shape {
	unsigned int ranges, width, gap; /* 1 ... width, 0 ... gap wide */
	bool ascending;
} shapes[] = {
	{0, 1, 0, true},   {1, 3, 3, true},   {5, 4, 3, true},
	{16, 3, 0, true},  {20, 3, 2, true},  {60, 3, 2, true},
	{190, 2, 1, true}, {60, 4, 0, false}, {300, 2, 0, false},
};

static void change(struct model *m, const struct store_call *call)
{
	model_store(m, call->first, call->last, call->entry);
}

static void make_tree(const struct shape *shape, unsigned int flags)
{
	struct model *m = &history.content[0];
	unsigned int at = 0;

	nodes_begin();
	mt_init_flags(&tree, flags);
	for (unsigned int i = 0; i <= MOST_STORES; i++) {
		free(history.content[i].cells);
		model_init(&history.content[i], CELLS, 1);
	}
	for (unsigned int i = 0; i < shape->ranges; i++) {
		unsigned int first = shape->ascending ? at + sim_below(shape->gap + 1)
						      : sim_below(CELLS - shape->width);
		struct store_call call = {first, first + sim_below(shape->width), entry_of(i)};

		if (call.last >= CELLS - 1)
			break;
		at = call.last + 1;
		store(&call);
		change(m, &call);
	}
	mt_set_in_rcu(&tree);
	nodes_save(&tree);
}

static unsigned int least(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

static struct store_call propose(const struct model *m, unsigned long number)
{
	unsigned int kind = sim_below(9), c = sim_below(CELLS), last = model_last(m, c);
	struct store_call call = {c, least(c + sim_below(4), CELLS - 1), entry_of(1000 + number)};

	if (kind < 3) { /* a whole range: replaced, erased, or longer */
		call.first = model_first(m, c);
		call.last = kind == 2 ? least(last + 1 + sim_below(2), CELLS - 1) : last;
		if (kind == 2)
			call.entry = m->cells[c].entry;
	} else if (kind == 3) { /* in what is free after a range */
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
	return call;
}

static void check_tree(const struct model *m)
{
	if (mt_validate(&tree))
		sim_fail("the tree has faults");
	for (unsigned int c = 0; c < CELLS; c++)
		if (mtree_load(&tree, cell_max(m, c)) != m->cells[c].entry)
			sim_fail("the tree has another entry than the model at %u", c);
}

/* Without readers: it does what it should, and no node is lost. */
static enum store_type try_store(const struct store_call *call)
{
	enum store_type type;

	restart();
	history.content[1].stores = history.content[0].stores;
	memcpy(history.content[1].cells, history.content[0].cells, CELLS * sizeof(struct cell));
	change(&history.content[1], call);
	nodes_learn(false);
	type = store(call);
	nodes_learned();
	check_tree(&history.content[1]);
	mtree_destroy(&tree);
	if (nodes_left())
		sim_fail("%u nodes are lost", nodes_left());
	return type;
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
	for (reader.reading = READ_FIND; reader.reading < NR_READINGS; reader.reading++) {
		reader.at = before > 5 ? before - 5 : 0;
		reader.limit = cell_max(m, least(call->last + 6, CELLS - 1));
		explore_case();
	}
}

/* So many stores of each type that come by chance. */
static void explore_tree(const struct shape *shape, unsigned int flags)
{
	unsigned int here[TYPES] = {0};

	make_tree(shape, flags);
	nr_stores = 1;
	for (unsigned long i = 0; i < TRIES; i++) {
		enum store_type type;

		stores[0] = propose(&history.content[0], i);
		type = try_store(&stores[0]);
		if (type == wr_none || here[type] == STORES_OF_TYPE)
			continue;
		here[type]++;
		met[type]++;
		read_around(&stores[0]);
	}
}

static const struct sim_config decided = {.seed = 1, .cpus = 1, .decide = decide, .max_steps = -1};

static int explore_all(void *unused)
{
	struct sim_config config = decided;

	(void)unused;
	sim_start(&config);
	for (unsigned int i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		for (unsigned int flags = 0; flags <= MT_FLAGS_ALLOC_RANGE; flags++)
			explore_tree(&shapes[i], flags);
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
	const struct shape *shape = &shapes[seed % (sizeof(shapes) / sizeof(shapes[0]))];

	config.switching = SIM_ALWAYS / (1u << (1 + seed / 7 % 6));
	config.stall = seed % 5 ? 0 : SIM_ALWAYS / 64;
	config.stall_steps = 200;
	sim_start(&config);
	make_tree(shape, seed / 3 % 2 ? MT_FLAGS_ALLOC_RANGE : 0);
	nr_stores = MOST_STORES;
	for (unsigned int i = 0; i < nr_stores; i++) {
		struct model *m = &history.content[i + 1], *before = m - 1;

		m->stores = before->stores;
		memcpy(m->cells, before->cells, CELLS * sizeof(struct cell));
		stores[i] = propose(before, i);
		change(m, &stores[i]);
	}
	restart();
	nodes_learn(true);
	sim_run(1 + READERS, fibre_of_seed, NULL);
	fibre_begins(WRITER);
	check_tree(&history.content[nr_stores]);
	mtree_destroy(&tree);
	if (nodes_left())
		sim_fail("%u nodes are lost", nodes_left());
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
		*(strcmp(argv[i], "--seeds") ? &budget : &seeds) = strtoul(argv[i + 1], NULL, 0);
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
