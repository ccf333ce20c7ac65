/* SPDX-License-Identifier: MIT */
/* Steps with memory pools, whose allocator counts what they have. */
#include <errno.h>
#include <string.h>

#include "fuzz/api/model.h"

static struct pool {
	mempool_t *pool, own; /* own: in the program's memory */
	struct kmem_cache *s; /* NULL: of blocks */
	size_t size;
	int least;
	unsigned int elements, out; /* all; those that the program has */
	bool exists;
} pools[MAX_POOLS];

static void count_element(const void *element, int sign)
{
	struct kmem_cache *s = cache_of_block(element);

	if (s)
		known_of(s)->in_use += (unsigned int)sign;
	else
		program.large_in_pools += (uint64_t)sign * ksize(element);
}

static void *get_element(gfp_t gfp, void *its)
{
	struct pool *pool = its;
	void *element = pool->s ? mempool_alloc_slab(gfp, pool->s)
				: mempool_kmalloc(gfp, (void *)pool->size);

	if (element) {
		count_element(element, 1);
		pool->elements++;
	}
	return element;
}

static void give_element(void *element, void *its)
{
	struct pool *pool = its;

	WANT(pool->elements);
	pool->elements--;
	count_element(element, -1);
	if (pool->s)
		mempool_free_slab(element, pool->s);
	else
		mempool_kfree(element, (void *)pool->size);
}

static unsigned int reserve(const struct pool *pool)
{
	WANT(pool->elements >= pool->out);
	WANT(pool->elements - pool->out <= (unsigned int)pool->least);
	return pool->elements - pool->out;
}

static bool never_fails(const struct pool *pool)
{
	return !may_fail(pool->s ? known_of(pool->s) : NULL, GFP_KERNEL, ROOT, 0);
}

static void make_pool(void)
{
	struct pool *pool = &pools[below(MAX_POOLS)];
	struct known *k = byte() & 1 ? some_cache() : NULL;
	int error = 0;

	if (pool->exists || (k && k->flags & SLAB_ACCOUNT))
		return;
	*pool = (struct pool){.s = k ? k->s : NULL,
			      .size = k ? k->size : 1 + below(3000),
			      .least = (int)below(20)};
	if (byte() & 1)
		pool->pool = mempool_create(pool->least, get_element, give_element, pool);
	else if ((error = mempool_init(&pool->own, pool->least, get_element, give_element, pool)) ==
		 0)
		pool->pool = &pool->own;
	if (!pool->pool) {
		WANT(!error || error == -ENOMEM);
		WANT(!never_fails(pool) && !pool->elements);
		may_report();
		return;
	}
	pool->exists = true;
	WANT(mempool_initialized(pool->pool) && reserve(pool) == (unsigned int)pool->least);
}

static struct pool *some_pool(void)
{
	struct pool *pool = &pools[below(MAX_POOLS)];

	return pool->exists ? pool : NULL;
}

static void take_elements(void)
{
	struct pool *pool = some_pool();

	for (unsigned int n = count(40), way = byte() % 3; pool && n > 0; n--) {
		bool waits = way == 0 && never_fails(pool);
		unsigned int had = reserve(pool);
		void *element;

		if (!has_room(pool->size))
			return;
		if (way == 2) {
			element = mempool_alloc_preallocated(pool->pool);
			WANT(!element == !had);
		} else {
			element = mempool_alloc(pool->pool, waits ? GFP_KERNEL : GFP_NOWAIT);
			WANT(element || (!waits && !had));
			may_report();
		}
		if (!element)
			return;
		pool->out++;
		adopt_element(element, pool->size, (int)(pool - pools));
		reserve(pool);
	}
}

static void give_elements(void)
{
	struct pool *pool = some_pool();

	for (unsigned int n = count(40), i = nr_objects; pool && n > 0 && i > 0; i--) {
		struct object o = objects[i - 1];
		unsigned int had = reserve(pool);

		if (o.pool != (int)(pool - pools))
			continue;
		disown(i - 1);
		pool->out--;
		mempool_free(o.p, pool->pool);
		if (had < (unsigned int)pool->least)
			WANT(reserve(pool) == had + 1);
		else
			WANT(reserve(pool) == had);
		n--;
	}
}

static void resize_pool(void)
{
	struct pool *pool = some_pool();
	int least = (int)below(30), error;

	if (!pool)
		return;
	error = mempool_resize(pool->pool, least);
	if (error) {
		WANT(error == -ENOMEM && !never_fails(pool));
		may_report();
		/* Later frees may fill it. */
		pool->least = least > pool->least ? least : pool->least;
		return;
	}
	pool->least = least;
	WANT(reserve(pool) <= (unsigned int)least);
}

static void give_away(struct object *o)
{
	o->pool = NO_POOL;
	if (!o->s)
		program.large_in_pools -= o->size;
}

/* The program keeps its elements, which are ordinary objects from now on. */
static void destroy_pool(struct pool *pool)
{
	for (unsigned int i = 0; i < nr_objects; i++)
		if (objects[i].pool == (int)(pool - pools))
			give_away(&objects[i]);
	if (pool->pool == &pool->own) {
		mempool_exit(pool->pool);
		WANT(!mempool_initialized(pool->pool));
		mempool_exit(pool->pool);
	} else {
		mempool_destroy(pool->pool);
	}
	WANT(pool->elements == pool->out);
	pool->exists = false;
}

static void end_pool(void)
{
	struct pool *pool = some_pool();

	if (pool)
		destroy_pool(pool);
}

void destroy_pools(struct kmem_cache *s)
{
	for (unsigned int i = 0; i < MAX_POOLS; i++)
		if (pools[i].exists && (!s || pools[i].s == s))
			destroy_pool(&pools[i]);
}

const struct step pool_steps[] = {
	{"make_pool", make_pool, 2},	     {"take_elements", take_elements, 3},
	{"give_elements", give_elements, 2}, {"resize_pool", resize_pool, 1},
	{"end_pool", end_pool, 1},	     {NULL, NULL, 0},
};
