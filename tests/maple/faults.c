/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of nodes refused in turn: a call has either done all it should, or nothing, and the
 * tree is whole; no node is lost. The linker puts the calls below in place of the library's own.
 */
#include <errno.h>
#include <inttypes.h>
#include <sheaf/stats.h>
#include <stdio.h>
#include <string.h>

#include "../../maple/tree.h"
#include "model.h"
#include "provider.h"

int __real_nodes_get(struct ma_state *mas, unsigned int n, gfp_t gfp);
int __real_nodes_alloc(unsigned int n, struct maple_node **nodes, gfp_t gfp);
int __wrap_nodes_get(struct ma_state *mas, unsigned int n, gfp_t gfp);
int __wrap_nodes_alloc(unsigned int n, struct maple_node **nodes, gfp_t gfp);

static unsigned int refuse_in; /* this one is refused; 0: none */
static bool refused;

static bool refuse(void)
{
	if (refuse_in == 0 || --refuse_in > 0)
		return false;
	refused = true;
	return true;
}

int __wrap_nodes_get(struct ma_state *mas, unsigned int n, gfp_t gfp)
{
	if (refuse()) {
		mas->node_request = n;
		return -ENOMEM;
	}
	return __real_nodes_get(mas, n, gfp);
}

int __wrap_nodes_alloc(unsigned int n, struct maple_node **nodes, gfp_t gfp)
{
	return refuse() ? -ENOMEM : __real_nodes_alloc(n, nodes, gfp);
}

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
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (unsigned int)(seed >> 33) % n;
}

static void check_tree(struct maple_tree *mt)
{
	CHECK(mt_validate(mt) == 0);
	for (unsigned int c = 0; c < CELLS; c++)
		CHECK(mtree_load(mt, cell_min(&model, c)) == model.cells[c].entry);
}

static void check_nodes(void)
{
	struct kmem_cache_stats stats;

	kvfree_rcu_barrier_on_cache(node_cache());
	CHECK(kmem_cache_stats(node_cache(), &stats) == 0 && stats.objects_in_use == 0);
}

static int store_gfp(unsigned long first, unsigned long last, void *entry)
{
	return mtree_store_range(&tree, first, last, entry, GFP_KERNEL);
}

/* Without memory, then with what mas_nomem() gets. */
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

/* A store after a failed preallocation, by another way. */
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

static int (*const calls[])(unsigned long, unsigned long, void *) = {store_gfp, store_nomem,
								     store_prealloc};

static void store(void)
{
	unsigned int a = below(CELLS), b = a + below(below(4) ? 6 : CELLS);
	void *entry = below(5) < 3 ? (void *)(uintptr_t)(4096 + 16 * model.stores) : NULL;
	unsigned int which = below(3);
	int error;

	if (b >= CELLS)
		b = CELLS - 1;
	for (unsigned int n = 1;; n++) {
		refuse_in = n;
		refused = false;
		error = calls[which](cell_min(&model, a), cell_max(&model, b), entry);
		refuse_in = 0;
		CHECK(error == (refused ? -ENOMEM : 0));
		if (!error)
			break;
		check_tree(&tree);
	}
	model_store(&model, a, b, entry);
	check_tree(&tree);
}

static void duplicate(void)
{
	struct maple_tree to = MTREE_INIT(to, tree.ma_flags);

	for (unsigned int n = 1;; n++) {
		refuse_in = n;
		refused = false;
		if (mtree_dup(&tree, &to, GFP_KERNEL) == 0)
			break;
		CHECK(refused && mtree_empty(&to));
	}
	refuse_in = 0;
	check_tree(&to);
	mtree_destroy(&to);
}

/* New entries are the old ones with a bit that none of those has. */
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

/* Nodes and calls refused in turn: nothing is left of what was made before. */
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
		for (unsigned int i = 0; i < 3000; i++) {
			store();
			if (i % 100 == 99) {
				duplicate();
				duplicate_each();
			}
		}
		mtree_destroy(&tree);
		check_nodes();
		free(model.cells);
	}
	return 0;
}
