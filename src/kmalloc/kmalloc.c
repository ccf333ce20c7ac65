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
#define FIRST_OF(before, size) [WORDS(before, size)] = FIRST(KMALLOC_##size),

const uint32_t kmalloc_sizes[KMALLOC_CACHES] = {KMALLOC_SIZES(SIZE_OF) KMALLOC_LARGER(SIZE_OF)};
const uint8_t kmalloc_index_of[SHEAF_KMALLOC_WORDS + 1] = {KMALLOC_SIZES(INDEX_OF)};
const uint8_t kmalloc_larger_index[KMALLOC_LARGEST / KMALLOC_STEP + 1] = {
	KMALLOC_LARGER(LARGER_INDEX)};

static struct {
	uint32_t ready; /* every cache was created */
	uint32_t nr_partitions;
	uint64_t secret;
	struct kmem_cache *caches[KMALLOC_PARTITIONS][KMALLOC_CACHES];
	struct kmem_cache *charged[KMALLOC_CACHES]; /* made one by one, when they are needed */
} family;

/*
 * --- the table, and its first entries -----------------------------------------------------------
 */

/* These have no `free`, because no memory belongs to them. The place of one tells how many bytes it
 * is for: first those of the sizes, then those of constants. */
static const struct sheaf_calls entries[KMALLOC_CACHES + SHEAF_KMALLOC_EXACT + 1];

static size_t size_of_entry(struct kmem_cache *s)
{
	size_t i = (size_t)((const struct sheaf_calls *)(const void *)s - entries);

	return i < KMALLOC_CACHES ? kmalloc_sizes[i] : i - KMALLOC_CACHES;
}

/* Reached by a jump, or from inlined code: the return address is in the code that allocates. */
static void *alloc_entry(struct kmem_cache *s, gfp_t flags)
{
	return kmalloc_for(size_of_entry(s), flags, NUMA_NO_NODE, __builtin_return_address(0));
}

static void *alloc_plain_entry(struct kmem_cache *s)
{
	return kmalloc_for(size_of_entry(s), GFP_KERNEL, NUMA_NO_NODE, __builtin_return_address(0));
}

static const struct sheaf_calls entries[KMALLOC_CACHES + SHEAF_KMALLOC_EXACT + 1] = {
	[0 ... KMALLOC_CACHES + SHEAF_KMALLOC_EXACT] = {.alloc = alloc_entry,
							.alloc_plain = alloc_plain_entry},
};

#define FIRST(i)   ((struct kmem_cache *)(uintptr_t)&entries[i])
#define EXACT(i)   FIRST(KMALLOC_CACHES + (i))
#define EXACT4(i)  EXACT(i), EXACT(i + 1), EXACT(i + 2), EXACT(i + 3)
#define EXACT16(i) EXACT4(i), EXACT4(i + 4), EXACT4(i + 8), EXACT4(i + 12)
#define EXACT64(i) EXACT16(i), EXACT16(i + 16), EXACT16(i + 32), EXACT16(i + 48)

static struct sheaf_kmalloc_table sizes_table = {
	.by_words = {FIRST(0), KMALLOC_SIZES(FIRST_OF)},
	.exact = {EXACT64(0), EXACT64(64)},
};

_Static_assert(KMALLOC_LARGEST >= 8 * SHEAF_KMALLOC_WORDS, "programs look up all sizes up to this");

SHEAF_PUBLIC struct sheaf_kmalloc_table *const sheaf_kmalloc_table = &sizes_table;

/* Caches by steps, for sizes above those of the table. NULL: kmalloc_for() chooses one, because of
 * the caller's address or the bytes requested, or makes the caches. */
static struct kmem_cache *larger_caches[KMALLOC_LARGEST / KMALLOC_STEP];

static inline struct kmem_cache *larger_cache(size_t size)
{
	return size - 1 < KMALLOC_LARGEST
		       ? os_load_acquire(&larger_caches[(size - 1) / KMALLOC_STEP])
		       : NULL;
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

/*
 * For debug caches: an entry for each number of words tells the requested size, to within seven
 * bytes. Only constants above SHEAF_KMALLOC_EXACT come here.
 */
static struct sheaf_calls sized[SHEAF_KMALLOC_WORDS + 1];

static void *alloc_sized(struct kmem_cache *s, gfp_t flags)
{
	size_t words = (size_t)((const struct sheaf_calls *)(const void *)s - sized);

	return kmalloc_for(8 * words, flags, NUMA_NO_NODE, NULL);
}

static void *alloc_plain_sized(struct kmem_cache *s)
{
	return alloc_sized(s, GFP_KERNEL);
}

static struct kmem_cache *entry_for(unsigned int words)
{
	struct kmem_cache *s = family.caches[0][kmalloc_index_of[words]];

	if (!cache_is_checked(s))
		return s;
	sized[words] = (struct sheaf_calls){.alloc = alloc_sized, .alloc_plain = alloc_plain_sized};
	return (struct kmem_cache *)(void *)&sized[words];
}

/* Programs load the pointer, and then the first words of the cache. */
static void set_entry(struct kmem_cache **entry, struct kmem_cache *s)
{
	os_assert(s->calls.alloc && os_peek(entry) != s); /* KMALLOC-K1 */
	tsan_release(entry);
	os_store_release(entry, s);
}

/* Programs read it with a plain load. They see this value, or 0, in which case they make a call. */
static OS_NO_TSAN void serve_all_sizes(void)
{
	sizes_table.most = 8 * SHEAF_KMALLOC_WORDS;
}

static void fill_table(void)
{
	bool checked = false;

	os_assert(os_peek(&caches.family.word) && !os_peek(&family.ready)); /* KMALLOC-K2 */
	for (unsigned int i = 1; i <= SHEAF_KMALLOC_WORDS; i++)
		set_entry(&sizes_table.by_words[i], entry_for(i));
	for (unsigned int i = 1; i < KMALLOC_CACHES; i++)
		checked |= cache_is_checked(family.caches[0][i]);
	for (unsigned int i = 1; i <= SHEAF_KMALLOC_EXACT && !checked; i++)
		set_entry(&sizes_table.exact[i], family.caches[0][kmalloc_index(i)]);
	for (unsigned int i = 8 * SHEAF_KMALLOC_WORDS / KMALLOC_STEP;
	     i < KMALLOC_LARGEST / KMALLOC_STEP && !checked; i++)
		set_entry(&larger_caches[i], family.caches[0][kmalloc_larger_index[i + 1]]);
	if (!checked)
		serve_all_sizes();
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
	/* Otherwise the address of the caller decides, in each call. */
	if (family.nr_partitions == 1)
		fill_table();
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

bool kmalloc_is_of_family(const struct kmem_cache *s)
{
	unsigned int n = os_load_acquire(&family.ready) ? family.nr_partitions : 0;
	size_t size = s->sheaf.slab.object_size;

	for (unsigned int number = 0; size <= KMALLOC_LARGEST && number < n; number++)
		if (family.caches[number][kmalloc_index(size)] == s)
			return true;
	return n && size <= KMALLOC_LARGEST &&
	       os_load_relaxed(&family.charged[kmalloc_index(size)]) == s;
}

/* --- the calls -------------------------------------------------------------------------------- */

/* A red zone follows the requested bytes. */
void *kmalloc_checked(struct kmem_cache *s, size_t size, gfp_t flags, int node)
{
	void *object = node == NUMA_NO_NODE ? SHEAF_CALL(s, alloc)(s, flags)
					    : kmem_cache_alloc_node(s, flags, node);

	if (object)
		debug_set_size(&s->sheaf.slab, object, size);
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
		return SHEAF_CALL(s, alloc)(s, flags);
	return kmem_cache_alloc_node(s, flags, node);
}

/* A cache had no block. Where addresses are limited, the range may be full, but a mapping fit
 * beside it; not beside the limit of a group. */
static void *instead_of_slab(size_t size, gfp_t flags, int node)
{
	if (size <= KMALLOC_FINE || account_refuses(&kmalloc_large, flags, large_roundup(size)))
		return NULL;
	return large_alloc(size, flags, node, KMALLOC_MAX_SIZE, "kmalloc");
}

void *kmalloc_most(size_t size, gfp_t flags, int node, size_t most, const char *call,
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

static inline void *alloc_larger(size_t size, gfp_t flags, int node, size_t most, const char *call,
				 const void *caller)
{
	struct kmem_cache *s = node == NUMA_NO_NODE ? larger_cache(size) : NULL;
	void *block = s ? SHEAF_CALL(s, alloc)(s, flags) : NULL;

	if (os_likely(block))
		return block;
	if (s)
		return instead_of_slab(size, flags, NUMA_NO_NODE);
	return kmalloc_most(size, flags, node, most, call, caller);
}

SHEAF_PUBLIC OS_NOINLINE void *__kmalloc_large(size_t size, gfp_t flags)
{
	return alloc_larger(size, flags, NUMA_NO_NODE, KMALLOC_MAX_SIZE, "kmalloc",
			    __builtin_return_address(0));
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
	return alloc_larger(size, flags, node, INT_MAX, "kvmalloc", __builtin_return_address(0));
}
