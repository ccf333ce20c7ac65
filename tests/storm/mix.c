/* SPDX-License-Identifier: MIT */
/* A mix of all calls; see mix.h. */
#include "storm/mix.h"

#include <errno.h>
#include <fcntl.h>
#include <sheaf/debug.h>
#include <sheaf/stats.h>
#include <sheaf/trim.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/cache.h"
#include "kit/objects.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/sanitizers.h"
#include "os/options/options.h"

#define CONSTRUCTED UINT64_C(0xc0457c7ed0000)
#define ERRNO	    4242
#define SECRET	    184 /* bytes of an object, and of nothing else here */

struct mix mix;

static const struct {
	size_t size;
	slab_flags_t flags;
} kinds[MIX_CACHES] = {
	{64, SLAB_ACCOUNT},    {24, 0},	  {1000, SLAB_ACCOUNT},	      {200, 0},
	{96, SLAB_NO_SHEAVES}, {4096, 0}, {48, SLAB_TYPESAFE_BY_RCU}, {SECRET, SLAB_SECRET},
};

void mix_fail(const char *what, const void *object)
{
	const char *options = getenv("SHEAF_OPTIONS");

	printf("storm: %s: object %p; --seed %llu, SHEAF_OPTIONS='%s'\n", what, object,
	       (unsigned long long)mix.seed, options ? options : "");
	fflush(stdout);
	abort();
}

static void want(bool right, const char *what)
{
	if (!right)
		mix_fail(what, NULL);
}

/* --- stamps ----------------------------------------------------------------------------------- */

void mix_stamp(struct mix_worker *w, void *object)
{
	if ((uintptr_t)object % 8)
		mix_fail("not aligned", object);
	if (!stamp_put(object, ksize(object), w->number, w->sequence++))
		mix_fail("handed out twice", object);
}

void mix_unstamp(void *object)
{
	if (!stamp_remove(object, ksize(object)))
		mix_fail("overwritten while live", object);
}

static void keep(struct mix_worker *w, void *object)
{
	if (ZERO_OR_NULL_PTR(object))
		return;
	mix_stamp(w, object);
	w->held[w->n++] = object;
}

static void *pick(struct mix_worker *w)
{
	unsigned int i = random_below(&w->seed, w->n);
	void *object = w->held[i];

	w->held[i] = w->held[--w->n];
	mix_unstamp(object);
	return object;
}

/* --- allocations ------------------------------------------------------------------------------ */

static struct kmem_group *some_group(struct mix_worker *w)
{
	return mix.groups[random_below(&w->seed, MIX_GROUPS)];
}

static gfp_t some_flags(struct mix_worker *w)
{
	static const gfp_t all[] = {GFP_KERNEL, GFP_KERNEL,	    GFP_NOWAIT,
				    GFP_ATOMIC, GFP_KERNEL_ACCOUNT, GFP_KERNEL | __GFP_NORETRY};

	return all[random_below(&w->seed, sizeof(all) / sizeof(*all))];
}

/* Powers of two and a little more, up to 4 KiB, now and then up to 2 MiB. */
static size_t some_size(struct mix_worker *w)
{
	unsigned int most = random_below(&w->seed, 50) ? 10 : 19;

	return ((size_t)8 << random_below(&w->seed, most)) + 8 * random_below(&w->seed, 5);
}

static size_t some_large_size(struct mix_worker *w)
{
	return some_size(w) * (1 + random_below(&w->seed, 4));
}

static void check_constructed(unsigned int c, const uint64_t *object)
{
	if (c == MIX_CONSTRUCTED && object && object[1] != CONSTRUCTED)
		mix_fail("not constructed", object);
}

static bool is_constructed(const void *object)
{
	return ksize(object) >= kinds[MIX_CONSTRUCTED].size &&
	       ((const uint64_t *)object)[1] == CONSTRUCTED;
}

static void take_object(struct mix_worker *w)
{
	unsigned int c = random_below(&w->seed, MIX_CACHES);
	struct kmem_cache *s = mix.caches[c];
	gfp_t flags = some_flags(w);
	uint64_t *object;

	switch (random_below(&w->seed, 6)) {
	case 0:
		object = kmem_cache_alloc_node(s, flags, (int)random_below(&w->seed, 2) - 1);
		break;
	case 1:
		object = kmem_cache_alloc_nolock(s, flags);
		break;
	case 2:
		object = kmem_cache_alloc_charged(s, flags, some_group(w));
		break;
	case 3:
		object = c == MIX_CONSTRUCTED ? NULL : kmem_cache_zalloc(s, flags);
		if (object && (object[0] || object[2]))
			mix_fail("not zero", object);
		break;
	default:
		object = kmem_cache_alloc(s, flags);
	}
	check_constructed(c, object);
	keep(w, object);
}

static void take_block(struct mix_worker *w)
{
	size_t size = some_size(w);

	switch (random_below(&w->seed, 6)) {
	case 0:
		keep(w, kvmalloc(some_large_size(w), some_flags(w)));
		break;
	case 1:
		keep(w, kmalloc_charged(size, some_flags(w), some_group(w)));
		break;
	case 2:
		keep(w, kmalloc_nolock(size, 0, NUMA_NO_NODE));
		break;
	case 3:
		keep(w, kvzalloc(some_large_size(w), some_flags(w)));
		break;
	default:
		keep(w, kmalloc(size, some_flags(w)));
	}
}

static void take_bulk(struct mix_worker *w)
{
	unsigned int c = random_below(&w->seed, MIX_CACHES);
	unsigned int n = random_below(&w->seed, MIX_BULK) + 1;
	void *p[MIX_BULK];
	int got = kmem_cache_alloc_bulk(mix.caches[c], some_flags(w), n, p);

	want(got == 0 || got == (int)n, "a part of a bulk allocation");
	for (int i = 0; i < got; i++) {
		check_constructed(c, p[i]);
		keep(w, p[i]);
	}
}

/* The objects of a prefilled sheaf are the worst case of which some are needed. */
static void take_prefilled(struct mix_worker *w)
{
	unsigned int c = random_below(&w->seed, MIX_CACHES);
	unsigned int n = random_below(&w->seed, MIX_BULK) + 1;
	struct kmem_cache *s = mix.caches[c];
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(s, some_flags(w), n / 2);
	unsigned int left;

	if (!sheaf)
		return;
	if (kmem_cache_refill_sheaf(s, some_flags(w), &sheaf, n) == 0 &&
	    kmem_cache_sheaf_size(sheaf) < n)
		mix_fail("a refilled sheaf lacks objects", sheaf);
	left = kmem_cache_sheaf_size(sheaf);
	for (unsigned int i = random_below(&w->seed, n); i > 0; i--) {
		void *object = kmem_cache_alloc_from_sheaf(s, GFP_NOWAIT, sheaf);

		if (!object != !left)
			mix_fail("a prefilled sheaf lacks objects", sheaf);
		left -= left != 0;
		check_constructed(c, object);
		keep(w, object);
	}
	kmem_cache_return_sheaf(s, some_flags(w), sheaf);
}

static void resize(struct mix_worker *w)
{
	uint64_t *block = pick(w), *moved, old = w->sequence++;
	struct kmem_group *group;

	if (is_constructed(block) || ksize(block) == SECRET) {
		keep(w, block);
		return;
	}
	block[0] = old;
	group = kmem_group_of(block);
	moved = kvrealloc(block, some_large_size(w), group ? GFP_KERNEL_ACCOUNT : GFP_KERNEL);
	kmem_group_put(group);
	if ((moved ? moved : block)[0] != old)
		mix_fail("the content did not move", moved);
	keep(w, moved ? moved : block);
}

static void use_pool(struct mix_worker *w)
{
	void *element = mempool_alloc(mix.pool, random_below(&w->seed, 2) ? GFP_KERNEL : 0);

	if (!element)
		return;
	mix_stamp(w, element);
	mix_unstamp(element);
	mempool_free(element, mix.pool);
}

/* --- frees ------------------------------------------------------------------------------------ */

static void give(struct mix_worker *w)
{
	void *object = pick(w);

	switch (random_below(&w->seed, 8)) {
	case 0:
		kvfree_rcu_mightsleep(object);
		break;
	case 1:
		kmem_cache_free_bulk(NULL, 1, &object);
		break;
	case 2:
		/* It would undo a constructor. */
		is_constructed(object) ? kfree(object) : kfree_sensitive(object);
		break;
	case 3:
		ksize(object) <= 4096 ? kfree_nolock(object) : vfree(object);
		break;
	default:
		kvfree(object);
	}
}

static void give_bulk(struct mix_worker *w)
{
	unsigned int n = random_below(&w->seed, MIX_BULK) + 1;
	void *p[MIX_BULK];

	n = n < w->n ? n : w->n;
	for (unsigned int i = 0; i < n; i++)
		p[i] = pick(w);
	kfree_bulk(n, p);
}

static void exchange(struct mix_worker *w)
{
	void **box = &mix.boxes[random_below(&w->seed, MIX_BOXES)];
	void *object = __atomic_exchange_n(box, w->held[w->n - 1], __ATOMIC_ACQ_REL);

	w->n--;
	if (object)
		w->held[w->n++] = object;
}

/* --- what is rare ----------------------------------------------------------------------------- */

static void construct(void *object)
{
	if (mix.in_constructor)
		mix.in_constructor();
	((uint64_t *)object)[1] = CONSTRUCTED;
}

static void brief_cache(struct mix_worker *w)
{
	struct kmem_cache_args args = {.ctor = construct, .group = some_group(w)};
	struct kmem_cache *s = kmem_cache_create("brief", 72, &args, SLAB_NO_MERGE);
	void *object = s ? kmem_cache_alloc(s, GFP_KERNEL) : NULL;

	if (object)
		kvfree_rcu_mightsleep(object);
	kmem_cache_destroy(s);
}

/* --- groups: each has data, until the end of it ----------------------------------------------- */

#define ALIVE 0x600df00du

struct data {
	uint32_t alive;
};

static unsigned int living;

void mix_check_data(const void *data)
{
	if (((const struct data *)data)->alive != ALIVE)
		mix_fail("a callback after the end of its data", data);
}

static void end_data(void *data)
{
	mix_check_data(data);
	((struct data *)data)->alive = 0;
	free(data);
	__atomic_fetch_sub(&living, 1, __ATOMIC_RELAXED);
}

static struct kmem_group_args limits_of(unsigned int i, bool limited)
{
	struct kmem_group_args args = mix.callbacks;
	struct data *data = malloc(sizeof(*data));

	want(data, "no memory");
	data->alive = ALIVE;
	__atomic_fetch_add(&living, 1, __ATOMIC_RELAXED);
	args.hard_limit = limited && i % 3 ? (size_t)50000 << i % 4 : 0;
	args.high = 20000;
	args.low = 5000;
	args.data = data;
	args.end = end_data;
	return args;
}

/* A group does not have the data of a call that failed. */
static struct kmem_group *make_group(const char *name, struct kmem_group *above, unsigned int i)
{
	struct kmem_group_args args = limits_of(i, true);
	struct kmem_group *g = kmem_group_create(name, above, &args);

	if (!g)
		end_data(args.data);
	return g;
}

static void change_group(unsigned int i, bool limited)
{
	struct kmem_group_args args = limits_of(i, limited);
	struct kmem_group_stats stats;

	if (kmem_group_set_limits(mix.groups[i], &args))
		end_data(args.data);
	want(kmem_group_stats(mix.groups[i], &stats) == 0, "no statistics of a group");
}

void mix_change_groups(void)
{
	for (unsigned int i = 0; i < MIX_GROUPS; i++)
		change_group(i, true);
}

static void brief_group(struct mix_worker *w)
{
	struct kmem_group *g = make_group("brief", some_group(w), 1);

	keep(w, kmem_cache_alloc_charged(mix.caches[0], GFP_KERNEL, g));
	kmem_group_put(g);
}

static void print_statistics(void)
{
	int file = open("/dev/null", O_WRONLY | O_CLOEXEC);

	sheaf_stats_print(file, SHEAF_STATS_JSON);
	close(file);
}

/* Of the first cache that all kinds of calls use. */
static void change_sizes(struct mix_worker *w)
{
	kmem_cache_set_sheaf_capacity(mix.caches[0], 1 + random_below(&w->seed, 100));
	kmem_cache_set_barn(mix.caches[0], random_below(&w->seed, 1000), random_below(&w->seed, 2));
}

static void meddle(struct mix_worker *w)
{
	unsigned int c = random_below(&w->seed, MIX_CACHES);
	struct kmem_cache *s = mix.caches[c];

	switch (random_below(&w->seed, 11)) {
	case 0:
		kmem_cache_shrink(s);
		break;
	case 1:
		brief_cache(w);
		break;
	case 2:
		sheaf_trim(random_below(&w->seed, 2) ? 0 : 1 << 20);
		break;
	case 3:
		want(kmem_cache_validate(s) == 0, "validate found faults");
		break;
	case 4:
		print_statistics();
		break;
	case 5:
		kmem_cache_set_limit(mix.caches[2], random_below(&w->seed, 2) ? 1 << 19 : 0);
		break;
	case 6:
		brief_group(w);
		break;
	case 7:
		pin(random_below(&w->seed, (unsigned int)sysconf(_SC_NPROCESSORS_ONLN)));
		errno = ERRNO; /* the machine may not allow it */
		break;
	case 8:
		change_group(random_below(&w->seed, MIX_GROUPS), random_below(&w->seed, 4));
		break;
	case 9:
		/* A cache without sheaves would make it a report. */
		if (!os_options.tiny && !*os_options.slab_debug)
			change_sizes(w);
		break;
	default:
		kmem_group_put(kmem_group_set_current(some_group(w)));
	}
}

void mix_step(struct mix_worker *w)
{
	/* Waves, so that sheaves and barns run empty and full. */
	bool rising = w->n < MIX_HELD && (w->sequence / 300 % 2 || !w->n);
	unsigned int what = random_below(&w->seed, 100);

	errno = ERRNO;
	if (what < 1)
		meddle(w);
	else if (what < 3)
		use_pool(w);
	else if (w->n && what < 9)
		exchange(w);
	else if (w->n && what < 14)
		resize(w);
	else if (!rising && w->n)
		what < 25 ? give_bulk(w) : give(w);
	else if (w->n >= MIX_HELD)
		give(w);
	else if (what < 25)
		take_bulk(w);
	else if (what < 35)
		take_prefilled(w);
	else if (what < 60)
		take_block(w);
	else
		take_object(w);
	if (errno != ERRNO && !HAS_TSAN)
		mix_fail("errno was changed", NULL);
}

void mix_finish(struct mix_worker *w)
{
	while (w->n)
		give(w);
	kmem_group_put(kmem_group_set_current(NULL));
}

/* --- the frame -------------------------------------------------------------------------------- */

void mix_begin(void)
{
	for (unsigned int i = 0; i < MIX_GROUPS; i++) {
		while (!mix.groups[i])
			mix.groups[i] = make_group("mix", i ? mix.groups[(i - 1) / 2] : NULL, i);
	}
	for (unsigned int c = 0; c < MIX_CACHES; c++) {
		struct kmem_cache_args args = {.ctor = c == MIX_CONSTRUCTED ? construct : NULL};
		char name[] = {'m', 'i', 'x', '-', (char)('0' + c), '\0'};

		while (!mix.caches[c])
			mix.caches[c] = kmem_cache_create(name, kinds[c].size, &args,
							  SLAB_NO_MERGE | kinds[c].flags);
	}
	while (!mix.pool)
		mix.pool = mempool_create_slab_pool(3, mix.caches[1]);
}

/* Those of kmalloc(), too. */
static void for_each_cache(void (*look)(struct kmem_cache *s))
{
	for (struct kmem_cache *s = caches.first; s; s = s->next)
		if (s->name)
			look(s);
}

static void verify(struct kmem_cache *s)
{
	if (kmem_cache_verify(s))
		mix_fail("verify found faults", s);
}

void mix_verify(void)
{
	for_each_cache(verify);
	want(kmem_group_verify() == 0, "the charges of a group are wrong");
}

static void want_all_free(struct kmem_cache *s)
{
	struct kmem_cache_stats stats;

	want(kmem_cache_stats(s, &stats) == 0, "no statistics");
	if (stats.objects_in_use)
		mix_fail("freed objects are in use", s);
}

static void want_no_charges(void)
{
	struct kmem_group_stats root;

	want(kmem_group_stats(NULL, &root) == 0 && root.bytes == 0, "freed objects are charged");
}

static void want_no_large_blocks(void)
{
	struct sheaf_stats all;

	sheaf_stats(&all);
	want(all.mapped_bytes == 0, "freed large blocks are in use");
}

void mix_end(void)
{
	for (unsigned int i = 0; i < MIX_BOXES; i++)
		if (mix.boxes[i]) {
			mix_unstamp(mix.boxes[i]);
			kvfree(mix.boxes[i]);
			mix.boxes[i] = NULL;
		}
	mempool_destroy(mix.pool);
	kvfree_rcu_barrier();
	mix_verify();
	want_no_charges();
	want_no_large_blocks();
	for_each_cache(want_all_free);
	for (unsigned int i = MIX_GROUPS; i > 0; i--)
		kmem_group_put(mix.groups[i - 1]);
	for (unsigned int c = 0; c < MIX_CACHES; c++)
		kmem_cache_destroy(mix.caches[c]);
	want(living == 0, "data of groups without an end");
}
