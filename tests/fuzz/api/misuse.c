/* SPDX-License-Identifier: MIT */
/* Wrong calls, which are reported and change nothing. */
#include <errno.h>
#include <limits.h>
#include <sheaf/debug.h>
#include <sheaf/limit.h>
#include <sheaf/shrinker.h>
#include <string.h>

#include "fuzz/api/model.h"
#include "kit/hidden.h"
#include "kit/options.h"

static void no_cache(void)
{
	struct kmem_cache *none = hidden(NULL);
	struct kmem_cache_stats stats;
	int i = pick_object();

	must_report();
	switch (byte() % 14) {
	case 0:
		if (i >= 0)
			kmem_cache_free(none, objects[i].p);
		else
			kmem_cache_shrink(none);
		break;
	case 1:
		WANT(!kmem_cache_zalloc(none, GFP_KERNEL));
		break;
	case 2:
		WANT(kmem_cache_stats(none, &stats) == -EINVAL && !stats.objects);
		break;
	case 3:
		WANT(kmem_cache_validate(none) == -EINVAL);
		break;
	case 4:
		WANT(kmem_cache_verify(none) == -EINVAL);
		break;
	case 5:
		WANT(kmem_cache_shrink(none) == -EINVAL);
		break;
	case 6:
		WANT(kmem_cache_set_limit(none, 1) == -EINVAL);
		break;
	case 7:
		WANT(kmem_cache_set_sheaf_capacity(none, 1) == -EINVAL);
		break;
	case 8:
		WANT(!mempool_alloc(hidden(NULL), GFP_KERNEL));
		break;
	case 9:
		WANT(mempool_resize(hidden(NULL), 1) == -EINVAL);
		break;
	case 10:
		WANT(!mempool_create(-1, mempool_kmalloc, mempool_kfree, (void *)8));
		break;
	case 11:
		WANT(!mempool_create_slab_pool(3, none));
		break;
	case 12:
		WANT(sheaf_rcu_none() == -EBUSY);
		break;
	default:
		WANT(sheaf_set_limits(2 * MiB, MiB) == -EINVAL);
	}
}

static void wrong_creation(void)
{
	struct kmem_cache_args args = {.align = 0};
	slab_flags_t flags = 0;
	size_t size = 40;

	must_report();
	switch (byte() % 9) {
	case 0:
		size = 0;
		break;
	case 1:
		size = KMEM_CACHE_MAX_SIZE + 1;
		break;
	case 2:
		args.align = 3 + 2 * below(100);
		break;
	case 3:
		args.align = 2u << 20;
		break;
	case 4:
		args.sheaf_capacity = 4097;
		break;
	case 5:
		args.reserved[below(3)] = 1;
		break;
	case 6:
		flags = SLAB_SECRET | SLAB_TYPESAFE_BY_RCU;
		break;
	case 7:
		args.freeptr_offset = 39;
		args.use_freeptr_offset = 1;
		flags = SLAB_TYPESAFE_BY_RCU;
		break;
	default: {
		struct kmem_group_args limits = {.high = 100, .low = 100 + below(50)};

		WANT(!kmem_group_create("wrong", NULL, &limits));
		return;
	}
	}
	WANT(!kmem_cache_create("wrong", size, &args, flags));
}

/* What a call gets that does not own it. */
static void foreign(void)
{
	static char bytes[256];
	void *p = hidden(bytes + below(sizeof(bytes)));
	struct known *k = some_cache();

	must_report();
	switch (byte() % 6) {
	case 0:
		kfree(p);
		break;
	case 1:
		kfree_sensitive(p);
		break;
	case 2:
		WANT(!ksize(p));
		break;
	case 3:
		WANT(!krealloc(p, 100, GFP_KERNEL));
		break;
	case 4:
		kfree_nolock(p);
		break;
	default:
		if (k)
			kmem_cache_free(k->s, p);
		else
			kvfree_rcu_mightsleep(p);
	}
	WANT(!bytes[0] && !kmem_group_of(p));
}

static void use_wrongly(void *p, struct kmem_cache *s, unsigned int way)
{
	switch (way) {
	case 0:
		kfree(p);
		break;
	case 1:
		kvfree_rcu_mightsleep(p);
		break;
	case 2:
		kmem_cache_free_bulk(NULL, 1, &p);
		break;
	case 3:
		kfree_sensitive(p);
		break;
	case 4:
		WANT(!krealloc(p, 300, GFP_KERNEL));
		break;
	case 5:
		if (s) {
			kmem_cache_free(s, p);
			break;
		}
		/* fallthrough */
	case 6:
		if (s) {
			kmem_cache_free_nolock(s, p);
			break;
		}
		/* fallthrough */
	default:
		WANT(!ksize(p));
	}
}

/* An address inside an object is no object. Without checks, a sheaf accepts it. */
static void inside(void)
{
	int i = pick_object();
	unsigned int way = byte() % 8;
	const struct object *o = i < 0 ? NULL : &objects[i];

	if (!o || o->size < 16 ||
	    (o->s && !program.all_checked && way != 3 && way != 4 && way != 7))
		return;
	if (o->s && known_of(o->s)->flags & SLAB_NO_USER_FLAGS && !checks_free())
		return;
	must_report();
	use_wrongly(o->p + 8 + below((unsigned int)(o->size > 60000 ? 60000 : o->size) - 8), o->s,
		    way);
	check_content(o, o->size);
}

/* Retired blocks are only for readers. */
static void large_retired(void)
{
	unsigned int way = byte() % 6;

	for (unsigned int i = 0; i < nr_objects; i++)
		if (!objects[i].s && objects[i].state == RETIRED) {
			must_report();
			use_wrongly(objects[i].p, NULL, way > 4 ? 0 : way);
			return;
		}
}

static void other_cache(void)
{
	int i = pick_object();
	struct known *k = some_cache();
	void *p;

	if (i < 0 || !k || objects[i].s == k->s || !program.all_checked)
		return;
	if (k->flags & SLAB_NO_USER_FLAGS && !checks_free())
		return;
	p = objects[i].p;
	must_report();
	switch (byte() % 4) {
	case 0:
		kmem_cache_free(k->s, p);
		break;
	case 1:
		kmem_cache_free_bulk(k->s, 1, &p);
		break;
	case 2:
		kmem_cache_free_rcu(k->s, p);
		break;
	default:
		kmem_cache_free_nolock(k->s, p);
	}
	check_content(&objects[i], objects[i].size);
}

/* These are reported, and the rest of the request is met. */
static void flags(void)
{
	struct known *k = some_cache();
	gfp_t wrong = 0x1000u << below(10);
	void *p;

	if (!k || !has_room(k->size))
		return;
	if (byte() & 1) {
		must_report();
		p = kmem_cache_alloc(k->s, GFP_KERNEL | wrong);
	} else {
		may_report(); /* the first time */
		p = kmem_cache_alloc_node(k->s, GFP_KERNEL, 2 + (int)below(100));
	}
	if (p)
		adopt(p, k->size, 0, k, payer(k, 0));
	else
		failed(k, GFP_KERNEL, payer(k, 0), k->charge);
}

static void sheaf(void)
{
	struct known *k = some_cache();
	struct slab_sheaf *none = NULL;

	WANT(kmem_cache_sheaf_size(NULL) == 0);
	if (!k)
		return;
	WANT(!kmem_cache_prefill_sheaf(k->s, GFP_KERNEL, 0));
	kmem_cache_return_sheaf(k->s, GFP_KERNEL, NULL);
	must_report();
	if (byte() & 1)
		WANT(!kmem_cache_prefill_sheaf(k->s, GFP_KERNEL, 1u << 31));
	else
		WANT(kmem_cache_refill_sheaf(k->s, GFP_KERNEL, &none, 4) == -EINVAL);
}

static void too_large(void)
{
	must_report();
	WANT(!kmalloc(KMALLOC_MAX_SIZE + 1 + below(1000), GFP_KERNEL));
	WANT(!kvmalloc((size_t)INT_MAX + 1 + below(1000), GFP_KERNEL));
	WANT(!kmalloc_nolock(KMALLOC_MAX_CACHE_SIZE + 1, 0, NUMA_NO_NODE));
	WANT(!kmalloc(KMALLOC_MAX_SIZE + 1, GFP_KERNEL | __GFP_NOWARN));
}

const struct step misuse_steps[] = {
	{"no_cache", no_cache, 2},
	{"wrong_creation", wrong_creation, 1},
	{"foreign", foreign, 1},
	{"inside", inside, 2},
	{"large_retired", large_retired, 1},
	{"other_cache", other_cache, 1},
	{"flags", flags, 1},
	{"sheaf", sheaf, 1},
	{"too_large", too_large, 1},
	{NULL, NULL, 0},
};
