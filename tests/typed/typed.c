/* SPDX-License-Identifier: MIT */
/*
 * What kmalloc_obj() and its family, and with SHEAF_TYPED_KMALLOC kmalloc() and its own, do with
 * what a compiler knows of types. Built by each compiler found, in C and C++, and run with the
 * options of meson.build; what needs a newer compiler is left out with a line.
 */
#include <limits.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "kit/check.h"
#include "kit/hooks.h"
#include "kit/options.h"
#ifdef __cplusplus
}
#endif

/* --- counters of flexible arrays -------------------------------------------------------------- */

#ifndef __cplusplus
#if defined(__has_attribute)
#if __has_attribute(__counted_by__)
#define COUNTED_BY(member) __attribute__((__counted_by__(member)))
#endif
#endif
#ifndef COUNTED_BY
#define COUNTED_BY(member)
#endif
#if defined(__has_builtin)
#if __has_builtin(__builtin_counted_by_ref)
#define FINDS_COUNTERS 1
#endif
#endif

struct bytes {
	unsigned char length;
	short all[] COUNTED_BY(length);
};

struct ints {
	long first;
	int length;
	char all[] COUNTED_BY(length);
};

struct uncounted {
	unsigned char length;
	short all[];
};

static int evaluated;

static size_t once(size_t n)
{
	evaluated++;
	return n;
}

#ifdef FINDS_COUNTERS
static void counters_are_set(void)
{
	struct bytes *b = kmalloc_flex(*b, all, 255);
	struct ints *i = kvzalloc_flex(struct ints, all, INT_MAX / 2, GFP_KERNEL);

	CHECK(b && b->length == 255);
	kfree(b);
	CHECK(i && i->length == INT_MAX / 2 && !i->first);
	kvfree(i);
	i = kvmalloc_flex(*i, all, 0);
	CHECK(i && i->length == 0);
	kvfree(i);
	b = kzalloc_flex(*b, all, once(3), GFP_NOWAIT);
	CHECK(b && b->length == 3 && evaluated == 1);
	kfree(b);
}

static void what_a_counter_cannot_hold_fails(void)
{
	struct bytes *b;
	struct ints *i;

	CHECK(!(b = kmalloc_flex(*b, all, 256)));
	CHECK(!(b = kzalloc_flex(struct bytes, all, once(1000), GFP_KERNEL)) && evaluated == 2);
	CHECK(!(i = kvmalloc_flex(*i, all, (size_t)INT_MAX + 1)));
	CHECK(!(i = kvzalloc_flex(*i, all, -1)));
}
#else
/* Nothing is said of the counter, and nothing done to it. */
static void counters_are_the_callers(void)
{
	struct bytes *b = kzalloc_flex(*b, all, once(1000), GFP_KERNEL);
	struct ints *i = kzalloc_flex(*i, all, 10);

	CHECK(b && !b->length && ksize(b) >= 2000 && evaluated == 1);
	CHECK(i && !i->length);
	kfree(b);
	kfree(i);
}
#endif

static void without_a_counter(void)
{
	struct uncounted *u = kzalloc_flex(*u, all, 1000);

	CHECK(u && !u->length && ksize(u) >= 2000);
	kfree(u);
}

static void flexible_arrays(void)
{
#ifdef FINDS_COUNTERS
	counters_are_set();
	what_a_counter_cannot_hold_fails();
#else
	counters_are_the_callers();
	puts("left out: counters that are set; this compiler has no __builtin_counted_by_ref");
#endif
	without_a_counter();
}
#else
static void flexible_arrays(void)
{
	puts("left out: counters of flexible arrays; C++ has none");
}
#endif

/* --- partitions ------------------------------------------------------------------------------- */

#if defined(__has_builtin) && !defined(BOUNDED_TOKENS)
#if __has_builtin(__builtin_infer_alloc_token)
#define KNOWS_TYPES 1
#endif
#endif
#ifndef KNOWS_TYPES
#define KNOWS_TYPES 0
#endif
#if KNOWS_TYPES && defined(SHEAF_TYPED_KMALLOC)
#define KMALLOC_KNOWS_TYPES 1
#else
#define KMALLOC_KNOWS_TYPES 0
#endif

/* Types of one size, with and without pointers: so many that a secret that puts all of either kind
 * into one partition of sixteen is no more likely than a broken machine. */
#define EACH_TYPE(X) X(a) X(b) X(c) X(d) X(e) X(f) X(g) X(h) X(i) X(j) X(k) X(l)
#define TYPES(name)                                                                                \
	struct with_##name {                                                                       \
		struct {                                                                           \
			long name[3];                                                              \
			void *pointer;                                                             \
		} part;                                                                            \
	};                                                                                         \
	struct without_##name {                                                                    \
		long name[4];                                                                      \
	};                                                                                         \
	struct flexible_##name {                                                                   \
		long name;                                                                         \
		const char *texts[];                                                               \
	};
#ifdef __cplusplus
#pragma GCC diagnostic ignored "-Wpedantic" /* flexible arrays */
#endif
EACH_TYPE(TYPES)

enum {
	NR = 12,
	BYTES = 32
};

/* The cache of a block of BYTES, which is freed. The asm keeps the compiler from merging places. */
#define CACHE_OF(call)                                                                             \
	__extension__({                                                                            \
		void *block_ = call;                                                               \
		__asm__ volatile("# place %c1" : "+r"(block_) : "i"(__COUNTER__));                 \
		cache_of(block_);                                                                  \
	})

static struct kmem_cache *cache_of(void *block)
{
	struct kmem_cache *s = hook_cache_of(block);

	CHECK(block && ksize(block) >= BYTES);
	kvfree(block);
	return s;
}

static const char *name_of(struct kmem_cache *s)
{
	static struct kmem_cache_stats stats;

	kmem_cache_stats(s, &stats);
	return stats.name;
}

static bool is_for_pointers(struct kmem_cache *s)
{
	return strstr(name_of(s), "kmalloc-ptr-") != NULL;
}

static bool differ(struct kmem_cache *const *s)
{
	for (int i = 1; i < NR; i++)
		if (s[i] != s[0])
			return true;
	return false;
}

static unsigned int nr_sets(void)
{
	return option_number("random_kmalloc_caches", has_option("hardened") ? 16 : 1);
}

#define OBJ(name)	CACHE_OF(kmalloc_obj(struct with_##name)),
#define OBJ_PLAIN(name) CACHE_OF(kmalloc_obj(struct without_##name)),

static void objects(void)
{
	struct kmem_cache *with[] = {EACH_TYPE(OBJ)}, *again[] = {EACH_TYPE(OBJ)};
	struct kmem_cache *without[] = {EACH_TYPE(OBJ_PLAIN)};

	CHECK(differ(with) == (nr_sets() > 1));
	CHECK(differ(without) == (nr_sets() > 1));
	/* A type has one partition; a place of any type may have any other. */
	CHECK(!memcmp(with, again, sizeof(with)) == (KNOWS_TYPES || nr_sets() == 1));
	for (int i = 0; i < NR; i++) {
		CHECK(is_for_pointers(with[i]) == (KNOWS_TYPES && nr_sets() > 1));
		CHECK(!is_for_pointers(without[i]));
	}
}

/* Each place has the partition that it had before, whether or not types decide. */
static void places_stay(void)
{
	struct kmem_cache *first[NR];

	for (int i = 0; i < 2; i++) {
		struct kmem_cache *s[] = {EACH_TYPE(OBJ)};

		CHECK(i == 0 || !memcmp(first, s, sizeof(first)));
		memcpy(first, s, sizeof(first));
	}
}

/* All calls of the family for one type. */
static void each_call(void)
{
	struct with_a *p = NULL;
	struct flexible_a *text = NULL;
	struct kmem_cache *s[] = {
		CACHE_OF(kmalloc_obj(*p)),
		CACHE_OF(kzalloc_obj(struct with_a, GFP_NOWAIT)),
		CACHE_OF(kvmalloc_obj(*p)),
		CACHE_OF(kvzalloc_obj(*p, GFP_KERNEL)),
		CACHE_OF(kmalloc_objs(*p, 1)),
		CACHE_OF(kzalloc_objs(struct with_a, 1, GFP_KERNEL)),
		CACHE_OF(kvmalloc_objs(*p, 1)),
		CACHE_OF(kvzalloc_objs(*p, 1)),
	};
	struct kmem_cache *flexible[] = {
		CACHE_OF(kmalloc_flex(*text, texts, 3)),
		CACHE_OF(kzalloc_flex(struct flexible_a, texts, 3)),
		CACHE_OF(kvmalloc_flex(*text, texts, 3)),
		CACHE_OF(kvzalloc_flex(*text, texts, 3, GFP_KERNEL)),
	};
	size_t large = 100000;

	for (size_t i = 0; KNOWS_TYPES && i < sizeof(s) / sizeof(*s); i++)
		CHECK(s[i] == s[0]);
	for (size_t i = 0; KNOWS_TYPES && i < sizeof(flexible) / sizeof(*flexible); i++)
		CHECK(flexible[i] == flexible[0] && is_for_pointers(s[0]) == (nr_sets() > 1));
	/* Below and above what programs look up themselves. */
	CHECK(is_for_pointers(CACHE_OF(kvmalloc_objs(*p, large / BYTES))) ==
	      (KNOWS_TYPES && nr_sets() > 1));
	kvfree(kvmalloc_objs(*p, 2 * large));
}

#define KMALLOC(name)	    CACHE_OF(kmalloc(sizeof(struct with_##name), GFP_KERNEL)),
#define KMALLOC_PLAIN(name) CACHE_OF(kmalloc(sizeof(struct without_##name), GFP_KERNEL)),

/* kmalloc() by its option, and what it is called with. */
static void by_size(void)
{
	struct kmem_cache *with[] = {EACH_TYPE(KMALLOC)}, *obj[] = {EACH_TYPE(OBJ)};
	struct kmem_cache *without[] = {EACH_TYPE(KMALLOC_PLAIN)};
	size_t n = 1, untyped = BYTES;
	struct kmem_cache *of_a[] = {
		CACHE_OF(kzalloc(sizeof(struct with_a), GFP_KERNEL)),
		CACHE_OF(kvmalloc(n * sizeof(struct with_a), GFP_KERNEL)),
		CACHE_OF(kvzalloc(sizeof(struct with_a), GFP_KERNEL)),
		CACHE_OF(kmalloc_array(n, sizeof(struct with_a), GFP_KERNEL)),
		CACHE_OF(kcalloc(n++, sizeof(struct with_a), GFP_KERNEL)),
		CACHE_OF(kvmalloc_array(1, sizeof(struct with_a), GFP_KERNEL)),
		CACHE_OF(kvcalloc(1, sizeof(struct with_a), GFP_KERNEL)),
	};

	CHECK(n == 2);
	CHECK(differ(with) == (nr_sets() > 1) && differ(without) == (nr_sets() > 1));
	CHECK(!is_for_pointers(CACHE_OF(kmalloc(untyped, GFP_KERNEL))));
	for (int i = 0; i < NR; i++) {
		CHECK(!KMALLOC_KNOWS_TYPES || with[i] == obj[i]);
		CHECK(is_for_pointers(with[i]) == (KMALLOC_KNOWS_TYPES && nr_sets() > 1));
		CHECK(!is_for_pointers(without[i]));
	}
	for (size_t i = 0; KMALLOC_KNOWS_TYPES && i < sizeof(of_a) / sizeof(*of_a); i++)
		CHECK(of_a[i] == obj[0]);
}

/* A block that is resized stays in its partition (KMALLOC-K4), unless it is charged. */
static void resized_blocks_stay(void)
{
	struct kmem_group *g = kmem_group_create("typed", NULL, NULL);
	char set[128], *end;
	void *block = kmalloc_obj(struct with_a);
	const size_t sizes[] = {200, 5000, 100000, 40, 16};

	snprintf(set, sizeof(set), "%s", name_of(hook_cache_of(block)));
	end = strrchr(set, '-') + 1;
	*end = '\0';
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		block = krealloc(block, sizes[i], GFP_KERNEL);
		CHECK(block && !strncmp(name_of(hook_cache_of(block)), set, strlen(set)));
	}
	kmem_group_restore_current(kmem_group_get(g));
	block = krealloc(block, 300, GFP_KERNEL_ACCOUNT);
	kmem_group_restore_current(NULL);
	CHECK(block && !strncmp(name_of(hook_cache_of(block)), "kmalloc-cg-", 11));
	block = krealloc(block, 3000, GFP_KERNEL);
	CHECK(block && strncmp(name_of(hook_cache_of(block)), "kmalloc-cg-", 11) != 0);
	kfree(block);
	kmem_group_put(g);
}

int main(void)
{
	flexible_arrays();
	objects();
	places_stay();
	each_call();
	by_size();
	resized_blocks_stay();
	if (!KNOWS_TYPES)
		puts("left out: partitions by type; this compiler has no "
		     "__builtin_infer_alloc_token, "
		     "or it gives tokens below a maximum");
	return 0;
}
