/* SPDX-License-Identifier: MIT */
/*
 * Refuses every allocation of nodes in turn: a call has either its full effect or none, the tree is
 * valid, and no node is lost. This covers every public call that changes a tree.
 */
#include <inttypes.h>
#include <sheaf/stats.h>
#include <stdio.h>
#include <string.h>

#include "kit/cache.h"
#include "kit/model.h"
#include "kit/provider.h"
#include "kit/random.h"
#include "kit/refuse_nodes.h"

#define CELLS 400

static struct maple_tree tree;
static struct model model;
static uint64_t seed = 12345;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s, at store %lu\n", __FILE__, __LINE__,           \
				#condition, model.stores);                                         \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static unsigned int below(unsigned int n)
{
	return random_below(&seed, n);
}

static void check_tree(struct maple_tree *mt)
{
	CHECK(mt_validate(mt) == 0);
	for (unsigned int c = 0; c < CELLS; c++)
		CHECK(mtree_load(mt, cell_min(&model, c)) == model.cells[c].entry);
}

static int store_gfp(unsigned long first, unsigned long last, void *entry)
{
	return mtree_store_range(&tree, first, last, entry, GFP_KERNEL);
}

/* Without memory, then with the nodes that mas_nomem() allocates. */
static int store_nomem(unsigned long first, unsigned long last, void *entry)
{
	MA_STATE(mas, &tree, first, last);
	int error;

	mtree_lock(&tree);
	do
		mas_store(&mas, entry);
	while (mas_nomem(&mas, GFP_KERNEL));
	error = mas_error(&mas);
	mas_destroy(&mas);
	mtree_unlock(&tree);
	refused &= error != 0;
	return error;
}

/* A store after a failed preallocation, done in a different way. */
static int store_prealloc(unsigned long first, unsigned long last, void *entry)
{
	MA_STATE(mas, &tree, first, last);
	int error;

	mtree_lock(&tree);
	error = mas_preallocate(&mas, entry, GFP_KERNEL);
	if (!error)
		mas_store_prealloc(&mas, entry);
	mtree_unlock(&tree);
	return error;
}

static int store_alone(unsigned long first, unsigned long last, void *entry)
{
	return first == last ? mtree_store(&tree, first, entry, GFP_KERNEL)
			     : store_gfp(first, last, entry);
}

static int (*const calls[])(unsigned long, unsigned long, void *) = {store_gfp, store_nomem,
								     store_prealloc, store_alone};

/* Refuse the n-th allocation from now on. */
static void begin_refusing(unsigned int n)
{
	refuse_in = n;
	refused = false;
}

/* A store that should join leaves may do without the nodes. */
static void check_error(int error)
{
	CHECK(!error || (refused && error == -ENOMEM));
}

static void store(void)
{
	unsigned int a = below(CELLS), b = a + below(below(4) ? 6 : CELLS);
	void *entry = below(5) < 3 ? (void *)(uintptr_t)(4096 + 16 * model.stores) : NULL;
	unsigned int which = below(sizeof(calls) / sizeof(calls[0]));
	int error;

	if (b >= CELLS)
		b = CELLS - 1;
	for (unsigned int n = 1;; n++) {
		begin_refusing(n);
		error = calls[which](cell_min(&model, a), cell_max(&model, b), entry);
		refuse_in = 0;
		check_error(error);
		if (!error)
			break;
		check_tree(&tree);
	}
	model_store(&model, a, b, entry);
	check_tree(&tree);
}

/* It does not fail, whether or not it is refused a node. */
static void erase(void)
{
	unsigned int c = below(CELLS), first = model_first(&model, c), last = model_last(&model, c);
	MA_STATE(mas, &tree, cell_max(&model, c), cell_max(&model, c));
	void *entry;

	begin_refusing(below(2));
	if (below(2)) {
		mtree_lock(&tree);
		entry = mas_erase(&mas);
		mtree_unlock(&tree);
		CHECK(mas_error(&mas) == 0);
	} else {
		entry = mtree_erase(&tree, mas.index);
	}
	refuse_in = 0;
	CHECK(entry == model.cells[c].entry);
	if (entry)
		model_store(&model, first, last, NULL);
	check_tree(&tree);
}

static void *new_entry(void)
{
	return (void *)(uintptr_t)(4096 + 16 * (model.stores + 1));
}

static void insert(void)
{
	unsigned int a = below(CELLS), b = a + below(3);
	void *entry = new_entry();
	int error;

	if (b >= CELLS || model_used(&model, a, true) <= b)
		return;
	for (unsigned int n = 1;; n++) {
		begin_refusing(n);
		error = mtree_insert_range(&tree, cell_min(&model, a), cell_max(&model, b), entry,
					   GFP_KERNEL);
		refuse_in = 0;
		check_error(error);
		if (!error)
			break;
		check_tree(&tree);
	}
	model_store(&model, a, b, entry);
	check_tree(&tree);
}

/* A cell's worth of free indices, from below, from above, or the next one; not in the ends'
 * cells. */
static void allocate(void)
{
	unsigned long min = cell_min(&model, 1), max = cell_max(&model, CELLS - 2), at = 1, start;
	bool highest = below(2);
	void *entry = new_entry();
	int error;

	if (!model_gap(&model, min, max, model.width, highest, &start))
		return;
	for (unsigned int n = 1;; n++) {
		begin_refusing(n);
		error = (highest ? mtree_alloc_rrange : mtree_alloc_range)(
			&tree, &at, entry, model.width, min, max, GFP_KERNEL);
		refuse_in = 0;
		check_error(error);
		if (!error)
			break;
		CHECK(at == 1);
		check_tree(&tree);
	}
	CHECK(at == start);
	model_store(&model, cell_of(&model, at), cell_of(&model, at), entry);
	check_tree(&tree);
}

/* Allocate a number and erase it: the model knows only whole cells. */
static void allocate_cyclic(void)
{
	static unsigned long next;
	unsigned long at = ULONG_MAX, last = next;
	int error;

	for (unsigned int n = 1;; n++) {
		begin_refusing(n);
		error = mtree_alloc_cyclic(&tree, &at, new_entry(), 0, 1000 * CELLS, &next,
					   GFP_KERNEL);
		refuse_in = 0;
		if (error == -EBUSY)
			return;
		check_error(error < 0 ? error : 0);
		if (error >= 0)
			break;
		CHECK(at == ULONG_MAX && next == last);
		check_tree(&tree);
	}
	CHECK(mtree_erase(&tree, at) == new_entry());
	check_tree(&tree);
}

static void duplicate(void)
{
	struct maple_tree to = MTREE_INIT(to, tree.ma_flags);

	for (unsigned int n = 1;; n++) {
		begin_refusing(n);
		if (mtree_dup(&tree, &to, GFP_KERNEL) == 0)
			break;
		CHECK(refused && mtree_empty(&to));
	}
	refuse_in = 0;
	check_tree(&to);
	mtree_destroy(&to);
}

/* New entries are the old ones with an additional bit that none of them has. */
#define NEW UINT64_C(0x800000000000)

static unsigned long new_entries;

static int copy_entries(void **entries, unsigned int n, void *arg)
{
	(void)arg;
	if (refuse())
		return -ENOMEM;
	for (unsigned int i = 0; i < n; i++)
		entries[i] = (void *)((uintptr_t)entries[i] | NEW);
	new_entries += n;
	return 0;
}

static void undo_entries(void **entries, unsigned int n, void *arg)
{
	(void)arg;
	for (unsigned int i = 0; i < n; i++)
		CHECK((uintptr_t)entries[i] & NEW);
	new_entries -= n;
}

/* Nodes and calls are refused in turn: nothing that was allocated before is left. */
static void duplicate_each(void)
{
	static const struct mt_dup_ops ops = {copy_entries, undo_entries};
	struct maple_tree to = MTREE_INIT(to, tree.ma_flags);
	unsigned long at = 0, n = 0;
	void *entry;

	for (unsigned int i = 1;; i++) {
		int error;

		refuse_in = i;
		refused = false;
		new_entries = 0;
		mtree_lock(&to);
		error = __mt_dup_each(&tree, &to, &ops, NULL, GFP_KERNEL);
		mtree_unlock(&to);
		if (error == 0)
			break;
		CHECK(refused && error == -ENOMEM && mtree_empty(&to) && new_entries == 0);
	}
	refuse_in = 0;
	check_tree(&tree);
	CHECK(mt_validate(&to) == 0);
	mt_for_each(&to, entry, at, ULONG_MAX)
	{
		CHECK((uintptr_t)entry == ((uintptr_t)mtree_load(&tree, at - 1) | NEW));
		n++;
	}
	CHECK(n == new_entries);
	mtree_destroy(&to);
}

int main(void)
{
	provider_register();
	for (unsigned int flags = 0; flags < 4; flags++) {
		mt_init_flags(&tree, flags);
		model_init(&model, CELLS, 1000);
		for (unsigned int i = 0; i < 1500; i++) {
			store();
			erase();
			insert();
			if (flags & MT_FLAGS_ALLOC_RANGE) {
				allocate();
				allocate_cyclic();
			}
			if (i % 100 == 99) {
				duplicate();
				duplicate_each();
				provider_barrier();
			}
		}
		mtree_destroy(&tree);
		CHECK(all_freed(node_cache()));
		free(model.cells);
	}
	return 0;
}
