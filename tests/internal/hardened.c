/* SPDX-License-Identifier: MIT */
/* Hardened caches: what they find, in each call, and that correct calls are not affected. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <sheaf/mempool.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>

#include "cache/cache.h"
#include "debug/guard.h"
#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/clock.h"
#include "kit/hidden.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "kmalloc/mempool.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "page/object_marks.h"
#include "percpu/rows.h"

enum {
	SIZE = 56,
	MANY = 300
};

static struct capture captured;
static struct kmem_cache *s, *other;

/* With slub_tiny an empty slab is freed immediately: then a second free finds no object at all. */
static struct kmem_cache *make_keeping(const char *name, slab_flags_t flags)
{
	struct kmem_cache *cache = make(name, SIZE, flags);

	if (os_options.tiny)
		cache->sheaf.slab.min_partial = 5;
	return cache;
}

static int set_up(void **state)
{
	(void)state;
	pin((unsigned int)sched_getcpu());
	s = make_keeping("mine", 0);
	other = make_keeping("other", 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
	kmem_cache_destroy(other);
	return 0;
}

static void needs(bool option)
{
	if (!option)
		skip();
}

/* Does main hold freed objects? It holds no samples, and with slub_tiny there is no main. */
static bool main_is_used(void)
{
	return !os_options.tiny && !os_options_debug_has('S');
}

static void *new_of(struct kmem_cache *cache)
{
	void *object = kmem_cache_alloc(cache, GFP_KERNEL);

	assert_non_null(object);
	memset(object, 0x11, SIZE);
	return object;
}

/* The next sheaf slots get is a fresh one. */
static struct sheaf *main_of(struct kmem_cache *cache)
{
	return slot_of_row(cache->sheaf.at.handle, os_row())->main;
}

/* --- frees ------------------------------------------------------------------------------------ */

static void free_it(struct kmem_cache *cache, void *object)
{
	kmem_cache_free(cache, object);
}

static void free_bulk(struct kmem_cache *cache, void *object)
{
	kmem_cache_free_bulk(cache, 1, &object);
}

static void free_nolock(struct kmem_cache *cache, void *object)
{
	kmem_cache_free_nolock(cache, object);
}

static void free_rcu(struct kmem_cache *cache, void *object)
{
	kmem_cache_free_rcu(cache, object);
}

static const struct {
	void (*free)(struct kmem_cache *cache, void *object);
	const char *call;
} calls[] = {
	{free_it, "kmem_cache_free(mine, "},
	{free_bulk, "kmem_cache_free_bulk(mine, "},
	{free_nolock, "kmem_cache_free_nolock(mine, "},
	{free_rcu, "kmem_cache_free_rcu(mine, "},
};

#define NR_CALLS (sizeof(calls) / sizeof(calls[0]))

/* As above, in the words for guarded objects, such as samples. */
static const char *in_words_for(const void *object, const char *what)
{
	if (!guard_is_ours(object))
		return what;
	if (!strcmp(what, "double free"))
		return "Object already free";
	if (!strcmp(what, "belongs to cache \"other\""))
		return "belongs to other, not to mine";
	return what;
}

/* The call gives this report, immediately, and no other. */
static void says(unsigned int call, void *object, const char *what)
{
	capture_begin(&captured);
	calls[call].free(s, object);
	assert_true(capture_end(&captured) >= 1);
	assert_non_null(strstr(captured.text, calls[call].call));
	assert_non_null(strstr(captured.text, in_words_for(object, what)));
	assert_null(strstr(strstr(captured.text, "libsheaf: ") + 1, "libsheaf: "));
}

static void a_wrong_cache_is_found_at_once(void **state)
{
	static void *objects[MANY];
	void *object;

	(void)state;
	needs(os_options.check_free);
	object = new_of(other);
	for (unsigned int i = 0; i < NR_CALLS; i++)
		says(i, object, "belongs to cache \"other\"");
	/* Its owner still has it. */
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, MANY, objects), MANY);
	for (unsigned int i = 0; i < MANY; i++)
		assert_ptr_not_equal(objects[i], object);
	kmem_cache_free_bulk(s, MANY, objects);
	kmem_cache_free(other, object);
	assert_int_equal(look(other).objects_in_use, 0);
	/* The pages of a sample are closed now. */
	for (unsigned int i = 0; i < SIZE && !guard_is_ours(object); i++)
		assert_true(((char *)object)[i] == 0x11 || os_options.init_on_free);
}

static void an_address_inside_is_found_at_once(void **state)
{
	char *object, *next;

	(void)state;
	needs(os_options.check_free);
	object = new_of(s);
	next = new_of(s);
	for (unsigned int i = 0; i < NR_CALLS; i++)
		for (unsigned int at = 1; at < SIZE; at += 1 + 6 * (i > 0))
			says(i, object + at, "bytes into an object");
	capture_begin(&captured);
	kfree(object + 8);
	assert_true(capture_end(&captured) >= 1);
	assert_non_null(strstr(captured.text,
			       guard_is_ours(object) ? "kfree(mine, " : "kmem_cache_free(mine, "));
	assert_non_null(strstr(captured.text, "8 bytes into an object"));
	kmem_cache_free(s, object);
	kmem_cache_free(s, next);
}

static void memory_of_others_is_found_at_once(void **state)
{
	static char not_ours[SIZE];

	(void)state;
	for (unsigned int i = 0; i < NR_CALLS; i++)
		says(i, not_ours, "not an object of any cache");
}

/* Random caches of kmalloc() depend on its caller, and compilers may make several calls of one in a
 * loop. */
static __attribute__((noinline)) void *block_of_one_caller(void)
{
	void *block = kmalloc(100, GFP_KERNEL);

	CHECK(block);
	return block;
}

static void a_second_free_is_found_at_once(void **state)
{
	void *object, *blocks[2];

	(void)state;
	needs(os_options.check_double);
	for (unsigned int i = 0; i < 3; i++)
		for (unsigned int j = 0; j < NR_CALLS; j++) {
			object = new_of(s);
			calls[i].free(s, object);
			says(j, object, "double free");
		}
	/* One stays in use, so that the slab does: both are from one cache. */
	for (unsigned int i = 0; i < 2; i++)
		blocks[i] = block_of_one_caller();
	kfree(blocks[0]);
	for (int by_size = 0; by_size < 2; by_size++) {
		capture_begin(&captured);
		if (by_size)
			assert_ptr_equal(krealloc(hidden(blocks[0]), 0, GFP_KERNEL), ZERO_SIZE_PTR);
		else
			kfree(hidden(blocks[0]));
		assert_true(capture_end(&captured) >= 1);
		assert_non_null(
			strstr(captured.text, by_size ? "krealloc(kmalloc-" : "kfree(kmalloc-"));
		assert_non_null(strstr(captured.text, in_words_for(blocks[0], "double free")));
	}
	kfree(blocks[1]);
}

static void twice_in_one_array_is_found(void **state)
{
	void *objects[5], *object = NULL;

	(void)state;
	/* Of a sample freed twice, another line is written. */
	needs(os_options.check_double && !has_debug_letter('S'));
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 4, objects), 4);
	objects[4] = objects[1];
	capture_begin(&captured);
	kmem_cache_free_bulk(s, 5, objects);
	assert_true(capture_end(&captured) >= 1);
	assert_non_null(strstr(captured.text, "kmem_cache_free_bulk(mine, "));
	assert_non_null(strstr(captured.text, "double free"));
	assert_int_equal(look(s).objects_in_use, 0);
	objects[0] = new_of(s);
	objects[1] = NULL;
	objects[2] = objects[0];
	objects[3] = new_of(s);
	capture_begin(&captured);
	kmem_cache_free_bulk(NULL, 4, objects);
	assert_true(capture_end(&captured) >= 1);
	assert_non_null(strstr(captured.text, in_words_for(objects[0], "double free")));
	assert_int_equal(look(s).objects_in_use, 0);
	kmem_cache_free_bulk(s, 1, &object);
}

static void a_retired_object_is_not_freed(void **state)
{
	void *object;

	(void)state;
	needs(os_options.check_double);
	object = new_of(s);
	kmem_cache_free_rcu(s, object);
	for (unsigned int i = 0; i < NR_CALLS; i++)
		says(i, object, "waits for a grace period");
	capture_begin(&captured);
	__kvfree_rcu(object, 0);
	assert_true(capture_end(&captured) >= 1);
	assert_non_null(strstr(captured.text, "kfree_rcu(mine, "));
	assert_true(os_options.init_on_free || ((char *)object)[5] == 0x11);
	by_hand_pass();
	kvfree_rcu_barrier_on_cache(s);
	says(0, object, "double free");
	assert_int_equal(look(s).objects_in_use, 0);
}

/* Looked at before it goes there, a retired object waits in a sheaf like any other cache's. */
static void retired_objects_wait_in_sheaves(void **state)
{
	void *objects[MANY];

	(void)state;
	needs(main_is_used());
	for (unsigned int i = 0; i < MANY; i++)
		objects[i] = new_of(s);
	for (unsigned int i = 0; i < MANY; i++)
		kmem_cache_free_rcu(s, objects[i]);
	assert_true(sheaf_size(slot_of_row(s->sheaf.at.handle, os_row())->rcu_free) > 0);
	/* The first one found no sheaf. */
	for (unsigned int i = 0; os_options.check_double && i < 2; i++)
		says(0, objects[i], "waits for a grace period");
	by_hand_pass();
	kvfree_rcu_barrier_on_cache(s);
	assert_int_equal(look(s).objects_in_use, 0);
	/* They are free, and handed out without a report. */
	capture_begin(&captured);
	for (unsigned int i = 0; i < MANY; i++)
		objects[i] = new_of(s);
	kmem_cache_free_bulk(s, MANY, objects);
	assert_int_equal(capture_end(&captured), 0);
}

/* kmalloc(0) returns no object, and is an element like others. */
static void a_pool_of_empty_blocks_fills(void **state)
{
	mempool_t *pool = mempool_create_kmalloc_pool(4, 0);
	void *element;

	(void)state;
	assert_non_null(pool);
	element = mempool_alloc(pool, GFP_KERNEL);
	assert_non_null(element);
	mempool_free(element, pool);
	mempool_destroy(pool);
}

static struct {
	unsigned int n;
	void *objects[MANY];
	mempool_t *resized; /* by each call, as another thread might */
} taken;

static void *take_of_other(gfp_t gfp, void *unused)
{
	(void)unused;
	if (taken.n == MANY)
		return NULL;
	if (taken.resized)
		assert_int_equal(mempool_resize(taken.resized, 1), 0);
	taken.objects[taken.n] = kmem_cache_alloc(other, gfp);
	return taken.objects[taken.n++];
}

/* Nothing that it returns ever fills the reserve. */
static void a_pool_of_two_caches_is_refused(void **state)
{
	mempool_t *pool;

	(void)state;
	needs(os_options.check_free && !os_options_debug_has('S'));
	capture_begin(&captured);
	taken.n = 0;
	assert_null(mempool_create(2, take_of_other, mempool_free_slab, s));
	assert_int_equal(taken.n, 1);
	assert_int_equal(capture_end(&captured), 2);
	assert_non_null(strstr(captured.text, "mempool_create: alloc_fn returned "));
	pool = mempool_create(0, take_of_other, mempool_free_slab, s);
	capture_begin(&captured);
	assert_int_equal(mempool_resize(pool, 2), -EINVAL);
	assert_int_equal(taken.n, 2);
	assert_int_equal(capture_end(&captured), 2);
	assert_non_null(strstr(captured.text, "mempool_resize: alloc_fn returned "));
	assert_int_equal(pool->reserve->min_nr, 0);
	taken.resized = pool;
	capture_begin(&captured);
	assert_int_equal(mempool_resize(pool, 2), -EINVAL);
	assert_int_equal(capture_end(&captured), 2);
	assert_int_equal(pool->reserve->min_nr, 1);
	taken.resized = NULL;
	mempool_destroy(pool);
	kmem_cache_free_bulk(other, taken.n, taken.objects);
}

static void free_wrongly(mempool_t *pool, void *object, const char *what)
{
	capture_begin(&captured);
	mempool_free(object, pool);
	assert_true(capture_end(&captured) >= 1);
	assert_non_null(strstr(captured.text, "mempool_free(mine, "));
	assert_non_null(strstr(captured.text, what));
}

/* MEMPOOL-N7. Not a sample, which has no mark. */
static void what_a_reserve_holds_is_free(void **state)
{
	void *first, *second, *theirs;
	mempool_t *pool;

	(void)state;
	needs(os_options.check_double && !os_options_debug_has('S'));
	pool = mempool_create_slab_pool(2, s);
	first = mempool_alloc_preallocated(pool);
	second = mempool_alloc_preallocated(pool);
	theirs = new_of(other);
	memset(first, 0x11, SIZE);
	mempool_free(first, pool);
	assert_true(!os_options.init_on_free || *(char *)first == 0);
	free_wrongly(pool, first, "double free");
	free_wrongly(pool, (char *)second + 8, "bytes into an object");
	free_wrongly(pool, theirs, "belongs to cache \"other\"");
	says(0, first, "double free");
	assert_ptr_equal(mempool_alloc_preallocated(pool), first);
	assert_null(mempool_alloc_preallocated(pool));
	capture_begin(&captured);
	kmem_cache_free(s, first);
	mempool_free(second, pool);
	mempool_destroy(pool);
	kmem_cache_free(other, theirs);
	assert_int_equal(capture_end(&captured), 0);
	assert_int_equal(look(s).objects_in_use, 0);
}

static void blocks_of_a_reserve_are_looked_at(void **state)
{
	static char not_ours[100];
	mempool_t *pool;
	char *block;

	(void)state;
	needs(os_options.check_double && !os_options_debug_has('S'));
	pool = mempool_create_kmalloc_pool(2, 100);
	block = mempool_alloc_preallocated(pool);
	capture_begin(&captured);
	mempool_free(block + 8, pool);
	mempool_free(not_ours, pool);
	assert_int_equal(capture_end(&captured), 2);
	assert_non_null(strstr(captured.text, "mempool_free("));
	mempool_free(block, pool);
	assert_ptr_equal(mempool_alloc_preallocated(pool), block);
	mempool_free(block, pool);
	mempool_destroy(pool);
}

static struct {
	mempool_t *pool;
	void *element;
	uint32_t locked;
} meanwhile;

/* While the first thread waits for the reserve's lock, it becomes full, and the mark is written. */
static void *fills_and_writes(void *unused)
{
	struct sheaf_mempool *pool = meanwhile.pool->reserve;

	(void)unused;
	os_lock(&pool->lock);
	os_store_release(&meanwhile.locked, 1);
	wait_until_first_sleeps();
	os_store_relaxed(&pool->min_nr, 0);
	mark(meanwhile.element, MARK_WAITS);
	os_unlock(&pool->lock);
	return NULL;
}

/* What is freed then is the object in its place. */
static void an_element_that_came_too_late(void **state)
{
	pthread_t thread;

	(void)state;
	needs(os_options.check_double && !os_options_debug_has('S'));
	meanwhile.pool = mempool_create_slab_pool(1, s);
	meanwhile.element = mempool_alloc_preallocated(meanwhile.pool);
	assert_int_equal(pthread_create(&thread, NULL, fills_and_writes, NULL), 0);
	while (!os_load_acquire(&meanwhile.locked))
		sched_yield();
	capture_begin(&captured);
	mempool_free(meanwhile.element, meanwhile.pool);
	pthread_join(thread, NULL);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "it is left out"));
	assert_int_equal(look(s).objects_in_use, 1);
	mark(meanwhile.element, MARK_USED);
	kmem_cache_free(s, meanwhile.element);
	mempool_destroy(meanwhile.pool);
}

/* HARDENED-N1 */
static void what_a_lent_sheaf_holds_is_in_use(void **state)
{
	struct slab_sheaf *sheaf;
	void *object;

	(void)state;
	needs(!has_debug_letter('S'));
	sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 5);
	assert_non_null(sheaf);
	object = kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf);
	kmem_cache_free(s, object);
	if (os_options.check_double)
		says(0, object, "double free");
	/* One that is still in it. */
	object = ((struct sheaf *)sheaf)->objects[0];
	kmem_cache_free(s, object);
	capture_begin(&captured);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	if (os_options.check_double) {
		assert_true(capture_end(&captured) >= 1);
		assert_non_null(strstr(captured.text, "kmem_cache_return_sheaf(mine, "));
		assert_non_null(strstr(captured.text, "double free"));
	} else {
		/* It is in two sheaves: their flush finds it. */
		kmem_cache_shrink(s);
		capture_end_deferred(&captured);
	}
	sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 500);
	assert_non_null(sheaf);
	assert_int_equal(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 700), 0);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
}

/* --- allocations ------------------------------------------------------------------------------ */

static void *alloc_it(void)
{
	return kmem_cache_alloc(s, GFP_KERNEL);
}

static void *alloc_zeroed(void)
{
	return kmem_cache_zalloc(s, GFP_NOWAIT);
}

static void *alloc_bulk(void)
{
	void *object;

	return kmem_cache_alloc_bulk(s, GFP_KERNEL, 1, &object) ? object : NULL;
}

static void *alloc_node(void)
{
	return kmem_cache_alloc_node(s, GFP_KERNEL, (int)os_node());
}

static void *alloc_nolock(void)
{
	return kmem_cache_alloc_nolock(s, 0);
}

static void *alloc_prefilled(void)
{
	/* The spare is empty: it is filled from main. */
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 1);
	void *object = kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf);

	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	return object;
}

static void *(*const allocs[])(void) = {
	alloc_it, alloc_zeroed, alloc_bulk, alloc_node, alloc_nolock, alloc_prefilled,
};

/* Let main hold this pointer only, and allocate. Its own content is restored afterwards. */
static void overwrite(void *(*alloc)(void), void *pointer)
{
	void *object, *held[MANY];
	struct sheaf *m;
	unsigned int n;

	kmem_cache_shrink(s);
	kmem_cache_free(s, new_of(s));
	m = main_of(s);
	n = sheaf_size(m);
	assert_in_range(n, 1, MANY);
	for (unsigned int i = 0; i < n; i++) {
		held[i] = m->objects[i];
		m->objects[i] = pointer;
	}
	capture_begin(&captured);
	object = alloc();
	assert_true(capture_end(&captured) >= 1);
	/* A call for a node first finds that this is no node's. */
	assert_true(strstr(captured.text, "kmem_cache_alloc(mine): a sheaf holds ") ||
		    (alloc == alloc_node && strstr(captured.text, "kmem_cache_alloc_node(mine, ")));
	assert_ptr_not_equal(object, pointer);
	assert_true(object || alloc == alloc_nolock);
	if (object) {
		assert_ptr_equal(page_owner(object), &s->sheaf.slab);
		memset(object, 0x33, SIZE);
		kmem_cache_free(s, object);
	}
	capture_begin(&captured);
	kmem_cache_shrink(s);
	capture_end_deferred(&captured);
	slab_give(&s->sheaf.slab, held, n, "test");
}

/* HARDENED-N2 */
static void an_overwritten_sheaf_is_found(void **state)
{
	static char nobodys[SIZE];
	char *foreign;

	(void)state;
	needs(os_options.check_pop && main_is_used());
	foreign = new_of(other);
	for (unsigned int i = 0; i < sizeof(allocs) / sizeof(allocs[0]); i++) {
		overwrite(allocs[i], foreign);
		overwrite(allocs[i], nobodys);
	}
	for (unsigned int i = 0; i < SIZE; i++)
		assert_int_equal(foreign[i], 0x11);
	kmem_cache_free(other, foreign);
}

static void an_object_in_use_is_not_handed_out(void **state)
{
	char *used;

	(void)state;
	needs(os_options.check_double && main_is_used());
	used = new_of(s);
	for (unsigned int i = 0; i < sizeof(allocs) / sizeof(allocs[0]); i++) {
		overwrite(allocs[i], used + 16);
		overwrite(allocs[i], used + 4);
	}
	for (unsigned int i = 0; i < SIZE; i++)
		assert_int_equal(used[i], 0x11);
	kmem_cache_free(s, used);
}

/* --- clearing --------------------------------------------------------------------------------- */

static bool is_clear(const void *object, size_t size)
{
	const char *bytes = object;

	for (size_t i = 0; i < size; i++)
		if (bytes[i])
			return false;
	return true;
}

static void allocations_are_clear(void **state)
{
	static void *objects[MANY];
	struct slab_sheaf *sheaf;
	char *block;

	(void)state;
	needs(os_options.init_on_alloc);
	for (unsigned int round = 0; round < 3; round++) {
		assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, MANY / 2, objects), MANY / 2);
		for (unsigned int i = MANY / 2; i < MANY; i++)
			objects[i] = i % 2 ? kmem_cache_alloc(s, GFP_KERNEL)
					   : kmem_cache_alloc_node(s, GFP_NOWAIT, NUMA_NO_NODE);
		for (unsigned int i = 0; i < MANY; i++) {
			assert_true(is_clear(objects[i], SIZE));
			memset(objects[i], 0x77, SIZE);
		}
		kmem_cache_free_bulk(s, MANY, objects);
	}
	objects[0] = kmem_cache_alloc_nolock(s, 0);
	assert_true(objects[0] && is_clear(objects[0], SIZE));
	kmem_cache_free_nolock(s, objects[0]);
	sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 8);
	for (unsigned int i = 0; i < 8; i++) {
		objects[i] = kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf);
		assert_true(is_clear(objects[i], SIZE));
	}
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	kmem_cache_free_bulk(s, 8, objects);
	for (size_t size = 24; size < 1 << 21; size = size * 5 / 2)
		for (unsigned int round = 0; round < 2; round++) {
			block = kmalloc(size, GFP_KERNEL);
			assert_true(is_clear(block, ksize(block)));
			memset(block, 0x55, size);
			kfree(block);
		}
}

/* A freed object stays readable. */
static void freed_memory_is_clear(void **state)
{
	void *object, *objects[3];

	(void)state;
	needs(os_options.init_on_free);
	for (unsigned int i = 0; i < 3; i++) {
		object = new_of(s);
		calls[i].free(s, object);
		assert_true(is_clear(object, SIZE));
	}
	object = new_of(s);
	kmem_cache_free_rcu(s, object);
	assert_false(is_clear(object, SIZE));
	by_hand_pass();
	kvfree_rcu_barrier_on_cache(s);
	assert_true(is_clear(object, SIZE));
	for (unsigned int i = 0; i < 3; i++)
		objects[i] = new_of(s);
	kmem_cache_free_bulk(NULL, 3, objects);
	for (unsigned int i = 0; i < 3; i++)
		assert_true(is_clear(objects[i], SIZE));
	object = memset(kmalloc(5000, GFP_KERNEL), 0x44, 5000);
	kfree(object);
	assert_true(is_clear(object, 5000));
	object = memset(kmalloc(100000, GFP_KERNEL), 0x44, 100000);
	kfree(object);
	assert_true(is_clear(object, 100000));
}

static void construct(void *object)
{
	memset(object, 0xc7, SIZE);
}

static void constructed_objects_stay_as_they_are(void **state)
{
	struct kmem_cache *made = kmem_cache_create("made", SIZE, 0, 0, construct);
	struct kmem_cache *stable = make_keeping("stable", SLAB_TYPESAFE_BY_RCU);
	char *object;

	(void)state;
	for (unsigned int i = 0; i < MANY; i++) {
		object = kmem_cache_alloc(made, GFP_KERNEL);
		for (unsigned int at = 0; at < SIZE; at++)
			assert_int_equal((unsigned char)object[at], 0xc7);
		kmem_cache_free(made, object);
	}
	object = new_of(stable);
	kmem_cache_free(stable, object);
	assert_int_equal(object[8], 0x11);
	assert_ptr_equal(kmem_cache_alloc(stable, GFP_KERNEL), object);
	assert_int_equal(object[8], 0x11);
	kmem_cache_free(stable, object);
	kmem_cache_destroy(made);
	kmem_cache_destroy(stable);
	by_hand_pass();
}

/* --- marks ------------------------------------------------------------------------------------ */

/* Pages whose objects had one size get objects of another one. */
static void pages_forget_their_marks(void **state)
{
	static const unsigned int sizes[] = {8, 16, 24, 40, 56, 8, 200, 24, 1000, 16};
	static void *objects[20 * MANY];

	(void)state;
	/* MARK-K2 */
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct kmem_cache *cache = make("sized", sizes[i], no_samples());

		capture_begin(&captured);
		assert_int_equal(kmem_cache_alloc_bulk(cache, GFP_KERNEL, 20 * MANY, objects),
				 20 * MANY);
		for (unsigned int at = 0; at < 20 * MANY; at++) {
			memset(objects[at], 1, sizes[i]);
			assert_true(!pages.marks || mark_is(objects[at], MARK_USED));
			/* Objects that began inside it earlier have left no mark. */
			assert_true(!pages.marks || sizes[i] < 40 ||
				    *mark_at((char *)objects[at] + MARK_BYTES) == 0);
		}
		kmem_cache_free_bulk(cache, 20 * MANY, objects);
		assert_int_equal(capture_end(&captured), 0);
		assert_int_equal(kmem_cache_shrink(cache), 0);
		kmem_cache_destroy(cache);
	}
}

/* HARDENED-N2 */
static void the_first_bad_free_changes_nothing(void **state)
{
	void *objects[MANY];

	(void)state;
	needs(os_options.check_double);
	for (unsigned int i = 0; i < MANY; i++)
		objects[i] = new_of(s);
	capture_begin(&captured);
	for (unsigned int i = 0; i < MANY; i++) {
		kmem_cache_free(s, objects[i]);
		kmem_cache_free(s, objects[i]);
		kmem_cache_free(other, objects[i]);
		kmem_cache_free(s, (char *)objects[i] + 8);
	}
	capture_end(&captured);
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(kmem_cache_verify(other), 0);
	assert_int_equal(kmem_cache_shrink(s), 0);
}

/* --- guard pages ------------------------------------------------------------------------------ */

enum {
	MOST_MAPS = 4000
};

static struct {
	uintptr_t start, end;
	char read; /* 'r' or '-' */
} maps[MOST_MAPS];

static unsigned int read_maps(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	unsigned int n = 0;

	assert_non_null(file);
	while (n < MOST_MAPS &&
	       fscanf(file, "%lx-%lx %c%*[^\n]", &maps[n].start, &maps[n].end, &maps[n].read) == 3)
		n++;
	fclose(file);
	return n;
}

/* Do inaccessible mappings lie on both sides of the readable memory around this address? */
static bool is_guarded(const void *inside)
{
	unsigned int n = read_maps(), first = 0, last;

	while (first < n && maps[first].end <= (uintptr_t)inside)
		first++;
	assert_in_range((uintptr_t)inside, maps[first].start, maps[first].end - 1);
	last = first;
	while (first > 0 && maps[first].read == 'r' && maps[first - 1].end == maps[first].start)
		first--;
	while (last + 1 < n && maps[last].read == 'r' && maps[last].end == maps[last + 1].start)
		last++;
	return maps[first].read == '-' && maps[last].read == '-' &&
	       !page_is_ours((void *)(maps[first].end - 1)) &&
	       !page_is_ours((void *)maps[last].start);
}

static void structures_are_apart(void **state)
{
	mempool_t *pool;

	(void)state;
	kmem_cache_free(s, new_of(s));
	if (main_is_used())
		assert_int_equal(page_is_ours(main_of(s)), !os_options.guard_pools);
	needs(os_options.guard_pools);
	if (main_is_used())
		assert_true(is_guarded(main_of(s)));
	pool = mempool_create_slab_pool(4, s);
	assert_true(is_guarded(pool));
	assert_true(is_guarded(pool->reserve->elements));
	mempool_destroy(pool);
	assert_true(is_guarded(s));
	assert_true(is_guarded(pages.slabs));
	if (pages.marks)
		assert_true(is_guarded(pages.marks));
}

int main(void)
{
	clock_stands = true; /* empty slabs stay */
	const struct CMUnitTest tests[] = {
#define EACH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		EACH(a_wrong_cache_is_found_at_once),
		EACH(an_address_inside_is_found_at_once),
		EACH(memory_of_others_is_found_at_once),
		EACH(a_second_free_is_found_at_once),
		EACH(twice_in_one_array_is_found),
		EACH(a_pool_of_empty_blocks_fills),
		EACH(a_pool_of_two_caches_is_refused),
		EACH(a_retired_object_is_not_freed),
		EACH(retired_objects_wait_in_sheaves),
		EACH(what_a_reserve_holds_is_free),
		EACH(blocks_of_a_reserve_are_looked_at),
		EACH(an_element_that_came_too_late),
		EACH(what_a_lent_sheaf_holds_is_in_use),
		EACH(an_overwritten_sheaf_is_found),
		EACH(an_object_in_use_is_not_handed_out),
		EACH(allocations_are_clear),
		EACH(freed_memory_is_clear),
		EACH(constructed_objects_stay_as_they_are),
		EACH(pages_forget_their_marks),
		EACH(the_first_bad_free_changes_nothing),
		EACH(structures_are_apart),
	};

	if (sheaf_rcu_register(&by_hand_ops))
		return 1;
	/* A sanitizer would end the program at the first misuse. */
	os.tools = 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
