/* SPDX-License-Identifier: MIT */
/*
 * Random operations of every kind, each compared with a plain model; the tree's invariants are
 * checked repeatedly. A list that fails is shrunk and printed as C calls. SEED repeats one seed,
 * STEPS sets a longer run. In every second kind of tree some operations are refused nodes: they
 * have their full effect or none, and those that erase one range have it.
 *
 * To test this test: with PLANT=1 the model loses the last cell of a store to more than six cells.
 * The test then passes if this is found, and shrunk to fewer than four operations.
 */
#include <inttypes.h>
#include <sheaf/stats.h>
#include <string.h>

#include "../../src/rules.h"
#include "kit/cache.h"
#include "kit/provider.h"
#include "kit/random.h"
#include "kit/refuse_nodes.h"
#include "searches.h"
#include "shrink.h"

/* The tree and the cells of a list of operations. */
struct kind {
	unsigned int flags, cells;
	unsigned long base, width;
	unsigned int every; /* number of operations between proofs of the invariants */
	bool tell, plant, refuse;
};

/* Every node is in a tree or free. */
static void set_up(struct run *r, const struct kind *kind)
{
	mt_init_flags(&r->tree, kind->flags | MT_FLAGS_LOCK_EXTERN);
	model_init(&r->model, kind->cells, kind->width);
	r->model.base = kind->base;
	r->tell = kind->tell;
	if (r->tell)
		fprintf(stderr,
			"\tstruct maple_tree mt = MTREE_INIT(mt, 0x%x), copy = MTREE_INIT(copy, "
			"0x%x);\n\tunsigned long at, next = 0;\n\tMA_STATE(mas, &mt, 0, 0);\n\n",
			r->tree.ma_flags, r->tree.ma_flags);
}

static void run_list(const struct op *ops, unsigned int n, void *data)
{
	const struct kind *kind = data;
	struct run run = {.next = 0}, *r = &run;

	set_up(r, kind);
	for (r->step = 0; r->step < n; r->step++) {
		const struct op *op = &ops[r->step];

		list_at(r->step);
		r->refuse = refuse_all = kind->refuse && op->refused;
		if (r->tell && r->refuse)
			fprintf(stderr, "\t/* without memory: */\n");
		op_do(r, op);
		refuse_all = false;
		if (kind->plant && op->kind == OP_STORE && op->b > op->a + 5)
			r->model.cells[op->b].entry = NULL;
		if (r->step % kind->every == 0)
			CHECK(mt_validate(&r->tree) == 0);
		if (r->step % (kind->every * 16) == 0)
			check_all(r);
	}
	check_all(r);
	mtree_destroy(&r->tree);
	CHECK(mtree_empty(&r->tree));
	CHECK(all_freed(node_cache()));
	free(r->model.cells);
}

/* The list fails: shrink it, and print it. */
static unsigned int tell_shortest(struct kind *kind, struct op *ops, unsigned int n, uint64_t seed)
{
	unsigned int at;

	kind->every = 1;
	n = list_shrink(run_list, ops, n, kind);
	fprintf(stderr,
		"seed %" PRIu64
		", flags 0x%x, %u cells of %lu from %lu on: these %u operations fail:\n",
		seed, kind->flags, kind->cells, kind->width, kind->base, n);
	kind->tell = true;
	list_fails(run_list, ops, n, kind, false, &at);
	return n;
}

/* Returns the number of operations until it fails, or 0. */
static unsigned int go(uint64_t seed, struct kind *kind, unsigned int steps)
{
	uint64_t random = seed * 2 + 1;
	struct op *ops = calloc(steps, sizeof(*ops));
	struct model m = {.n = kind->cells, .base = kind->base, .width = kind->width};
	struct taste taste = {1, 50, 0};
	unsigned int at, shortest = 0;

	for (unsigned int i = 0; i < 8; i++)
		random_next(&random);
	for (unsigned int i = 0; i < steps; i++) {
		if (i % 1024 == 0) {
			taste.fill = random_below(&random, 5) * 25;
			taste.refuse = random_below(&random, 4) * 33;
			taste.span = random_below(&random, 4) ? 1 + random_below(&random, 12)
							      : kind->cells;
		}
		op_make(&ops[i], &random, &m, &taste);
	}
	kind->every = kind->cells < 2000 ? 16 : 2048;
	if (list_fails(run_list, ops, steps, kind, kind->plant, &at))
		shortest = tell_shortest(kind, ops, at + 1 < steps ? at + 1 : steps, seed);
	free(ops);
	return shortest;
}

static int find_planted(void)
{
	struct kind kind = {0, 40, 0, 1, 16, false, true, false};
	unsigned int n = go(1, &kind, 5000);

	return n > 0 && n < 4 ? 0 : 1;
}

int main(void)
{
	static const struct {
		unsigned int cells;
		unsigned long base, width;
	} spaces[] = {{40, 0, 1},
		      {600, 0, 4096},
		      {20000, 0, 1},
		      {300, ULONG_MAX - 299, 1},
		      {500, 0, ULONG_MAX / 500},
		      {3, 0, 1}};
	const char *one = getenv("SEED"), *longer = getenv("STEPS");
	unsigned int steps = longer ? (unsigned int)strtoul(longer, NULL, 0) : 4000;
	uint64_t first = one ? strtoull(one, NULL, 0) : 1, last = one ? first : 2;

	unsigned long done = 0;

	provider_register();
	if (getenv("PLANT"))
		return find_planted();
	for (uint64_t seed = first; seed <= last; seed++)
		for (unsigned int flags = 0; flags < (KERNEL_RULES ? 4 : 8); flags++)
			for (unsigned int i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
				struct kind kind = {.flags = flags % 4,
						    .cells = spaces[i].cells,
						    .base = spaces[i].base,
						    .width = spaces[i].width,
						    .refuse = flags > 3};

				if (go(seed, &kind, steps))
					return 1;
				done += steps;
			}
	printf("%lu operations, 0 failed\n", done);
	return 0;
}
