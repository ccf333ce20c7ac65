/* SPDX-License-Identifier: MIT */
/* Scenes: blocks by size, memory pools, groups. */
#include <errno.h>
#include <pthread.h>
#include <sheaf/mempool.h>
#include <sheaf/trim.h>
#include <string.h>

#include "kit/cache.h"
#include "refusals.h"

/* --- kmalloc and its family ------------------------------------------------------------------- */

/* And the table of mappings, which stays. */
static void family(void)
{
	kfree(kmalloc(8, GFP_KERNEL));
	kvfree(kvmalloc(3 << 20, GFP_KERNEL));
	sheaf_trim(0);
}

static int got(void *block, size_t size)
{
	w.p[0] = block;
	if (block)
		memset(block, 1, size);
	return all_or_nothing(block);
}

static int small(void)
{
	return got(kmalloc(100, GFP_KERNEL), 100);
}

static int of_page(void)
{
	return got(kmalloc(9000, GFP_NOWAIT), 9000);
}

static int largest_of_cache(void)
{
	return got(kmalloc(1 << 20, GFP_KERNEL), 1 << 20);
}

static int run_of_pages(void)
{
	return got(kmalloc((1 << 20) + 1, GFP_KERNEL), (1 << 20) + 1);
}

static int mapping(void)
{
	return got(kvmalloc(5 << 20, GFP_KERNEL), 5 << 20);
}

static int aligned_mapping(void)
{
	return got(kvmalloc_node_align(100, 8 << 20, GFP_KERNEL, NUMA_NO_NODE), 100);
}

static int clear_mapping(void)
{
	return got(kvzalloc(5 << 20, GFP_KERNEL), 5 << 20);
}

/* A freed one is kept for the next request. */
static void kept_mapping(void)
{
	kvfree(kvmalloc(5 << 20, GFP_KERNEL));
}

static int vmalloc_pages(void)
{
	return got(vmalloc(10000), 10000);
}

static int vmalloc_mapping(void)
{
	return got(vzalloc(70 << 20), 1 << 20);
}

static void one_mapping(void)
{
	if (mapping())
		fault("no block");
}

static int freed(void)
{
	kvfree(w.p[0]);
	w.p[0] = NULL;
	return 0;
}

static void one_huge(void)
{
	if (vmalloc_mapping())
		fault("no block");
}

static int resized_to(size_t size)
{
	void *block = kvrealloc(w.p[0], size, GFP_KERNEL);

	if (*(char *)(block ? block : w.p[0]) != 1)
		fault("the content is gone");
	if (block)
		w.p[0] = block;
	return all_or_nothing(block);
}

static int grown_mapping(void)
{
	return resized_to(90 << 20);
}

static int shrunk_mapping(void)
{
	return resized_to(3 << 20);
}

static int mapping_to_small(void)
{
	return resized_to(100);
}

static void one_small(void)
{
	if (small())
		fault("no block");
}

static int small_to_mapping(void)
{
	return resized_to(5 << 20);
}

static int small_to_larger(void)
{
	return resized_to(3000);
}

static int copied(void)
{
	w.p[0] = kstrdup("a text of some length", GFP_KERNEL);
	return all_or_nothing(w.p[0]);
}

static int printed(void)
{
	w.p[0] = kasprintf(GFP_KERNEL, "%d of %d", 1, 2);
	return all_or_nothing(w.p[0]);
}

/* It takes no new slab. */
static void some_small(void)
{
	w.p[1] = kmalloc(8, GFP_KERNEL);
	w.p[2] = kmalloc(16, GFP_KERNEL);
	kfree(kmalloc(8, GFP_KERNEL));
}

static int small_nolock(void)
{
	return got(kmalloc_nolock(8, 0, NUMA_NO_NODE), 8);
}

static kmem_buckets *buckets;

static int make_buckets(void)
{
	buckets = kmem_buckets_create("set", 0, 0, 0, NULL);
	return all_or_nothing(buckets);
}

static void destroy_buckets(void)
{
	kmem_buckets_destroy(buckets);
	buckets = NULL;
}

static void some_buckets(void)
{
	if (make_buckets())
		fault("no buckets");
}

static int from_buckets(void)
{
	return got(kmem_buckets_alloc(buckets, 500, GFP_KERNEL), 500);
}

/* --- memory pools ----------------------------------------------------------------------------- */

static mempool_t *pool;

static void destroy_pool(void)
{
	mempool_destroy(pool);
	pool = NULL;
}

static void cache_of_pool(void)
{
	w.s = make("elements", 300, 0);
}

static int make_pool(void)
{
	pool = mempool_create_slab_pool(30, w.s);
	w.lost = pool ? 30 : 0;
	return all_or_nothing(pool);
}

static void forget_pool(void)
{
	destroy_pool();
	w.lost = 0;
}

static int make_kmalloc_pool(void)
{
	pool = mempool_create_kmalloc_pool(30, 300);
	return all_or_nothing(pool);
}

static void pool_of_blocks(void)
{
	pool = mempool_create_kmalloc_pool(5, 300);
	if (!pool)
		fault("no pool");
}

static int larger_pool(void)
{
	return mempool_resize(pool, 300);
}

static int element(void)
{
	void *taken = mempool_alloc(pool, GFP_KERNEL);

	if (taken)
		memset(taken, 1, 300);
	mempool_free(taken, pool);
	return all_or_nothing(taken);
}

/* --- groups ----------------------------------------------------------------------------------- */

static struct kmem_group *group;

static void put_group(void)
{
	kmem_group_put(group);
	group = NULL;
}

static int make_group(void)
{
	group = kmem_group_create("made", NULL, NULL);
	return all_or_nothing(group);
}

static void *be_charged(void *data)
{
	kmem_group_put(kmem_group_set_current(data));
	return NULL;
}

/* A thread's reference ends with it. */
static int group_of_thread(void)
{
	struct kmem_group_stats stats;
	pthread_t thread;

	if (make_group())
		return NOTHING;
	if (pthread_create(&thread, NULL, be_charged, group) || pthread_join(thread, NULL))
		fault("no thread");
	errno = 4242; /* those calls are the program's */
	if (kmem_group_stats(group, &stats) || stats.references != 1)
		fault("the thread's reference is left");
	return 0;
}

static void a_group(void)
{
	struct kmem_group_args args = {.hard_limit = 10 << 20};

	family();
	w.s = make("charged", 200, SLAB_ACCOUNT);
	w.g = kmem_group_create("group", NULL, &args);
	if (!w.g)
		fault("no group");
	kmem_group_put(kmem_group_set_current(w.g));
}

static void no_group(void)
{
	kmem_group_put(kmem_group_set_current(NULL));
}

static int make_subgroup(void)
{
	group = kmem_group_create("made", w.g, NULL);
	return all_or_nothing(group);
}

static int set_current(void)
{
	kmem_group_put(kmem_group_set_current(w.g));
	return 0;
}

static int charged(void)
{
	w.p[0] = kmem_cache_alloc(w.s, GFP_KERNEL);
	return all_or_nothing(w.p[0]);
}

static int charged_nowait(void)
{
	w.p[0] = kmem_cache_alloc(w.s, GFP_NOWAIT);
	return all_or_nothing(w.p[0]);
}

static int charged_bulk(void)
{
	if (kmem_cache_alloc_bulk(w.s, GFP_KERNEL, MOST, w.p) == MOST)
		return 0;
	memset(w.p, 0, sizeof(w.p));
	return NOTHING;
}

static int charged_block(void)
{
	return got(kmalloc(16, GFP_KERNEL_ACCOUNT), 16);
}

static int charged_large(void)
{
	return got(kmalloc(3 << 20, GFP_KERNEL_ACCOUNT), 3 << 20);
}

static int charged_to(void)
{
	return got(kmalloc_charged(100, GFP_KERNEL, w.g), 100);
}

static int charged_run(void)
{
	return got(kmalloc((1 << 20) + 1, GFP_KERNEL_ACCOUNT), (1 << 20) + 1);
}

static struct slab_sheaf *sheaf;

static int charged_prefill(void)
{
	sheaf = kmem_cache_prefill_sheaf(w.s, GFP_KERNEL, 20);
	w.lost = kmem_cache_sheaf_size(sheaf);
	return all_or_nothing(sheaf);
}

static void return_sheaf(void)
{
	kmem_cache_return_sheaf(w.s, GFP_KERNEL, sheaf);
	sheaf = NULL;
	w.lost = 0;
}

static int set_limits(void)
{
	struct kmem_group_args args = {.hard_limit = 5 << 20, .high = 4 << 20, .low = 1 << 20};

	return kmem_group_set_limits(w.g, &args);
}

static int group_of(void)
{
	struct kmem_group *g = kmem_group_of(w.p[0]);
	bool right = g == w.g;

	kmem_group_put(g);
	return all_or_nothing(right);
}

static void one_charged(void)
{
	if (charged())
		fault("no object");
}

static int read_groups(void)
{
	struct kmem_group_stats stats;

	return kmem_group_stats(NULL, &stats);
}

static int verify_groups(void)
{
	return kmem_group_verify();
}

const struct scene block_scenes[] = {
	{.name = "kmalloc, first call", .call = small},
	{.name = "kmalloc", .prepare = family, .call = small},
	{.name = "kmalloc, GFP_NOWAIT", .prepare = family, .call = of_page},
	{.name = "kmalloc, 1 MiB", .prepare = family, .call = largest_of_cache},
	{.name = "kmalloc, above 1 MiB", .prepare = family, .call = run_of_pages},
	{.name = "kvmalloc, first call", .call = mapping},
	{.name = "kvmalloc", .prepare = family, .call = mapping},
	{.name = "kvmalloc_node_align", .prepare = family, .call = aligned_mapping},
	{.name = "kvmalloc, kept mapping",
	 .prepare = family,
	 .ready = kept_mapping,
	 .call = mapping},
	{.name = "kvzalloc, kept mapping",
	 .prepare = family,
	 .ready = kept_mapping,
	 .call = clear_mapping},
	{.name = "kvfree",
	 .prepare = family,
	 .ready = one_mapping,
	 .call = freed,
	 .never_fails = true},
	{.name = "vmalloc", .prepare = family, .call = vmalloc_pages},
	{.name = "vzalloc, mapping", .options = "", .prepare = family, .call = vmalloc_mapping},
	{.name = "vfree, mapping",
	 .options = "",
	 .prepare = family,
	 .ready = one_huge,
	 .call = freed,
	 .never_fails = true},
	{.name = "kvrealloc, mapping grows",
	 .options = "",
	 .prepare = family,
	 .ready = one_huge,
	 .call = grown_mapping},
	{.name = "kvrealloc, mapping shrinks",
	 .prepare = family,
	 .ready = one_mapping,
	 .call = shrunk_mapping,
	 .never_fails = true},
	{.name = "kvrealloc, mapping to object",
	 .prepare = family,
	 .ready = one_mapping,
	 .call = mapping_to_small,
	 .never_fails = true},
	{.name = "kvrealloc, object to mapping",
	 .prepare = family,
	 .ready = one_small,
	 .call = small_to_mapping},
	{.name = "krealloc", .prepare = family, .ready = one_small, .call = small_to_larger},
	{.name = "kstrdup", .prepare = family, .call = copied},
	{.name = "kasprintf", .prepare = family, .call = printed},
	{.name = "kmalloc_nolock", .prepare = family, .ready = some_small, .call = small_nolock},
	{.name = "kmem_buckets_create",
	 .prepare = family,
	 .call = make_buckets,
	 .undo = destroy_buckets},
	{.name = "kmem_buckets_alloc",
	 .prepare = some_buckets,
	 .call = from_buckets,
	 .finish = destroy_buckets},
	{.name = "mempool_create, first call", .call = make_kmalloc_pool, .undo = destroy_pool},
	{.name = "mempool_create, cache",
	 .prepare = cache_of_pool,
	 .call = make_pool,
	 .undo = forget_pool},
	{.name = "mempool_resize",
	 .prepare = pool_of_blocks,
	 .call = larger_pool,
	 .finish = destroy_pool},
	{.name = "mempool_alloc",
	 .prepare = pool_of_blocks,
	 .call = element,
	 .finish = destroy_pool,
	 .never_fails = true},
	{.name = "kmem_group_create, first call", .call = make_group, .undo = put_group},
	{.name = "kmem_group_create, thread, first call",
	 .call = group_of_thread,
	 .undo = put_group},
	{.name = "kmem_group_create", .prepare = family, .call = make_group, .undo = put_group},
	{.name = "kmem_group_create, below a group",
	 .prepare = a_group,
	 .call = make_subgroup,
	 .undo = put_group,
	 .finish = no_group},
	{.name = "kmem_group_set_current",
	 .prepare = a_group,
	 .call = set_current,
	 .finish = no_group,
	 .never_fails = true},
	{.name = "kmem_cache_alloc, charged",
	 .prepare = a_group,
	 .call = charged,
	 .finish = no_group},
	{.name = "kmem_cache_alloc, charged, GFP_NOWAIT",
	 .prepare = a_group,
	 .call = charged_nowait,
	 .finish = no_group},
	{.name = "kmem_cache_alloc_bulk, charged",
	 .prepare = a_group,
	 .call = charged_bulk,
	 .finish = no_group},
	{.name = "kmem_cache_prefill_sheaf, charged",
	 .prepare = a_group,
	 .call = charged_prefill,
	 .undo = return_sheaf,
	 .finish = no_group},
	{.name = "kmalloc, charged", .prepare = a_group, .call = charged_block, .finish = no_group},
	{.name = "kmalloc, charged, letters differ",
	 .options = "slab_debug=FU,kmalloc-16;FZ,kmalloc-cg-16",
	 .prepare = a_group,
	 .call = charged_block,
	 .finish = no_group},
	{.name = "kmalloc, charged, letters for others",
	 .options = "slab_debug=FU,kmalloc-16",
	 .prepare = a_group,
	 .call = charged_block,
	 .finish = no_group},
	{.name = "kmalloc, charged, above 1 MiB",
	 .prepare = a_group,
	 .call = charged_run,
	 .finish = no_group},
	{.name = "kmalloc, charged, mapping",
	 .prepare = a_group,
	 .call = charged_large,
	 .finish = no_group},
	{.name = "kmalloc_charged", .prepare = a_group, .call = charged_to, .finish = no_group},
	{.name = "kmem_group_set_limits",
	 .prepare = a_group,
	 .call = set_limits,
	 .finish = no_group,
	 .never_fails = true},
	{.name = "kmem_group_of",
	 .prepare = a_group,
	 .ready = one_charged,
	 .call = group_of,
	 .finish = no_group,
	 .never_fails = true},
	{.name = "kmem_group_stats",
	 .prepare = a_group,
	 .call = read_groups,
	 .finish = no_group,
	 .never_fails = true},
	{.name = "kmem_group_verify",
	 .prepare = a_group,
	 .ready = one_charged,
	 .call = verify_groups,
	 .finish = no_group,
	 .never_fails = true},
	{.name = NULL},
};
