/* SPDX-License-Identifier: MIT */
/* kmem_buckets: families of caches, one for each size class. kmalloc()'s own are in kmalloc.c. */
#include <limits.h>
#include <stdio.h>

#include "cache/reclaim.h"
#include "kmalloc/kmalloc.h"
#include "page/pool.h"

/* Limit the region that may be copied to user space to an object of this size. */
static void cut_region(struct kmem_cache_args *args, unsigned int size)
{
	if (args->useroffset >= size)
		args->useroffset = args->usersize = 0;
	if (args->usersize > size - args->useroffset)
		args->usersize = size - args->useroffset;
}

static struct kmem_cache *make_class(kmem_buckets *set, unsigned int size, bool wait)
{
	struct kmem_cache_args args = set->args;
	struct kmem_cache *s;
	char name[sizeof(set->prefix) + 16];

	snprintf(name, sizeof(name), size % 1024 ? "%s-%u" : "%s-%uk", set->prefix,
		 size % 1024 ? size : size / 1024);
	cut_region(&args, size);
	args.align = size & -size;
	s = cache_create(name, size, &args, set->flags | SLAB_NO_MERGE | CACHE_KMALLOC, wait);
	if (s)
		s->set = set;
	return s;
}

/* KMALLOC-K2 */
static OS_COLD struct kmem_cache *make_once(kmem_buckets *set, size_t size, bool wait)
{
	struct kmem_cache **place = &set->caches[kmalloc_index(&set->sizes, size)], *s;
	OS_KEEP_ERRNO;

	if (wait)
		os_lock(&caches.family);
	else if (!os_trylock(&caches.family))
		return NULL;
	s = *place;
	if (!s) {
		s = make_class(set, (unsigned int)kmalloc_class(&set->sizes, size), wait);
		os_store_release(place, s);
		if (s)
			kmalloc_made(set, s);
	}
	os_unlock(&caches.family);
	cache_leave();
	return s;
}

struct kmem_cache *buckets_cache(kmem_buckets *set, size_t size, gfp_t flags)
{
	unsigned int index = kmalloc_index(&set->sizes, size);
	struct kmem_cache *s = os_load_acquire(&set->caches[index]);
	bool wait = gfpflags_allow_blocking(flags);

	if (os_likely(s))
		return s;
	s = make_once(set, size, wait);
	for (unsigned int n = 1; !s && n <= KMALLOC_EACH && index + n < KMALLOC_CLASSES; n++)
		s = buckets_made(set, index + n, size);
	/* A call that may fail must not fail because another thread is making this cache; but
	 * nobody waits to get less memory (kfree.c). */
	return s || wait || flags & __GFP_NORETRY ? s : make_once(set, size, true);
}

SHEAF_PUBLIC kmem_buckets *kmem_buckets_create(const char *name, slab_flags_t flags,
					       unsigned int useroffset, unsigned int usersize,
					       void (*ctor)(void *object))
{
	kmem_buckets *set = caches_ready() ? pool_alloc(sizeof(*set)) : NULL;
	struct kmem_cache *first = NULL;

	if (set) {
		set->sizes = kmalloc_sizes;
		set->flags = flags;
		set->args.useroffset = useroffset;
		set->args.usersize = usersize;
		set->args.ctor = ctor;
		snprintf(set->prefix, sizeof(set->prefix), "%s", name ? name : "(no name)");
		/* It checks the arguments, and reports what is wrong: no lock is held. */
		first = make_class(set, set->sizes.least, true);
		set->caches[kmalloc_index(&set->sizes, set->sizes.least)] = first;
		set->flags &= ~SLAB_PANIC;
	}
	if (!first) {
		pool_free(set, sizeof(*set));
		set = NULL;
	}
	cache_leave();
	return set;
}

SHEAF_PUBLIC void kmem_buckets_destroy(kmem_buckets *set)
{
	for (unsigned int i = 0; set && i < KMALLOC_CLASSES; i++) {
		/* It stays if blocks of it are in use. */
		if (set->caches[i])
			set->caches[i]->set = NULL;
		kmem_cache_destroy(set->caches[i]);
	}
	pool_free(set, sizeof(*set));
}

/* --- allocating ------------------------------------------------------------------------------- */

void *buckets_alloc(kmem_buckets *set, size_t size, gfp_t flags, int node)
{
	struct kmem_cache *s;
	void *object;

	for (int tries = 0; !(s = buckets_cache(set, size, flags)); tries++)
		if (!reclaim_for(NULL, flags, tries)) {
			page_count_failure(1);
			return NULL;
		}
	object = node == NUMA_NO_NODE ? cache_alloc(s, flags)
				      : kmem_cache_alloc_node(s, flags, node);
	if (object)
		cache_set_size(s, object, size);
	return object;
}

SHEAF_PUBLIC OS_NOINLINE void *kmem_buckets_alloc(kmem_buckets *set, size_t size, gfp_t flags)
{
	static const struct kmalloc_call call = {"kmem_buckets_alloc", "kmem_buckets_valloc",
						 KMALLOC_MAX_SIZE};

	return kmalloc_from(set, size, flags, NUMA_NO_NODE, &call, KMALLOC_CALLER);
}

SHEAF_PUBLIC OS_NOINLINE void *kmem_buckets_valloc(kmem_buckets *set, size_t size, gfp_t flags)
{
	static const struct kmalloc_call call = {"kmem_buckets_valloc", "vmalloc", INT_MAX};

	return kmalloc_from(set, size, flags, NUMA_NO_NODE, &call, KMALLOC_CALLER);
}
