/* SPDX-License-Identifier: MIT */
/* The detection table on libsheaf, with grace periods that pass when a case says so. */
#include <sheaf/kmalloc.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <stdlib.h>

#include "detect.h"

const bool has_caches = true;

void detect_made(struct cache *s);

/* Callbacks that wait for the next grace period. There is one thread that retires. */
static struct sheaf_rcu_head *first, **last = &first;

static void call(struct sheaf_rcu_head *head, void (*func)(struct sheaf_rcu_head *head))
{
	head->func = func;
	head->next = NULL;
	*last = head;
	last = &head->next;
}

static void barrier(void)
{
	struct sheaf_rcu_head *head = first, *next;

	first = NULL;
	last = &first;
	for (; head; head = next) {
		next = head->next;
		head->func(head);
	}
}

static const struct sheaf_rcu_ops ops = {
	.size = sizeof(ops), .name = "detect", .call = call, .barrier = barrier};

static struct kmem_cache *of(struct cache *s)
{
	return (struct kmem_cache *)s;
}

struct cache *cache_make(const char *name, size_t size, void (*ctor)(void *object))
{
	struct kmem_cache_args args = {.ctor = ctor};
	struct cache *s;

	sheaf_rcu_register(&ops);
	s = (struct cache *)kmem_cache_create(name, size, &args, SLAB_NO_MERGE);
	detect_made(s);
	return s;
}

void *cache_take(struct cache *s)
{
	return kmem_cache_alloc(of(s), GFP_KERNEL);
}

void cache_give(struct cache *s, void *object)
{
	kmem_cache_free(of(s), object);
}

void cache_give_many(struct cache *s, size_t n, void **objects)
{
	kmem_cache_free_bulk(of(s), n, objects);
}

void cache_retire(struct cache *s, void *object)
{
	kmem_cache_free_rcu(of(s), object);
}

void grace_pass(void)
{
	kvfree_rcu_barrier();
}

void cache_end(struct cache *s)
{
	kmem_cache_destroy(of(s));
}

void *block_take(size_t size)
{
	return kmalloc(size, GFP_KERNEL);
}

void block_give(void *block)
{
	kfree(block);
}

void *block_resize(void *block, size_t size)
{
	return krealloc(block, size, GFP_KERNEL);
}

void *block_of_other_kind(size_t size)
{
	return kmalloc(size, GFP_KERNEL);
}

void give_to_other_kind(void *block)
{
	free(block);
}
