/* SPDX-License-Identifier: MIT */
/*
 * A storm of charged objects: threads allocate in changing groups, hand objects to each other, free
 * and retire them, while groups come and go, signals abort sections, stocks are drained and
 * children are forked. After each round the sum of groups is the root's, and that of all
 * objects, to the byte; in each child, too.
 */
#include <pthread.h>
#include <sheaf/group.h>
#include <sheaf/rcu.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/hooks.h"
#include "kit/printed.h"
#include "kit/random.h"
#include "kit/unit.h"

enum {
	THREADS = 6,
	ROUNDS = 4,
	OPERATIONS = 6000,
	HELD = 100,
	GROUPS = 12,
	BOXES = 64,
	BULK = 30,
	CACHES = 4
};

static struct kmem_cache *s[CACHES]; /* the last one is not SLAB_ACCOUNT */
static struct kmem_group *tree[GROUPS];
static void *boxes[BOXES];

struct worker {
	pthread_t thread;
	uint64_t seed;
	unsigned int n;
	void *held[HELD + BULK];
};

static gfp_t flags_of(struct worker *w, unsigned int c)
{
	gfp_t flags = random_below(&w->seed, 4) ? GFP_KERNEL : GFP_NOWAIT;

	return c == CACHES - 1 && random_below(&w->seed, 2) ? flags | __GFP_ACCOUNT : flags;
}

static void keep(struct worker *w, void *object)
{
	if (object)
		w->held[w->n++] = object;
}

static void take(struct worker *w)
{
	unsigned int c = random_below(&w->seed, CACHES);
	size_t size = (size_t)1 << random_below(&w->seed, random_below(&w->seed, 40) ? 12 : 22);
	struct slab_sheaf *sheaf;

	switch (random_below(&w->seed, 8)) {
	case 0:
		keep(w, kmalloc(size, GFP_KERNEL_ACCOUNT));
		break;
	case 1:
		keep(w, kmem_cache_alloc_nolock(s[c], 0));
		break;
	case 2:
		if (kmem_cache_alloc_bulk(s[c], flags_of(w, c), BULK, w->held + w->n))
			w->n += BULK;
		break;
	case 3:
		sheaf = kmem_cache_prefill_sheaf(s[c], GFP_KERNEL, 5);
		keep(w, kmem_cache_alloc_from_sheaf(s[c], flags_of(w, c), sheaf));
		kmem_cache_return_sheaf(s[c], GFP_KERNEL, sheaf);
		break;
	case 4:
		keep(w, kmem_cache_alloc_charged(s[c], flags_of(w, c),
						 tree[random_below(&w->seed, GROUPS)]));
		break;
	default:
		keep(w, kmem_cache_alloc(s[c], flags_of(w, c)));
	}
}

static void give(struct worker *w)
{
	unsigned int at = random_below(&w->seed, w->n);
	void *object = w->held[at];

	w->held[at] = w->held[--w->n];
	switch (random_below(&w->seed, 6)) {
	case 0:
		kvfree_rcu_mightsleep(object);
		break;
	case 1:
		kmem_cache_free_bulk(NULL, 1, &object);
		break;
	default:
		kfree(object);
	}
}

/* A group that ends before its objects. */
static void brief_group(struct worker *w)
{
	struct kmem_group_args args = {.hard_limit = 5000};
	struct kmem_group *g =
		kmem_group_create("brief", tree[random_below(&w->seed, GROUPS)], &args);

	kmem_group_restore_current(kmem_group_get(g));
	keep(w, kmem_cache_alloc(s[0], GFP_KERNEL));
	kmem_group_put(g);
}

static void *work(void *data)
{
	struct worker *w = data;

	for (int i = 0; i < OPERATIONS; i++) {
		unsigned int what = random_below(&w->seed, 100);
		void **box = &boxes[random_below(&w->seed, BOXES)];

		if (what < 10)
			kmem_group_restore_current(
				kmem_group_get(what ? tree[random_below(&w->seed, GROUPS)] : NULL));
		else if (what < 20 && w->n)
			keep(w, __atomic_exchange_n(box, w->held[--w->n], __ATOMIC_ACQ_REL));
		else if (what < 22 && w->n < HELD)
			brief_group(w);
		else if (what < 60 && w->n < HELD)
			take(w);
		else if (w->n)
			give(w);
	}
	while (w->n)
		give(w);
	/* The thread ends with its group. */
	return NULL;
}

static void on_timer(int number)
{
	(void)number;
}

static void start_timer(suseconds_t every)
{
	struct itimerval timer = {{0, every}, {0, every}};
	struct sigaction action = {.sa_flags = SA_RESTART};

	action.sa_handler = on_timer;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

static void in_a_child(void)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		struct kmem_group_stats root;
		int faults = kmem_group_verify();
		void *object = kmem_cache_alloc_charged(s[0], GFP_KERNEL, tree[0]);

		kmem_group_stats(NULL, &root);
		if (object)
			kmem_cache_free(s[0], object);
		_exit(faults || kmem_group_verify() || root.stocks > root.bytes + (1 << 20));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void meddle(uint64_t *seed)
{
	hook_drain_stock(tree[random_below(seed, GROUPS)]);
	by_hand_pass();
	kmem_cache_shrink(s[random_below(seed, CACHES)]);
	in_a_child();
}

static void storm(void **state)
{
	static struct worker workers[THREADS];
	struct kmem_group_stats root;
	uint64_t objects;
	uint64_t seed = 12345;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		start_timer(1000);
		for (int i = 0; i < THREADS; i++) {
			workers[i].seed = (uint64_t)(round * THREADS + i + 1) << 20;
			assert_int_equal(
				pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
		}
		for (int i = 0; i < 5; i++)
			meddle(&seed);
		for (int i = 0; i < THREADS; i++)
			pthread_join(workers[i].thread, NULL);
		start_timer(0);
		assert_int_equal(kmem_group_verify(), 0);
		for (int i = 0; i < BOXES; i++)
			kfree(__atomic_exchange_n(&boxes[i], NULL, __ATOMIC_ACQ_REL));
		kvfree_rcu_barrier();
		assert_int_equal(kmem_group_verify(), 0);
		assert_int_equal(kmem_group_stats(NULL, &root), 0);
		assert_int_equal(root.bytes, 0);
		assert_int_equal(kmem_group_count_objects(NULL, &objects, NULL), 0);
		assert_int_equal(objects, 0);
		for (int c = 0; c < CACHES; c++)
			assert_int_equal(kmem_cache_verify(s[c]), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(storm)};
	static const size_t sizes[CACHES] = {64, 24, 1000, 104};
	int failed;

	if (sheaf_rcu_register(&by_hand_ops))
		return 1;
	for (int i = 0; i < GROUPS; i++) {
		struct kmem_group_args args = {.hard_limit = i % 3 ? (size_t)100000 << i % 5 : 0};

		tree[i] = kmem_group_create("tree", i ? tree[(i - 1) / 2] : NULL, &args);
	}
	for (int c = 0; c < CACHES; c++)
		s[c] = make("storm", sizes[c], c < CACHES - 1 ? SLAB_ACCOUNT : 0);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	for (int i = GROUPS - 1; i >= 0; i--)
		kmem_group_put(tree[i]);
	/* None is left. */
	return failed || strstr(printed(SHEAF_STATS_JSON), "\"tree\"");
}
