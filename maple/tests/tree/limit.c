/* SPDX-License-Identifier: MIT */
/*
 * No memory from the system: every call that may need nodes returns -ENOMEM, changes nothing, and
 * works when there is memory again. Each call runs in a separate child: at first use, when there is
 * no cache of nodes yet, and later, when that cache has no free node and cannot grow.
 */
#include <sys/resource.h>

#include "behaviour.h"
#include "kit/capture.h"
#include "kit/process.h"

enum {
	MAX_NODES = 1 << 20,
	SPLIT_NODES = 2 /* of a split that keeps its leaf */
};

/* --- memory that comes and goes -------------------------------------------------------------- */

/*
 * RLIMIT_AS: no addresses are available, so the library cannot start. RLIMIT_DATA: it has addresses
 * but gets no memory for them. (Not both: with addresses already over their limit, mprotect()
 * grants the memory.)
 */
static int limited; /* which of the two, in this child */

static void limit_memory(rlim_t bytes)
{
	struct rlimit limit;

	CHECK(getrlimit(limited, &limit) == 0);
	limit.rlim_cur = bytes;
	CHECK(setrlimit(limited, &limit) == 0);
}

static void *held[MAX_NODES];
static unsigned int nr_held;

static void hold_all_nodes(void)
{
	while (nr_held < MAX_NODES &&
	       (held[nr_held] = kmem_cache_alloc(node_cache(), GFP_KERNEL)) != NULL)
		nr_held++;
	CHECK(nr_held < MAX_NODES);
}

static void give_nodes_back(void)
{
	kmem_cache_free_bulk(node_cache(), nr_held, held);
	nr_held = 0;
}

/* --- the calls, each to store at free indices from 0 to 4 ------------------------------------- */

static struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU);

static int store_index(void)
{
	return mtree_store(&tree, 2, ENTRY(900), GFP_KERNEL);
}

static int store_range(void)
{
	return mtree_store_range(&tree, 1, 2, ENTRY(900), GFP_KERNEL);
}

static int insert(void)
{
	return mtree_insert(&tree, 2, ENTRY(900), GFP_KERNEL);
}

static int insert_range(void)
{
	return mtree_insert_range(&tree, 1, 2, ENTRY(900), GFP_NOWAIT);
}

static int alloc_range(void)
{
	unsigned long at = 77;
	int error = mtree_alloc_range(&tree, &at, ENTRY(900), 2, 1, 4, GFP_KERNEL);

	CHECK(at == (error ? 77 : 1));
	return error;
}

static int alloc_rrange(void)
{
	unsigned long at = 77;
	int error = mtree_alloc_rrange(&tree, &at, ENTRY(900), 2, 0, 3, GFP_KERNEL);

	CHECK(at == (error ? 77 : 2));
	return error;
}

static int alloc_cyclic(void)
{
	unsigned long at = 77, next = 1;
	int error = mtree_alloc_cyclic(&tree, &at, ENTRY(900), 1, 4, &next, GFP_KERNEL);

	CHECK(at == (error ? 77 : 1) && next == (error ? 1 : 2));
	return error;
}

static int by_state(void (*call)(struct ma_state *mas))
{
	MA_STATE(mas, &tree, 1, 2);
	int error;

	mas_lock(&mas);
	call(&mas);
	error = mas_error(&mas);
	CHECK(mas_is_err(&mas) == (error != 0));
	if (error)
		CHECK(mas.index == 1 && mas.last == 2);
	mas_destroy(&mas);
	mas_unlock(&mas);
	return error;
}

static void call_store(struct ma_state *mas)
{
	CHECK(!mas_store(mas, ENTRY(900)));
}

static int state_store(void)
{
	return by_state(call_store);
}

static void call_store_gfp(struct ma_state *mas)
{
	CHECK(mas_store_gfp(mas, ENTRY(900), GFP_KERNEL) == mas_error(mas));
}

static int state_store_gfp(void)
{
	return by_state(call_store_gfp);
}

static void call_nomem(struct ma_state *mas)
{
	do
		mas_store(mas, ENTRY(900));
	while (mas_nomem(mas, GFP_KERNEL));
}

static int state_nomem(void)
{
	return by_state(call_nomem);
}

static void call_cyclic(struct ma_state *mas)
{
	unsigned long at, next = 1;
	int error = mas_alloc_cyclic(mas, &at, ENTRY(900), 1, 4, &next, GFP_KERNEL);

	CHECK(error == mas_error(mas));
	if (error)
		mas->last = 2; /* where it was requested: 1 ... 1 */
}

static int state_cyclic(void)
{
	return by_state(call_cyclic);
}

static int preallocate(void)
{
	MA_STATE(mas, &tree, 1, 2);
	int error;

	mas_lock(&mas);
	error = mas_preallocate(&mas, ENTRY(900), GFP_KERNEL);
	CHECK(!mas_is_err(&mas));
	if (!error)
		mas_store_prealloc(&mas, ENTRY(900));
	CHECK(nodes_in_hand(&mas) == 0);
	mas_unlock(&mas);
	return error;
}

static int new_entry(void **entries, unsigned int n, void *undone)
{
	(void)undone;
	for (unsigned int i = 0; i < n; i++)
		entries[i] = (void *)0x10002; /* looks like a node, so it needs one, even alone */
	return 0;
}

static void undo_entry(void **entries, unsigned int n, void *undone)
{
	(void)entries;
	*(unsigned int *)undone += n;
}

static int dup_each_single(void)
{
	static const struct mt_dup_ops ops = {new_entry, undo_entry};
	struct maple_tree from = MTREE_INIT(from, MT_FLAGS_LOCK_EXTERN), to = from;
	unsigned int undone = 0;
	int error;

	CHECK(mtree_store(&from, 0, ENTRY(1), GFP_KERNEL) == 0);
	error = __mt_dup_each(&from, &to, &ops, &undone, GFP_KERNEL);
	CHECK(mtree_empty(&to) == (error != 0) && undone == (error ? 1 : 0));
	mtree_destroy(&to);
	mtree_destroy(&from);
	return error ? error : store_index();
}

/* On a tree that has nodes already. */
static int erase(void)
{
	CHECK(mtree_load(&tree, 55) == ENTRY(5));
	if (!mtree_erase(&tree, 55))
		return -ENOMEM;
	CHECK(mtree_store_range(&tree, 55, 59, ENTRY(5), GFP_KERNEL) == 0);
	return store_index();
}

static int state_erase(void)
{
	MA_STATE(mas, &tree, 55, 55);
	void *entry;

	mas_lock(&mas);
	entry = mas_erase(&mas);
	mas_unlock(&mas);
	if (!entry)
		return mas_error(&mas);
	CHECK(entry == ENTRY(5));
	CHECK(mtree_store_range(&tree, 55, 59, ENTRY(5), GFP_KERNEL) == 0);
	return store_index();
}

static int duplicate(void)
{
	struct maple_tree to = MTREE_INIT(to, tree.ma_flags);
	int error = mtree_dup(&tree, &to, GFP_KERNEL);

	CHECK(mtree_empty(&to) == (error != 0));
	mtree_destroy(&to);
	return error ? error : store_index();
}

static const struct call {
	const char *name;
	int (*run)(void);
	bool needs_nodes;
} calls[] = {
	{"mtree_store", store_index, false},
	{"mtree_store_range", store_range, false},
	{"mtree_insert", insert, false},
	{"mtree_insert_range", insert_range, false},
	{"mtree_alloc_range", alloc_range, false},
	{"mtree_alloc_rrange", alloc_rrange, false},
	{"mtree_alloc_cyclic", alloc_cyclic, false},
	{"mas_store", state_store, false},
	{"mas_store_gfp", state_store_gfp, false},
	{"mas_nomem", state_nomem, false},
	{"mas_alloc_cyclic", state_cyclic, false},
	{"mas_preallocate", preallocate, false},
	{"__mt_dup_each", dup_each_single, false},
	{"mtree_erase", erase, true},
	{"mas_erase", state_erase, true},
	{"mtree_dup", duplicate, true},
};

/* --- each call without memory, and with it ---------------------------------------------------- */

static const struct call *call; /* of this child */

static void check_tree(bool filled)
{
	CHECK(mt_validate(&tree) == 0);
	for (unsigned long i = 0; filled && i < 100; i++)
		CHECK(mtree_load(&tree, 10 * i + 9) == ENTRY(i));
}

static void try_again_and_again(bool filled)
{
	struct rlimit before;

	CHECK(getrlimit(limited, &before) == 0);
	limit_memory(4096);
	if (filled)
		hold_all_nodes();
	for (unsigned int again = 0; again < 2; again++) {
		CHECK(call->run() == -ENOMEM);
		CHECK(!mtree_load(&tree, 2));
		check_tree(filled);
	}
	give_nodes_back();
	limit_memory(before.rlim_cur);
	if (!filled)
		provider_register(); /* which sets the library up */
	CHECK(call->run() == 0);
	CHECK(mtree_load(&tree, 1) || mtree_load(&tree, 2));
	check_tree(filled);
}

static void in_first_use(void)
{
	try_again_and_again(false);
}

static void in_later_use(void)
{
	try_again_and_again(true);
}

/* The library's reports about the limit do not matter, unless the child fails. */
static void check_child(void (*body)(void))
{
	static struct capture captured;
	int status;

	capture_begin(&captured);
	status = in_child(body);
	capture_end(&captured);
	if (status)
		print_error("%s: status %#x\n%s", call->name, (unsigned int)status, captured.text);
	assert_int_equal(status, 0);
}

static void first_use(int kind)
{
	limited = kind;
	for (call = calls; call < calls + sizeof(calls) / sizeof(calls[0]); call++)
		if (!call->needs_nodes)
			check_child(in_first_use);
}

static void first_use_without_addresses(void **state)
{
	(void)state;
	first_use(RLIMIT_AS);
}

static void first_use_without_memory(void **state)
{
	(void)state;
	first_use(RLIMIT_DATA);
}

/* --- some of the nodes that a split needs ----------------------------------------------------- */

/* Preallocates for a store into the middle of a gap, in a leaf that is full. */
static int preallocate_split(unsigned long index)
{
	MA_STATE(mas, &tree, index, index);
	int error;

	mas_lock(&mas);
	error = mas_preallocate(&mas, ENTRY(900), GFP_KERNEL);
	if (error)
		CHECK(nodes_in_hand(&mas) == 0);
	else if (mas.store_type != wr_split_store || mas.node_request != SPLIT_NODES)
		error = -EINVAL;
	mas_destroy(&mas);
	mas_unlock(&mas);
	return error;
}

/* The state has no node afterwards, so that nothing is lost without mas_destroy(). */
static int store_split(unsigned long index)
{
	MA_STATE(mas, &tree, index, index);

	mas_lock(&mas);
	mas_store(&mas, ENTRY(900));
	mas_unlock(&mas);
	CHECK(nodes_in_hand(&mas) == 0);
	return mas_error(&mas);
}

static void split_with_too_few(void)
{
	unsigned long index = 2;
	unsigned int all;

	while (index < 1000 && preallocate_split(index))
		index += 10;
	CHECK(index < 1000);
	limit_memory(4096);
	for (unsigned int has = 0; has < SPLIT_NODES; has++) {
		hold_all_nodes();
		all = nr_held;
		for (unsigned int i = 0; i < has; i++)
			kmem_cache_free(node_cache(), held[--nr_held]);
		CHECK(preallocate_split(index) == -ENOMEM);
		CHECK(store_split(index) == -ENOMEM);
		check_tree(true);
		hold_all_nodes(); /* none was lost */
		CHECK(nr_held == all);
		give_nodes_back();
	}
	CHECK(store_split(index) == 0);
	CHECK(mtree_load(&tree, index) == ENTRY(900));
	check_tree(true);
}

/* --- what the tree requests from libsheaf at first use
 * ----------------------------------------------- */

struct kmem_cache *real_create(const char *name, size_t size, const struct kmem_cache_args *args,
			       size_t args_size,
			       slab_flags_t flags) __asm__("__real_sheaf___kmem_cache_create_args");
struct kmem_cache *create(const char *name, size_t size, const struct kmem_cache_args *args,
			  size_t args_size,
			  slab_flags_t flags) __asm__("__wrap_sheaf___kmem_cache_create_args");

static unsigned int creations; /* the first is refused, another thread comes between the second */
static struct kmem_cache *of_other;
static bool two_come;
static unsigned int refusals; /* of the system, until it has memory again */
static struct rlimit usual;

/* The linker puts this in place of the library's own (--wrap). */
struct kmem_cache *create(const char *name, size_t size, const struct kmem_cache_args *args,
			  size_t args_size, slab_flags_t flags)
{
	creations += two_come;
	if (creations == 1)
		return NULL;
	if (creations == 2)
		of_other = node_cache();
	if (refusals && --refusals == 0)
		limit_memory(usual.rlim_cur);
	return real_create(name, size, args, args_size, flags);
}

/* --- a store that may not fail ---------------------------------------------------------------- */

static struct maple_tree plain = MTREE_INIT(plain, 0);

static int store_for_sure(void)
{
	return mtree_store_range(&plain, 1, 2, ENTRY(900), GFP_KERNEL | __GFP_NOFAIL);
}

static int preallocate_for_sure(void)
{
	MA_STATE(mas, &plain, 1, 2);
	int error;

	mas_lock(&mas);
	error = mas_preallocate(&mas, ENTRY(900), GFP_KERNEL | __GFP_NOFAIL);
	if (!error)
		mas_store_prealloc(&mas, ENTRY(900));
	mas_unlock(&mas);
	return error;
}

static int duplicate_for_sure(void)
{
	static const struct mt_dup_ops ops = {new_entry, undo_entry};
	struct maple_tree from = MTREE_INIT(from, MT_FLAGS_LOCK_EXTERN), to = from;
	int error;

	CHECK(mtree_store(&from, 0, ENTRY(1), GFP_KERNEL) == 0);
	error = __mt_dup_each(&from, &to, &ops, NULL, GFP_KERNEL | __GFP_NOFAIL);
	mtree_destroy(&to);
	mtree_destroy(&from);
	return error ? error : store_for_sure();
}

static const struct call sure_calls[] = {
	{"mtree_store_range", store_for_sure, false},
	{"mas_preallocate", preallocate_for_sure, false},
	{"__mt_dup_each", duplicate_for_sure, false},
};

/* There is memory at the third attempt. */
static void wait_for_memory(void)
{
	CHECK(getrlimit(limited, &usual) == 0);
	limit_memory(4096);
	refusals = 3;
	errno = 4242;
	CHECK(call->run() == 0);
	CHECK(errno == 4242);
	CHECK(refusals == 0);
	CHECK(mtree_load(&plain, 1) == ENTRY(900));
	CHECK(mt_validate(&plain) == 0);
	mtree_destroy(&plain);
}

static void first_use_that_may_not_fail(void **state)
{
	static const int kinds[] = {RLIMIT_AS, RLIMIT_DATA};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		limited = kinds[i];
		for (call = sure_calls; call < sure_calls + 3; call++)
			check_child(wait_for_memory);
	}
}

/* --- two threads at the same time
 * -------------------------------------------------------------------- */

static void at_once(void)
{
	struct sheaf_stats stats;

	two_come = true;
	CHECK(node_cache() == of_other && of_other);
	CHECK(creations == 3);
	sheaf_stats(&stats);
	CHECK(stats.caches == 1);
}

/* There was no memory, and now two threads create the cache: one frees its own, both use the
 * other's. */
static void second_try_at_once(void **state)
{
	(void)state;
	call = calls;
	check_child(at_once);
}

/* --- later ------------------------------------------------------------------------------------ */

static void later_use(void **state)
{
	static const struct call split = {"a split with too few nodes", NULL, true};

	(void)state;
	provider_register();
	limited = RLIMIT_DATA;
	fill(&tree, 100);
	for (call = calls; call < calls + sizeof(calls) / sizeof(calls[0]); call++)
		check_child(in_later_use);
	call = &split;
	check_child(split_with_too_few);
	done(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_use_without_addresses),
		cmocka_unit_test(first_use_without_memory),
		cmocka_unit_test(first_use_that_may_not_fail),
		cmocka_unit_test(second_try_at_once),
		cmocka_unit_test(later_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
