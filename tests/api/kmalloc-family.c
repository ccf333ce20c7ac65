/* SPDX-License-Identifier: MIT */
/* kmalloc()'s caches: first use by many threads, separate sets and sets by place, storms, fork. */
#include <pthread.h>
#include <sheaf/group.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <stdint.h>
#include <string.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/hooks.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/unit.h"

enum {
	MiB = 1 << 20,
	THREADS = 6,
	HELD = 300,
	ROUNDS = 5000
};

/* --- first use -------------------------------------------------------------------------------- */

static int waiting;

static void *first_user(void *seen)
{
	__atomic_fetch_add(&waiting, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&waiting, __ATOMIC_ACQUIRE) < THREADS)
		;
	*(void **)seen = kmalloc(100, GFP_KERNEL);
	return NULL;
}

static uint64_t nr_caches(void)
{
	struct sheaf_stats stats;

	sheaf_stats(&stats);
	return stats.caches;
}

/* A cache is made when a block of its size is first wanted, by one of the threads that want one
 * (KMALLOC-K2). Must run first. */
static void caches_are_made_once_at_first_use(void **state)
{
	pthread_t threads[THREADS];
	void *seen[THREADS];
	struct kmem_cache *s;

	(void)state;
	kfree(NULL);
	kfree(kmalloc(0, GFP_KERNEL));
	assert_int_equal(nr_caches(), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, first_user, &seen[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(nr_caches(), 1);
	s = hook_cache_of(seen[0]);
	assert_int_equal(look(s).sheaf_capacity == 0,
			 (has_slab_debug() && !has_debug_letter('S')) || is_tiny());
	for (int i = 0; i < THREADS; i++) {
		assert_non_null(seen[i]);
		assert_ptr_equal(hook_cache_of(seen[i]), s);
		kfree(seen[i]);
	}
}

static void each_size_makes_its_cache(void **state)
{
	uint64_t before = nr_caches();

	(void)state;
	for (size_t size = 3073; size <= 20000; size = kmalloc_size_roundup(size) + 1) {
		void *p[3];

		for (int i = 0; i < 3; i++)
			p[i] = kmalloc_node(size + (size_t)i, GFP_NOWAIT, NUMA_NO_NODE);
		assert_int_equal(nr_caches(), ++before);
		assert_ptr_equal(hook_cache_of(p[0]), hook_cache_of(p[2]));
		kfree_bulk(3, p);
	}
}

static void names_are_the_kernels(void **state)
{
	static const struct {
		size_t size;
		const char *name;
	} some[] = {{8, "8"},	    {96, "96"},	  {144, "144"}, {512, "512"},	{1024, "1k"},
		    {1100, "1152"}, {8192, "8k"}, {9216, "9k"}, {32768, "32k"}, {40000, "64k"}};

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		void *p = kmalloc(some[i].size, GFP_KERNEL);
		struct kmem_cache_stats stats = look(hook_cache_of(p));

		assert_memory_equal(stats.name, "kmalloc-", 8);
		assert_string_equal(strrchr(stats.name, '-') + 1, some[i].name);
		kfree(p);
	}
}

/* What is left behind several objects of a slab is at most a seventh of it. Nobody touches what is
 * left behind one. */
static void slabs_are_nearly_whole(void **state)
{
	(void)state;
	needs(NEED_SHEAVES);
	if (option_number("slab_max_order", 3) != 3)
		skip();
	for (size_t size = 0; size < KMALLOC_MAX_CACHE_SIZE;) {
		struct kmem_cache_stats stats;
		size_t bytes;
		void *p;

		size = kmalloc_size_roundup(size + 1);
		p = kmalloc(size, GFP_KERNEL);
		stats = look(hook_cache_of(p));
		bytes = (size_t)4096 << stats.order;
		assert_int_equal(stats.object_size, size);
		assert_true(stats.objs_per_slab == 1 ||
			    (bytes - (size_t)stats.objs_per_slab * stats.slab_size) * 7 <= bytes);
		kfree(p);
	}
}

/* --- sets ------------------------------------------------------------------------------------- */

static void buckets_are_apart(void **state)
{
	uint64_t before = nr_caches();
	kmem_buckets *set = kmem_buckets_create("set", 0, 0, 16, NULL);
	void *mine = kmem_buckets_alloc(set, 100, GFP_KERNEL), *theirs;
	void *large = kmem_buckets_valloc(set, 6 * MiB, GFP_KERNEL);

	(void)state;
	assert_string_equal(look(hook_cache_of(mine)).name, "set-112");
	assert_int_equal(nr_caches(), before + 2); /* set-8 checks the arguments */
	theirs = kmalloc(100, GFP_KERNEL);
	assert_ptr_not_equal(hook_cache_of(mine), hook_cache_of(theirs));
	assert_ptr_equal(kmem_buckets_alloc(set, 0, GFP_KERNEL), ZERO_SIZE_PTR);
	assert_int_equal(ksize(large), 6 * MiB);
	kfree(theirs);
	theirs = kmem_buckets_alloc(NULL, 100, GFP_KERNEL);
	assert_memory_equal(look(hook_cache_of(theirs)).name, "kmalloc", 7);
	kfree(mine);
	kfree(theirs);
	kvfree(large);
	kmem_buckets_destroy(set);
	kmem_buckets_destroy(NULL);
}

/* Its caches stay while blocks of it are in use; their blocks move to those of kmalloc(). */
static void blocks_outlive_their_set(void **state)
{
	static struct capture captured;
	kmem_buckets *set = kmem_buckets_create("gone", 0, 0, 0, NULL), *other;
	char *block = kmem_buckets_alloc(set, 100, GFP_KERNEL);

	(void)state;
	memset(block, 7, 100);
	capture_begin(&captured);
	kmem_buckets_destroy(set);
	assert_true(capture_end(&captured) > 0);
	other = kmem_buckets_create("other", 0, 0, 0, NULL);
	capture_begin(&captured);
	block = krealloc(block, 5000, GFP_KERNEL);
	assert_int_equal(capture_end(&captured), 0);
	assert_non_null(block);
	assert_int_equal(block[99], 7);
	assert_memory_equal(look(hook_cache_of(block)).name, "kmalloc-", 8);
	kfree(block);
	kmem_buckets_destroy(other);
}

/* Their objects are charged where they are: a set has no twins. */
static void buckets_are_charged(void **state)
{
	struct kmem_group *g = kmem_group_create("buckets", NULL, NULL), *of;
	kmem_buckets *set = kmem_buckets_create(NULL, 0, 0, 16, NULL);
	void *p;

	(void)state;
	kmem_group_restore_current(kmem_group_get(g));
	p = kmem_buckets_alloc(set, 100, GFP_KERNEL_ACCOUNT);
	kmem_group_restore_current(NULL);
	of = kmem_group_of(p);
	assert_ptr_equal(of, g);
	assert_string_equal(look(hook_cache_of(p)).name, "(no name)-112");
	kfree(p);
	kmem_buckets_destroy(set);
	kmem_group_put(of);
	kmem_group_put(g);
}

/* A set with SLAB_ACCOUNT is charged for every block, also for one that no cache of it has. */
static void charged_sets(void **state)
{
	struct kmem_group *g = kmem_group_create("charged", NULL, NULL);
	kmem_buckets *set = kmem_buckets_create("charged", SLAB_ACCOUNT, 0, 0, NULL);
	static const size_t sizes[] = {8, 5000, MiB, 3 * MiB, 40 * MiB};

	(void)state;
	kmem_group_restore_current(kmem_group_get(g));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		void *p = kmem_buckets_valloc(set, sizes[i], GFP_KERNEL);
		struct kmem_group *of = kmem_group_of(p);

		assert_ptr_equal(of, g);
		kmem_group_put(of);
		if (sizes[i] <= MiB) {
			p = krealloc(p, 2 * MiB, GFP_KERNEL);
			of = kmem_group_of(p);
			assert_ptr_equal(of, g);
			kmem_group_put(of);
		}
		kvfree(p);
	}
	kmem_group_restore_current(NULL);
	kmem_buckets_destroy(set);
	kmem_group_put(g);
}

/* Blocks of a set are as well aligned as those of kmalloc(), or as its flags ask. */
static void buckets_are_aligned(void **state)
{
	static const slab_flags_t flags[] = {0, SLAB_HWCACHE_ALIGN};

	(void)state;
	for (int i = 0; i < 2; i++) {
		kmem_buckets *set = kmem_buckets_create("aligned", flags[i], 0, 0, NULL);

		for (size_t size = 8; size <= MiB; size += size < 256 ? 8 : size / 4) {
			size_t align = kmalloc_size_roundup(size) & -kmalloc_size_roundup(size);
			void *p[3];

			if (flags[i] && align < 64 && size > 32)
				align = 64;
			for (int n = 0; n < 3; n++) {
				p[n] = kmem_buckets_alloc(set, size, GFP_KERNEL);
				assert_int_equal((uintptr_t)p[n] % align, 0);
			}
			kfree_bulk(3, p);
		}
		kmem_buckets_destroy(set);
	}
}

/* One line for each, which names the call and one that can; the set is as it was. */
static void sizes_beyond_a_set_are_refused(void **state)
{
	static struct capture captured;
	kmem_buckets *set = kmem_buckets_create("small", 0, 0, 0, NULL);
	volatile size_t most = KMALLOC_MAX_SIZE, none = SIZE_MAX; /* or compilers warn */
	void *block;

	(void)state;
	capture_begin(&captured);
	assert_null(kmem_buckets_alloc(set, most + 1, GFP_KERNEL | __GFP_NOWARN));
	assert_null(kmem_buckets_valloc(set, none, GFP_KERNEL | __GFP_NOWARN));
	assert_int_equal(capture_end(&captured), 0);
	capture_begin(&captured);
	assert_null(kmem_buckets_alloc(set, most + 1, GFP_KERNEL));
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(
		strstr(captured.text, "kmem_buckets_alloc(4194305 bytes): at most 4194304"));
	assert_non_null(strstr(captured.text, "kmem_buckets_valloc() can allocate more"));
	capture_begin(&captured);
	assert_null(kmem_buckets_valloc(set, none, GFP_KERNEL));
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "kmem_buckets_valloc(18446744073709551615 bytes): "
					      "at most 2147483647"));
	block = kmem_buckets_valloc(set, most + 1, GFP_KERNEL);
	assert_non_null(block);
	kvfree(block);
	kmem_buckets_destroy(set);
}

/* A region that lies beyond small objects, or partly, is cut, and that is no misuse. */
static void regions_of_buckets_are_cut(void **state)
{
	static struct capture captured;
	kmem_buckets *set;

	(void)state;
	capture_begin(&captured);
	set = kmem_buckets_create("cut", 0, 100, 50, NULL);
	assert_int_equal(capture_end(&captured), 0);
	assert_non_null(set);
	kmem_buckets_destroy(set);
}

/* An object that no kmalloc() has made does not move to a smaller block. */
static void objects_of_large_caches_stay(void **state)
{
	struct kmem_cache *s = make("vast", KMEM_CACHE_MAX_SIZE, 0);
	void *p = kmem_cache_alloc(s, GFP_KERNEL);

	(void)state;
	assert_ptr_equal(krealloc(p, 1000, GFP_KERNEL), p);
	kfree(p);
	kmem_cache_destroy(s);
}

/* A user's cache of the same size and flags is not merged with one of kmalloc()'s. */
static void users_caches_are_not_merged(void **state)
{
	struct kmem_cache *s = kmem_cache_create("user", 64, 64, 0, NULL);
	void *p = kmalloc(64, GFP_KERNEL);

	(void)state;
	assert_ptr_not_equal(hook_cache_of(p), s);
	kfree(p);
	kmem_cache_destroy(s);
}

static size_t in_use_of_family(void)
{
	size_t n = 0;

	for (struct kmem_cache *s = NULL; (s = hook_next_of_kmalloc(s));)
		n += look(s).objects_in_use;
	return n;
}

/* The memory for sheaves, barns and caches comes from no cache. */
static void library_allocates_nothing_here(void **state)
{
	struct kmem_cache *s = kmem_cache_create("needy", 40, NULL, SLAB_NO_MERGE);
	size_t before = in_use_of_family();
	static void *p[20000];

	(void)state;
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 20000, p), 20000);
	kmem_cache_free_bulk(s, 20000, p);
	assert_int_equal(in_use_of_family(), before);
	kmem_cache_destroy(s);
}

/* Bulk calls on these caches return a count as an int, too. */
static void bulk_counts(void **state)
{
	void *first = kmalloc(500, GFP_KERNEL), *p[70];
	struct kmem_cache *s = hook_cache_of(first);

	(void)state;
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 70, p), 70);
	for (int i = 0; i < 70; i++)
		kfree(p[i]);
	kfree(first);
	assert_int_equal(kmem_cache_verify(s), 0);
}

/* --- random_kmalloc_caches -------------------------------------------------------------------- */

/* The asm keeps the call from becoming a jump, which would show the caller's caller as the place,
 * and from being merged with the calls of other places. A compiler that does not optimise makes
 * kmalloc() a function of the program, which would be the only place. */
#define PLACE(i)                                                                                   \
	case i:                                                                                    \
		p = by_helper ? for_others(100) : kmalloc_node(100, GFP_KERNEL, 0);                \
		__asm__ volatile("# place " #i : "+r"(p));                                         \
		return p

/* A function that allocates for others: they are the places. */
static __attribute__((noinline)) void *for_others(size_t size)
{
	void *p = kmalloc_track_caller(size, GFP_KERNEL);

	__asm__ volatile("" : "+r"(p));
	return p;
}

static __attribute__((noinline)) void *from_place(int place, bool by_helper)
{
	void *p;

	switch (place) {
		PLACE(0);
		PLACE(1);
		PLACE(2);
		PLACE(3);
		PLACE(4);
		PLACE(5);
		PLACE(6);
		PLACE(7);
	default:
		p = by_helper ? for_others(100) : kmalloc_node(100, GFP_KERNEL, 0);
		__asm__ volatile("# no place" : "+r"(p));
		return p;
	}
}

/* Different places in the program use different caches, and each place always the same one; without
 * the option all places share one. */
static void check_partitions(bool by_helper)
{
	struct kmem_cache *of[9], *other = NULL;

	for (int i = 0; i < 9; i++) {
		void *p = from_place(i, by_helper), *q = from_place(i, by_helper);

		of[i] = hook_cache_of(p);
		assert_ptr_equal(hook_cache_of(q), of[i]);
		if (of[i] != of[0])
			other = of[i];
		kfree(p);
		kfree(q);
	}
	if (sets_of_kmalloc() < 2)
		assert_null(other);
	else
		assert_non_null(other);
	if (other)
		assert_true(strstr(look(of[0]).name, "rnd") || strstr(look(other).name, "rnd"));
}

static void partitions(void **state)
{
	(void)state;
	check_partitions(false);
	check_partitions(true);
}

/* --- many threads ----------------------------------------------------------------------------- */

struct stamped {
	size_t size;
	uintptr_t owner;
};

static struct stamped *volatile shared[64];

static void check_and_free(struct stamped *object)
{
	unsigned char *bytes = (unsigned char *)object;

	if (!object)
		return;
	CHECK(object->size >= sizeof(*object) && object->size <= ksize(object));
	CHECK(object->size == sizeof(*object) ||
	      bytes[object->size - 1] == (unsigned char)object->owner);
	object->size = 0;
	kvfree(object);
}

static struct stamped *stamped(uint64_t *seed)
{
	unsigned int shift = random_below(seed, 40);
	size_t size =
		sizeof(struct stamped) + random_below(seed, shift < 38 ? 1u << shift / 3 : 3 * MiB);
	struct stamped *object = kvmalloc(size, GFP_KERNEL);

	CHECK(object);
	if (size > sizeof(*object))
		((unsigned char *)object)[size - 1] = (unsigned char)(uintptr_t)seed;
	*object = (struct stamped){size, (uintptr_t)seed};
	return object;
}

static void *hammer(void *number)
{
	static uint64_t seeds[THREADS];
	uint64_t *seed = &seeds[(uintptr_t)number];
	struct stamped *held[HELD] = {NULL};

	*seed = (uintptr_t)number + 7;
	for (int i = 0; i < ROUNDS; i++) {
		unsigned int at = random_below(seed, HELD);

		check_and_free(held[at]);
		held[at] = stamped(seed);
		if (i % 8 == 0)
			held[at] = __atomic_exchange_n(&shared[random_below(seed, 64)], held[at],
						       __ATOMIC_ACQ_REL);
		if (held[at] && i % 50 == 0) {
			size_t size = held[at]->size;

			held[at] = kvrealloc(held[at], size * 2, GFP_KERNEL);
			CHECK(held[at] && held[at]->size == size);
		}
	}
	for (int i = 0; i < HELD; i++)
		check_and_free(held[i]);
	return NULL;
}

static void verify_family(void)
{
	for (struct kmem_cache *s = NULL; (s = hook_next_of_kmalloc(s));)
		assert_int_equal(kmem_cache_verify(s), 0);
}

static void storm(void **state)
{
	pthread_t threads[THREADS];
	struct sheaf_stats stats;

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, hammer, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 64; i++) {
		check_and_free(shared[i]);
		shared[i] = NULL;
	}
	verify_family();
	sheaf_stats(&stats);
	assert_int_equal(stats.mapped_bytes, 0);
	assert_int_equal(in_use_of_family(), 0);
}

static void in_the_child(void)
{
	uint64_t seed = 3;
	struct stamped *held[100];

	for (int i = 0; i < 100; i++)
		held[i] = stamped(&seed);
	for (int i = 0; i < 100; i++)
		check_and_free(held[i]);
	kvfree(kvmalloc(3 * MiB, GFP_KERNEL));
}

static void fork_while_threads_hammer(void **state)
{
	pthread_t threads[3];

	(void)state;
	for (uintptr_t i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, hammer, (void *)i);
	for (int i = 0; i < 15; i++)
		assert_int_equal(in_child(in_the_child), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 64; i++) {
		check_and_free(shared[i]);
		shared[i] = NULL;
	}
	verify_family();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(caches_are_made_once_at_first_use),
		cmocka_unit_test(each_size_makes_its_cache),
		cmocka_unit_test(names_are_the_kernels),
		cmocka_unit_test(slabs_are_nearly_whole),
		cmocka_unit_test(buckets_are_apart),
		cmocka_unit_test(blocks_outlive_their_set),
		cmocka_unit_test(buckets_are_charged),
		cmocka_unit_test(charged_sets),
		cmocka_unit_test(buckets_are_aligned),
		cmocka_unit_test(sizes_beyond_a_set_are_refused),
		cmocka_unit_test(regions_of_buckets_are_cut),
		cmocka_unit_test(objects_of_large_caches_stay),
		cmocka_unit_test(users_caches_are_not_merged),
		cmocka_unit_test(library_allocates_nothing_here),
		cmocka_unit_test(bulk_counts),
		cmocka_unit_test(partitions),
		cmocka_unit_test(storm),
		cmocka_unit_test(fork_while_threads_hammer),
	};

	return cmocka_run_group_tests_name("kmalloc-family", tests, NULL, NULL);
}
