/* SPDX-License-Identifier: MIT */
/* Groups: charges, limits, references, callbacks, and objects of every kind. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sheaf/group.h>
#include <sheaf/mempool.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/printed.h"
#include "kit/process.h"
#include "kit/unit.h"

enum {
	N = 1000,
	SIZE = 104
};

static struct capture captured;
static void *held[N];

static struct kmem_group_stats stats_of(struct kmem_group *g)
{
	struct kmem_group_stats stats;

	assert_int_equal(kmem_group_stats(g, &stats), 0);
	return stats;
}

static uint64_t owned(struct kmem_group *g)
{
	uint64_t objects;

	assert_int_equal(kmem_group_count_objects(g, &objects, NULL), 0);
	return objects;
}

static uint64_t bytes(struct kmem_group *g)
{
	return stats_of(g).bytes;
}

static struct kmem_group *group(const char *name, struct kmem_group *parent, size_t hard)
{
	struct kmem_group_args args = {.hard_limit = hard};
	struct kmem_group *g = kmem_group_create(name, parent, &args);

	assert_non_null(g);
	return g;
}

static void all_agree(void)
{
	assert_int_equal(kmem_group_verify(), 0);
}

static uint64_t unit_of(struct kmem_cache *s)
{
	return look(s).slab_size;
}

static void charges_and_gives_back(void **state)
{
	struct kmem_group *outer = group("outer", NULL, 0), *inner = group("inner", outer, 0);
	struct kmem_cache *s = make("charged", SIZE, SLAB_ACCOUNT);

	(void)state;
	assert_null(kmem_group_set_current(inner));
	for (int i = 0; i < N; i++)
		assert_non_null(held[i] = kmem_cache_alloc(s, GFP_KERNEL));
	assert_ptr_equal(kmem_group_set_current(NULL), inner);
	kmem_group_put(inner);
	assert_int_equal(bytes(inner), N * unit_of(s));
	assert_int_equal(bytes(outer), N * unit_of(s));
	assert_int_equal(bytes(NULL), N * unit_of(s));
	assert_int_equal(owned(inner), N);
	assert_int_equal(owned(outer), 0);
	all_agree();
	for (int i = 0; i < N; i++) {
		struct kmem_group *g = kmem_group_of((char *)held[i] + 3);

		assert_ptr_equal(g, inner);
		kmem_group_put(g);
		kmem_cache_free(s, held[i]);
	}
	assert_int_equal(bytes(inner), 0);
	all_agree();
	assert_int_equal(bytes(NULL), 0);
	kmem_group_put(inner);
	kmem_group_put(outer);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
}

static void nobody_pays_without_a_group(void **state)
{
	struct kmem_cache *s = make("charged", SIZE, SLAB_ACCOUNT);
	void *object = kmem_cache_alloc(s, GFP_KERNEL), *block = kmalloc(100, GFP_KERNEL_ACCOUNT);

	(void)state;
	assert_null(kmem_group_of(object));
	assert_null(kmem_group_of(block));
	assert_null(kmem_group_of(NULL));
	assert_null(kmem_group_of(&captured));
	assert_int_equal(bytes(NULL), 0);
	kmem_cache_free(s, object);
	kfree(block);
	kmem_cache_destroy(s);
}

static void holds_the_limit(void **state)
{
	struct kmem_cache *s = make("charged", SIZE, SLAB_ACCOUNT);
	size_t limit = 100 * unit_of(s) + 1;
	struct kmem_group *g = group("small", NULL, limit), *other = group("other", NULL, 0);

	(void)state;
	for (int round = 0; round < 3; round++) {
		unsigned int n = 0;

		kmem_group_restore_current(kmem_group_get(g));
		while (n < N && (held[n] = kmem_cache_alloc(s, GFP_KERNEL)))
			n++;
		assert_int_equal(n, 100);
		assert_null(kmem_cache_alloc(s, GFP_NOWAIT));
		assert_true(stats_of(g).failed >= 2);
		kmem_group_restore_current(kmem_group_get(other));
		assert_non_null(held[n] = kmem_cache_alloc(s, GFP_KERNEL));
		kmem_cache_free(s, held[n]);
		kmem_group_restore_current(kmem_group_get(g));
		/* A charge that cannot fail exceeds the limit. */
		assert_non_null(held[n] = kmem_cache_alloc(s, GFP_KERNEL | __GFP_NOFAIL));
		assert_int_equal(stats_of(g).forced, (round + 1) * unit_of(s));
		for (unsigned int i = 0; i <= n; i++)
			kmem_cache_free(s, held[i]);
		kmem_group_restore_current(NULL);
		all_agree();
		assert_int_equal(bytes(g), 0);
	}
	kmem_group_put(g);
	kmem_group_put(other);
	kmem_cache_destroy(s);
}

static void of_a_plain_cache(void **state)
{
	struct kmem_group *g = group("some", NULL, 0);
	struct kmem_cache *s = make("plain", SIZE, 0);
	void *plain = kmem_cache_alloc(s, GFP_KERNEL);

	(void)state;
	kmem_group_restore_current(kmem_group_get(g));
	for (int i = 0; i < N; i++)
		held[i] = kmem_cache_alloc(s, i % 2 ? GFP_KERNEL_ACCOUNT : GFP_KERNEL);
	assert_int_equal(bytes(g), N / 2 * unit_of(s));
	assert_null(kmem_group_of(plain));
	assert_null(kmem_group_of(held[0]));
	kmem_group_restore_current(NULL);
	for (int i = 0; i < N; i++)
		kmem_cache_free(s, held[i]);
	kmem_cache_free(s, plain);
	all_agree();
	assert_int_equal(bytes(g), 0);
	kmem_group_put(g);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
}

/* Objects that were allocated uncharged. */
static void charged_later(void **state)
{
	struct kmem_group *g = group("later", NULL, 0), *of;
	struct kmem_cache *s = make("later", SIZE, 0);
	void *object = kmem_cache_alloc(s, GFP_KERNEL), *block = kmalloc(100, GFP_KERNEL);
	void *large = kvmalloc((size_t)3 << 20, GFP_KERNEL), *one;

	(void)state;
	assert_true(kmem_cache_charge(object, GFP_KERNEL)); /* nobody pays */
	assert_null(kmem_group_of(object));
	kmem_group_restore_current(kmem_group_get(g));
	for (int i = 0; i < 2; i++) {
		assert_true(kmem_cache_charge(object, GFP_KERNEL));
		of = kmem_group_of(object);
		assert_ptr_equal(of, g);
		kmem_group_put(of);
		assert_int_equal(bytes(g), unit_of(s));
	}
	/* As in the kernel. */
	assert_true(kmem_cache_charge(block, GFP_KERNEL));
	assert_null(kmem_group_of(block));
	assert_int_equal(bytes(g), unit_of(s));
	assert_true(kmem_cache_charge(large, GFP_KERNEL));
	assert_int_equal(bytes(g), unit_of(s) + ksize(large));
	kmem_group_restore_current(NULL);
	kmem_cache_free(s, object);
	kvfree(large);
	kfree(block);
	all_agree();
	assert_int_equal(bytes(g), 0);
	kmem_group_put(g);
	/* A limit. */
	g = group("small", NULL, unit_of(s));
	kmem_group_restore_current(kmem_group_get(g));
	object = kmem_cache_alloc(s, GFP_KERNEL);
	one = kmem_cache_alloc(s, GFP_KERNEL);
	assert_true(kmem_cache_charge(object, GFP_KERNEL));
	assert_false(kmem_cache_charge(one, GFP_NOWAIT));
	assert_false(kmem_cache_charge(one, GFP_KERNEL));
	assert_null(kmem_group_of(one));
	kmem_cache_free(s, object);
	assert_true(kmem_cache_charge(one, GFP_KERNEL));
	kmem_group_restore_current(NULL);
	kmem_cache_free(s, one);
	all_agree();
	assert_int_equal(bytes(g), 0);
	kmem_group_put(g);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
}

static void of_its_own_cache(void **state)
{
	struct kmem_group *g = group("cache's", NULL, 0), *other = group("other", NULL, 0);
	struct kmem_cache_args args = {.group = g};
	struct kmem_cache *s = kmem_cache_create("own", SIZE, &args, 0);

	(void)state;
	assert_non_null(s);
	kmem_group_restore_current(kmem_group_get(other));
	held[0] = kmem_cache_alloc(s, GFP_KERNEL);
	kmem_group_restore_current(NULL);
	held[1] = kmem_cache_alloc(s, GFP_KERNEL);
	held[2] = kmem_cache_alloc_node(s, GFP_KERNEL, 0);
	assert_int_equal(bytes(g), 3 * unit_of(s));
	assert_int_equal(bytes(other), 0);
	kmem_group_put(g);
	for (int i = 0; i < 3; i++)
		kmem_cache_free(s, held[i]);
	all_agree();
	kmem_cache_destroy(s);
	kmem_group_put(other);
}

static void blocks_of_all_sizes(void **state)
{
	static const size_t sizes[] = {1,
				       8,
				       24,
				       100,
				       127,
				       512,
				       4000,
				       8192,
				       8193,
				       100000,
				       (size_t)2 << 20,
				       ((size_t)2 << 20) + 1,
				       (size_t)3 << 20};
	struct kmem_group *g = group("blocks", NULL, 0), *named = group("named", NULL, 0);
	void *block;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t size = sizes[i], is;

		kmem_group_restore_current(kmem_group_get(g));
		block = kmalloc(size, GFP_KERNEL_ACCOUNT);
		assert_non_null(block);
		is = bytes(g);
		assert_true(is >= size);
		assert_ptr_equal(kmem_group_of(block), g);
		kmem_group_put(g);
		block = kvrealloc(block, 2 * size, GFP_KERNEL_ACCOUNT);
		assert_true(bytes(g) >= 2 * size);
		block = kvrealloc(block, 1, GFP_KERNEL_ACCOUNT);
		assert_true(bytes(g) > 0);
		kmem_group_restore_current(NULL);
		kfree(block);
		assert_int_equal(bytes(g), 0);
		block = kmalloc(size, GFP_KERNEL);
		assert_null(kmem_group_of(block));
		kfree(block);
		block = kmalloc_charged(size, GFP_KERNEL, named);
		assert_int_equal(bytes(named), is);
		kfree(block);
		kmem_group_restore_current(kmem_group_get(named));
		block = kmalloc_node(size, GFP_KERNEL_ACCOUNT, 0);
		kmem_group_restore_current(NULL);
		assert_ptr_equal(kmem_group_of(block), named);
		assert_int_equal(bytes(named), is);
		kfree(block);
		assert_int_equal(bytes(named), 0);
		all_agree();
	}
	kmem_group_put(g);
	kmem_group_put(named);
}

/* A larger block that waits serves a request for which the group may pay, and no more. */
static void a_larger_block_waits(void **state)
{
	struct kmem_group *g = group("pays", NULL, (size_t)4 << 20);
	void *block;

	(void)state;
	kvfree(kvmalloc((size_t)6 << 20, GFP_KERNEL));
	block = kmalloc_charged((size_t)3 << 20, GFP_KERNEL, g);
	assert_non_null(block);
	assert_int_equal(bytes(g), 3 << 20);
	kfree(block);
	assert_int_equal(bytes(g), 0);
	all_agree();
	kmem_group_put(g);
}

/* A block that waits is charged, too, if another one grows into it. */
static void a_block_grows(void **state)
{
	struct kmem_group *g = group("grows", NULL, 0);
	void *block = kvmalloc((size_t)4 << 20, GFP_KERNEL);

	(void)state;
	kvfree(kvmalloc((size_t)8 << 20, GFP_KERNEL));
	kmem_group_restore_current(kmem_group_get(g));
	block = kvrealloc(block, (size_t)8 << 20, GFP_KERNEL_ACCOUNT);
	kmem_group_restore_current(NULL);
	assert_int_equal(bytes(g), 8 << 20);
	assert_ptr_equal(kmem_group_of(block), g);
	kmem_group_put(g);
	/* And one that is charged into one that is not. */
	kvfree(kvmalloc((size_t)16 << 20, GFP_KERNEL));
	block = kvrealloc(block, (size_t)16 << 20, GFP_KERNEL);
	assert_int_equal(bytes(g), 0);
	assert_null(kmem_group_of(block));
	kvfree(block);
	all_agree();
	kmem_group_put(g);
}

static void huge_blocks(void **state)
{
	struct kmem_group *g = group("huge", NULL, (size_t)5 << 30);
	void *block;

	(void)state;
	kmem_group_restore_current(kmem_group_get(g));
	block = __vmalloc((size_t)6 << 30, GFP_KERNEL_ACCOUNT);
	assert_null(block);
	block = __vmalloc((size_t)4 << 30, GFP_KERNEL_ACCOUNT);
	kmem_group_restore_current(NULL);
	if (!block)
		skip();
	assert_int_equal(bytes(g), (uint64_t)4 << 30);
	assert_ptr_equal(kmem_group_of((char *)block + 12345678), g);
	kmem_group_put(g);
	all_agree();
	vfree(block);
	all_agree();
	assert_int_equal(bytes(g), 0);
	kmem_group_put(g);
}

static void bulk(void **state)
{
	struct kmem_cache *s = make("bulk", SIZE, SLAB_ACCOUNT), *plain = make("some", SIZE, 0);
	struct kmem_group *g = group("bulk", NULL, 700 * unit_of(s));

	(void)state;
	kmem_group_restore_current(kmem_group_get(g));
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, N, held), 0);
	assert_int_equal(bytes(g), 0);
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 700, held), 700);
	assert_int_equal(bytes(g), 700 * unit_of(s));
	kmem_cache_free_bulk(s, 300, held);
	kmem_cache_free_bulk(NULL, 400, held + 300);
	assert_int_equal(bytes(g), 0);
	assert_int_equal(kmem_cache_alloc_bulk(plain, GFP_KERNEL_ACCOUNT, 500, held), 500);
	assert_int_equal(bytes(g), 500 * unit_of(s));
	assert_int_equal(kmem_cache_alloc_bulk(plain, GFP_KERNEL, 500, held + 500), 500);
	kmem_group_restore_current(NULL);
	kmem_cache_free_bulk(plain, N, held);
	all_agree();
	assert_int_equal(bytes(g), 0);
	kmem_group_put(g);
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(kmem_cache_verify(plain), 0);
	kmem_cache_destroy(s);
	kmem_cache_destroy(plain);
}

static void prefilled(void **state)
{
	struct kmem_cache *s = make("prefilled", SIZE, SLAB_ACCOUNT);
	struct kmem_group *g = group("prefilled", NULL, 2 * unit_of(s));
	struct slab_sheaf *sheaf;

	(void)state;
	kmem_group_restore_current(kmem_group_get(g));
	for (unsigned int n = 10; n <= 500; n += 490) {
		sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, n);
		assert_non_null(sheaf);
		assert_int_equal(bytes(g), 0);
		for (unsigned int i = 0; i < 10; i++)
			assert_non_null(held[i] =
						kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf));
		assert_int_equal(bytes(g), 10 * unit_of(s));
		assert_true(stats_of(g).forced >= 8 * unit_of(s));
		assert_int_equal(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, n + 5), 0);
		assert_non_null(held[10] = kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf));
		kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
		assert_int_equal(bytes(g), 11 * unit_of(s));
		all_agree();
		for (unsigned int i = 0; i < 11; i++)
			kmem_cache_free(s, held[i]);
		all_agree();
	}
	kmem_group_restore_current(NULL);
	kmem_group_put(g);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
}

static void in_any_context(void **state)
{
	struct kmem_cache *s = make("nolock", SIZE, SLAB_ACCOUNT);
	struct kmem_group *g = group("nolock", NULL, 20 * unit_of(s));
	unsigned int n = 0;

	(void)state;
	kmem_group_restore_current(kmem_group_get(g));
	/* There must be a slab, with owners. */
	held[N - 1] = kmem_cache_alloc(s, GFP_KERNEL);
	held[0] = kmem_cache_alloc(s, GFP_KERNEL);
	kmem_cache_free_nolock(s, held[0]);
	assert_int_equal(bytes(g), unit_of(s));
	while (n < 30 && (held[n] = kmem_cache_alloc_nolock(s, GFP_NOWAIT)))
		n++;
	assert_in_range(n, 1, 19);
	assert_int_equal(bytes(g), (n + 1) * unit_of(s));
	while (n > 0)
		kmem_cache_free_nolock(s, held[--n]);
	kmem_cache_free(s, held[N - 1]);
	assert_int_equal(bytes(g), 0);
	held[1] = kmalloc(40, GFP_KERNEL_ACCOUNT);
	held[0] = kmalloc_nolock(40, __GFP_ACCOUNT, NUMA_NO_NODE);
	assert_non_null(held[0]);
	assert_true(bytes(g) >= 80);
	kfree_nolock(held[0]);
	kfree(held[1]);
	kmem_group_restore_current(NULL);
	all_agree();
	kmem_group_put(g);
	kmem_cache_destroy(s);
}

static void move_to_the_parent(void **state)
{
	struct kmem_group *outer = group("outer", NULL, 0), *inner = group("inner", outer, 1 << 20);
	struct kmem_cache *s = make("charged", SIZE, SLAB_ACCOUNT);
	struct kmem_group *of;

	(void)state;
	kmem_group_restore_current(kmem_group_get(inner));
	for (int i = 0; i < N; i++)
		held[i] = kmem_cache_alloc(s, GFP_KERNEL);
	kmem_group_restore_current(NULL);
	kmem_group_put(inner);
	of = kmem_group_of(held[0]);
	assert_ptr_equal(of, outer);
	kmem_group_put(of);
	assert_int_equal(owned(outer), N);
	all_agree();
	kmem_group_put(outer);
	assert_null(kmem_group_of(held[0]));
	assert_int_equal(bytes(NULL), N * unit_of(s));
	all_agree();
	for (int i = 0; i < N; i++)
		kmem_cache_free(s, held[i]);
	all_agree();
	assert_int_equal(bytes(NULL), 0);
	kmem_cache_destroy(s);
}

static void many_groups(void **state)
{
	enum {
		GROUPS = 10000
	};
	static struct kmem_group *many[GROUPS];
	static void *objects[GROUPS];
	struct kmem_cache *s = make("many", SIZE, SLAB_ACCOUNT);

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < GROUPS; i++) {
			many[i] = group("one of many", i % 10 ? many[i / 10] : NULL, 0);
			kmem_group_restore_current(kmem_group_get(many[i]));
			assert_non_null(objects[i] = kmem_cache_alloc(s, GFP_KERNEL));
		}
		kmem_group_restore_current(NULL);
		all_agree();
		for (int i = 0; i < GROUPS; i++)
			kmem_group_put(many[i]);
		all_agree();
		for (int i = 0; i < GROUPS; i++)
			kmem_cache_free(s, objects[i]);
		all_agree();
	}
	assert_int_equal(bytes(NULL), 0);
	kmem_cache_destroy(s);
}

static unsigned int highs, lows, hards;
static struct kmem_cache *of_callbacks;

static void count_event(struct kmem_group *g, enum kmem_group_event event, uint64_t now, void *data)
{
	void *object;

	(void)now;
	assert_ptr_equal(data, &captured);
	highs += event == KMEM_GROUP_HIGH;
	lows += event == KMEM_GROUP_LOW;
	hards += event == KMEM_GROUP_HARD;
	/* It may allocate in its group, and take and put it. */
	object = kmem_cache_alloc_charged(of_callbacks, GFP_KERNEL, g);
	if (object)
		kmem_cache_free(of_callbacks, object);
	assert_ptr_equal(kmem_group_get(g), g);
	kmem_group_put(g);
}

static void marks_are_reported(void **state)
{
	struct kmem_cache *s = make("marked", SIZE, SLAB_ACCOUNT);
	size_t unit = unit_of(s), stock = 2 * KMEM_GROUP_STOCK, n = 6 * stock / unit;
	struct kmem_group_args args = {.hard_limit = 5 * stock,
				       .high = 3 * stock,
				       .low = 2 * stock,
				       .event = count_event,
				       .data = &captured};
	struct kmem_group *g = kmem_group_create("marked", NULL, &args);
	void **objects = kmalloc_array(n, sizeof(*objects), GFP_KERNEL);

	(void)state;
	of_callbacks = s;
	highs = lows = hards = 0;
	kmem_group_restore_current(kmem_group_get(g));
	for (int round = 1; round <= 3; round++) {
		size_t done = 0;

		while (done < n && (objects[done] = kmem_cache_alloc(s, GFP_KERNEL)))
			done++;
		assert_in_range(done, 5 * stock / unit - 2, 5 * stock / unit);
		assert_int_equal(highs, round);
		assert_int_equal(lows, round - 1);
		assert_true(hards >= (unsigned int)round);
		while (done > 0)
			kmem_cache_free(s, objects[--done]);
		kmem_group_verify();
		kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
		assert_int_equal(lows, round);
	}
	kmem_group_restore_current(NULL);
	all_agree();
	kfree(objects);
	kmem_group_put(g);
	kmem_cache_destroy(s);
}

static enum kmem_group_event last_event;

static void note_event(struct kmem_group *g, enum kmem_group_event event, uint64_t now, void *data)
{
	(void)g, (void)now, (void)data;
	last_event = event;
}

/* One call drains the stock, which falls to the low mark, and then passes the high one again. */
static void last_mark_is_reported_last(void **state)
{
	struct kmem_cache *s = make("marks", SIZE, SLAB_ACCOUNT);
	struct kmem_group_args args = {.hard_limit = 5 * KMEM_GROUP_STOCK / 2,
				       .high = KMEM_GROUP_STOCK / 2,
				       .low = 1,
				       .event = note_event};
	struct kmem_group *g = kmem_group_create("marks", NULL, &args);
	void *block;

	(void)state;
	last_event = KMEM_GROUP_HARD;
	kmem_cache_free(s, kmem_cache_alloc_charged(s, GFP_KERNEL, g));
	block = kmalloc_charged(2 * KMEM_GROUP_STOCK, GFP_KERNEL, g);
	assert_non_null(block);
	kmem_group_verify();
	assert_int_equal(last_event, KMEM_GROUP_HIGH);
	kfree(block);
	kmem_group_put(g);
	kmem_cache_destroy(s);
	assert_int_equal(stats_of(NULL).bytes, 0);
}

static unsigned int nr_kept;
static void *kept[N];

static bool free_some(struct kmem_group *g, size_t bytes_wanted, void *data)
{
	(void)g, (void)data;
	assert_true(bytes_wanted > 0);
	for (int i = 0; i < 10 && nr_kept; i++)
		kmem_cache_free(of_callbacks, kept[--nr_kept]);
	return true;
}

static void callbacks_reclaim(void **state)
{
	struct kmem_cache *s = make("reclaimed", SIZE, SLAB_ACCOUNT);
	struct kmem_group_args args = {.hard_limit = 100 * unit_of(s), .reclaim = free_some};
	struct kmem_group *g = kmem_group_create("reclaimed", NULL, &args);

	(void)state;
	of_callbacks = s;
	kmem_group_restore_current(kmem_group_get(g));
	for (int i = 0; i < 500; i++) {
		void *object = kmem_cache_alloc(s, GFP_KERNEL);

		assert_non_null(object);
		kept[nr_kept++] = object;
	}
	assert_true(stats_of(g).reclaims >= 40);
	assert_int_equal(stats_of(g).failed, 0);
	/* A caller that may not sleep does not call it. */
	while ((held[0] = kmem_cache_alloc(s, GFP_NOWAIT)) != NULL)
		kept[nr_kept++] = held[0];
	kmem_group_restore_current(NULL);
	while (nr_kept)
		kmem_cache_free(s, kept[--nr_kept]);
	all_agree();
	kmem_group_put(g);
	kmem_cache_destroy(s);
}

static void limits_change(void **state)
{
	struct kmem_cache *s = make("changed", SIZE, SLAB_ACCOUNT);
	struct kmem_group *g = group("changed", NULL, 0);
	struct kmem_group_args args = {.hard_limit = 10 * unit_of(s)};

	(void)state;
	kmem_group_restore_current(kmem_group_get(g));
	for (int i = 0; i < 20; i++)
		held[i] = kmem_cache_alloc(s, GFP_KERNEL);
	assert_int_equal(kmem_group_set_limits(g, &args), -EBUSY);
	assert_int_equal(stats_of(g).hard_limit, 0);
	for (int i = 10; i < 20; i++)
		kmem_cache_free(s, held[i]);
	assert_int_equal(kmem_group_set_limits(g, &args), 0);
	assert_null(kmem_cache_alloc(s, GFP_KERNEL));
	assert_int_equal(kmem_group_set_limits(g, NULL), 0);
	assert_non_null(held[10] = kmem_cache_alloc(s, GFP_KERNEL));
	for (int i = 0; i <= 10; i++)
		kmem_cache_free(s, held[i]);
	kmem_group_restore_current(NULL);
	all_agree();
	kmem_group_put(g);
	kmem_cache_destroy(s);
}

static void *exits_with_group(void *g)
{
	kmem_group_restore_current(kmem_group_get(g));
	return kmalloc(100, GFP_KERNEL_ACCOUNT);
}

static void threads_end(void **state)
{
	struct kmem_group *g = group("threads", NULL, 0);

	(void)state;
	for (int i = 0; i < 20; i++) {
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, exits_with_group, g), 0);
		assert_int_equal(pthread_join(thread, &held[i]), 0);
		assert_non_null(held[i]);
	}
	assert_int_equal(stats_of(g).references, 1);
	kmem_group_put(g);
	for (int i = 0; i < 20; i++)
		kfree(held[i]);
	all_agree();
}

static void forks(void **state)
{
	struct kmem_group *g = group("forked", NULL, 0);
	struct kmem_cache *s = make("forked", SIZE, SLAB_ACCOUNT);
	void *block;
	pid_t child;
	int status;

	(void)state;
	kmem_group_restore_current(kmem_group_get(g));
	for (int i = 0; i < N; i++)
		held[i] = kmem_cache_alloc(s, GFP_KERNEL);
	block = kmalloc((size_t)3 << 20, GFP_KERNEL_ACCOUNT);
	child = fork();
	if (!child) {
		bool right = bytes(g) == N * unit_of(s) + ((uint64_t)3 << 20);

		right &= kmem_group_verify() == 0;
		for (int i = 0; i < N; i++)
			kmem_cache_free(s, held[i]);
		kfree(block);
		right &= kmem_group_verify() == 0 && bytes(g) == 0 && bytes(NULL) == 0;
		_exit(right ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	kmem_group_restore_current(NULL);
	for (int i = 0; i < N; i++)
		kmem_cache_free(s, held[i]);
	kfree(block);
	all_agree();
	kmem_group_put(g);
	kmem_cache_destroy(s);
}

static void bad_input(void **state)
{
	struct kmem_group_args args = {.hard_limit = (size_t)1 << 63},
			       marks = {.high = 1, .low = 2};
	struct kmem_group *g = group("odd\n\"name\\", NULL, 0);

	(void)state;
	assert_string_equal(stats_of(g).name, "odd?\"name\\");
	capture_begin(&captured);
	assert_null(kmem_group_create("wrong", NULL, &args));
	assert_null(kmem_group_create("wrong", NULL, &marks));
	assert_int_equal(kmem_group_set_limits(g, &args), -EINVAL);
	assert_int_equal(kmem_group_set_limits(NULL, NULL), -EINVAL);
	kmem_group_put(NULL);
	kmem_group_put(g);
	kmem_group_put(g);
	assert_null(kmem_group_get(g));
	assert_null(kmem_group_create("orphan", g, NULL));
	assert_int_equal(kmem_group_stats(g, &(struct kmem_group_stats){.id = 0}), -EINVAL);
	assert_int_equal(kmem_group_count_objects(g, NULL, NULL), -EINVAL);
	assert_null(kmem_group_set_current(g));
	assert_null(kmem_group_set_current(NULL));
	assert_int_equal(capture_end(&captured), 9);
	assert_non_null(strstr(captured.text, "2^62"));
	assert_non_null(strstr(captured.text, "low mark"));
	assert_non_null(strstr(captured.text, "the group is NULL"));
	assert_non_null(strstr(captured.text, "kmem_group_put("));
	all_agree();
}

static void has(enum sheaf_stats_format format, const char *const *texts)
{
	const char *text = printed(format);

	for (; *texts; texts++)
		if (!strstr(text, *texts))
			fail_msg("no %s in: %s", *texts, text);
}

static void are_printed(void **state)
{
	static const char *const as_json[] = {
		"\"groups\": [",
		"{\"name\": \"a \\\"tenant\\\"\", \"id\": ", "\"own_objects\": 10,",
		"\"caches\": [{\"name\": \"printed\", \"bytes\": 1040, \"objects\": 10}]", NULL};
	static const char *const as_text[] = {"# groups:", "\n a_\"tenant\"",
					      "printed: 1040 bytes, 10 objects", NULL};
	static const char *const as_metrics[] = {"# TYPE sheaf_group_failed_total counter",
						 "sheaf_group_own_bytes{group=\"a \\\"tenant\\\"\"",
						 "} 1040\n", NULL};
	struct kmem_cache *s = make("printed", SIZE, SLAB_ACCOUNT);
	struct kmem_group *g = group("a \"tenant\"", NULL, 0), *below = group("below", g, 0);

	(void)state;
	if (unit_of(s) != SIZE)
		skip();
	kmem_group_restore_current(kmem_group_get(g));
	for (int i = 0; i < 10; i++)
		held[i] = kmem_cache_alloc(s, GFP_KERNEL);
	kmem_group_restore_current(NULL);
	has(SHEAF_STATS_JSON, as_json);
	has(SHEAF_STATS_TEXT, as_text);
	has(SHEAF_STATS_PROMETHEUS, as_metrics);
	for (int i = 0; i < 10; i++)
		kmem_cache_free(s, held[i]);
	kmem_group_put(below);
	kmem_group_put(g);
	kmem_cache_destroy(s);
}

static void pools(void **state)
{
	struct kmem_cache *s = make("pool", SIZE, SLAB_ACCOUNT);
	struct kmem_group *g = group("pool", NULL, 0);
	mempool_t *pool;

	(void)state;
	kmem_group_restore_current(kmem_group_get(g));
	pool = mempool_create_slab_pool(10, s);
	assert_int_equal(bytes(g), 10 * unit_of(s));
	held[0] = mempool_alloc(pool, GFP_KERNEL);
	assert_int_equal(bytes(g), 11 * unit_of(s));
	kmem_group_restore_current(NULL);
	mempool_free(held[0], pool);
	assert_int_equal(bytes(g), 10 * unit_of(s));
	mempool_destroy(pool);
	all_agree();
	assert_int_equal(bytes(g), 0);
	kmem_group_put(g);
	kmem_cache_destroy(s);
}

/* Each object of a bulk call may be allocated alone, by the thread's memory policy. */
static void by_policy(void)
{
	unsigned long nodes = 1;
	struct kmem_cache *s = make("policy", 200, SLAB_ACCOUNT);
	struct kmem_group *g = kmem_group_create("group", NULL, NULL);
	void *object;

	CHECK(g);
	/* It may be refused in a container. */
	syscall(SYS_set_mempolicy, 1, &nodes, 65);
	kmem_group_restore_current(kmem_group_get(g));
	object = kmem_cache_alloc(s, GFP_KERNEL | __GFP_ACCOUNT);
	CHECK(object && kmem_group_of(object) == g);
	kmem_group_put(g);
	capture_begin(&captured);
	CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, (size_t)INT_MAX + 1, held) == 0);
	CHECK(capture_end(&captured) == 1);
	kmem_cache_free(s, object);
	kmem_cache_destroy(s);
}

static void a_policy_names_the_node(void **state)
{
	(void)state;
	assert_int_equal(in_child(by_policy), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(charges_and_gives_back),
		cmocka_unit_test(a_policy_names_the_node),
		cmocka_unit_test(nobody_pays_without_a_group),
		cmocka_unit_test(holds_the_limit),
		cmocka_unit_test(of_a_plain_cache),
		cmocka_unit_test(charged_later),
		cmocka_unit_test(of_its_own_cache),
		cmocka_unit_test(blocks_of_all_sizes),
		cmocka_unit_test(a_larger_block_waits),
		cmocka_unit_test(a_block_grows),
		cmocka_unit_test(huge_blocks),
		cmocka_unit_test(bulk),
		cmocka_unit_test(prefilled),
		cmocka_unit_test(in_any_context),
		cmocka_unit_test(move_to_the_parent),
		cmocka_unit_test(many_groups),
		cmocka_unit_test(marks_are_reported),
		cmocka_unit_test(last_mark_is_reported_last),
		cmocka_unit_test(callbacks_reclaim),
		cmocka_unit_test(limits_change),
		cmocka_unit_test(threads_end),
		cmocka_unit_test(forks),
		cmocka_unit_test(bad_input),
		cmocka_unit_test(are_printed),
		cmocka_unit_test(pools),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
