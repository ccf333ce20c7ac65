/* SPDX-License-Identifier: MIT */
/* Scenes: caches and their objects. */
#include <errno.h>
#include <sheaf/debug.h>
#include <sheaf/trim.h>
#include <string.h>

#include "kit/by_hand.h"
#include "kit/cache.h"
#include "refusals.h"

/* --- create and destroy ----------------------------------------------------------------------- */

static struct kmem_cache *made;

static int created(struct kmem_cache *s)
{
	made = s;
	return all_or_nothing(s);
}

static void destroy_made(void)
{
	if (made)
		kmem_cache_destroy(made);
	made = NULL;
}

static void other_cache(void)
{
	w.s = make("other", 64, 0);
}

static void constructor(void *object)
{
	memset(object, 1, 64);
}

static int create(void)
{
	return created(kmem_cache_create("made", 200, NULL, SLAB_NO_MERGE));
}

/* A freed object is not used again soon; a quarantine that found no memory begins with the next
 * cache. */
static int create_resting(void)
{
	static int calls;
	int result = create();
	void *object = result ? NULL : kmem_cache_alloc(made, GFP_KERNEL), *next;

	if (!object)
		return NOTHING;
	kmem_cache_free(made, object);
	next = kmem_cache_alloc(made, GFP_KERNEL);
	kmem_cache_free(made, next);
	return all_or_nothing(next && (!calls++ || next != object));
}

static int create_merged(void)
{
	return created(kmem_cache_create("made", 56, NULL, 0));
}

static int create_constructed(void)
{
	struct kmem_cache_args args = {
		.ctor = constructor, .sheaf_capacity = 100, .align = 64, .limit = 1 << 20};

	return created(kmem_cache_create("made", 200, &args, 0));
}

static struct kmem_cache *checked(const char *name)
{
	return kmem_cache_create(name, 200, NULL,
				 SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON |
					 SLAB_STORE_USER);
}

static void other_checked(void)
{
	w.s = checked("other");
}

/* Red zones and records need bytes. */
static int create_checked(void)
{
	int result = created(checked("made"));

	if (!result && look(made).slab_size != look(w.s).slab_size)
		fault("the cache lacks letters");
	return result;
}

static int create_secret(void)
{
	return created(kmem_cache_create("made", 200, NULL, SLAB_SECRET));
}

static void with_provider(void)
{
	other_cache();
	if (sheaf_rcu_register(&by_hand_ops))
		fault("no provider");
}

static int create_typesafe(void)
{
	return created(kmem_cache_create("made", 200, NULL, SLAB_TYPESAFE_BY_RCU));
}

static int create_with_provider(void)
{
	struct kmem_cache_args args = {.rcu = &by_hand_ops};

	return created(kmem_cache_create("made", 200, &args, SLAB_TYPESAFE_BY_RCU));
}

/* A provider's places are in blocks: its next user needs another block, or the one after. */
static struct kmem_cache *many_made[63];

static void make_many(size_t n)
{
	struct kmem_cache_args args = {.rcu = &by_hand_ops};

	other_cache();
	for (size_t i = 0; i < n; i++) {
		many_made[i] = kmem_cache_create("many", 200, &args, SLAB_NO_MERGE);
		if (!many_made[i])
			fault("no cache");
	}
}

static void with_62(void)
{
	make_many(62);
}

static void with_63(void)
{
	make_many(63);
}

static void destroy_many(void)
{
	for (size_t i = 0; i < sizeof(many_made) / sizeof(many_made[0]); i++)
		kmem_cache_destroy(many_made[i]);
}

static void with_group(void)
{
	other_cache();
	w.g = kmem_group_create("group", NULL, NULL);
	if (!w.g)
		fault("no group");
}

static int create_in_group(void)
{
	struct kmem_cache_args args = {.group = w.g};

	return created(kmem_cache_create("made", 200, &args, 0));
}

static void *kept;

/* Calls that take no new slab find an object. */
static void keep_one(void)
{
	other_cache();
	kept = kmem_cache_alloc(w.s, GFP_KERNEL);
	w.lost = 1;
	kmem_cache_free(w.s, kmem_cache_alloc(w.s, GFP_KERNEL));
}

static void free_kept(void)
{
	kmem_cache_free(w.s, kept);
}

static void new_used(void)
{
	made = make("made", 200, 0);
	kmem_cache_free(made, kmem_cache_alloc(made, GFP_KERNEL));
}

static int destroy(void)
{
	destroy_made();
	return 0;
}

/* --- one object ------------------------------------------------------------------------------- */

static void new_cache(void)
{
	w.s = make("objects", 200, 0);
}

static int alloc_with(gfp_t flags)
{
	w.p[0] = kmem_cache_alloc(w.s, flags);
	if (w.p[0])
		memset(w.p[0], 1, 200);
	return all_or_nothing(w.p[0]);
}

static int alloc(void)
{
	return alloc_with(GFP_KERNEL);
}

static int alloc_nowait(void)
{
	return alloc_with(GFP_NOWAIT);
}

static int alloc_nofail(void)
{
	return alloc_with(GFP_KERNEL | __GFP_NOFAIL);
}

static int zalloc(void)
{
	w.p[0] = kmem_cache_zalloc(w.s, GFP_KERNEL);
	return all_or_nothing(w.p[0]);
}

static int alloc_node(void)
{
	w.p[0] = kmem_cache_alloc_node(w.s, GFP_KERNEL | __GFP_THISNODE, 0);
	return all_or_nothing(w.p[0]);
}

static int alloc_on_second(void)
{
	w.p[0] = kmem_cache_alloc_node(w.s, GFP_KERNEL | __GFP_THISNODE, 1);
	return all_or_nothing(w.p[0]);
}

static void new_checked(void)
{
	w.s = make("objects", 200, SLAB_RED_ZONE | SLAB_POISON | SLAB_STORE_USER);
}

static void new_without_sheaves(void)
{
	w.s = make("objects", 200, SLAB_NO_SHEAVES);
}

static void new_secret(void)
{
	w.s = make("objects", 200, SLAB_SECRET);
}

static void new_constructed(void)
{
	struct kmem_cache_args args = {.ctor = constructor};

	w.s = kmem_cache_create("objects", 200, &args, 0);
}

static void new_limited(void)
{
	struct kmem_cache_args args = {.limit = 1 << 20};

	w.s = kmem_cache_create("objects", 200, &args, 0);
}

/* A slab of it has several chunks. */
static void new_wide(void)
{
	w.s = make("wide", 3 << 20, 0);
}

static int alloc_wide(void)
{
	w.p[0] = kmem_cache_alloc(w.s, GFP_KERNEL);
	if (w.p[0])
		memset(w.p[0], 1, 3 << 20);
	return all_or_nothing(w.p[0]);
}

static int alloc_nolock(void)
{
	w.p[0] = kmem_cache_alloc_nolock(w.s, 0);
	return all_or_nothing(w.p[0]);
}

static void one_object(void)
{
	w.p[0] = kmem_cache_alloc(w.s, GFP_KERNEL);
}

static int free_one(void)
{
	kmem_cache_free(w.s, w.p[0]);
	w.p[0] = NULL;
	return 0;
}

static int free_nolock(void)
{
	kmem_cache_free_nolock(w.s, w.p[0]);
	w.p[0] = NULL;
	return 0;
}

/* --- many objects ----------------------------------------------------------------------------- */

static int alloc_many(void)
{
	for (size_t i = 0; i < MOST; i++) {
		w.p[i] = kmem_cache_alloc(w.s, GFP_KERNEL);
		if (!w.p[i])
			return NOTHING;
	}
	return 0;
}

static int alloc_bulk(void)
{
	if (kmem_cache_alloc_bulk(w.s, GFP_KERNEL, MOST, w.p) == MOST)
		return 0;
	memset(w.p, 0, sizeof(w.p));
	return NOTHING;
}

static void many_objects(void)
{
	if (alloc_bulk())
		fault("no objects");
}

static int free_many(void)
{
	for (size_t i = 0; i < MOST; i++)
		kmem_cache_free(w.s, w.p[i]);
	memset(w.p, 0, sizeof(w.p));
	return 0;
}

static int free_bulk(void)
{
	kmem_cache_free_bulk(w.s, MOST, w.p);
	memset(w.p, 0, sizeof(w.p));
	return 0;
}

/* --- prefilled sheaves ------------------------------------------------------------------------ */

static struct slab_sheaf *sheaf;

static void held_in_sheaf(void)
{
	w.lost = kmem_cache_sheaf_size(sheaf);
}

static void return_sheaf(void)
{
	kmem_cache_return_sheaf(w.s, GFP_KERNEL, sheaf);
	sheaf = NULL;
	w.lost = 0;
}

static int prefill_with(unsigned int size)
{
	sheaf = kmem_cache_prefill_sheaf(w.s, GFP_KERNEL, size);
	held_in_sheaf();
	return all_or_nothing(sheaf);
}

static int prefill(void)
{
	return prefill_with(20);
}

static int prefill_oversize(void)
{
	return prefill_with(300);
}

static void small_sheaf(void)
{
	if (prefill_with(3))
		fault("no sheaf");
}

static int refill_to(unsigned int size)
{
	int result = kmem_cache_refill_sheaf(w.s, GFP_KERNEL, &sheaf, size);

	if (!result && kmem_cache_sheaf_size(sheaf) < size)
		fault("the sheaf has too few objects");
	held_in_sheaf();
	return result;
}

static int refill(void)
{
	return refill_to(25);
}

static int refill_oversize(void)
{
	return refill_to(300);
}

static int return_it(void)
{
	return_sheaf();
	return 0;
}

/* --- the whole cache -------------------------------------------------------------------------- */

static int shrink(void)
{
	kmem_cache_shrink(w.s);
	return 0;
}

static void leave_many(void)
{
	many_objects();
	free_many();
}

static int set_capacity(void)
{
	return kmem_cache_set_sheaf_capacity(w.s, 100);
}

static int set_barn(void)
{
	return kmem_cache_set_barn(w.s, 100, 100000);
}

static int set_min_partial(void)
{
	return kmem_cache_set_min_partial(w.s, 1);
}

static int set_limit(void)
{
	return kmem_cache_set_limit(w.s, 4096);
}

static void no_limit(void)
{
	kmem_cache_set_limit(w.s, 0);
}

static int verify(void)
{
	return kmem_cache_verify(w.s);
}

static int validate(void)
{
	return kmem_cache_validate(w.s);
}

static int trim(void)
{
	sheaf_trim(0);
	return 0;
}

const struct scene slab_scenes[] = {
	{"kmem_cache_create, first call", .call = create, .undo = destroy_made},
	{"kmem_cache_create, quarantine, first call", .options = "slab_debug=Q;slab_quarantine=1",
	 .call = create_resting, .undo = destroy_made},
	{"kmem_cache_create, hardened, first call", .options = "hardened", .call = create,
	 .undo = destroy_made},
	{"kmem_cache_create, slab_guard_pools, first call", .options = "slab_guard_pools",
	 .call = create, .undo = destroy_made},
	{"kmem_cache_create, counted, first call", .options = "stats=live", .call = create,
	 .undo = destroy_made},
	{"kmem_cache_create", .prepare = other_cache, .call = create, .undo = destroy_made},
	{"kmem_cache_create, mergeable", .prepare = other_cache, .call = create_merged,
	 .undo = destroy_made},
	{"kmem_cache_create, constructor", .prepare = other_cache, .call = create_constructed,
	 .undo = destroy_made},
	{"kmem_cache_create, FZPU", .prepare = other_checked, .call = create_checked,
	 .undo = destroy_made},
	{"kmem_cache_create, SLAB_SECRET", .prepare = other_cache, .call = create_secret,
	 .undo = destroy_made},
	{"kmem_cache_create, SLAB_TYPESAFE_BY_RCU", .prepare = with_provider,
	 .call = create_typesafe, .undo = destroy_made},
	{"kmem_cache_create, provider", .prepare = other_cache, .call = create_with_provider,
	 .undo = destroy_made},
	{"kmem_cache_create, 63rd with a provider", .options = "", .prepare = with_62,
	 .call = create_with_provider, .undo = destroy_made, .finish = destroy_many},
	{"kmem_cache_create, 64th with a provider", .options = "", .prepare = with_63,
	 .call = create_with_provider, .undo = destroy_made, .finish = destroy_many},
	{"kmem_cache_create, group", .prepare = with_group, .call = create_in_group,
	 .undo = destroy_made},
	{"kmem_cache_destroy", .prepare = other_cache, .ready = new_used, .call = destroy,
	 .never_fails = true},
	{"kmem_cache_destroy, counted", .options = "stats=live", .prepare = other_cache,
	 .ready = new_used, .call = destroy, .never_fails = true},
	{"kmem_cache_alloc, first of the cache", .prepare = new_cache, .call = alloc},
	{"kmem_cache_alloc, GFP_NOWAIT", .prepare = new_cache, .call = alloc_nowait},
	{"kmem_cache_alloc, __GFP_NOFAIL", .prepare = new_cache, .call = alloc_nofail,
	 .never_fails = true, .once = true},
	{"kmem_cache_alloc, SLAB_NO_SHEAVES", .prepare = new_without_sheaves, .call = alloc},
	{"kmem_cache_alloc, SLAB_SECRET", .prepare = new_secret, .call = alloc},
	{"kmem_cache_alloc, FZPU", .prepare = new_checked, .call = alloc},
	{"kmem_cache_alloc, constructor", .prepare = new_constructed, .call = alloc},
	{"kmem_cache_alloc, limit", .prepare = new_limited, .call = alloc},
	{"kmem_cache_alloc, many", .prepare = new_cache, .call = alloc_many},
	{"kmem_cache_alloc, 3 MiB", .prepare = new_wide, .call = alloc_wide},
	{"kmem_cache_free, 3 MiB", .prepare = new_wide, .ready = one_object, .call = free_one,
	 .never_fails = true},
	{"kmem_cache_zalloc", .prepare = new_cache, .call = zalloc},
	{"kmem_cache_alloc_node", .prepare = new_cache, .call = alloc_node},
	{"kmem_cache_alloc_node, limit", .options = "numa=fake=2", .prepare = new_limited,
	 .call = alloc_on_second},
	{"kmem_cache_alloc_nolock", .prepare = keep_one, .call = alloc_nolock, .finish = free_kept},
	{"kmem_cache_alloc_bulk", .prepare = new_cache, .call = alloc_bulk},
	{"kmem_cache_free", .prepare = new_cache, .ready = one_object, .call = free_one,
	 .never_fails = true},
	{"kmem_cache_free_nolock", .prepare = new_cache, .ready = one_object, .call = free_nolock,
	 .never_fails = true},
	{"kmem_cache_free, many", .prepare = new_cache, .ready = many_objects, .call = free_many,
	 .never_fails = true},
	{"kmem_cache_free_bulk", .prepare = new_cache, .ready = many_objects, .call = free_bulk,
	 .never_fails = true},
	{"kmem_cache_prefill_sheaf", .prepare = new_cache, .call = prefill, .undo = return_sheaf},
	{"kmem_cache_prefill_sheaf, oversize", .prepare = new_cache, .call = prefill_oversize,
	 .undo = return_sheaf},
	{"kmem_cache_refill_sheaf", .prepare = new_cache, .ready = small_sheaf, .call = refill,
	 .undo = return_sheaf},
	{"kmem_cache_refill_sheaf, oversize", .prepare = new_cache, .ready = small_sheaf,
	 .call = refill_oversize, .undo = return_sheaf},
	{"kmem_cache_return_sheaf", .prepare = new_cache, .ready = small_sheaf, .call = return_it,
	 .never_fails = true},
	{"kmem_cache_shrink", .prepare = new_cache, .ready = leave_many, .call = shrink,
	 .never_fails = true},
	{"kmem_cache_set_sheaf_capacity", .prepare = new_cache, .ready = leave_many, .options = "",
	 .call = set_capacity, .never_fails = true},
	{"kmem_cache_set_barn", .prepare = new_cache, .ready = leave_many, .options = "",
	 .call = set_barn, .never_fails = true},
	{"kmem_cache_set_min_partial", .prepare = new_cache, .ready = leave_many, .options = "",
	 .call = set_min_partial, .never_fails = true},
	{"kmem_cache_set_limit", .prepare = new_cache, .ready = leave_many, .call = set_limit,
	 .undo = no_limit, .never_fails = true},
	{"kmem_cache_verify", .prepare = new_cache, .ready = leave_many, .call = verify},
	{"kmem_cache_validate", .prepare = new_cache, .ready = leave_many, .call = validate,
	 .never_fails = true},
	{"sheaf_trim", .prepare = new_cache, .ready = leave_many, .call = trim,
	 .never_fails = true},
	{.name = NULL},
};
