/* SPDX-License-Identifier: MIT */
/* Documented behaviour: nodes, copies, preallocation, refused memory and the lock, with one test
 * per behaviour. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "behaviour.h"
#include "kit/capture.h"
#include "kit/process.h"
#include "kit/refuse_nodes.h"

static void duplicate(void **state)
{
	for (unsigned int flags = 0; flags < 4; flags++) {
		struct maple_tree mt = MTREE_INIT(mt, flags), to = MTREE_INIT(to, flags);
		struct maple_tree other = MTREE_INIT(other, flags ^ MT_FLAGS_ALLOC_RANGE);

		(void)state;
		fill(&mt, 3000);
		assert_int_equal(mtree_dup(&mt, &to, GFP_KERNEL), 0);
		assert_int_equal(mt_validate(&to), 0);
		assert_int_equal(mtree_dup(&mt, &to, GFP_KERNEL), -EINVAL);    /* not empty */
		assert_int_equal(mtree_dup(&mt, &other, GFP_KERNEL), -EINVAL); /* other flags */
		for (unsigned long i = 0; i < 3000; i++) {
			assert_ptr_equal(mtree_load(&to, 10 * i + 5), ENTRY(i));
			store(&to, 10 * i + 5, 10 * i + 9, ENTRY(i + 7));
		}
		for (unsigned long i = 0; i < 3000; i++)
			assert_ptr_equal(mtree_load(&mt, 10 * i + 5), ENTRY(i));
		assert_int_equal(mt_validate(&mt), 0);
		mtree_destroy(&mt);
		done(&to);
	}
}

/* The number of the last leaf's last slot. */
static unsigned int last_slot(const struct maple_tree *mt)
{
	struct path path;

	path_walk(&path, mt, ULONG_MAX);
	return path.at[0].offset;
}

/* The nodes that a store needs with readers, as docs/maple-tree.md says for each type. */
static void preallocation_counts(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU);
	unsigned long n = 100, at;

	(void)state;
	fill(&mt, 100);
	for (; last_slot(&mt) < 6 || last_slot(&mt) > 12; n++) /* the last leaf must have room */
		store(&mt, 10 * n + 5, 10 * n + 9, ENTRY(n));
	n -= 2; /* a range in that leaf: at ... at + 4 */
	at = 10 * n + 5;

	const struct {
		unsigned long first, last, nodes;
		void *entry;
		enum store_type type;
	} stores[] = {
		{at, at + 4, 0, ENTRY(500), wr_exact_fit},
		{at, at + 5, 0, ENTRY(n), wr_slot_store},
		{at + 4, at + 4, 0, NULL, wr_slot_store},
		{at, at + 4, 0, NULL, wr_exact_fit},
		{at - 7, at + 4, 1, NULL, wr_node_store},
		{at - 4, at - 2, 0, ENTRY(1), wr_insert},
		{at + 3, at + 4, 0, ENTRY(1), wr_insert},
		{at + 1, at + 2, 1, ENTRY(1), wr_node_store},
		{5000, 5009, 0, ENTRY(1), wr_append},
		{0, ULONG_MAX, 1, ENTRY(1), wr_new_root},
		{at - 5, at - 1, 0, NULL, wr_none},
	};
	MA_STATE(mas, &mt, 0, 0);

	mtree_lock(&mt);
	for (size_t i = 0; i < sizeof(stores) / sizeof(stores[0]); i++) {
		mas_set_range(&mas, stores[i].first, stores[i].last);
		mas.node_request = 0;
		assert_int_equal(mas_preallocate(&mas, stores[i].entry, GFP_KERNEL), 0);
		assert_int_equal(mas.store_type, stores[i].type);
		assert_int_equal(mas.node_request, stores[i].nodes);
		mas_destroy(&mas);
	}
	mtree_unlock(&mt);
	done(&mt);
}

/* mas_store() without memory, mas_nomem() with it. */
static void nomem(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_USE_RCU);
	MA_STATE(mas, &mt, 0, 0);

	(void)state;
	fill(&mt, 100);
	mas_set_range(&mas, 7, 17);
	mtree_lock(&mt);
	do
		mas_store(&mas, ENTRY(1));
	while (mas_nomem(&mas, GFP_KERNEL));
	assert_false(mas_is_err(&mas));
	mas_destroy(&mas);
	mtree_unlock(&mt);
	assert_ptr_equal(mtree_load(&mt, 12), ENTRY(1));
	done(&mt);
}

/* It takes the lock again only when it has nodes; then the store does not fail. */
static void nomem_nofail(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_USE_RCU);
	MA_STATE(mas, &mt, 7, 17);
	unsigned int tries = 0;

	(void)state;
	fill(&mt, 100);
	mtree_lock(&mt);
	refuse_in = 1;
	do {
		mas_store(&mas, ENTRY(1));
		tries++;
	} while (mas_nomem_nofail(&mas));
	assert_int_equal(tries, 2);
	assert_false(mas_is_err(&mas));
	mas_destroy(&mas);
	mtree_unlock(&mt);
	assert_ptr_equal(mtree_load(&mt, 12), ENTRY(1));
	done(&mt);
}

/* The names of the kernel's locks are those of the one lock there is. */
static void other_locks(void **state)
{
	DEFINE_MTREE(mt);
	MA_STATE(mas, &mt, 5, 9);
	unsigned long flags = 7;
	struct capture captured;

	(void)state;
	capture_begin(&captured);
	mas_lock_irqsave(&mas, flags);
	assert_int_equal(flags, 0);
	assert_int_equal(mas_store_gfp(&mas, ENTRY(1), GFP_KERNEL), 0);
	mas_unlock_irqrestore(&mas, flags);
	mtree_lock_nested(&mt, 1);
	assert_int_equal(mas_store_gfp(&mas, NULL, GFP_KERNEL), 0);
	mtree_unlock(&mt);
	mas_lock(&mas); /* nobody has it */
	mas_unlock(&mas);
	assert_int_equal(capture_end(&captured), 0);
	done(&mt);
}

/* The nodes of trees that are gone are memory of the system again. */
static void shrink(void **state)
{
	struct kmem_cache_stats stats;
	DEFINE_MTREE(mt);

	(void)state;
	fill(&mt, 3000);
	done(&mt);
	mt_cache_shrink();
	assert_int_equal(kmem_cache_stats(node_cache(), &stats), 0);
	assert_int_equal(stats.slabs, 0);
}

/* Splits and spanning stores: the new nodes of each level, and none that is freed. */
static void preallocation_counts_of_rebuilds(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_USE_RCU);
	MA_STATE(mas, &mt, 0, 0);

	(void)state;
	for (unsigned long i = 0; i < LEAF_SLOTS - 1; i++)
		store(&mt, i, i, ENTRY(i)); /* and what is free behind them: a full leaf */
	assert_int_equal(mt_height(&mt), 1);
	mtree_lock(&mt);
	mas_set_range(&mas, 5, 5);
	assert_int_equal(mas_preallocate(&mas, ENTRY(99), GFP_KERNEL), 0);
	assert_int_equal(mas.store_type, wr_exact_fit);
	mas_destroy(&mas);
	mas_set_range(&mas, 100, 200);
	assert_int_equal(mas_preallocate(&mas, ENTRY(99), GFP_KERNEL), 0);
	assert_int_equal(mas.store_type, wr_split_store);
	assert_int_equal(mas.node_request, 3); /* two leaves and a root */
	mas_store_prealloc(&mas, ENTRY(99));
	assert_int_equal(mt_height(&mt), 2);
	mas_set_range(&mas, 1, 150);
	assert_int_equal(mas_preallocate(&mas, ENTRY(98), GFP_KERNEL), 0);
	assert_int_equal(mas.store_type, wr_spanning_store);
	assert_int_equal(mas.node_request, 1); /* a leaf, which is the root */
	mas_store_prealloc(&mas, ENTRY(98));
	assert_int_equal(mt_height(&mt), 1);
	mtree_unlock(&mt);
	done(&mt);
}

/* Each allocation of a copy refused: the copy is empty, no node is lost, the next try works. */
static void duplicate_with_failures(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE);
	struct maple_tree to = MTREE_INIT(to, MT_FLAGS_ALLOC_RANGE);
	struct kmem_cache_stats before, after;
	unsigned int n = 0;
	int error;

	(void)state;
	fill(&mt, 2000);
	assert_int_equal(kmem_cache_stats(node_cache(), &before), 0);
	do {
		refuse_in = ++n;
		error = mtree_dup(&mt, &to, GFP_KERNEL);
		if (error) {
			assert_int_equal(error, -ENOMEM);
			assert_true(mtree_empty(&to));
			assert_int_equal(kmem_cache_stats(node_cache(), &after), 0);
			assert_int_equal(after.objects_in_use, before.objects_in_use);
		}
	} while (error);
	refuse_in = 0;
	assert_true(n > 10);
	assert_int_equal(mt_validate(&to), 0);
	assert_ptr_equal(mtree_load(&to, 19995), ENTRY(1999));
	mtree_destroy(&to);
	done(&mt);
}

static struct maple_tree *raced;

/* Another writer's stores, while the lock is not held: the requested place changes completely. */
static void other_writer(void)
{
	for (unsigned long at = 500; at < 600; at++)
		store(raced, at, at, ENTRY(at));
	store(raced, 650, 900, NULL);
}

/* mas_store() without memory; while mas_nomem() waits for it, another one writes. */
static void nomem_and_writer(void **state)
{
	for (unsigned int flags = 0; flags < 4; flags++) {
		struct maple_tree mt = MTREE_INIT(mt, flags);
		MA_STATE(mas, &mt, 507, 707);
		unsigned int tries = 0;

		(void)state;
		fill(&mt, 100);
		raced = &mt;
		refuse_in = 1;
		mtree_lock(&mt);
		do {
			mas_store(&mas, ENTRY(1000));
			meanwhile = tries++ ? NULL : other_writer;
		} while (mas_nomem(&mas, GFP_KERNEL));
		meanwhile = NULL;
		assert_false(mas_is_err(&mas));
		mas_destroy(&mas);
		mtree_unlock(&mt);
		assert_true(tries > 1);
		assert_int_equal(mt_validate(&mt), 0);
		assert_ptr_equal(mtree_load(&mt, 506), ENTRY(506));
		assert_ptr_equal(mtree_load(&mt, 507), ENTRY(1000));
		assert_ptr_equal(mtree_load(&mt, 707), ENTRY(1000));
		assert_null(mtree_load(&mt, 708));
		assert_ptr_equal(mtree_load(&mt, 905), ENTRY(90));
		done(&mt);
	}
}

/* The state of a failed preallocation can be used for another one, and for a store. */
static void store_after_failed_preallocation(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_USE_RCU);
	MA_STATE(mas, &mt, 507, 1707);

	(void)state;
	fill(&mt, 300);
	mtree_lock(&mt);
	refuse_in = 1;
	assert_int_equal(mas_preallocate(&mas, ENTRY(1), GFP_KERNEL), -ENOMEM);
	assert_false(mas_is_err(&mas));
	assert_ptr_equal(mtree_load(&mt, 605), ENTRY(60));
	assert_int_equal(mas.index, 507);
	assert_int_equal(mas.last, 1707);
	assert_int_equal(mas_preallocate(&mas, ENTRY(1), GFP_KERNEL), 0);
	mas_store_prealloc(&mas, ENTRY(1));
	assert_ptr_equal(mtree_load(&mt, 605), ENTRY(1));
	refuse_in = 1;
	mas_set_range(&mas, 1, 2000);
	assert_int_equal(mas_preallocate(&mas, ENTRY(2), GFP_KERNEL), -ENOMEM);
	assert_int_equal(mas_store_gfp(&mas, ENTRY(2), GFP_KERNEL), 0);
	assert_ptr_equal(mtree_load(&mt, 2), ENTRY(2));
	/* A preallocation that is not used. */
	mas_set_range(&mas, 1, 2500);
	assert_int_equal(mas_preallocate(&mas, ENTRY(3), GFP_KERNEL), 0);
	mas_destroy(&mas);
	mtree_unlock(&mt);
	done(&mt);
}

/* --- misuse ---------------------------------------------------------------------------------- */

/* Checks the reports: one line with this text in a debug build, otherwise none. */
static void check_reported(struct capture *captured, const char *line)
{
	int lines = capture_end(captured);

#ifdef SHEAF_DEBUG
	assert_int_equal(lines, 1);
	assert_non_null(strstr(captured->text, line));
#else
	(void)line;
	assert_int_equal(lines, 0);
#endif
}

/* A store without the lock is reported, and done. */
static void store_without_lock(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, 0), other = MTREE_INIT(other, MT_FLAGS_LOCK_EXTERN);
	MA_STATE(mas, &mt, 5, 9);
	struct capture captured;

	(void)state;
	capture_begin(&captured);
	assert_int_equal(mas_store_gfp(&mas, ENTRY(1), GFP_KERNEL), 0);
	check_reported(&captured, "mas_store_gfp on maple tree");
	capture_begin(&captured);
	mas_store(&mas, ENTRY(2));
	check_reported(&captured, "without its lock");
	capture_begin(&captured);
	mtree_lock(&mt);
	assert_int_equal(mas_store_gfp(&mas, NULL, GFP_KERNEL), 0);
	mtree_unlock(&mt);
	store(&other, 1, 2, ENTRY(1));
	store(&other, 0, ULONG_MAX, NULL);
	assert_int_equal(capture_end(&captured), 0);
	done(&mt);
}

static void external_lock(void **state)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct maple_tree named = MTREE_INIT_EXT(named, MT_FLAGS_LOCK_EXTERN, lock);
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_LOCK_EXTERN), own = MTREE_INIT(own, 0);
	struct capture captured;

	(void)state;
	assert_true(mt_external_lock(&mt));
	assert_false(mt_external_lock(&own));
	assert_true(mt_external_lock(&named));
	capture_begin(&captured);
	store(&named, 1, 2, ENTRY(1));
	check_reported(&captured, "without the lock");
	mtree_destroy(&named);
	mt_set_external_lock(&mt, &lock);
	capture_begin(&captured);
	store(&mt, 1, 2, ENTRY(1));
	check_reported(&captured, "without the lock");
	assert_int_equal(pthread_mutex_trylock(&lock), 0); /* the check left it free */
	capture_begin(&captured);
	store(&mt, 1, 2, ENTRY(2));
	assert_int_equal(capture_end(&captured), 0);
	pthread_mutex_unlock(&lock);
	mt_set_external_lock(&mt, NULL);
	capture_begin(&captured);
	store(&mt, 1, 2, NULL);
	assert_int_equal(capture_end(&captured), 0);
	capture_begin(&captured);
	mt_set_external_lock(&own, &lock);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "MT_FLAGS_LOCK_EXTERN"));
	store(&own, 1, 2, NULL);
	done(&mt);
}

static void misuse_unread(void)
{
	struct maple_tree own = MTREE_INIT(own, 0);
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int ends[2];

	CHECK(pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
	close(ends[0]);
	signal(SIGPIPE, SIG_DFL);
	mt_set_external_lock(&own, &lock);
}

/* SIGPIPE does not end the program. */
static void nobody_has_to_read(void **state)
{
	(void)state;
	assert_int_equal(in_child(misuse_unread), 0);
}

/* The store succeeds as long as there is memory; without memory, every build reports one line. */
static void prealloc_without_preallocation(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_USE_RCU);
	MA_STATE(mas, &mt, 107, 207);
	struct capture captured;

	(void)state;
	fill(&mt, 100);
	mtree_lock(&mt);
	capture_begin(&captured);
	mas_store_prealloc(&mas, ENTRY(1));
	check_reported(&captured, "call mas_preallocate()");
	assert_ptr_equal(mtree_load(&mt, 150), ENTRY(1));
	mas_set_range(&mas, 307, 407);
	capture_begin(&captured);
	refuse_in = 1;
	mas_store_prealloc(&mas, ENTRY(2));
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "mas_store_prealloc(307 ... 407)"));
	assert_non_null(strstr(captured.text, "nothing was stored"));
	assert_int_equal(mas_error(&mas), -ENOMEM);
	assert_ptr_equal(mtree_load(&mt, 355), ENTRY(35));
	mtree_unlock(&mt);
	done(&mt);
}

/* index > last and reserved entries: -EINVAL, from every call that could store them. */
static void wrong_stores(void **state)
{
	static const struct {
		unsigned long first, last;
		void *entry;
	} wrong[] = {{9, 8, ENTRY(1)}, {9, 9, (void *)2}, {ULONG_MAX, 0, NULL}};
	DEFINE_MTREE(mt);
	struct capture captured;

	(void)state;
	store(&mt, 0, 20, ENTRY(5));
	mtree_lock(&mt);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		MA_STATE(mas, &mt, wrong[i].first, wrong[i].last);

		assert_int_equal(mas_store_gfp(&mas, wrong[i].entry, GFP_KERNEL), -EINVAL);
		mas_set_range(&mas, wrong[i].first, wrong[i].last);
		mas_store(&mas, wrong[i].entry);
		assert_int_equal(mas_error(&mas), -EINVAL);
		assert_false(mas_nomem(&mas, GFP_KERNEL));
		mas_set_range(&mas, wrong[i].first, wrong[i].last);
		assert_int_equal(mas_preallocate(&mas, wrong[i].entry, GFP_KERNEL), -EINVAL);
		mas_set_range(&mas, wrong[i].first, wrong[i].last);
		capture_begin(&captured);
		mas_store_prealloc(&mas, wrong[i].entry);
		assert_int_equal(capture_end(&captured), 1);
		assert_non_null(strstr(captured.text, "failed (-22)"));
	}
	mtree_unlock(&mt);
	assert_ptr_equal(mtree_load(&mt, 9), ENTRY(5));
	done(&mt);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(duplicate),
		cmocka_unit_test(preallocation_counts),
		cmocka_unit_test(nomem),
		cmocka_unit_test(nomem_nofail),
		cmocka_unit_test(other_locks),
		cmocka_unit_test(shrink),
		cmocka_unit_test(preallocation_counts_of_rebuilds),
		cmocka_unit_test(duplicate_with_failures),
		cmocka_unit_test(nomem_and_writer),
		cmocka_unit_test(store_after_failed_preallocation),
		cmocka_unit_test(store_without_lock),
		cmocka_unit_test(external_lock),
		cmocka_unit_test(nobody_has_to_read),
		cmocka_unit_test(prealloc_without_preallocation),
		cmocka_unit_test(wrong_stores),
	};

	provider_register();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
