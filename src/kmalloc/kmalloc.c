/* SPDX-License-Identifier: MIT */
/* kmalloc()'s own families, its table, and the calls. See kmalloc.h. */
#include "kmalloc/kmalloc.h"

#include <limits.h>
#include <stdio.h>

#include "cache/account.h"

#define KIB ((size_t)1 << 10)

const struct kmalloc_call kmalloc_most = {"kmalloc", "kvmalloc", KMALLOC_MAX_SIZE};
const struct kmalloc_call kvmalloc_most = {"kvmalloc", "vmalloc", INT_MAX};

static struct {
	uint32_t nr_partitions; /* 0: nothing is set up */
	uint64_t secret;
	/* The partitions of the lower half of the tokens, then as many of the upper half. */
	kmem_buckets charged, sets[2 * KMALLOC_PARTITIONS];
	/* Of sets[0], above the sizes that programs look up, by KiB; NULL as NO_CACHE there. */
	struct kmem_cache *by_kib[KMALLOC_LARGEST / KIB + 1];
} family OS_LARGE;

/*
 * --- the table of programs ----------------------------------------------------------------------
 */

/* No cache: its words lead to the call. */
static const struct sheaf_row_words no_cache;
#define NO_CACHE ((struct kmem_cache *)(uintptr_t)&no_cache)

struct sheaf_kmalloc_table kmalloc_table = {
	.by_words = {[0 ... SHEAF_KMALLOC_WORDS] = NO_CACHE},
};

SHEAF_PUBLIC struct sheaf_kmalloc_table *const sheaf_kmalloc_table = &kmalloc_table;

/* The cache that any call may take for this size; NULL: kmalloc_for() chooses one, because of the
 * token or the bytes requested, or makes it. */
static inline struct kmem_cache *cache_of_size(size_t size)
{
	struct kmem_cache *s;

	if (size <= 8 * SHEAF_KMALLOC_WORDS) {
		s = os_load_acquire(&kmalloc_table.by_words[(size + 7) >> 3]);
		return s == NO_CACHE ? NULL : s;
	}
	return size > KMALLOC_LARGEST ? NULL
				      : os_load_acquire(&family.by_kib[(size + KIB - 1) / KIB]);
}

static void enter_cache(struct kmem_cache **entry, struct kmem_cache *s)
{
	os_assert(!os_peek(entry) || os_peek(entry) == NO_CACHE); /* KMALLOC-K1 */
	tsan_release(entry);
	os_store_release(entry, s);
}

void kmalloc_made(kmem_buckets *set, struct kmem_cache *s)
{
	size_t size = s->sheaf.slab.object_size, step = size > 8 * SHEAF_KMALLOC_WORDS ? KIB : 8;

	/* With partitions, the token decides, in each call. */
	if (set != &family.sets[0] || family.nr_partitions > 1 || cache_is_checked(s))
		return;
	for (size_t n = size; n && kmalloc_class(&kmalloc_sizes, n) == size; n -= step)
		enter_cache(step == KIB ? &family.by_kib[n / KIB] : &kmalloc_table.by_words[n / 8],
			    s);
}

/* --- first use -------------------------------------------------------------------------------- */

static struct kmem_cache *twin(struct kmem_cache *s, gfp_t flags)
{
	kmem_buckets *charged = s->set->charged;

	return charged ? buckets_cache(charged, s->sheaf.slab.object_size, flags) : NULL;
}

static void set_up(void)
{
	uint32_t n = os_options.random_kmalloc_caches;

	n = n ? n : 1;
	family.secret = n > 1 ? os_random() : 0; /* with one partition, a system call for nothing */
	for (unsigned int i = 0; i < (n > 1 ? 2 * n : 1); i++) {
		family.sets[i].sizes = kmalloc_sizes;
		family.sets[i].charged = &family.charged;
		snprintf(family.sets[i].prefix, sizeof(family.sets[i].prefix),
			 !i	 ? "kmalloc"
			 : i < n ? "kmalloc-rnd-%02u"
				 : "kmalloc-ptr-%02u",
			 i % n);
	}
	family.charged.sizes = kmalloc_sizes;
	family.charged.charged = &family.charged;
	family.charged.flags = SLAB_ACCOUNT;
	strcpy(family.charged.prefix, "kmalloc-cg");
	caches.twin = twin;
	os_store_release(&family.nr_partitions, n);
}

bool kmalloc_ready(gfp_t flags)
{
	if (os_load_acquire(&family.nr_partitions))
		return true;
	while (!caches_ready()) {
		if (!(flags & __GFP_NOFAIL))
			return false;
		os_sleep_briefly();
	}
	os_lock(&caches.family);
	if (!family.nr_partitions)
		set_up();
	os_unlock(&caches.family);
	return true;
}

kmem_buckets *kmalloc_set(uint64_t token, gfp_t flags, unsigned int turn)
{
	uint32_t n = os_load_acquire(&family.nr_partitions), half = n > 1 && token >> 63 ? n : 0;
	uint64_t mixed;

	if (account_wanted(&kmalloc_large, flags))
		return turn ? NULL : &family.charged;
	if (turn >= n)
		return NULL;
	mixed = (token ^ family.secret) * UINT64_C(0x9e3779b97f4a7c15);
	return &family.sets[half + (((mixed >> 32) * n >> 32) + turn) % n]; /* KMALLOC-K4 */
}

/* --- the calls -------------------------------------------------------------------------------- */

/* A cache had no block. Where addresses are limited, the range may be full, but a mapping fit
 * beside it; not beside the limit of a group. */
static OS_NOINLINE void *instead_of_slab(size_t size, gfp_t flags, int node)
{
	size_t class = kmalloc_class(&kmalloc_sizes, size);
	void *block;

	if (size <= kmalloc_sizes.coarse_from || (flags & __GFP_THISNODE && node != NUMA_NO_NODE) ||
	    account_refuses(&kmalloc_large, flags, large_roundup(class)))
		return NULL;
	block = large_alloc(class, 1, flags, node, &kmalloc_most);
	if (block)
		kmalloc_tell_size(block, size);
	return block;
}

OS_NOINLINE void *kmalloc_from(kmem_buckets *set, size_t size, gfp_t flags, int node,
			       const struct kmalloc_call *call, uint64_t token)
{
	bool programs = set && !set->charged;
	void *block;

	if (!size)
		return ZERO_SIZE_PTR;
	flags = buckets_flags(set, flags);
	if (size > KMALLOC_LARGEST)
		return large_alloc(size, 1, flags, node, call);
	if (!kmalloc_ready(flags))
		return NULL;
	/* Whether it is charged depends on this request, not on the block that it replaces. */
	if (!set || set == set->charged || (set->charged && account_wanted(&kmalloc_large, flags)))
		set = kmalloc_set(token, flags, 0);
	block = buckets_alloc(set, size, flags, node);
	return block || programs ? block : instead_of_slab(size, flags, node);
}

OS_NOINLINE void *kmalloc_rest(size_t size, gfp_t flags, uint64_t token,
			       const struct kmalloc_call *call)
{
	struct kmem_cache *s = cache_of_size(size);
	void *block = s ? cache_alloc(s, flags) : NULL;

	guard_set_asked(block, size);
	if (os_likely(block))
		return block;
	if (s)
		return instead_of_slab(size, flags, NUMA_NO_NODE);
	return kmalloc_from(NULL, size, flags, NUMA_NO_NODE, call, token);
}

SHEAF_PUBLIC OS_FAST OS_NOINLINE void *__kmalloc(size_t size, gfp_t flags)
{
	void *block;

	if (os_likely(kmalloc_pop(size, flags, &block)))
		return block;
	return kmalloc_rest(size, flags, KMALLOC_CALLER, &kmalloc_most);
}

SHEAF_PUBLIC OS_FAST OS_NOINLINE void *__kmalloc_token(size_t size, gfp_t flags, uint64_t token)
{
	void *block;

	if (os_likely(kmalloc_pop(size, flags, &block)))
		return block;
	return kmalloc_rest(size, flags, token, &kmalloc_most);
}

SHEAF_PUBLIC OS_NOINLINE void *kmalloc_charged(size_t size, gfp_t flags, struct kmem_group *g)
{
	void *block;

	account_pays(g, "kmalloc_charged");
	block = kmalloc_for(size, flags | __GFP_ACCOUNT, NUMA_NO_NODE, KMALLOC_CALLER);
	account_own_pays();
	return block;
}

SHEAF_PUBLIC OS_NOINLINE void *kmalloc_node(size_t size, gfp_t flags, int node)
{
	return kmalloc_for(size, flags, node, KMALLOC_CALLER);
}

SHEAF_PUBLIC OS_NOINLINE void *kvmalloc_node(size_t size, gfp_t flags, int node)
{
	uint64_t token = KMALLOC_CALLER;

	return node == NUMA_NO_NODE ? kmalloc_rest(size, flags, token, &kvmalloc_most)
				    : kmalloc_from(NULL, size, flags, node, &kvmalloc_most, token);
}
