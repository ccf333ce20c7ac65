/* SPDX-License-Identifier: MIT */
/* Steps that create, change and destroy caches. */
#include <fcntl.h>
#include <sheaf/debug.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/api/model.h"
#include "kit/by_hand.h"
#include "kit/options.h"

static unsigned int names, made;

/* Another provider than the process's. */
static const struct sheaf_rcu_ops *of_caches(void)
{
	by_hand.in_barrier = grace_passes;
	return &by_hand_ops;
}

void pass_of_caches(void)
{
	by_hand_pass();
}

/* A constructor may use the library. */
static void construct(void *object)
{
	unsigned char *bytes = object;

	for (unsigned int i = 0; i < BUILT_BYTES; i++)
		bytes[i] = (unsigned char)(0xb0 + i);
}

static struct kmem_cache_args some_args(slab_flags_t *flags, size_t size)
{
	struct kmem_cache_args args = {.align = byte() % 4 ? 0 : 1u << below(13)};
	unsigned int extra = byte();

	if (extra & 1 && size >= BUILT_BYTES && !(*flags & SLAB_SECRET))
		args.ctor = construct;
	if (extra & 2)
		args.sheaf_capacity = 1 + below(200);
	if (extra & 4)
		args.barn_objects = below(400);
	if (extra & 8)
		args.barn_bytes = (size_t)below(400) << 8;
	if ((extra & 0x30) == 0x30)
		args.rcu = of_caches();
	if ((extra & 0xc0) == 0xc0)
		args.limit = (size_t)below(64) << 14;
	else if ((extra & 0xc0) == 0x80)
		args.group = pointer_of(some_group());
	if (args.group && *flags & SLAB_SECRET)
		args.limit = 0;
	return args;
}

static unsigned int number_of(const struct kmem_group *g)
{
	unsigned int i = 1;

	while (g && (!groups_known[i].exists || groups_known[i].g != g))
		i++;
	return g ? i : ROOT;
}

void make_cache(void)
{
	static const slab_flags_t all[] = {0,
					   0,
					   SLAB_HWCACHE_ALIGN,
					   SLAB_NO_MERGE,
					   SLAB_NO_SHEAVES,
					   SLAB_RECLAIM_ACCOUNT,
					   SLAB_ACCOUNT,
					   SLAB_TYPESAFE_BY_RCU,
					   SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON,
					   SLAB_STORE_USER,
					   SLAB_SECRET,
					   SLAB_ACCOUNT | SLAB_NO_MERGE,
					   SLAB_NO_USER_FLAGS,
					   SLAB_ACCOUNT | SLAB_TYPESAFE_BY_RCU};
	slab_flags_t flags = all[below(sizeof(all) / sizeof(*all))];
	size_t size = byte() % 8 ? 1 + below(600) : 1 + below(300) * 113;
	struct kmem_cache_args args = some_args(&flags, size);
	struct kmem_cache_stats stats;
	struct kmem_cache *s;
	struct known *k;
	char name[20];

	if (made == MAX_CACHES)
		return;
	snprintf(name, sizeof(name), "c%u", names++);
	s = kmem_cache_create(name, size, &args, flags);
	if (!s) {
		WANT(memory_is_limited());
		may_report();
		return;
	}
	made++;
	k = known_of(s);
	WANT(!k->names || k->mergeable);
	WANT(kmem_cache_size(s) >= size && kmem_cache_stats(s, &stats) == 0);
	WANT(stats.aliases == k->names && stats.object_size >= size);
	WANT(!args.align || stats.align >= args.align);
	if (k->names) {
		WANT(!args.ctor && !args.group && !args.limit && !(flags & SLAB_NO_MERGE));
		k->size = k->size < size ? k->size : size;
		k->flags &= flags;
	} else {
		k->size = size;
		k->flags = flags;
	}
	k->names++;
	k->built = args.ctor != NULL;
	k->limited = args.limit != 0;
	k->mergeable = !args.ctor && !args.group && !args.limit && !(flags & SLAB_NO_MERGE);
	k->group = number_of(args.group);
	if (k->group) {
		groups_known[k->group].caches++;
		k->flags |= SLAB_ACCOUNT;
	}
}

/* Other names may have objects of the same cache. */
static void free_objects(struct kmem_cache *s)
{
	return_sheaves(s);
	destroy_pools(s);
	for (unsigned int i = nr_objects; i > 0; i--)
		if (objects[i - 1].s == s && objects[i - 1].state == LIVE)
			free_any(i - 1);
}

void destroy_cache(struct known *k)
{
	struct kmem_cache *s = k->s;
	unsigned int group = k->group;

	made--;
	if (k->names > 1) {
		k->names--;
		kmem_cache_destroy(s);
		return;
	}
	free_objects(s);
	kmem_cache_destroy(s);
	all_passed(s);
	WANT(k->in_use == 0 && k->loose == 0);
	forget_cache(k);
	if (group)
		group_drop(group, &groups_known[group].caches);
}

static void destroy(void)
{
	struct known *k = some_cache();

	if (k)
		destroy_cache(k);
}

/* A cache with objects is reported, and lives on for them. */
static void leak(void)
{
	struct known *k = some_cache();
	struct kmem_cache *s = k ? k->s : NULL;
	unsigned int in_use;

	if (!k || k->names > 1)
		return;
	return_sheaves(s);
	destroy_pools(s);
	in_use = k->in_use - k->loose;
	for (unsigned int i = 0; i < nr_objects; i++)
		if (objects[i].s == s && objects[i].state == LIVE && !in_use)
			fail("a live object of a cache without any");
	if (!in_use)
		return;
	must_report();
	kmem_cache_destroy(s);
	all_passed(s);
	made--;
	k->names = 0;
	k->leaked = true;
	WANT(!kmem_cache_alloc(s, GFP_KERNEL) && kmem_cache_shrink(s) == -22);
	WANT(kmem_cache_set_sheaf_capacity(s, 10) == -22 && kmem_cache_set_limit(s, 1) == -22);
	WANT(!kmem_cache_prefill_sheaf(s, GFP_KERNEL, 3));
}

/* --- changes ---------------------------------------------------------------------------------- */

static bool has_sheaves(const struct known *k)
{
	struct kmem_cache_stats stats;

	WANT(kmem_cache_stats(k->s, &stats) == 0);
	return stats.sheaf_capacity != 0;
}

static void tune(void)
{
	struct known *k = some_cache();
	unsigned int n = below(500), which;
	int want, got;

	if (!k)
		return;
	want = has_sheaves(k) ? 0 : -95;
	which = byte();
	if (which & 2)
		WANT(kmem_cache_set_min_partial(k->s, n) == 0);
	if (which & 1) {
		want = want ? want : n ? 0 : -22;
		got = kmem_cache_set_sheaf_capacity(k->s, n);
	} else {
		got = kmem_cache_set_barn(k->s, n, (size_t)below(300) << 9);
	}
	WANT(got == want);
	if (want)
		must_report();
}

static void limit(void)
{
	struct known *k = some_cache();
	size_t bytes = byte() & 3 ? (size_t)below(100) << 13 : 0;

	if (!k)
		return;
	may_report(); /* it has more already */
	k->mergeable &= !bytes;
	k->limited = bytes != 0;
	WANT(kmem_cache_set_limit(k->s, bytes) == 0);
}

static void shrink(void)
{
	struct known *k = some_cache();
	int left;

	if (!k)
		return;
	left = kmem_cache_shrink(k->s);
	WANT(left == 0 || left == 1);
	if (k->in_use > k->loose && !has_slab_debug())
		WANT(left == 1);
}

static void look(void)
{
	struct known *k = some_cache();
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int error;

	if (k) {
		WANT(kmem_cache_validate(k->s) == 0);
		WANT(kmem_cache_verify(k->s) == 0);
		error = kmem_cache_print_traces(k->s, nowhere, byte() % 2, byte() % 2);
		WANT(error == 0 || error == -95);
		WANT(kmem_cache_print_traces(k->s, nowhere, byte() % 2, 7) == -22);
	}
	close(nowhere);
}

const struct step cache_steps[] = {
	{"make_cache", make_cache, 6},
	{"destroy", destroy, 2},
	{"leak", leak, 1},
	{"tune", tune, 2},
	{"limit", limit, 1},
	{"shrink", shrink, 3},
	{"look", look, 1},
	{NULL, NULL, 0},
};
