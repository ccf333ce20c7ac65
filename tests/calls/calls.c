/* SPDX-License-Identifier: MIT */
/*
 * Each public call: as the first one of a process, in a process that uses the library, and, if a
 * handler may make it, in a handler in both. Calls that take a cache or a pool get NULL: they
 * report that in one line, and do nothing.
 *
 * public_calls.h is made from the headers (list-calls), so that no call is forgotten.
 */
#include <errno.h>
#include <sheaf/debug.h>
#include <sheaf/group.h>
#include <sheaf/limit.h>
#include <sheaf/mempool.h>
#include <sheaf/rcu.h>
#include <sheaf/shrinker.h>
#include <sheaf/stats.h>
#include <sheaf/trim.h>
#include <signal.h>

#include "kit/capture.h"
#include "kit/check.h"
#include "kit/process.h"
#include "kit/unit.h"

/* Weak: a call without a body here is NULL below. */
#define CALL(name, takes_handle) void run_##name(void) __attribute__((weak));
#include "public_calls.h"
#undef CALL

/* Not constants: compilers would warn of them. */
static struct kmem_cache *volatile none;
static char *volatile nothing = (char *)&none; /* an address outside of the library's memory */

/* A call with harmless arguments, and what it must return. */
#define RUN(name, ...)                                                                             \
	void run_##name(void)                                                                      \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}
/* Like CALL(), for a call that returns memory: it is written to and freed. */
#define GET(name, size, ...)                                                                       \
	RUN(name, char *block = (__VA_ARGS__); CHECK(block); memset(block, 1, size); kfree(block))

/* --- slab.h ----------------------------------------------------------------------------------- */

RUN(gfpflags_allow_blocking, CHECK(gfpflags_allow_blocking(GFP_KERNEL)))
RUN(gfpflags_allow_spinning, CHECK(gfpflags_allow_spinning(GFP_NOWAIT)))
RUN(gfp_has_io_fs, CHECK(gfp_has_io_fs(GFP_KERNEL)))
RUN(__kmem_cache_create, struct kmem_cache *s = kmem_cache_create("old", 64, 8, 0, NULL); CHECK(s);
    kmem_cache_destroy(s))
RUN(__kmem_cache_create_args, struct kmem_cache *s = kmem_cache_create("new", 64, NULL, 0);
    CHECK(s); kmem_cache_destroy(s))
RUN(kmem_cache_create_usercopy,
    struct kmem_cache *s = kmem_cache_create_usercopy("user", 64, 8, 0, 8, 8, NULL);
    CHECK(s); kmem_cache_destroy(s))
RUN(kmem_cache_destroy, kmem_cache_destroy(none))
RUN(kmem_cache_shrink, CHECK(kmem_cache_shrink(none) == -EINVAL))
RUN(kmem_cache_size, CHECK(kmem_cache_size(none) == 0))
RUN(kmem_cache_verify, CHECK(kmem_cache_verify(none) == -EINVAL))
RUN(kmem_cache_validate, CHECK(kmem_cache_validate(none) == -EINVAL))
RUN(kmem_cache_set_sheaf_capacity, CHECK(kmem_cache_set_sheaf_capacity(none, 10) == -EINVAL))
RUN(kmem_cache_set_barn, CHECK(kmem_cache_set_barn(none, 10, 10) == -EINVAL))
RUN(kmem_cache_set_min_partial, CHECK(kmem_cache_set_min_partial(none, 10) == -EINVAL))
RUN(kmem_cache_set_limit, CHECK(kmem_cache_set_limit(none, 1 << 20) == -EINVAL))
/* The only call that takes a cache and does not test it: that would be an instruction in its fast
 * path. */
RUN(kmem_cache_alloc, struct kmem_cache *s = kmem_cache_create("used", 64, NULL, 0); CHECK(s);
    kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL)); kmem_cache_destroy(s))
RUN(__kmem_cache_alloc, struct kmem_cache *s = kmem_cache_create("used", 64, NULL, 0); CHECK(s);
    kmem_cache_free(s, __kmem_cache_alloc(s, GFP_KERNEL)); kmem_cache_destroy(s))
RUN(__kmem_cache_free, __kmem_cache_free(none, nothing))
RUN(kmem_cache_zalloc, CHECK(!kmem_cache_zalloc(none, GFP_KERNEL)))
RUN(kmem_cache_alloc_node, CHECK(!kmem_cache_alloc_node(none, GFP_KERNEL, 0)))
RUN(kmem_cache_free, kmem_cache_free(none, nothing); kmem_cache_free(none, NULL))
RUN(kmem_cache_alloc_lru, struct kmem_cache *s = kmem_cache_create("used", 64, NULL, 0); CHECK(s);
    kmem_cache_free(s, kmem_cache_alloc_lru(s, NULL, GFP_KERNEL)); kmem_cache_destroy(s))
RUN(slab_is_available, CHECK(slab_is_available()))
RUN(kmem_cache_charge, CHECK(!kmem_cache_charge(nothing, GFP_KERNEL)))
RUN(kmem_dump_obj, CHECK(!kmem_dump_obj(nothing)))
RUN(kmem_cache_alloc_bulk, void *p[3]; CHECK(!kmem_cache_alloc_bulk(none, GFP_KERNEL, 3, p)))
RUN(kmem_cache_free_bulk, void *p[3] = {NULL, ZERO_SIZE_PTR, NULL};
    kmem_cache_free_bulk(none, 0, p); kmem_cache_free_bulk(none, 3, p))
RUN(kmem_cache_prefill_sheaf, CHECK(!kmem_cache_prefill_sheaf(none, GFP_KERNEL, 10)))
RUN(kmem_cache_refill_sheaf, struct slab_sheaf *sheaf = NULL;
    CHECK(kmem_cache_refill_sheaf(none, GFP_KERNEL, &sheaf, 10) == -EINVAL))
RUN(kmem_cache_return_sheaf, kmem_cache_return_sheaf(none, GFP_KERNEL, (void *)nothing);
    kmem_cache_return_sheaf(none, GFP_KERNEL, NULL))
RUN(kmem_cache_alloc_from_sheaf, CHECK(!kmem_cache_alloc_from_sheaf(none, GFP_KERNEL, NULL)))
RUN(__kmem_cache_alloc_from_sheaf, CHECK(!__kmem_cache_alloc_from_sheaf(none, __GFP_ZERO, NULL)))
RUN(kmem_cache_sheaf_size, CHECK(kmem_cache_sheaf_size(NULL) == 0))
RUN(kmem_cache_alloc_nolock, CHECK(!kmem_cache_alloc_nolock(none, __GFP_ZERO)))
RUN(kmem_cache_free_nolock, kmem_cache_free_nolock(none, nothing);
    kmem_cache_free_nolock(none, NULL))
RUN(sheaf_owns, CHECK(!sheaf_owns(nothing) && !sheaf_owns(NULL) && sheaf_owns(ZERO_SIZE_PTR)))

/* --- kmalloc.h -------------------------------------------------------------------------------- */

GET(kmalloc, 100, kmalloc(100, GFP_KERNEL))
GET(kzalloc, 100, kzalloc(100, GFP_KERNEL))
GET(kmalloc_array, 100, kmalloc_array(10, 10, GFP_KERNEL))
GET(kcalloc, 100, kcalloc(10, 10, GFP_KERNEL))
GET(kmalloc_node, 100, kmalloc_node(100, GFP_KERNEL, 0))
GET(kzalloc_node, 100, kzalloc_node(100, GFP_KERNEL, 0))
GET(kmalloc_array_node, 100, kmalloc_array_node(10, 10, GFP_KERNEL, 0))
GET(kcalloc_node, 100, kcalloc_node(10, 10, GFP_KERNEL, 0))
GET(__kmalloc, 3 << 20, __kmalloc(3 << 20, GFP_KERNEL))
GET(__kmalloc_token, 100, __kmalloc_token(100, GFP_KERNEL, UINT64_MAX))
GET(kmalloc_track_caller, 100, kmalloc_track_caller(100, GFP_KERNEL))
GET(kmalloc_node_track_caller, 100, kmalloc_node_track_caller(100, GFP_KERNEL, 0))
GET(krealloc, 100, krealloc(NULL, 100, GFP_KERNEL))
GET(krealloc_node_align, 100, krealloc_node_align(NULL, 100, 64, GFP_KERNEL, 0))
GET(krealloc_node, 100, krealloc_node(NULL, 100, GFP_KERNEL, 0))
GET(krealloc_array, 100, krealloc_array(NULL, 10, 10, GFP_KERNEL))
GET(kvmalloc, 3 << 20, kvmalloc(3 << 20, GFP_KERNEL))
GET(kvzalloc, 100, kvzalloc(100, GFP_KERNEL))
GET(kvmalloc_array, 100, kvmalloc_array(10, 10, GFP_KERNEL))
GET(kvcalloc, 100, kvcalloc(10, 10, GFP_KERNEL))
GET(kvmalloc_node, 100, kvmalloc_node(100, GFP_KERNEL, 0))
GET(kvmalloc_node_align, 4096, kvmalloc_node_align(4096, 4096, GFP_KERNEL, 0))
GET(kvmalloc_array_node, 100, kvmalloc_array_node(10, 10, GFP_KERNEL, 0))
GET(kvcalloc_node, 100, kvcalloc_node(10, 10, GFP_KERNEL, 0))
GET(kvzalloc_node, 100, kvzalloc_node(100, GFP_KERNEL, 0))
GET(kvrealloc, 100, kvrealloc(NULL, 100, GFP_KERNEL))
GET(kvrealloc_node_align, 100, kvrealloc_node_align(NULL, 100, 64, GFP_KERNEL, 0))
GET(kvrealloc_node, 100, kvrealloc_node(NULL, 100, GFP_KERNEL, 0))
GET(__vmalloc_node, 10000, __vmalloc_node(10000, 8192, GFP_KERNEL, 0, nothing))
GET(vmalloc_node, 10000, vmalloc_node(10000, 0))
GET(vzalloc_node, 10000, vzalloc_node(10000, 0))
GET(vmalloc_user, 10000, vmalloc_user(10000))
GET(vmalloc_huge, 10000, vmalloc_huge(10000, GFP_KERNEL))
GET(vmalloc_huge_node, 10000, vmalloc_huge_node(10000, GFP_KERNEL, 0))
GET(vmalloc_array, 10000, vmalloc_array(100, 100))
GET(vcalloc, 10000, vcalloc(100, 100))
GET(vrealloc, 10000, vrealloc(NULL, 10000, GFP_KERNEL))
GET(vrealloc_node, 10000, vrealloc_node(NULL, 10000, GFP_KERNEL, 0))
GET(vrealloc_node_align, 10000, vrealloc_node_align(NULL, 10000, 8192, GFP_KERNEL, 0))
GET(vmalloc, 10000, vmalloc(10000))
GET(vzalloc, 10000, vzalloc(10000))
RUN(kfree, kfree(NULL); kfree(ZERO_SIZE_PTR); kfree(nothing))
RUN(kvfree, kvfree(NULL); kvfree(ZERO_SIZE_PTR); kvfree(nothing))
RUN(vfree, vfree(NULL); vfree(nothing))
RUN(kvfree_atomic, kvfree_atomic(NULL); kvfree_atomic(ZERO_SIZE_PTR); kvfree_atomic(nothing))
RUN(vfree_atomic, vfree_atomic(NULL); vfree_atomic(nothing))
RUN(kfree_bulk, void *p[2] = {NULL, nothing}; kfree_bulk(0, p); kfree_bulk(2, p))
RUN(kfree_sensitive, kfree_sensitive(NULL); kfree_sensitive(nothing))
RUN(kvfree_sensitive, kvfree_sensitive(NULL, 8); kvfree_sensitive(nothing, 8))
RUN(ksize, CHECK(ksize(NULL) == 0 && ksize(ZERO_SIZE_PTR) == 0 && ksize(nothing) == 0))
RUN(kmalloc_size_roundup, CHECK(kmalloc_size_roundup(100) >= 100))
RUN(kmalloc_nolock, void *block = kmalloc_nolock(100, __GFP_ZERO, NUMA_NO_NODE);
    CHECK(!block || sheaf_owns(block)); kfree_nolock(block);
    kfree_nolock(kmalloc_nolock(100, 0, 12345)); CHECK(kmalloc_nolock(0, 0, 0) == ZERO_SIZE_PTR);
    CHECK(!kmalloc_nolock(KMALLOC_MAX_CACHE_SIZE + 1, 0, 0)))
RUN(kfree_nolock, kfree_nolock(NULL); kfree_nolock(ZERO_SIZE_PTR); kfree_nolock(nothing))
GET(kstrdup, 5, kstrdup("text", GFP_KERNEL))
GET(kstrndup, 3, kstrndup("text", 2, GFP_KERNEL))
RUN(kstrdup_const, const char *text = kstrdup_const("text", GFP_KERNEL);
    CHECK(text && !strcmp(text, "text")); kfree_const(text))
RUN(kfree_const, kfree_const(NULL); kfree_const("text"))
GET(kmemdup, 8, kmemdup(nothing, 8, GFP_KERNEL))
GET(kmemdup_array, 8, kmemdup_array(nothing, 4, 2, GFP_KERNEL))
GET(kvmemdup, 8, kvmemdup(nothing, 8, GFP_KERNEL))
GET(kstrdup_and_replace, 5, kstrdup_and_replace("text", 't', 'n', GFP_KERNEL))
GET(kmemdup_nul, 9, kmemdup_nul(nothing, 8, GFP_KERNEL))
GET(kasprintf, 3, kasprintf(GFP_KERNEL, "%d", 42))

static __attribute__((format(printf, 1, 2))) char *formatted(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	text = kvasprintf(GFP_KERNEL, format, arguments);
	va_end(arguments);
	return text;
}

GET(kvasprintf, 3, formatted("%d", 42))
RUN(kasprintf_strarray, char **list = kasprintf_strarray(GFP_KERNEL, "text", 3); CHECK(list);
    CHECK(!strcmp(list[2], "text-2") && !list[3]); kfree_strarray(list, 3))
RUN(kfree_strarray, kfree_strarray(NULL, 3))
RUN(kmem_buckets_create, kmem_buckets *set = kmem_buckets_create("set", 0, 0, 0, NULL); CHECK(set);
    kmem_buckets_destroy(set))
RUN(kmem_buckets_destroy, kmem_buckets_destroy(NULL))
GET(kmem_buckets_alloc, 100, kmem_buckets_alloc(NULL, 100, GFP_KERNEL))
GET(kmem_buckets_alloc_track_caller, 100, kmem_buckets_alloc_track_caller(NULL, 100, GFP_KERNEL))
GET(kmem_buckets_valloc, 100, kmem_buckets_valloc(NULL, 100, GFP_KERNEL))

/* --- rcu.h: no provider is registered --------------------------------------------------------- */

RUN(sheaf_rcu_register, CHECK(sheaf_rcu_register(NULL) == -EINVAL))
RUN(sheaf_rcu_none, CHECK(sheaf_rcu_none() == 0))
RUN(kmem_cache_free_rcu, kmem_cache_free_rcu(none, nothing); kmem_cache_free_rcu(none, NULL))
RUN(kmem_cache_free_bulk_rcu, void *p[3] = {nothing, NULL, nothing};
    kmem_cache_free_bulk_rcu(none, 0, p); kmem_cache_free_bulk_rcu(none, 3, p))
RUN(__kvfree_rcu, __kvfree_rcu(NULL, 0); __kvfree_rcu(nothing, 0))
RUN(__kfree_rcu_nolock, __kfree_rcu_nolock(NULL, 0); __kfree_rcu_nolock(nothing, 0))
RUN(kmem_cache_free_rcu_nolock, CHECK(kmem_cache_free_rcu_nolock(none, nothing) == -EINVAL);
    CHECK(kmem_cache_free_rcu_nolock(none, NULL) == 0))
RUN(kvfree_rcu_mightsleep, kvfree_rcu_mightsleep(NULL); kvfree_rcu_mightsleep(nothing))
RUN(kvfree_rcu_barrier, kvfree_rcu_barrier())
RUN(kvfree_rcu_barrier_on_cache, kvfree_rcu_barrier_on_cache(none))

/* --- group.h ---------------------------------------------------------------------------------- */

RUN(kmem_group_create, struct kmem_group *g = kmem_group_create("group", NULL, NULL); CHECK(g);
    kmem_group_put(g))
RUN(__kmem_group_create, struct kmem_group *g = __kmem_group_create("group", NULL, NULL, 0);
    CHECK(g); kmem_group_put(g))
RUN(kmem_group_get, CHECK(!kmem_group_get(NULL)))
RUN(kmem_group_put, kmem_group_put(NULL))
RUN(kmem_group_set_current, kmem_group_put(kmem_group_set_current(NULL)))
RUN(kmem_group_restore_current, kmem_group_restore_current(NULL))
RUN(kmem_group_set_limits, CHECK(kmem_group_set_limits(NULL, NULL) == -EINVAL))
RUN(__kmem_group_set_limits, CHECK(__kmem_group_set_limits(NULL, NULL, 0) == -EINVAL))
RUN(kmem_group_of, CHECK(!kmem_group_of(NULL) && !kmem_group_of(nothing)))
RUN(kmem_group_stats, struct kmem_group_stats all; CHECK(kmem_group_stats(NULL, &all) == 0);
    CHECK(all.id == 0))
RUN(kmem_group_count_objects, uint64_t objects = 1;
    CHECK(kmem_group_count_objects(NULL, &objects, NULL) == 0 && objects == 0))
RUN(__kmem_group_stats, struct kmem_group_stats all;
    CHECK(__kmem_group_stats(NULL, &all, sizeof(all)) == 0))
RUN(kmem_group_verify, CHECK(kmem_group_verify() == 0))
RUN(kmem_cache_alloc_charged, CHECK(!kmem_cache_alloc_charged(none, GFP_KERNEL, NULL)))
GET(kmalloc_charged, 100, kmalloc_charged(100, GFP_KERNEL, NULL))

/* --- mempool.h -------------------------------------------------------------------------------- */

#define POOL(name, ...) RUN(name, mempool_t *pool = __VA_ARGS__; CHECK(pool); mempool_destroy(pool))
#define OVER_64		mempool_kmalloc, mempool_kfree, (void *)64

static mempool_t *volatile no_pool;

/* These make one. */
POOL(mempool_create, mempool_create(2, OVER_64))
POOL(mempool_create_node, mempool_create_node(2, OVER_64, GFP_KERNEL, 0))
POOL(mempool_create_kmalloc_pool, mempool_create_kmalloc_pool(2, 64))
RUN(mempool_create_slab_pool, CHECK(!mempool_create_slab_pool(2, none)))
RUN(mempool_init, mempool_t pool; CHECK(mempool_init(&pool, 2, OVER_64) == 0); mempool_exit(&pool);
    CHECK(mempool_init(no_pool, 2, OVER_64) == -EINVAL))
RUN(mempool_init_node, CHECK(mempool_init_node(no_pool, 2, OVER_64, GFP_KERNEL, 0) == -EINVAL))
RUN(mempool_init_kmalloc_pool, CHECK(mempool_init_kmalloc_pool(no_pool, 2, 64) == -EINVAL))
RUN(mempool_init_slab_pool, mempool_t pool;
    CHECK(mempool_init_slab_pool(&pool, 2, none) == -EINVAL); mempool_exit(&pool))
RUN(mempool_exit, mempool_t pool = {NULL}; mempool_exit(&pool); mempool_exit(no_pool))
RUN(mempool_destroy, mempool_destroy(no_pool))
RUN(mempool_initialized, mempool_t pool = {NULL};
    CHECK(!mempool_initialized(&pool) && !mempool_initialized(no_pool)))
RUN(mempool_alloc, CHECK(!mempool_alloc(no_pool, GFP_KERNEL)))
RUN(mempool_alloc_preallocated, CHECK(!mempool_alloc_preallocated(no_pool)))
RUN(mempool_alloc_noreserve, CHECK(!mempool_alloc_noreserve(no_pool, GFP_KERNEL)))
RUN(mempool_alloc_bulk, void *p[1] = {NULL};
    CHECK(mempool_alloc_bulk(no_pool, p, 1, 0) == -EINVAL && !p[0]))
RUN(mempool_free_bulk, void *p[1] = {nothing};
    CHECK(mempool_free_bulk(no_pool, p, 1) == 0 && p[0] == nothing))
RUN(mempool_is_saturated, CHECK(!mempool_is_saturated(no_pool)))
RUN(mempool_free, mempool_free(NULL, no_pool); mempool_free(nothing, no_pool))
RUN(mempool_resize, CHECK(mempool_resize(no_pool, 4) == -EINVAL))
GET(mempool_kmalloc, 64, mempool_kmalloc(GFP_KERNEL, (void *)64))
RUN(mempool_kfree, mempool_kfree(NULL, NULL))
RUN(mempool_alloc_slab, CHECK(!mempool_alloc_slab(GFP_KERNEL, none)))
RUN(mempool_free_slab, mempool_free_slab(nothing, none))

/* --- what is left ----------------------------------------------------------------------------- */

static unsigned long no_objects(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker, (void)sc;
	return 0;
}

RUN(__shrinker_alloc, struct shrinker *shrinker = shrinker_alloc(0, "s"); CHECK(shrinker);
    shrinker->count_objects = shrinker->scan_objects = no_objects; shrinker_register(shrinker);
    shrinker_free(shrinker))
RUN(shrinker_register, shrinker_register(NULL))
RUN(shrinker_free, shrinker_free(NULL))
RUN(shrinker_try_get, CHECK(!shrinker_try_get(NULL)))
RUN(shrinker_put, shrinker_put(NULL))
RUN(sheaf_trim, sheaf_trim(0))
RUN(sheaf_set_limits, CHECK(sheaf_set_limits(0, 0) == 0))
RUN(sheaf_set_report, CHECK(sheaf_set_report(NULL, NULL, NULL) == 0))
RUN(sheaf_explain_fault, CHECK(!sheaf_explain_fault(nothing, NULL));
    CHECK(!sheaf_explain_fault(NULL, NULL)))
RUN(__sheaf_stats, struct sheaf_stats all; memset(&all, 1, sizeof(all)); sheaf_stats(&all);
    CHECK(all.counted <= 1 && all.nodes <= 64))
RUN(__kmem_cache_stats, struct kmem_cache_stats all; memset(&all, 1, sizeof(all));
    CHECK(kmem_cache_stats(none, &all) == -EINVAL); CHECK(all.slab_bytes == 0))
RUN(sheaf_stats_print, CHECK(sheaf_stats_print(-1, SHEAF_STATS_TEXT) == -EBADF))
RUN(kmem_cache_print_traces,
    CHECK(kmem_cache_print_traces(none, -1, SHEAF_ALLOC_TRACES, SHEAF_STATS_JSON) == -EBADF))

/* --- running them ----------------------------------------------------------------------------- */

struct call {
	const char *name;
	bool takes_handle;
	void (*run)(void);
};

static const struct call calls[] = {
#define CALL(name, takes_handle) {#name, takes_handle, run_##name},
#include "public_calls.h"
#undef CALL
};

#define NR_CALLS (sizeof(calls) / sizeof(*calls))

/* Those that take a cache or a pool, and may be given NULL. */
static const char *const null_allowed[] = {"kmem_cache_alloc",	   "__kmem_cache_alloc",
					   "kmem_cache_alloc_lru", "kmem_cache_destroy",
					   "kmem_cache_free_bulk", "kmem_cache_print_traces",
					   "mempool_destroy",	   "mempool_initialized"};
/* Other calls whose bodies are wrong on purpose: one line reports each. */
static const char *const wrong[] = {"kfree",
				    "kvfree",
				    "vfree",
				    "kvfree_atomic",
				    "vfree_atomic",
				    "kfree_bulk",
				    "kfree_sensitive",
				    "kvfree_sensitive",
				    "ksize",
				    "kfree_nolock",
				    "kmem_cache_charge",
				    "__kvfree_rcu",
				    "__kfree_rcu_nolock",
				    "kvfree_rcu_mightsleep",
				    "sheaf_rcu_register",
				    "mempool_alloc_slab",
				    "mempool_free_slab",
				    "kmem_group_set_limits",
				    "__kmem_group_set_limits"};
/* Rule R8 of docs/design.md; all that end in _nolock are among them. */
static const char *const in_handlers[] = {"kmem_cache_alloc_from_sheaf",
					  "__kmem_cache_alloc_from_sheaf",
					  "kmem_cache_sheaf_size",
					  "kmem_cache_alloc_nolock",
					  "kmem_cache_free_nolock",
					  "kmalloc_nolock",
					  "kfree_nolock",
					  "__kfree_rcu_nolock",
					  "kmem_cache_free_rcu_nolock",
					  "sheaf_owns",
					  "sheaf_explain_fault",
					  "gfpflags_allow_blocking",
					  "gfpflags_allow_spinning",
					  "gfp_has_io_fs"};

static bool is_among(const char *name, const char *const *names, size_t n)
{
	while (n--)
		if (!strcmp(name, names[n]))
			return true;
	return false;
}

#define IS_AMONG(name, names) is_among(name, names, sizeof(names) / sizeof(*(names)))

static const struct call *running;
static bool used, by_handler;
static struct capture captured;

static void on_signal(int number)
{
	(void)number;
	running->run();
}

/* Objects of each kind of call: charged, prefilled, large. */
static void use(void)
{
	struct kmem_group *g = kmem_group_create("using", NULL, NULL);
	struct kmem_cache *s = kmem_cache_create("using", 64, NULL, SLAB_ACCOUNT | SLAB_NO_MERGE);
	void *large = kmalloc(3 << 20, GFP_KERNEL);

	kmem_group_put(kmem_group_set_current(g));
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	kmem_cache_return_sheaf(s, GFP_KERNEL, kmem_cache_prefill_sheaf(s, GFP_KERNEL, 4));
	kfree(kmalloc(100, GFP_KERNEL));
	kfree(kmalloc(100, GFP_KERNEL_ACCOUNT));
	kfree(large);
}

static void in_a_process(void)
{
	if (used)
		use();
	signal(SIGUSR1, on_signal);
	errno = 4242;
	if (by_handler)
		raise(SIGUSR1);
	else
		running->run();
	CHECK(errno == 4242);
}

/* What is wrong with the lines that a call reported; NULL: nothing. */
static const char *wrong_report(const struct call *call, int lines)
{
	char begin[100];

	if (call->takes_handle ? IS_AMONG(call->name, null_allowed) : !IS_AMONG(call->name, wrong))
		return lines ? "an unexpected report" : NULL;
	if (lines != 1)
		return "not one line";
	snprintf(begin, sizeof(begin), "libsheaf: %s(NULL", call->name + strspn(call->name, "_"));
	return call->takes_handle && strncmp(captured.text, begin, strlen(begin)) != 0
		       ? "the line does not begin with call(NULL"
		       : NULL;
}

/* Lines of the first use in each process, such as where there is no rseq. */
static struct capture at_first_use;

/* Remove those lines from what was captured; returns the number of the others. */
static int lines_of_call(void)
{
	char *line = captured.text, *end;
	int lines = 0;

	while ((end = strchr(line, '\n')) != NULL) {
		*end = '\0';
		if (strstr(at_first_use.text, line)) {
			memmove(line, end + 1, strlen(end + 1) + 1);
			continue;
		}
		*end = '\n';
		line = end + 1;
		lines++;
	}
	return lines;
}

static bool is_right(const struct call *call)
{
	const char *fault = "tests/calls/calls.c does not make this call";
	int status, lines;

	captured.text[0] = '\0';
	if (call->run) {
		running = call;
		capture_begin(&captured);
		status = in_child(in_a_process);
		capture_end(&captured);
		lines = lines_of_call();
		fault = status ? "the process failed" : wrong_report(call, lines);
	}
	if (fault)
		print_error("%s(): %s\n%s", call->name, fault, captured.text);
	return !fault;
}

static void all_calls(bool in_use, bool in_handler)
{
	int faults = 0;

	used = in_use;
	by_handler = in_handler;
	for (size_t i = 0; i < NR_CALLS; i++)
		if (!in_handler || IS_AMONG(calls[i].name, in_handlers))
			faults += !is_right(&calls[i]);
	assert_int_equal(faults, 0);
}

static int set_up(void **state)
{
	(void)state;
	capture_begin(&at_first_use);
	if (in_child(use))
		return -1;
	capture_end(&at_first_use);
	return 0;
}

static void first_of_a_process(void **state)
{
	(void)state;
	all_calls(false, false);
	all_calls(false, true);
}

static void in_a_process_that_uses_the_library(void **state)
{
	(void)state;
	all_calls(true, false);
	all_calls(true, true);
}

static void all_nolock_calls_are_made_in_handlers(void **state)
{
	(void)state;
	for (size_t i = 0; i < NR_CALLS; i++)
		if (strstr(calls[i].name, "_nolock"))
			assert_true(IS_AMONG(calls[i].name, in_handlers));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_of_a_process),
		cmocka_unit_test(in_a_process_that_uses_the_library),
		cmocka_unit_test(all_nolock_calls_are_made_in_handlers),
	};

	return cmocka_run_group_tests_name("calls", tests, set_up, NULL);
}
