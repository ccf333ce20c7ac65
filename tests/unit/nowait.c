/* SPDX-License-Identifier: MIT */
/* Calls that promise not to wait finish, whatever others are stuck in. */
#include <pthread.h>
#include <sheaf/slab.h>

#include "by_hand.h"
#include "cache/cache.h"
#include "cache/kmalloc.h"
#include "help.h"
#include "os/lock.h"
#include "unit.h"

enum {
	MANY = 1000
};

struct item {
	uint64_t stamp[4];
	struct sheaf_rcu_head rcu;
};

static struct kmem_cache *make(const char *name)
{
	struct kmem_cache *s = kmem_cache_create(name, sizeof(struct item), NULL, SLAB_NO_MERGE);

	CHECK(s);
	return s;
}

/* --- what a reader, or an allocation that must not wait, may do ---------------------------------- */

static void retire(struct kmem_cache *s, struct item **items, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (i % 2)
			kfree_rcu(items[i], rcu);
		else
			kmem_cache_free_rcu(s, items[i]);
}

static void *do_all(void *cache)
{
	static struct item *items[MANY];
	struct kmem_cache *s = cache;
	struct slab_sheaf *sheaf;

	for (unsigned int i = 0; i < MANY; i++)
		CHECK((items[i] = kmem_cache_alloc(s, GFP_NOWAIT)) != NULL);
	retire(s, items, MANY / 2);
	for (unsigned int i = MANY / 2; i < MANY; i++)
		kmem_cache_free(s, items[i]);
	CHECK(kmem_cache_alloc_bulk(s, GFP_NOWAIT, MANY / 2, (void **)items) == MANY / 2);
	kmem_cache_free_bulk(s, MANY / 2, (void **)items);
	sheaf = kmem_cache_prefill_sheaf(s, GFP_NOWAIT, 10);
	CHECK(sheaf);
	kmem_cache_return_sheaf(s, GFP_NOWAIT, sheaf);
	kfree(kmalloc(100, GFP_NOWAIT));
	kfree(kmalloc(100000, GFP_NOWAIT));
	return NULL;
}

static void others_go_on(struct kmem_cache *s)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, do_all, s) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
}

/* --- while somebody has a lock that may be held for long ------------------------------------------ */

static void lock_grace(void)
{
	grace_hold(grace_of(NULL));
}

static void unlock_grace(void)
{
	grace_let_go(grace_of(NULL));
}

static void lock_caches(void)
{
	os_lock(&caches.lock);
}

static void unlock_caches(void)
{
	os_unlock(&caches.lock);
}

static const struct {
	void (*lock)(void);
	void (*unlock)(void);
} ranks[] = {
	{kmalloc_lock, kmalloc_unlock},
	{lock_caches, unlock_caches},
	{lock_grace, unlock_grace},
	{sheaf_lock_drains, sheaf_unlock_drains},
};

static void no_lock_that_is_held_for_long(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
		struct kmem_cache *s = make("nowait-lock");

		ranks[i].lock();
		others_go_on(s);
		ranks[i].unlock();
		kvfree_rcu_barrier();
		assert_int_equal(kmem_cache_verify(s), 0);
		kmem_cache_destroy(s);
	}
}

static int begin(void **state)
{
	(void)state;
	/* The first of all makes the caches of kmalloc(). */
	kfree(kmalloc(1, GFP_KERNEL));
	return sheaf_rcu_register(&by_hand_ops);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_lock_that_is_held_for_long),
	};

	return cmocka_run_group_tests_name("nowait", tests, begin, NULL);
}
