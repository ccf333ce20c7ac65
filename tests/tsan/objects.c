/* SPDX-License-Identifier: MIT */
/*
 * A program without a race, for the thread sanitizer: several threads allocate with every call,
 * write every byte, and pass their objects to each other through a table with a lock, or retire
 * them under readers. Nothing else orders the threads. So a race report means that the library did
 * not tell the sanitizer about a change of owner (TSAN-Z1, TSAN-Z2).
 *
 *     objects [ROUNDS]
 */
#include <pthread.h>
#include <sheaf/group.h>
#include <sheaf/mempool.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "readers.h"

#define THREADS	   3
#define PLACES	   64
#define FEW	   20
#define PAGE_BYTES ((size_t)4096)

/* --- what is handed over ---------------------------------------------------------------------- */

enum kind {
	OBJECT,
	NO_SHEAF,
	CONSTRUCTED,
	STABLE,
	BLOCK,
	LARGE,
	ELEMENT,
	SHEAF,
	NR_KINDS
};

struct held {
	void *what;
	size_t size;
	enum kind kind;
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct held table[PLACES];

static struct kmem_cache *plain, *no_sheaf, *constructed, *stable;
static mempool_t *pool;

static void construct(void *object)
{
	memset(object, 1, 96);
}

static struct kmem_cache *cache_of(enum kind kind)
{
	switch (kind) {
	case NO_SHEAF:
		return no_sheaf;
	case CONSTRUCTED:
		return constructed;
	case STABLE:
		return stable;
	default:
		return plain;
	}
}

/* What comes out of the table for what goes in. */
static struct held exchange(unsigned int place, struct held in)
{
	struct held out;

	pthread_mutex_lock(&table_lock);
	out = table[place];
	table[place] = in;
	pthread_mutex_unlock(&table_lock);
	return out;
}

static void write_all(struct held *held, int byte)
{
	if (held->what && held->kind != SHEAF && held->kind != STABLE)
		memset(held->what, byte, held->size);
}

static struct held make(enum kind kind, unsigned int random)
{
	struct held held = {.kind = kind, .size = 96};

	switch (kind) {
	case OBJECT:
		held.what = random & 1	 ? kmem_cache_alloc(plain, GFP_KERNEL)
			    : random & 2 ? kmem_cache_zalloc(plain, GFP_KERNEL)
					 : kmem_cache_alloc_node(plain, GFP_KERNEL, NUMA_NO_NODE);
		break;
	case NO_SHEAF:
	case CONSTRUCTED:
	case STABLE:
		held.what = random & 1 ? kmem_cache_alloc_nolock(cache_of(kind), 0)
				       : kmem_cache_alloc(cache_of(kind), GFP_KERNEL);
		break;
	case BLOCK:
		held.size = 1 + random % 5000;
		held.what = random & 1 ? kmalloc(held.size, GFP_KERNEL)
				       : kzalloc(held.size, GFP_KERNEL);
		break;
	case LARGE:
		held.size = PAGE_BYTES * (3 + random % 10);
		held.what = random & 1 ? kvmalloc(held.size, GFP_KERNEL)
				       : kvzalloc(held.size, GFP_KERNEL);
		break;
	case ELEMENT:
		held.what = random & 1 ? mempool_alloc(pool, GFP_KERNEL)
				       : mempool_alloc_preallocated(pool);
		break;
	default:
		held.what = kmem_cache_prefill_sheaf(plain, GFP_KERNEL, 1 + random % 90);
	}
	write_all(&held, (int)random);
	return held;
}

/* Use one object of the sheaf; another thread may return the sheaf. */
static void use_sheaf(struct slab_sheaf *sheaf)
{
	struct held one = {kmem_cache_alloc_from_sheaf(plain, GFP_KERNEL, sheaf), 96, OBJECT};

	write_all(&one, 2);
	if (one.what)
		kmem_cache_free(plain, one.what);
}

static void end(struct held held, unsigned int random)
{
	if (!held.what)
		return;
	write_all(&held, 3);
	switch (held.kind) {
	case OBJECT:
	case NO_SHEAF:
	case CONSTRUCTED:
	case STABLE:
		if (random & 1)
			kmem_cache_free(cache_of(held.kind), held.what);
		else if (random & 2)
			kmem_cache_free_nolock(cache_of(held.kind), held.what);
		else
			kfree(held.what);
		break;
	case BLOCK:
	case LARGE:
		if (random & 1)
			kvfree(held.what);
		else
			kvfree_rcu_mightsleep(held.what);
		break;
	case ELEMENT:
		mempool_free(held.what, pool);
		break;
	default:
		use_sheaf(held.what);
		kmem_cache_return_sheaf(plain, GFP_KERNEL, held.what);
	}
}

/* --- what readers may look at ----------------------------------------------------------------- */

struct shown {
	struct sheaf_rcu_head rcu;
	long words[6];
};

static _Atomic(struct shown *) shown;

static void read_shown(void)
{
	struct shown *seen;
	long sum = 0;

	pthread_rwlock_rdlock(&readers);
	seen = atomic_load(&shown);
	for (int i = 0; seen && i < 6; i++)
		sum += seen->words[i];
	pthread_rwlock_unlock(&readers);
	if (sum % 6)
		abort();
}

static void replace_shown(unsigned int random)
{
	struct shown *fresh = random & 1 ? kmalloc(sizeof(*fresh), GFP_KERNEL)
					 : kmem_cache_alloc(plain, GFP_KERNEL);

	if (!fresh)
		return;
	for (int i = 0; i < 6; i++)
		fresh->words[i] = (long)random;
	fresh = atomic_exchange(&shown, fresh);
	if (fresh)
		kfree_rcu(fresh, rcu);
}

/* --- the threads ------------------------------------------------------------------------------ */

static void bulk(void)
{
	void *objects[FEW];

	if (!kmem_cache_alloc_bulk(plain, GFP_KERNEL, FEW, objects))
		return;
	for (int i = 0; i < FEW; i++)
		memset(objects[i], i, 96);
	kmem_cache_free_bulk(plain, FEW / 2, objects);
	kmem_cache_free_bulk(NULL, FEW / 2, objects + FEW / 2);
}

/* Slabs are freed, and their pages become slabs of another size (TSAN-Z3). */
static void own_cache(unsigned int random)
{
	size_t size = 40 + random % 700;
	struct kmem_cache *s = kmem_cache_create("own", size, NULL, SLAB_NO_MERGE);
	struct held held = {.size = size, .kind = OBJECT};

	for (int i = 0; s && i < FEW; i++) {
		held.what = kmem_cache_alloc(s, GFP_KERNEL);
		write_all(&held, i);
		if (held.what)
			kmem_cache_free(s, held.what);
	}
	kmem_cache_destroy(s);
	kmem_cache_shrink(plain);
}

static unsigned long rounds;

static void *run(void *argument)
{
	unsigned int state = 1 + (unsigned int)(size_t)argument;
	const struct held none = {0};

	for (unsigned long i = 0; i < rounds; i++) {
		unsigned int random = (unsigned int)rand_r(&state);

		end(exchange(random % PLACES,
			     make((enum kind)(random / PLACES % NR_KINDS), random >> 9)),
		    random >> 12);
		read_shown();
		if (random % 4 == 0)
			replace_shown(random >> 3);
		if (random % 16 == 0)
			bulk();
		if (random % 128 == 0)
			own_cache(random >> 7);
		if (random % 256 == 0)
			kvfree_rcu_barrier();
	}
	for (unsigned int place = 0; place < PLACES; place++)
		end(exchange(place, none), place);
	return NULL;
}

/* A cache that charges, from before there are groups. */
static int charge(void)
{
	struct kmem_cache *s = kmem_cache_create("charged", 96, NULL, SLAB_ACCOUNT);
	struct kmem_group *g = kmem_group_create("group", NULL, NULL);
	void *object = kmem_cache_alloc_charged(s, GFP_KERNEL, g);

	if (!s || !g || !object)
		return 1;
	kmem_cache_free(s, object);
	kmem_group_put(g);
	kmem_cache_destroy(s);
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];

	rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 4000;
	if (sheaf_rcu_register(&provider))
		return 1;
	plain = kmem_cache_create("plain", 96, NULL, SLAB_NO_MERGE);
	no_sheaf = kmem_cache_create("no_sheaf", 96, NULL, SLAB_NO_SHEAVES);
	constructed = kmem_cache_create("constructed", 96, 0, 0, construct);
	stable = kmem_cache_create("stable", 96, NULL, SLAB_TYPESAFE_BY_RCU);
	pool = mempool_create_slab_pool(8, plain);
	if (!plain || !no_sheaf || !constructed || !stable || !pool)
		return 1;
	if (charge())
		return 1;
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i))
			return 1;
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	kfree(atomic_load(&shown));
	mempool_destroy(pool);
	kmem_cache_destroy(plain);
	kmem_cache_destroy(no_sheaf);
	kmem_cache_destroy(constructed);
	kmem_cache_destroy(stable);
	return 0;
}
