/* SPDX-License-Identifier: MIT */
/*
 * A program without a race, for the thread sanitizer: writers store ranges in a maple tree, and
 * readers read entries without its lock. Only the tree orders a store and a load, so a race report
 * is a bug in the library.
 *
 *     tree [ROUNDS]
 */
#include <sched.h>
#include <sheaf/maple_tree.h>
#include <stdlib.h>

#include "readers.h"

#define THREADS 3
#define RANGES	200
#define WIDTH	10

struct range {
	struct sheaf_rcu_head rcu;
	long first, sum;
};

static struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_USE_RCU | MT_FLAGS_ALLOC_RANGE);
static unsigned long rounds;

static void look(const struct range *range)
{
	if (range && range->sum != range->first * 2)
		abort();
}

static void read_some(unsigned int random)
{
	unsigned long index = random % (RANGES * WIDTH), most = index + 5 * WIDTH;
	struct range *range;
	MA_STATE(mas, &tree, index, index);

	pthread_rwlock_rdlock(&readers);
	look(mtree_load(&tree, index));
	look(mas_walk(&mas));
	look(mas_next(&mas, most));
	mas_set(&mas, index);
	mas_for_each(&mas, range, most) look(range);
	mas_for_each_rev(&mas, range, index / 2) look(range);
	pthread_rwlock_unlock(&readers);
}

static void write_one(unsigned int random)
{
	unsigned long index = random / 7 % RANGES * WIDTH;
	struct range *fresh = random & 1 ? kmalloc(sizeof(*fresh), GFP_KERNEL) : NULL, *old;
	MA_STATE(mas, &tree, index, index + WIDTH - 1);

	if (fresh) {
		fresh->first = (long)index;
		fresh->sum = fresh->first * 2;
	}
	mas_lock(&mas);
	old = mas_walk(&mas);
	mas_set_range(&mas, index, index + WIDTH - 1);
	if (mas_store_gfp(&mas, fresh, GFP_KERNEL))
		abort();
	mas_unlock(&mas);
	if (old)
		kfree_rcu(old, rcu);
}

static void *run(void *argument)
{
	unsigned int state = 1 + (unsigned int)(size_t)argument;

	for (unsigned long i = 0; i < rounds; i++) {
		unsigned int random = (unsigned int)rand_r(&state);

		if (random % 4 == 0)
			write_one(random / 4);
		else
			read_some(random / 4);
		if (random % 256 == 0)
			kvfree_rcu_barrier();
	}
	return NULL;
}

/* A free index orders as much as an entry does: what the writer did before it happened before. */
static struct maple_tree taken = MTREE_INIT(taken, MT_FLAGS_USE_RCU);
static long noted;

static void *wait_until_free(void *index)
{
	while (mtree_load(&taken, (unsigned long)index))
		sched_yield();
	if (noted != (long)index)
		abort();
	return NULL;
}

static void erase_tells(void)
{
	pthread_t thread;

	for (unsigned long i = 0; i < 8; i++)
		if (mtree_store(&taken, i, &taken, GFP_KERNEL))
			abort();
	if (pthread_create(&thread, NULL, wait_until_free, (void *)4))
		abort();
	noted = 4;
	mtree_erase(&taken, 4);
	pthread_join(thread, NULL);
	mtree_destroy(&taken);
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	unsigned long index = 0;
	struct range *range;

	rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 4000;
	if (sheaf_rcu_register(&provider))
		return 1;
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i))
			return 1;
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	erase_tells();
	mt_for_each(&tree, range, index, ULONG_MAX) kfree(range);
	mtree_destroy(&tree);
	return 0;
}
