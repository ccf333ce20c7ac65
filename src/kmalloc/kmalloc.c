/* SPDX-License-Identifier: MIT */
/* The family of caches, its first use, and kmalloc(); see kmalloc.h. */
#include "kmalloc/kmalloc.h"

#include <limits.h>
#include <stdio.h>

#include "cache/account.h"
#include "page/limit.h"

/* Tables are built from the list of sizes; words: the entries that a size serves. */
#define WORDS(before, size)    (before) / 8 + 1 ...(size) / 8
#define SIZE_OF(before, size)  [KMALLOC_##size] = (size),
#define INDEX_OF(before, size) [WORDS(before, size)] = KMALLOC_##size,
#define LARGER_INDEX(before, size)                                                                 \
	[(before) / KMALLOC_STEP + 1 ...(size) / KMALLOC_STEP] = KMALLOC_##size,

const uint32_t kmalloc_sizes[KMALLOC_CACHES] = {KMALLOC_SIZES(SIZE_OF) KMALLOC_LARGER(SIZE_OF)};
const uint8_t kmalloc_index_of[SHEAF_KMALLOC_WORDS + 1] = {KMALLOC_SIZES(INDEX_OF)};
const uint8_t kmalloc_larger_index[KMALLOC_LARGEST / KMALLOC_STEP + 1] = {
	KMALLOC_LARGER(LARGER_INDEX)};

static struct {
	uint32_t ready;	 /* every cache was created */
	uint32_t common; /* any call may take the first partition's caches */
	uint32_t nr_partitions;
	uint64_t secret;
	struct kmem_cache *caches[KMALLOC_PARTITIONS][KMALLOC_CACHES];
	struct kmem_cache *charged[KMALLOC_CACHES]; /* made one by one, when they are needed */
} family OS_LARGE;

/*
 * --- the table of programs ----------------------------------------------------------------------
 */

/* No cache: its words lead to the call. */
static const struct sheaf_row_words no_cache;
#define NO_CACHE ((struct kmem_cache *)(uintptr_t)&no_cache)

static struct sheaf_kmalloc_table sizes_table = {
	.by_words = {[0 ... SHEAF_KMALLOC_WORDS] = NO_CACHE},
};

_Static_assert(KMALLOC_LARGEST >= 8 * SHEAF_KMALLOC_WORDS, "programs look up all sizes up to this");

SHEAF_PUBLIC struct sheaf_kmalloc_table *const sheaf_kmalloc_table = &sizes_table;

/* The cache that any call may take for this size; NULL: kmalloc_for() chooses one, because of the
 * caller's address or the bytes requested, or makes the caches. */
static inline struct kmem_cache *cache_of_size(size_t size)
{
	if (!os_load_acquire(&family.common) || size - 1 >= KMALLOC_LARGEST)
		return NULL;
	return family.caches[0][kmalloc_index(size)];
}

/* --- first use -------------------------------------------------------------------------------- */

struct kmem_cache *kmalloc_make(const char *prefix, unsigned int index,
				const struct kmem_cache_args *args, slab_flags_t flags)
{
	unsigned int size = kmalloc_sizes[index];
	struct kmem_cache_args own = *args;
	char name[128];

	if (size % 1024)
		snprintf(name, sizeof(name), "%s-%u", prefix, size);
	else
		snprintf(name, sizeof(name), "%s-%uk", prefix, size / 1024);
	own.align = size & -size;
	return cache_create(name, size, &own, flags | SLAB_NO_MERGE | CACHE_KMALLOC);
}

static bool make_partition(unsigned int number)
{
	static const struct kmem_cache_args args;
	char prefix[32] = "kmalloc";

	if (number)
		snprintf(prefix, sizeof(prefix), "kmalloc-rnd-%02u", number);
	for (unsigned int i = 1; i < KMALLOC_CACHES; i++) {
		struct kmem_cache **s = &family.caches[number][i];

		if (!*s)
			*s = kmalloc_make(prefix, i, &args, 0);
		if (!*s)
			return false;
	}
	return true;
}

static void fill_table(void)
{
	os_assert(os_peek(&caches.family.word) && os_peek(&family.ready)); /* KMALLOC-K2 */
	for (unsigned int i = 1; i < KMALLOC_CACHES; i++)
		if (cache_is_checked(family.caches[0][i]))
			return;
	for (unsigned int i = 1; i <= SHEAF_KMALLOC_WORDS; i++) {
		struct kmem_cache **entry = &sizes_table.by_words[i];

		os_assert(os_peek(entry) == NO_CACHE); /* KMALLOC-K1 */
		tsan_release(entry);
		os_store_release(entry, family.caches[0][kmalloc_index_of[i]]);
	}
	os_store_release(&family.common, 1);
}

static bool make_family(void)
{
	uint32_t n = os_options.random_kmalloc_caches;

	if (!family.secret)
		family.secret = os_random() | 1;
	family.nr_partitions = n ? n : 1;
	for (unsigned int i = 0; i < family.nr_partitions; i++)
		if (!make_partition(i))
			return false;
	return true;
}

static struct kmem_cache *make_charged(unsigned int index)
{
	static const struct kmem_cache_args args;
	struct kmem_cache *s;

	os_lock(&caches.family);
	s = family.charged[index];
	if (!s) {
		s = kmalloc_make("kmalloc-cg", index, &args, SLAB_ACCOUNT);
		os_store_release(&family.charged[index], s);
	}
	os_unlock(&caches.family);
	cache_leave();
	return s;
}

/* In place of s, a cache of the family; NULL: s is another one, or there is no memory. */
static struct kmem_cache *twin(struct kmem_cache *s)
{
	unsigned int index;
	struct kmem_cache *charged;

	if (!kmalloc_is_of_family(s))
		return NULL;
	index = kmalloc_index(s->sheaf.slab.object_size);
	charged = os_load_acquire(&family.charged[index]);
	return charged ? charged : make_charged(index);
}

static bool family_ready(void)
{
	OS_KEEP_ERRNO;

	if (os_load_acquire(&family.ready))
		return true;
	if (!caches_ready())
		return false;
	os_lock(&caches.family);
	if (!family.ready && make_family()) {
		caches.twin = twin;
		os_store_release(&family.ready, 1);
		/* Afterwards: a charged request that finds a cache there asks for its twin. With
		 * partitions, the address of the caller decides, in each call. */
		if (family.nr_partitions == 1)
			fill_table();
	}
	os_unlock(&caches.family);
	cache_leave();
	return os_load_acquire(&family.ready);
}

static unsigned int partition_of(const void *caller)
{
	uint64_t mixed = ((uintptr_t)caller ^ family.secret) * UINT64_C(0x9e3779b97f4a7c15);

	return (unsigned int)((mixed >> 32) * family.nr_partitions >> 32);
}

static struct kmem_cache *cache_for(unsigned int index, const void *caller)
{
	return family.caches[partition_of(caller)][index];
}

struct kmem_cache *kmalloc_cache_made(unsigned int index, const void *caller, gfp_t flags,
				      unsigned int turn)
{
	struct kmem_cache *s;

	if (!os_load_acquire(&family.ready) || turn >= family.nr_partitions)
		return NULL;
	s = family.caches[(partition_of(caller) + turn) % family.nr_partitions][index];
	if (!account_wanted(s, flags))
		return s;
	return turn ? NULL : os_load_acquire(&family.charged[index]);
}

_Static_assert(KMEM_CACHE_MAX_SIZE <= KMALLOC_LARGEST, "each cache has an index");

bool kmalloc_is_of_family(const struct kmem_cache *s)
{
	unsigned int n = os_load_acquire(&family.ready) ? family.nr_partitions : 0;
	unsigned int index = kmalloc_index(s->sheaf.slab.object_size);

	for (unsigned int number = 0; number < n; number++)
		if (family.caches[number][index] == s)
			return true;
	return n && os_load_relaxed(&family.charged[index]) == s;
}

/* --- the calls -------------------------------------------------------------------------------- */

/* A red zone follows the requested bytes. The object may come from the twin, which may have other
 * letters or none: there was no memory for a twin when s was chosen, but then there was. */
void *kmalloc_checked(struct kmem_cache *s, size_t size, gfp_t flags, int node)
{
	void *object = node == NUMA_NO_NODE ? cache_alloc(s, flags)
					    : kmem_cache_alloc_node(s, flags, node);
	struct slab_cache *owner = object ? page_owner(object) : NULL;

	/* A guarded object has no slab. */
	if (object && (!owner || owner->extra))
		debug_set_size(owner, object, size);
	return object;
}

static void *from_family(size_t size, gfp_t flags, int node, const void *caller)
{
	struct kmem_cache *s, *charged;

	while (!family_ready()) {
		if (!(flags & __GFP_NOFAIL)) {
			page_count_failure(1);
			return NULL;
		}
		os_sleep_briefly();
	}
	s = cache_for(kmalloc_index(size), caller);
	charged = account_wanted(s, flags) && !cache_is_accounted(s) ? twin(s) : NULL;
	if (charged)
		s = charged;
	if (cache_is_checked(s))
		return kmalloc_checked(s, size, flags, node);
	if (node == NUMA_NO_NODE)
		return cache_alloc(s, flags);
	return kmem_cache_alloc_node(s, flags, node);
}

/* A cache had no block. Where addresses are limited, the range may be full, but a mapping fit
 * beside it; not beside the limit of a group. */
static OS_NOINLINE void *instead_of_slab(size_t size, gfp_t flags, int node)
{
	if (size <= KMALLOC_FINE || account_refuses(&kmalloc_large, flags, large_roundup(size)))
		return NULL;
	return large_alloc(size, flags, node, KMALLOC_MAX_SIZE, "kmalloc");
}

OS_NOINLINE void *kmalloc_most(size_t size, gfp_t flags, int node, size_t most, const char *call,
			       const void *caller)
{
	void *block;

	if (!size)
		return ZERO_SIZE_PTR;
	if (size > KMALLOC_LARGEST)
		return large_alloc(size, flags, node, most, call);
	block = from_family(size, flags, node, caller);
	return block ? block : instead_of_slab(size, flags, node);
}

static OS_NOINLINE void *alloc_rest(size_t size, gfp_t flags, size_t most, const char *call,
				    const void *caller)
{
	struct kmem_cache *s = cache_of_size(size);
	void *block = s ? cache_alloc(s, flags) : NULL;

	if (os_likely(block))
		return block;
	if (s)
		return instead_of_slab(size, flags, NUMA_NO_NODE);
	return kmalloc_most(size, flags, NUMA_NO_NODE, most, call, caller);
}

SHEAF_PUBLIC OS_FAST OS_NOINLINE void *__kmalloc(size_t size, gfp_t flags)
{
	if (os_likely(size <= 8 * SHEAF_KMALLOC_WORDS) && os_likely(!(flags & ~SHEAF_GFP_PLAIN))) {
		struct kmem_cache *s = os_load_acquire(&sizes_table.by_words[(size + 7) >> 3]);
		void *block;

		if (os_likely(cache_pop(s, &block)))
			return block;
	}
	return alloc_rest(size, flags, KMALLOC_MAX_SIZE, "kmalloc", __builtin_return_address(0));
}

SHEAF_PUBLIC OS_NOINLINE void *kmalloc_charged(size_t size, gfp_t flags, struct kmem_group *g)
{
	void *block;

	account_pays(g, "kmalloc_charged");
	block = kmalloc_for(size, flags | __GFP_ACCOUNT, NUMA_NO_NODE, __builtin_return_address(0));
	account_own_pays();
	return block;
}

SHEAF_PUBLIC OS_NOINLINE void *kmalloc_node(size_t size, gfp_t flags, int node)
{
	return kmalloc_for(size, flags, node, __builtin_return_address(0));
}

SHEAF_PUBLIC OS_NOINLINE void *kvmalloc_node(size_t size, gfp_t flags, int node)
{
	const void *caller = __builtin_return_address(0);

	return node == NUMA_NO_NODE ? alloc_rest(size, flags, INT_MAX, "kvmalloc", caller)
				    : kmalloc_most(size, flags, node, INT_MAX, "kvmalloc", caller);
}
