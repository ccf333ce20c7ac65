/* SPDX-License-Identifier: MIT */
/* The numbers of groups, and whether they agree with their objects (GROUP-G1). */

#include "cache/account.h"
#include "cache/block.h"
#include "cache/list.h"

struct account_walk {
	account_look *look;
	void *data;
};

static void look_at_object(void *data, struct slab_cache *cache, uint32_t number)
{
	const struct account_walk *walk = data;

	if (group_is_number(number))
		walk->look(walk->data, cache, cache->size, number);
}

static void look_at_block(void *data, const void *block, size_t size, uint32_t number)
{
	const struct account_walk *walk = data;

	(void)block;
	if (group_is_number(number))
		walk->look(walk->data, &kmalloc_large.sheaf.slab, size, number);
}

void account_for_each(account_look *look, void *data)
{
	struct account_walk walk = {look, data};

	owner_for_each(look_at_object, &walk);
	guard_for_each_owned(look_at_object, &walk);
	map_for_each_owned(look_at_block, &walk);
}

/* --- numbers ---------------------------------------------------------------------------------- */

static uint64_t or_zero(uint64_t limit)
{
	return limit == GROUP_NO_LIMIT ? 0 : limit;
}

struct own {
	struct kmem_group *of;
	uint64_t bytes, objects;
};

/* A group that is over counts as the nearest one above that is not (GROUP-G2). */
struct kmem_group *account_living(uint32_t number)
{
	struct kmem_group *g = group_of_number(number);

	while (g->parent && os_load_relaxed(&g->over))
		g = g->parent;
	return g;
}

static void add_own(void *data, const struct slab_cache *cache, uint64_t bytes, uint32_t number)
{
	struct own *own = data;

	(void)cache;
	if (account_living(number) != own->of)
		return;
	own->bytes += bytes;
	own->objects++;
}

void account_read_group(struct kmem_group *g, struct kmem_group_stats *out)
{
	memset(out, 0, sizeof(*out));
	memcpy(out->name, g->name, sizeof(out->name));
	out->id = g->id;
	out->parent = g->parent ? g->parent->id : 0;
	out->stocks = stock_bytes(g);
	out->bytes = os_load_relaxed(&g->usage);
	out->bytes -= out->stocks < out->bytes ? out->stocks : out->bytes;
	out->peak = os_load_relaxed(&g->peak);
	out->hard_limit = or_zero(os_load_relaxed(&g->hard));
	out->high = or_zero(os_load_relaxed(&g->high));
	out->low = os_load_relaxed(&g->low);
	out->failed = os_load_relaxed(&g->failed);
	out->reclaims = os_load_relaxed(&g->reclaims);
	out->high_events = os_load_relaxed(&g->high_events);
	out->low_events = os_load_relaxed(&g->low_events);
	out->forced = os_load_relaxed(&g->forced);
	out->references = os_load_relaxed(&g->refs);
}

static void read_root(void *out, struct kmem_group *g)
{
	if (!g->parent)
		account_read_group(g, out);
}

SHEAF_PUBLIC int __kmem_group_stats(struct kmem_group *g, struct kmem_group_stats *out, size_t size)
{
	struct kmem_group_stats own;

	if (g && !group_check(g, "kmem_group_stats"))
		return -EINVAL;
	if (g)
		account_read_group(g, &own);
	else
		group_for_each(read_root, &own);
	memset(out, 0, size);
	memcpy(out, &own, size < sizeof(own) ? size : sizeof(own));
	tools_wrote(out, size);
	return 0;
}

SHEAF_PUBLIC int kmem_group_count_objects(struct kmem_group *g, uint64_t *objects, uint64_t *bytes)
{
	struct own own = {.of = g ? g : &groups.root};

	if (g && !group_check(g, "kmem_group_count_objects"))
		return -EINVAL;
	if (groups_exist())
		account_for_each(add_own, &own);
	if (objects)
		*objects = own.objects;
	if (bytes)
		*bytes = own.bytes;
	return 0;
}

/* --- verify ----------------------------------------------------------------------------------- */

static void find_living(void *data, const struct slab_cache *cache, uint64_t bytes, uint32_t number)
{
	(void)data, (void)cache;
	for (struct kmem_group *g = group_of_number(number); g; g = g->parent)
		g->found += bytes;
}

static void forget_found(void *data, struct kmem_group *g)
{
	(void)data;
	g->found = 0;
}

struct comparison {
	bool stocks; /* the drain left some, because the system refused membarrier */
	int faults;
};

static void compare(void *data, struct kmem_group *g)
{
	struct comparison *comparison = data;
	uint64_t charged = os_load_relaxed(&g->usage);

	if (comparison->stocks)
		charged -= stock_bytes(g);
	if (g->found == charged)
		return;
	os_misuse_later(NULL,
			"kmem_group_verify: group \"%s\" is charged with %llu bytes, and its "
			"objects have %llu. Another thread may use charged objects, or something "
			"wrote to the library's memory",
			g->name, (unsigned long long)charged, (unsigned long long)g->found);
	comparison->faults++;
}

SHEAF_PUBLIC int kmem_group_verify(void)
{
	struct comparison comparison = {.faults = 0};

	if (!groups_exist())
		return 0;
	stock_drain(&groups.root);
	comparison.stocks = stock_bytes(&groups.root);
	group_for_each(forget_found, NULL);
	account_for_each(find_living, NULL);
	group_for_each(compare, &comparison);
	for (struct kmem_cache *s = list_next(NULL); s; s = list_next(s))
		comparison.faults += cache_verify_charges(s);
	cache_leave();
	return comparison.faults;
}

/* --- fork ------------------------------------------------------------------------------------- */

static void count(void *data, const struct slab_cache *cache, uint64_t bytes, uint32_t number)
{
	(void)data, (void)cache;
	for (struct kmem_group *g = group_of_number(number); g->parent; g = g->parent)
		g->usage += bytes;
}

void account_after_fork(void)
{
	if (!groups_exist())
		return;
	account_for_each(count, NULL);
	group_end_forgotten();
}
