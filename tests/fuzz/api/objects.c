/* SPDX-License-Identifier: MIT */
/* Steps with objects of caches. */
#include <string.h>

#include "fuzz/api/model.h"
#include "kit/hooks.h"
#include "kit/options.h"

gfp_t some_flags(void)
{
	static const gfp_t all[] = {
		GFP_KERNEL,
		GFP_KERNEL,
		GFP_NOWAIT,
		GFP_ATOMIC,
		GFP_KERNEL_ACCOUNT,
		GFP_NOWAIT | __GFP_ACCOUNT,
		GFP_NOIO,
		GFP_KERNEL | __GFP_NOWARN,
		GFP_KERNEL | __GFP_NORETRY,
		0,
		GFP_KERNEL | __GFP_ZERO,
		GFP_KERNEL_ACCOUNT | __GFP_ZERO,
	};

	return all[below(sizeof(all) / sizeof(*all))];
}

/* One of the machine, or none. */
int some_node(void)
{
	return (int)below(option_number("numa=fake", 1) + 1) - 1;
}

/* For its objects. */
gfp_t flags_for(const struct known *k)
{
	gfp_t flags = some_flags();

	return k->built ? flags & ~__GFP_ZERO : flags;
}

struct known *need_cache(void)
{
	struct known *k = some_cache();

	if (!k) {
		make_cache();
		k = some_cache();
	}
	return k;
}

/* --- allocations ------------------------------------------------------------------------------ */

static void alloc_one(struct known *k, unsigned int way)
{
	gfp_t flags = way == 1 ? GFP_KERNEL : flags_for(k);
	unsigned int group = payer(k, flags);
	bool tries = false;
	void *p;

	switch (way) {
	case 0:
		p = kmem_cache_alloc_node(k->s, flags, some_node());
		break;
	case 1:
		if (k->built)
			return;
		flags |= __GFP_ZERO;
		p = kmem_cache_zalloc(k->s, GFP_KERNEL);
		break;
	case 2:
		tries = true;
		p = kmem_cache_alloc_nolock(k->s, flags);
		break;
	case 3:
		group = k->group ? k->group : some_group();
		p = kmem_cache_alloc_charged(k->s, flags, pointer_of(group));
		break;
	case 4:
		tries = true;
		p = kmem_cache_alloc_node(k->s, flags | __GFP_THISNODE, some_node());
		break;
	default:
		p = kmem_cache_alloc(k->s, flags);
	}
	if (p)
		adopt(p, k->size, flags, k, group);
	else if (!tries)
		failed(k, flags, group, k->charge);
	else
		may_report();
}

static void alloc(void)
{
	struct known *k = need_cache();
	unsigned int n = count(MAX_BULK), way = byte() % 10;

	for (; k && n > 0 && has_room(k->size); n--)
		alloc_one(k, way);
}

static void alloc_bulk(void)
{
	struct known *k = need_cache();
	unsigned int n = count(MAX_BULK), group;
	void *p[MAX_BULK];
	gfp_t flags;
	int got;

	if (!k || !has_room(n * k->size) || nr_objects + n > MAX_OBJECTS)
		return;
	flags = flags_for(k);
	group = payer(k, flags);
	got = kmem_cache_alloc_bulk(k->s, flags, n, p);
	WANT(got == 0 || got == (int)n);
	if (!got)
		failed(k, flags, group, n * k->charge);
	for (int i = 0; i < got; i++)
		adopt(p[i], k->size, flags, k, group);
}

/* --- frees ------------------------------------------------------------------------------------ */

static void free_object(const struct object *o, unsigned int way)
{
	void *p = o->p;

	switch (way) {
	case 0:
		kfree(p);
		break;
	case 1:
		kmem_cache_free_bulk(byte() & 1 ? o->s : NULL, 1, &p);
		break;
	case 2:
		if (o->s)
			kmem_cache_free_nolock(o->s, p);
		else
			vfree(p);
		break;
	case 3:
		if (o->s)
			kfree_nolock(p);
		else
			kvfree(p);
		break;
	case 4:
		if (o->built)
			kfree(p);
		else
			kfree_sensitive(p);
		break;
	case 5:
		if (o->built)
			kfree(p);
		else
			kvfree_sensitive(p, below(2) ? o->size : o->size / 3);
		break;
	default:
		if (o->s)
			kmem_cache_free(o->s, p);
		else
			kfree(p);
	}
}

void free_any(unsigned int i)
{
	struct object o = disown(i);

	kvfree(o.p);
}

static void free_some(void)
{
	unsigned int way = byte() % 12;

	for (unsigned int n = count(MAX_BULK); n > 0; n--) {
		int i = pick_object();
		struct object o;

		if (i < 0)
			return;
		o = disown((unsigned int)i);
		free_object(&o, way);
	}
}

static void free_bulk(void)
{
	unsigned int n = count(MAX_BULK), got = 0;
	struct kmem_cache *s = NULL;
	bool of_one = byte() & 1;
	void *p[MAX_BULK];

	while (got < n) {
		int i = pick_object();

		if (i < 0 || (of_one && (!objects[i].s || (s && objects[i].s != s))))
			break;
		s = of_one ? objects[i].s : NULL;
		p[got++] = disown((unsigned int)i).p;
	}
	if (got)
		kmem_cache_free_bulk(s, got, p);
}

const struct step object_steps[] = {
	{"alloc", alloc, 14},	 {"alloc_bulk", alloc_bulk, 5},
	{"free", free_some, 12}, {"free_bulk", free_bulk, 5},
	{NULL, NULL, 0},
};
