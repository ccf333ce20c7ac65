/* SPDX-License-Identifier: MIT */
/* See allocators.h; names are those of the benchmarks (bench/allocators/). */
#include "scale/src/allocators.h"

#include <sheaf/group.h>
#include <sheaf/mempool.h>
#include <sheaf/rcu.h>

#include "cpu_slab.h"
#include "group/group.h"
#include "os/current.h"
#include "os/machine.h"
#include "scale/src/ideal.h"
#include "scale/src/machine.h"
#include "scale/src/retire.h"

#define RESERVE 64 /* objects of a memory pool */

/* --- ours ----------------------------------------------------------------------------------- */

static void *create(const struct cache_request *request, slab_flags_t flags)
{
	const struct kmem_cache_args args = {.sheaf_capacity = request->capacity};

	return kmem_cache_create(request->name, (unsigned int)request->size, &args,
				 SLAB_NO_MERGE | flags);
}

static void *open_sheaf(const struct allocator *a, const struct cache_request *request)
{
	(void)a;
	return create(request, 0);
}

static void *open_no_sheaf(const struct allocator *a, const struct cache_request *request)
{
	(void)a;
	return create(request, SLAB_NO_SHEAVES);
}

static void *alloc_object(void *cache)
{
	return kmem_cache_alloc(cache, GFP_KERNEL);
}

static void free_object(void *cache, void *object)
{
	kmem_cache_free(cache, object);
}

static void retire_object(void *cache, void *object)
{
	kmem_cache_free_rcu(cache, object);
}

/* Each CPU's objects are charged to a group of its own. */
static struct kmem_group *group_of_cpu[MACHINE_CPUS];

static void *open_charged(const struct allocator *a, const struct cache_request *request)
{
	struct kmem_cache *cache = create(request, SLAB_ACCOUNT);

	(void)a;
	for (unsigned int cpu = 0; cpu < os.nr_cpus; cpu++) {
		group_of_cpu[cpu] = kmem_group_create("cpu", NULL, NULL);
		if (!group_of_cpu[cpu])
			return NULL;
	}
	return cache;
}

static void *alloc_charged(void *cache)
{
	struct kmem_group *g = group_of_cpu[os_cpu()];

	if (os_current_group()->own != g->number)
		kmem_group_restore_current(kmem_group_get(g));
	return kmem_cache_alloc(cache, GFP_KERNEL);
}

static void *open_pool(const struct allocator *a, const struct cache_request *request)
{
	struct kmem_cache *cache = open_sheaf(a, request);

	return cache ? mempool_create_slab_pool(RESERVE, cache) : NULL;
}

static void *alloc_pool(void *pool)
{
	return mempool_alloc(pool, GFP_KERNEL);
}

static void free_pool(void *pool, void *element)
{
	mempool_free(element, pool);
}

/* --- the baseline --------------------------------------------------------------------------- */

static void *open_cpu_slab(const struct allocator *a, const struct cache_request *request)
{
	(void)a;
	return cpu_slab_create(request->size, 0);
}

static void *alloc_cpu_slab(void *cache)
{
	return cpu_slab_alloc(cache);
}

static void free_cpu_slab(void *cache, void *object)
{
	cpu_slab_free(cache, object);
}

static void free_bulk_cpu_slab(void *cache, void **objects, unsigned int n)
{
	cpu_slab_free_bulk(cache, objects, n);
}

static void retire_cpu_slab(void *cache, void *object)
{
	retire(cache, object, free_bulk_cpu_slab);
}

/* As the maple tree did it before sheaves: a callback for each object. */
static void free_each_cpu_slab(void *cache, void **objects, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		cpu_slab_free(cache, objects[i]);
}

static void retire_kernel_slabs(void *cache, void *object)
{
	retire(cache, object, free_each_cpu_slab);
}

/* --- only the lines that must move ---------------------------------------------------------- */

static void *open_ideal(const struct allocator *a, const struct cache_request *request)
{
	(void)a;
	return ideal_create(request->size);
}

static void *alloc_ideal(void *cache)
{
	return ideal_alloc(cache);
}

static void free_ideal(void *cache, void *object)
{
	ideal_free(cache, object);
}

static void retire_ideal(void *cache, void *object)
{
	ideal_retire(cache, object);
}

/* --- the kernel's sheaves ------------------------------------------------------------------- */

static void *open_kernel(const struct allocator *a, const struct cache_request *request)
{
	struct kernel_rules rules = a->rules;

	if (!rules.capacity)
		rules.capacity = request->capacity;
	rules.atomic = request->atomic;
	return kernel_create(request->size, &rules);
}

static void *alloc_kernel(void *cache)
{
	return kernel_alloc(cache);
}

static void free_kernel(void *cache, void *object)
{
	kernel_free(cache, object);
}

static void retire_kernel(void *cache, void *object)
{
	kernel_free_rcu(cache, object);
}

#define OURS(open, alloc, free)                                                                    \
	open, alloc, free, retire_object, true, false,                                             \
	{                                                                                          \
		0                                                                                  \
	}
#define POOL                                                                                       \
	open_pool, alloc_pool, free_pool, NULL, false, false,                                      \
	{                                                                                          \
		0                                                                                  \
	}
#define SLABS(retire, kernel)                                                                      \
	open_cpu_slab, alloc_cpu_slab, free_cpu_slab, retire, false, kernel,                       \
	{                                                                                          \
		0                                                                                  \
	}
#define IDEAL                                                                                      \
	open_ideal, alloc_ideal, free_ideal, retire_ideal, false, false,                           \
	{                                                                                          \
		0                                                                                  \
	}
#define KERNEL(...)                                                                                \
	open_kernel, alloc_kernel, free_kernel, retire_kernel, false, true,                        \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

const struct allocator allocators[] = {
	{"sheaf", "libsheaf", false, OURS(open_sheaf, alloc_object, free_object)},
	{"no-sheaf", "its slab layer alone", false, OURS(open_no_sheaf, alloc_object, free_object)},
	{"cpu-slab", "the three-tier baseline", false, SLABS(retire_cpu_slab, false)},
	{"ideal", "moves only the lines that must move", false, IDEAL},
	{"sheaf-charged", "libsheaf, charging a group of each CPU", true,
	 OURS(open_charged, alloc_charged, free_object)},
	{"sheaf-mempool", "libsheaf through a memory pool", true, POOL},
	{"kernel-slabs", "three tiers with the kernel's locks", true,
	 SLABS(retire_kernel_slabs, true)},
	{"kernel-both", "sheaves above three tiers", true, KERNEL(.over_tiers = true)},
	{"kernel-both-spare", "... with an empty main as the spare", true,
	 KERNEL(.over_tiers = true, .keeps_main = true)},
	{"kernel-both-64", "... without that rule, and sheaves of 64", true,
	 KERNEL(.over_tiers = true, .capacity = 64)},
	{"kernel-both-128", "... of 128", true, KERNEL(.over_tiers = true, .capacity = 128)},
	{"kernel-both-256", "... of 256", true, KERNEL(.over_tiers = true, .capacity = 256)},
	{"kernel-first", "its sheaves as first merged without tiers below", true, KERNEL(0)},
	{"kernel-spare", "... with an empty main as the spare", true, KERNEL(.keeps_main = true)},
	{"kernel", "... or with refills for all callers: as it is now", true,
	 KERNEL(.keeps_main = true, .refills = true)},
	{0},
};
