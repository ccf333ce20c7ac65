/* SPDX-License-Identifier: MIT */
/* Public calls of <sheaf/group.h> that concern caches; others are in src/group/. */

#include "cache/account.h"
#include "cache/block.h"
#include "os/sized.h"
#include "page/page.h"

/* --- creation --------------------------------------------------------------------------------- */

/* The first group: caches with SLAB_ACCOUNT are charged from now on. */
static bool begin_groups(void)
{
	if (groups_exist())
		return true;
	if (!caches_ready())
		return false;
	os_lock(&caches.lock);
	/* Calls that may not wait cannot make the words of owners usable. */
	if (page_use_words() && groups_begin()) {
		os_store_relaxed(&os.watched, 1);
		for (struct kmem_cache *s = caches.first; s; s = s->next)
			if (s->flags & SLAB_ACCOUNT && !cache_is_leaked(s) &&
			    !cache_is_accounted(s))
				account_begin(s, ACCOUNT_ALL);
		/* Before this, no thread has a group to charge. */
		os_store_release(&groups.begun, 1);
	}
	os_unlock(&caches.lock);
	return groups_exist();
}

/* The arguments, in this version's form. False after a report. */
static bool read_args(struct kmem_group_args *own, const void *args, size_t size, const char *call)
{
	const char *wrong = NULL;

	if (!os_sized_whole(size) || !os_sized_copy(own, sizeof(*own), args, size))
		wrong = "the arguments have fields that this version does not know. Use the "
			"library that belongs to the header the program was built with";
	else
		wrong = group_wrong(own);
	if (wrong)
		os_misuse(NULL, "%s: %s", call, wrong);
	return !wrong;
}

SHEAF_PUBLIC struct kmem_group *__kmem_group_create(const char *name, struct kmem_group *parent,
						    const struct kmem_group_args *args, size_t size)
{
	struct kmem_group_args own;
	struct kmem_group *g = NULL;

	if (!name) {
		name = "(no name)";
		os_misuse(NULL, "kmem_group_create: the name is NULL; \"(no name)\" is used. Name "
				"the group: statistics identify groups by name");
	}
	if (read_args(&own, args, size, "kmem_group_create") &&
	    (!parent || group_check(parent, "kmem_group_create")) && begin_groups())
		g = group_create(name, parent, &own);
	cache_leave();
	return g;
}

SHEAF_PUBLIC int __kmem_group_set_limits(struct kmem_group *g, const struct kmem_group_args *args,
					 size_t size)
{
	struct kmem_group_args own;
	int result = -EINVAL;

	if (!g)
		os_misuse(NULL, "kmem_group_set_limits: the group is NULL; ignored. The root has "
				"no limits");
	else if (group_check(g, "kmem_group_set_limits") &&
		 read_args(&own, args, size, "kmem_group_set_limits"))
		result = group_set_limits(g, &own) ? 0 : -EBUSY;
	cache_leave();
	return result;
}

/* --- the group of an object ------------------------------------------------------------------- */

/* The number of the group that is charged for the block at this address. */
static uint32_t number_of_group(const void *object)
{
	struct block block = block_of(object);
	uint32_t *at;

	switch (block.kind) {
	case BLOCK_OBJECT:
		at = guard_is_ours(block.start) ? guard_owner(block.start)
						: owner_at(&block.cache->sheaf.slab, block.start);
		return owner_number(at);
	case BLOCK_MAPPING:
		return map_owner(block.start);
	default:
		return GROUP_NONE;
	}
}

SHEAF_PUBLIC struct kmem_group *kmem_group_of(const void *object)
{
	uint32_t number = groups_exist() ? number_of_group(object) : GROUP_NONE;

	return number ? group_living(group_of_number(number)) : NULL;
}

/* --- charging later --------------------------------------------------------------------------- */

static bool charge_block(struct block *block, gfp_t flags)
{
	void *start = block->start;
	uint32_t number;

	if (number_of_group(start))
		return true;
	/* Frees of kmalloc()'s plain caches look for no number. */
	if (block->kind == BLOCK_OBJECT)
		return (block->cache->flags & CACHE_KMALLOC && !cache_is_accounted(block->cache)) ||
		       account_taken(block->cache, flags, 1, &start);
	number = block->kind == BLOCK_MAPPING ? account_wanted(&kmalloc_large, flags) : GROUP_NONE;
	return !number || large_own(start, block->size, flags, number);
}

SHEAF_PUBLIC bool kmem_cache_charge(void *object, gfp_t flags)
{
	struct block block;
	bool done = cache_find_used(object, false, &block, "kmem_cache_charge") &&
		    charge_block(&block, flags | __GFP_ACCOUNT);

	cache_leave();
	return done;
}

/* --- allocations that name their group -------------------------------------------------------- */

void account_pays(struct kmem_group *g, const char *call)
{
	os_current_group()->group = g && group_check(g, call) ? g->number : GROUP_NONE;
}

SHEAF_PUBLIC void *kmem_cache_alloc_charged(struct kmem_cache *s, gfp_t flags, struct kmem_group *g)
{
	void *object;

	if (cache_is_null(s, "kmem_cache_alloc_charged"))
		return NULL;
	account_pays(g, "kmem_cache_alloc_charged");
	object = kmem_cache_alloc(s, flags | __GFP_ACCOUNT);
	account_own_pays();
	return object;
}
