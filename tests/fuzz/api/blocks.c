/* SPDX-License-Identifier: MIT */
/* Steps with memory by size. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fuzz/api/model.h"
#include "kit/options.h"

/* At most what it is charged. */
static uint64_t charge_of(size_t size)
{
	return 2 * kmalloc_size_roundup(size) + 256;
}

static void take(void *p, size_t size, gfp_t flags, unsigned int group)
{
	if (p)
		adopt(p, size, flags, NULL, group);
	else
		failed(NULL, flags, group, charge_of(size));
}

/* --- separate sets of caches ------------------------------------------------------------------ */

static struct kmem_buckets_known {
	kmem_buckets *set;
} sets[MAX_SETS + 1]; /* 0: the common caches */

static void make_set(void)
{
	unsigned int i = 1 + below(MAX_SETS);

	if (sets[i].set)
		return;
	sets[i].set = kmem_buckets_create("set", 0, 0, below(40), NULL);
	if (!sets[i].set)
		failed(NULL, GFP_KERNEL, ROOT, 0);
	may_report(); /* their names are in use */
}

static void destroy_set(unsigned int i)
{
	kmem_buckets *set = sets[i].set;

	for (unsigned int n = nr_objects; set && n > 0; n--)
		if (objects[n - 1].s && known_of(objects[n - 1].s)->set == i &&
		    objects[n - 1].state == LIVE)
			free_any(n - 1);
	sets[i].set = NULL;
	kmem_buckets_destroy(set);
	forget_set(i);
}

void destroy_sets(void)
{
	for (unsigned int i = 1; i <= MAX_SETS; i++)
		if (sets[i].set)
			destroy_set(i);
}

static void end_set(void)
{
	destroy_set(1 + below(MAX_SETS));
}

/* From a set, if there is one. */
static void alloc_from_set(void)
{
	unsigned int i = below(MAX_SETS + 1), group;
	size_t size = some_size();
	gfp_t flags = some_flags();
	void *p;

	if (!has_room(2 * size))
		return;
	size = size > KMALLOC_MAX_SIZE ? KMALLOC_MAX_SIZE : size;
	group = payer(NULL, flags);
	p = byte() & 1 ? kmem_buckets_alloc(sets[i].set, size, flags)
		       : kmem_buckets_valloc(sets[i].set, size, flags);
	if (!p)
		failed(NULL, flags, group, charge_of(size));
	else if (p != ZERO_SIZE_PTR && sets[i].set && cache_of_block(p))
		known_of(cache_of_block(p))->set = i;
	if (p)
		adopt(p, size, flags, NULL, group);
}

/* --- the common caches ------------------------------------------------------------------------ */

static void alloc_block(void)
{
	size_t size = some_size();
	unsigned int way = byte() % 16;
	gfp_t flags = some_flags();
	unsigned int group = payer(NULL, flags);
	void *p;

	if (!has_room(2 * size))
		return;
	if (size > KMALLOC_MAX_SIZE && way != 2 && way != 3 && way != 4)
		size = KMALLOC_MAX_SIZE;
	switch (way) {
	case 0:
		p = kzalloc(size, flags);
		flags |= __GFP_ZERO;
		break;
	case 1:
		p = kmalloc_node(size, flags, some_node());
		break;
	case 2:
		p = kvmalloc(size, flags);
		break;
	case 3:
		size += !size; /* for which it returns NULL */
		p = __vmalloc(size, flags);
		WANT((uintptr_t)p % 4096 == 0);
		break;
	case 4:
		p = kvzalloc(size, flags);
		flags |= __GFP_ZERO;
		break;
	case 5:
		group = some_group();
		p = kmalloc_charged(size, flags, pointer_of(group));
		break;
	case 6:
		p = kmalloc_nolock(size, flags, some_node());
		if (!p) {
			may_report();
			return;
		}
		break;
	case 7:
		p = kcalloc(size / 8, 8, flags);
		size = size / 8 * 8;
		flags |= __GFP_ZERO;
		break;
	default:
		p = kmalloc(size, flags);
	}
	take(p, size, flags, group);
}

/* The content moves with the block, and its charge is paid by whoever asked for the new one. */
static void resize(void)
{
	int i = pick_object();
	size_t size = some_size(), kept;
	unsigned int way = byte() % 4, group;
	gfp_t flags = some_flags();
	struct object old, new;
	unsigned char *p;

	if (i < 0 || objects[i].built || !has_room(2 * size) || !size)
		return;
	/* Every earlier call for the block would have needed it. */
	flags &= ~__GFP_ZERO;
	if (size > KMALLOC_MAX_SIZE && way != 0)
		size = KMALLOC_MAX_SIZE;
	group = payer(NULL, flags);
	old = objects[i];
	check_content(&old, old.size);
	objects[i].pinned = true;
	p = way == 0   ? kvrealloc(old.p, size, flags)
	    : way == 1 ? krealloc_array(old.p, 1, size, flags)
		       : krealloc(old.p, size, flags);
	for (i = 0; objects[i].p != old.p || !objects[i].pinned; i++)
		WANT((unsigned int)i < nr_objects);
	objects[i].pinned = false;
	if (!p) {
		bool secret = old.s && known_of(old.s)->flags & SLAB_SECRET;

		WANT(size > old.size);
		if (secret)
			must_report();
		else
			failed(NULL, flags, group, charge_of(size));
		check_content(&old, old.size);
		return;
	}
	kept = old.size < size ? old.size : size;
	new = old;
	new.p = p;
	check_content(&new, kept);
	new.size = ksize(p);
	WANT(new.size >= size);
	if (p != old.p && !(!old.s && old.size > 2 * MiB && new.size > 2 * MiB)) {
		new.s = cache_of_block(p);
		new.group = group;
	} else if (p != old.p && old.group != group) {
		/* The system moved its pages, or the library copied them. */
		struct kmem_group *g = kmem_group_of(p);

		if (g == pointer_of(group))
			new.group = group;
		kmem_group_put(g);
	}
	new.charged = new.group != ROOT || (old.charged && p == old.p);
	new.charge = new.s ? known_of(new.s)->charge : new.size;
	uncount(&old);
	objects[i] = new;
	count_in(&new);
	fill(&new);
}

static void no_size(void)
{
	int i = pick_object();

	if (i >= 0)
		WANT(krealloc(disown((unsigned int)i).p, 0, GFP_KERNEL) == ZERO_SIZE_PTR);
	WANT(kmalloc(0, GFP_KERNEL) == ZERO_SIZE_PTR && kmalloc_nolock(0, 0, 0) == ZERO_SIZE_PTR);
	WANT(!kmalloc_array(SIZE_MAX / 2, 3, GFP_KERNEL) && !vmalloc(0));
	WANT(!kvmalloc_array(SIZE_MAX / 8, 9, GFP_KERNEL) && !ksize(NULL));
	kfree(NULL);
	kfree(ZERO_SIZE_PTR);
	kfree_nolock(ZERO_SIZE_PTR);
	kfree_sensitive(NULL);
	kmem_cache_free_bulk(NULL, 0, NULL);
}

static void copies(void)
{
	char text[80];
	size_t length = below(sizeof(text) - 1);
	gfp_t flags = some_flags() & ~__GFP_ZERO;
	unsigned int way = byte() % 6, group = payer(NULL, flags);
	const char *constant = "constant";
	char *p;

	if (!has_room(sizeof(text)))
		return;
	memset(text, 'x', length);
	text[length] = '\0';
	switch (way) {
	case 0:
		p = kstrdup(text, flags);
		break;
	case 1:
		p = kstrndup(text, length / 2, flags);
		length /= 2;
		break;
	case 2:
		p = kmemdup_nul(text, length, flags);
		break;
	case 3:
		p = kasprintf(flags, "%s", text);
		break;
	case 4:
		p = (char *)kstrdup_const(text, flags);
		WANT(kstrdup_const(constant, flags) == constant);
		kfree_const(constant);
		break;
	default:
		p = kmemdup(text, length + 1, flags);
	}
	if (p)
		WANT(!memcmp(p, text, length) && !p[length]);
	take(p, length + 1, flags, group);
}

/* kmalloc() gives at least the size that it says. */
static void sizes(void)
{
	size_t size = some_size(), rounded = kmalloc_size_roundup(size);
	gfp_t flags = GFP_KERNEL;
	void *p;

	WANT(rounded >= size && kmalloc_size_roundup(rounded) == rounded);
	if (!has_room(2 * size) || size > KMALLOC_MAX_SIZE || !size)
		return;
	p = kmalloc(size, flags);
	if (p && program.plain)
		WANT(ksize(p) == rounded || (size > 32 << 10 && ksize(p) > rounded));
	if (size >= 16)
		WANT((uintptr_t)p % 16 == 0);
	if (!(size & (size - 1)) && size <= 4096)
		WANT((uintptr_t)p % size == 0);
	take(p, size, flags, ROOT);
}

const struct step block_steps[] = {
	{"alloc_block", alloc_block, 14},
	{"resize", resize, 8},
	{"no_size", no_size, 1},
	{"copies", copies, 2},
	{"sizes", sizes, 2},
	{"make_set", make_set, 1},
	{"end_set", end_set, 1},
	{"alloc_from_set", alloc_from_set, 3},
	{NULL, NULL, 0},
};
