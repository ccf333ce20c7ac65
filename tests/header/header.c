/* SPDX-License-Identifier: MIT */
/* The public headers as a user of either language sees them: every call they have, once. */
#include <sheaf/debug.h>
#include <sheaf/group.h>
#include <sheaf/limit.h>
#include <sheaf/maple_tree.h>
#include <sheaf/mempool.h>
#include <sheaf/overflow.h>
#include <sheaf/rcu.h>
#include <sheaf/shrinker.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <sheaf/trim.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

struct point {
	double x, y;
	char name[20];
};

static int constructed;

static void construct(void *object)
{
	memset(object, 1, 40);
	constructed++;
}

static void report(void *data, const char *text, size_t length)
{
	(void)data, (void)text, (void)length;
}

static unsigned long nothing(struct shrinker *shrinker, struct shrink_control *sc)
{
	return shrinker->private_data == sc ? SHRINK_STOP : SHRINK_EMPTY;
}

static int use_shrinker(void)
{
	struct shrinker *shrinker = shrinker_alloc(0, "header %d", 1);

	CHECK(shrinker && shrinker->seeks == DEFAULT_SEEKS);
	shrinker->count_objects = nothing;
	shrinker->scan_objects = nothing;
	shrinker_register(shrinker);
	CHECK(shrinker_try_get(shrinker));
	shrinker_put(shrinker);
	CHECK(sheaf_trim((size_t)-1) == 0);
	shrinker_free(shrinker);
	return 0;
}

static int use_report(void)
{
	struct sheaf_report_to to;

	CHECK(sheaf_set_report(report, NULL, &to) == 0 && !to.report);
	CHECK(sheaf_set_report(to.report, to.data, &to) == 0 && to.report == report);
	return 0;
}

static int use_pool(struct kmem_cache *s)
{
	mempool_t *pool = mempool_create_slab_pool(2, s), own;
	void *element;

	CHECK(kmem_cache_validate(s) == 0);
	CHECK(kmem_cache_print_traces(NULL, 1, SHEAF_ALLOC_TRACES, SHEAF_STATS_TEXT) == 0);
	CHECK(use_report() == 0);
	CHECK(pool);
	CHECK(mempool_resize(pool, 3) == 0);
	element = mempool_alloc(pool, GFP_KERNEL);
	CHECK(element);
	mempool_free(element, pool);
	mempool_free(mempool_alloc_preallocated(pool), pool);
	element = NULL;
	CHECK(mempool_alloc_bulk(pool, &element, 1, 0) == 0 && element);
	CHECK(mempool_is_saturated(pool) && mempool_free_bulk(pool, &element, 1) == 0);
	mempool_free(element, pool);
	mempool_destroy(pool);
	CHECK(mempool_init(&own, 1, mempool_kmalloc, mempool_kfree, (void *)100) == 0);
	CHECK(mempool_initialized(&own));
	mempool_exit(&own);
	pool = mempool_create(1, mempool_alloc_slab, mempool_free_slab, s);
	CHECK(pool);
	mempool_destroy(pool);
	pool = mempool_create_kmalloc_pool(1, 100);
	CHECK(pool);
	mempool_destroy(pool);
	pool = mempool_create(1, mempool_kmalloc, mempool_kfree, (void *)100);
	CHECK(pool);
	mempool_destroy(pool);
	kfree_nolock(kmalloc_nolock(100, GFP_NOWAIT, NUMA_NO_NODE));
	return 0;
}

static int use_sheaf(struct kmem_cache *s)
{
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 3);

	CHECK(sheaf && kmem_cache_sheaf_size(sheaf) >= 3);
	kmem_cache_free(s, kmem_cache_alloc_from_sheaf(s, GFP_NOWAIT, sheaf));
	CHECK(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 200) == 0);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	return 0;
}

static int use(struct kmem_cache *s, size_t size)
{
	void *p[20];
	char *object = (char *)kmem_cache_alloc(s, GFP_KERNEL);
	gfp_t flags = GFP_NOWAIT;

	CHECK(object && sheaf_owns(object) && !sheaf_owns(&object));
	memset(object, 5, size);
	kmem_cache_free(s, object);
	object = (char *)kmem_cache_zalloc(s, GFP_KERNEL);
	CHECK(object && object[0] == 0 && object[size - 1] == 0);
	kmem_cache_free(s, object);
	object = (char *)kmem_cache_alloc(s, flags);
	CHECK(object);
	kmem_cache_free(s, object);
	object = (char *)kmem_cache_alloc_node(s, GFP_KERNEL, NUMA_NO_NODE);
	CHECK(object);
	kmem_cache_free(s, object);
	kmem_cache_free(s, NULL);
	CHECK(gfpflags_allow_blocking(GFP_USER) && !gfpflags_allow_blocking(flags));
	CHECK(gfpflags_allow_spinning(flags) && gfp_has_io_fs(GFP_KERNEL) && !gfp_has_io_fs(flags));
	CHECK(default_gfp() == GFP_KERNEL && default_gfp(flags | GFP_DMA) == flags);
	CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, 20, p) == 20);
	kmem_cache_free_bulk(s, 10, p);
	kmem_cache_free_bulk(NULL, 10, p + 10);
	CHECK(use_sheaf(s) == 0);
	kmem_cache_free_nolock(s, kmem_cache_alloc_nolock(s, GFP_NOWAIT));
	CHECK(use_pool(s) == 0);
	CHECK(kmem_cache_size(s) == size);
	CHECK(kmem_cache_verify(s) == 0);
	CHECK(kmem_cache_shrink(s) == 0);
	CHECK(sheaf_trim((size_t)-1) == 0);
	CHECK(sheaf_set_limits(0, (size_t)1 << 40) == 0);
	return use_shrinker();
}

static int look(struct kmem_cache *s)
{
	struct kmem_cache_stats stats;
	struct sheaf_stats process;

	CHECK(kmem_cache_stats(s, &stats) == 0);
	CHECK(stats.objects_in_use == 0 && strcmp(stats.name, "new") == 0);
	sheaf_stats(&process);
	CHECK(process.caches >= 1 && process.cpus >= 1);
	CHECK(sheaf_stats_print(1, SHEAF_STATS_TEXT) == 0);
	CHECK(sheaf_stats_print(1, SHEAF_STATS_JSON) == 0);
	CHECK(sheaf_stats_print(1, SHEAF_STATS_PROMETHEUS) == 0);
	return 0;
}

static int use_kmalloc(size_t given)
{
	volatile size_t size = given, most = SIZE_MAX; /* compilers do not know their values */
	kmem_buckets *set = kmem_buckets_create("own", 0, 0, 0, NULL);
	char *p = (char *)kmalloc(size, GFP_KERNEL), *q;
	void *block;

	CHECK(p && ksize(p) == kmalloc_size_roundup(size));
	memset(p, 1, size);
	p = (char *)krealloc(p, 2 * size, GFP_KERNEL);
	CHECK(p && p[size - 1] == 1);
	kfree(p);
	p = (char *)krealloc_array(kcalloc(2, size, GFP_KERNEL), 4, size, GFP_KERNEL);
	CHECK(p && p[0] == 0);
	kfree_sensitive(p);
	CHECK(ZERO_OR_NULL_PTR(kmalloc(0, GFP_KERNEL)) && kmalloc_array(size, most, 0) == NULL);
	kfree(kzalloc(64, GFP_KERNEL));
	kfree(kzalloc_node(size, GFP_NOWAIT, NUMA_NO_NODE));
	kfree(kmalloc_node(KMALLOC_MAX_CACHE_SIZE + 1, GFP_KERNEL, 0));
	kvfree(kvzalloc(KMALLOC_MAX_SIZE + size, GFP_KERNEL));
	kvfree(kvmalloc_node(size, GFP_KERNEL, 0));
	p = (char *)kvrealloc(kvcalloc(2, size, GFP_KERNEL), 3 * size, GFP_KERNEL);
	CHECK(p && p[0] == 0);
	kvfree_sensitive(p, 3 * size);
	kvfree(kvmalloc_array(3, size, GFP_KERNEL));
	kfree(kmalloc_array_node(2, size, GFP_KERNEL, NUMA_NO_NODE));
	kvfree(kvmalloc_array_node(2, size, GFP_KERNEL, NUMA_NO_NODE));
	block = kcalloc_node(2, size, GFP_KERNEL, 0);
	kfree_bulk(1, &block);
	kvfree(kvcalloc_node(2, size, GFP_KERNEL, 0));
	vfree(vmalloc(size));
	p = (char *)vzalloc(size);
	CHECK(p && p[0] == 0);
	vfree(p);
	p = kasprintf(GFP_KERNEL, "%d", 5);
	CHECK(p && p[0] == '5');
	kfree(p);
	kfree(kmalloc_obj(struct point));
	kvfree(kvzalloc_objs(struct point, size, GFP_KERNEL));
	kfree_const(kstrdup_const("text", GFP_KERNEL));
	p = kstrdup("text", GFP_KERNEL);
	q = kstrndup(p, 2, GFP_KERNEL);
	CHECK(p && q && strcmp(p, "text") == 0 && strcmp(q, "te") == 0);
	kfree(q);
	q = kmemdup_nul(p, 3, GFP_KERNEL);
	CHECK(q && strcmp(q, "tex") == 0);
	kfree(q);
	q = (char *)kmemdup(p, 5, GFP_KERNEL);
	CHECK(q && strcmp(p, q) == 0);
	kfree(q);
	kfree(p);
	p = (char *)vrealloc(vmalloc_array(2, size), size, GFP_KERNEL);
	CHECK(p && kmem_dump_obj(p));
	vfree_atomic(krealloc_node_align(p, 2 * size, 64, GFP_KERNEL, NUMA_NO_NODE));
	kvfree_atomic(kvmemdup("text", 5, GFP_KERNEL));
	kfree_strarray(kasprintf_strarray(GFP_KERNEL, "text", 3), 3);
	kfree(kstrdup_and_replace("text", 't', 'n', GFP_KERNEL));
	kfree(kmalloc_track_caller(size, GFP_KERNEL));
	CHECK(array_size(most, 2) == SIZE_MAX && size_mul(size, 2) == 2 * size);
	kfree(kmem_buckets_alloc_track_caller(set, size, GFP_KERNEL));
	kfree(kmem_buckets_alloc(set, size, GFP_KERNEL));
	kvfree(kmem_buckets_valloc(set, size, GFP_KERNEL));
	kmem_buckets_destroy(set);
	return 0;
}

static int use_groups(struct kmem_cache *s)
{
	struct kmem_group_args args;
	struct kmem_group_stats stats;
	struct kmem_group *g, *inner;
	void *object;

	memset(&args, 0, sizeof(args));
	args.hard_limit = 1 << 20;
	g = kmem_group_create("outer", NULL, &args);
	inner = kmem_group_create("inner", g, NULL);
	CHECK(g && inner && kmem_group_get(inner) == inner);
	CHECK(kmem_group_set_limits(inner, &args) == 0);
#ifdef __cplusplus
	{
		sheaf::group_ref one(kmem_group_get(g)), other(one), moved;
		sheaf::group_scope scope(one);

		moved = static_cast<sheaf::group_ref &&>(other);
		CHECK(moved && !other && moved.get() == g);
		object = kmem_cache_alloc(s, GFP_KERNEL_ACCOUNT);
		CHECK(kmem_group_set_current(g) == g);
		kmem_group_put(g);
	}
	CHECK(kmem_group_set_current(inner) == NULL);
#else
	CHECK(kmem_group_set_current(g) == NULL);
	object = kmem_cache_alloc(s, GFP_KERNEL_ACCOUNT);
	CHECK(kmem_group_set_current(inner) == g);
	kmem_group_put(g);
#endif
	CHECK(object && kmem_group_of(object) == g);
	kmem_group_put(g);
	CHECK(kmem_group_stats(g, &stats) == 0 && stats.bytes > 0 &&
	      kmem_group_count_objects(g, NULL, NULL) == 0);
	kmem_cache_free(s, object);
	kmem_cache_free(s, kmem_cache_alloc_charged(s, GFP_KERNEL, g));
	kfree(kmalloc_charged(100, GFP_KERNEL, inner));
	CHECK(kmem_group_verify() == 0);
	kmem_group_restore_current(NULL);
	kmem_group_put(inner);
	kmem_group_put(inner);
	kmem_group_put(g);
	return 0;
}

/* Make it, and destroy it. Returns the alignment of its objects. */
static uint64_t align_of(struct kmem_cache *s)
{
	struct kmem_cache_stats stats;

	memset(&stats, 0, sizeof(stats));
	if (s)
		kmem_cache_stats(s, &stats);
	kmem_cache_destroy(s);
	return stats.align;
}

/* Arguments written in place, and variables of each kind. */
static int use_forms(struct kmem_cache_args *args)
{
	const slab_flags_t flags = SLAB_NO_MERGE;
	void (*ctor)(void *object) = construct;
	const char name[] = "form";

	args->align = 256;
	CHECK(align_of(kmem_cache_create(name, sizeof(*args), args, flags)) == 256);
	CHECK(align_of(kmem_cache_create(name, 40, 512, flags, ctor)) == 512);
	CHECK(align_of(kmem_cache_create(name, 40, 512, 0, NULL)) == 512);
#ifdef __cplusplus
	CHECK(align_of(kmem_cache_create(name, 40, *args, flags)) == 256);
	CHECK(align_of(kmem_cache_create(name, 40, {}, flags)) == 8);
#if __cplusplus > 201703L
	CHECK(align_of(kmem_cache_create(name, 40, kmem_cache_args{.align = 64, .ctor = ctor},
					 flags)) == 64);
	CHECK(align_of(kmem_cache_create(name, 40, {.align = 128, .ctor = ctor}, 0)) == 128);
#endif
#else
	CHECK(align_of(kmem_cache_create(name, 40, &(struct kmem_cache_args){.align = 64}, 0)) ==
	      64);
	CHECK(align_of(kmem_cache_create(name, 40,
					 &(struct kmem_cache_args){.align = 64, .ctor = ctor},
					 flags)) == 64);
	CHECK(align_of(kmem_cache_create(
		      name, 40, &(struct kmem_cache_args){.align = 128, .ctor = ctor, .limit = 1},
		      0)) == 128);
	/* Every member. */
	CHECK(align_of(kmem_cache_create(name, 40,
					 &(struct kmem_cache_args){.align = 1024,
								   .useroffset = 8,
								   .usersize = 8,
								   .freeptr_offset = 8,
								   .use_freeptr_offset = 1,
								   .reserved = {0, 0, 0},
								   .ctor = ctor,
								   .sheaf_capacity = 10,
								   .reserved2 = 0,
								   .barn_objects = 10,
								   .barn_bytes = 10,
								   .rcu = NULL,
								   .group = NULL,
								   .limit = 1 << 20},
					 SLAB_PANIC)) == 1024);
#endif
	return 0;
}

int main(void)
{
	struct kmem_cache *points = KMEM_CACHE(point, SLAB_HWCACHE_ALIGN);
	struct kmem_cache *old_form, *new_form, *plain;
	struct kmem_cache_args args;

	memset(&args, 0, sizeof(args));
	args.align = 32;
	args.sheaf_capacity = 100;
	old_form = kmem_cache_create("old", 40, 8, SLAB_PANIC, construct);
	new_form = kmem_cache_create("new", 100, &args, SLAB_NO_MERGE);
	plain = kmem_cache_create("plain", 200, NULL, 0);
	CHECK(points && old_form && new_form && plain);
	CHECK(use(points, sizeof(struct point)) == 0);
	CHECK(use(new_form, 100) == 0);
	CHECK(use(plain, 200) == 0);
	CHECK(use_groups(new_form) == 0);
	CHECK(look(new_form) == 0);
	kmem_cache_free(old_form, kmem_cache_alloc(old_form, GFP_KERNEL));
	CHECK(constructed > 0);
	CHECK(kmem_cache_set_sheaf_capacity(new_form, 7) == 0);
	CHECK(kmem_cache_set_barn(new_form, 100, 10000) == 0);
	CHECK(use_kmalloc(77) == 0);
	CHECK(use_forms(&args) == 0);
	kmem_cache_destroy(points);
	kmem_cache_destroy(old_form);
	kmem_cache_destroy(new_form);
	kmem_cache_destroy(plain);
	kmem_cache_destroy(NULL);
	return 0;
}
