/* SPDX-License-Identifier: MIT */
/* Objects, and the caches that they are of; see model.h. */
#include "fuzz/api/model.h"

#include <string.h>

#include "cache/block.h"
#include "kit/hooks.h"
#include "kit/options.h"

struct object objects[MAX_OBJECTS];
unsigned int nr_objects;

static struct known known[MAX_KNOWN];
static unsigned int nr_known;
static uint32_t numbers;
static size_t bytes_of_objects;

/* --- caches ----------------------------------------------------------------------------------- */

struct known *known_of(struct kmem_cache *s)
{
	struct kmem_cache_stats stats;
	unsigned int i;

	for (i = 0; i < nr_known; i++)
		if (known[i].s == s)
			return &known[i];
	for (i = 0; i < nr_known && known[i].s; i++)
		;
	nr_known += i == nr_known;
	WANT(nr_known < MAX_KNOWN && kmem_cache_stats(s, &stats) == 0);
	known[i] = (struct known){.s = s, .charge = stats.slab_size, .size = stats.object_size};
	return &known[i];
}

struct kmem_cache *cache_of_block(const void *block)
{
	return hook_cache_of(block);
}

/* Its address may be another cache's next. Pointers to known caches stay right. */
void forget_cache(struct known *k)
{
	*k = (struct known){.s = NULL};
}

void forget_set(unsigned int set)
{
	for (unsigned int i = 0; i < nr_known; i++)
		if (known[i].s && known[i].set == set) {
			all_passed(known[i].s);
			WANT(!known[i].in_use && !known[i].loose);
			forget_cache(&known[i]);
		}
}

struct known *some_cache(void)
{
	struct known *made[MAX_KNOWN];
	unsigned int n = 0;

	for (unsigned int i = 0; i < nr_known; i++)
		if (known[i].names)
			made[n++] = &known[i];
	return n ? made[below(n)] : NULL;
}

static void check_cache(const struct known *k)
{
	struct kmem_cache_stats stats;

	WANT(kmem_cache_stats(k->s, &stats) == 0);
	if (stats.objects_in_use > k->in_use || stats.objects_in_use < k->in_use - k->loose)
		fail("cache %s: %llu objects in use instead of %u (%u of them may be free)",
		     stats.name, (unsigned long long)stats.objects_in_use, k->in_use, k->loose);
	WANT(stats.objects ==
	     stats.objects_in_use + stats.objects_in_sheaves + stats.rcu_pending_objects);
	WANT(stats.total_objects >= stats.objects && stats.destroyed == k->leaked);
	WANT(kmem_cache_verify(k->s) == 0);
}

/* --- counts ----------------------------------------------------------------------------------- */

static void add(const struct object *o, int sign)
{
	struct group *g = &groups_known[o->group];

	bytes_of_objects += (size_t)sign * o->size;
	if (o->pool == NO_POOL && o->s)
		known_of(o->s)->in_use += (unsigned int)sign;
	if (o->charged) {
		g->bytes += (uint64_t)sign * o->charge;
		g->objects += (uint64_t)sign;
	}
}

static void add_loose(const struct object *o, int sign)
{
	struct group *g = &groups_known[o->group];

	if (o->s)
		known_of(o->s)->loose += (unsigned int)sign;
	if (o->charged) {
		g->loose_bytes += (uint64_t)sign * o->charge;
		g->loose_objects += (uint64_t)sign;
	}
}

void count_in(const struct object *o)
{
	add(o, 1);
}

void uncount(const struct object *o)
{
	add(o, -1);
}

bool has_room(size_t bytes)
{
	return nr_objects < MAX_OBJECTS && bytes_of_objects + bytes < MAX_BYTES;
}

static void check_alone(const struct object *o)
{
	for (unsigned int i = 0; i < nr_objects; i++) {
		const struct object *other = &objects[i];

		if (other->state != LOOSE && o->p < other->p + other->size &&
		    other->p < o->p + o->size)
			fail("object %p of %zu bytes lies in object %p of %zu bytes, which is %s",
			     (void *)o->p, o->size, (void *)other->p, other->size,
			     other->state == LIVE ? "in use" : "retired");
	}
}

/* What a loose object was is in use again. */
static void reuse(const struct object *o)
{
	for (unsigned int i = nr_objects; i > 0; i--) {
		struct object *other = &objects[i - 1];

		if (other->state == LOOSE && o->p < other->p + other->size &&
		    other->p < o->p + o->size) {
			add_loose(other, -1);
			add(other, -1);
			*other = objects[--nr_objects];
		}
	}
}

/* Is it charged to this group? */
static void check_payer(const struct object *o)
{
	struct kmem_group *g = kmem_group_of(o->p + o->size / 2);

	if (g != pointer_of(o->group))
		fail("object %p is charged to group %p instead of %p", (void *)o->p, (void *)g,
		     (void *)pointer_of(o->group));
	kmem_group_put(g);
}

static void keep(struct object *o, size_t asked, gfp_t flags)
{
	WANT((uintptr_t)o->p % 8 == 0 && o->size >= asked);
	WANT(sheaf_owns(o->p) && sheaf_owns(o->p + o->size - 1));
	check_alone(o);
	reuse(o);
	if (flags & __GFP_ZERO)
		check_zeroed(o);
	check_built(o);
	fill(o);
	WANT(nr_objects < MAX_OBJECTS);
	objects[nr_objects++] = *o;
	add(o, 1);
}

void adopt(void *p, size_t asked, gfp_t flags, struct known *k, unsigned int group)
{
	struct object o = {.p = p, .pool = NO_POOL, .number = ++numbers, .group = group};

	if (p == ZERO_SIZE_PTR) {
		WANT(!asked && !ksize(p));
		return;
	}
	o.size = ksize(p);
	o.s = cache_of_block(p);
	o.built = k && k->built;
	o.charged = group != ROOT;
	o.charge = o.s ? known_of(o.s)->charge : o.size;
	WANT(!k || o.s == k->s);
	check_payer(&o);
	keep(&o, asked, flags);
}

void adopt_element(void *p, size_t asked, int pool)
{
	struct object o = {.p = p, .pool = pool, .number = ++numbers, .s = cache_of_block(p)};

	o.size = ksize(p);
	keep(&o, asked, 0);
}

int pick_object(void)
{
	unsigned int n = nr_objects, way = byte(), i;

	if (!n)
		return -1;
	i = way < 96 ? n - 1 : way < 128 ? 0 : below(n);
	for (unsigned int tries = 0; tries < n; tries++) {
		const struct object *o = &objects[(i + n - tries) % n];

		if (o->state == LIVE && o->pool == NO_POOL && !o->pinned)
			return (int)((i + n - tries) % n);
	}
	return -1;
}

struct object disown(unsigned int i)
{
	struct object o = objects[i];

	WANT(o.state == LIVE);
	WANT(ksize(o.p) == o.size);
	check_built(&o);
	check_content(&o, o.size);
	if (o.charged)
		check_payer(&o);
	add(&o, -1);
	objects[i] = objects[--nr_objects];
	return o;
}

void retired(unsigned int i)
{
	objects[i].state = RETIRED;
	add_loose(&objects[i], 1);
}

static void check_retired(void)
{
	for (unsigned int i = 0; i < nr_objects; i++)
		if (objects[i].state == RETIRED)
			check_content(&objects[i], objects[i].size);
}

void grace_passes(void)
{
	check_retired();
	for (unsigned int i = 0; i < nr_objects; i++)
		if (objects[i].state == RETIRED)
			objects[i].state = LOOSE;
}

void all_passed(struct kmem_cache *s)
{
	for (unsigned int i = nr_objects; i > 0; i--) {
		struct object *o = &objects[i - 1];

		if (o->state != LIVE && (!s || o->s == s)) {
			add_loose(o, -1);
			add(o, -1);
			*o = objects[--nr_objects];
		}
	}
}

/* --- what fails ------------------------------------------------------------------------------- */

bool memory_is_limited(void)
{
	return program.limited || has_debug_letter('A') || has_option("hard_limit");
}

bool may_fail(const struct known *k, gfp_t flags, unsigned int group, uint64_t bytes)
{
	if (flags & __GFP_NOFAIL)
		return false;
	if (memory_is_limited() || (k && (k->limited || k->flags & (SLAB_SECRET | SLAB_FAILSLAB))))
		return true;
	if (!group)
		return false;
	return gfpflags_allow_blocking(flags) ? group_is_full(group, bytes)
					      : group_has_limit(group);
}

void failed(const struct known *k, gfp_t flags, unsigned int group, uint64_t bytes)
{
	may_report();
	if (!may_fail(k, flags, group, bytes))
		fail("an allocation of %llu bytes for group %u with flags 0x%x failed",
		     (unsigned long long)bytes, group, flags);
}

/* --- everything ------------------------------------------------------------------------------- */

static void check_process(void)
{
	struct sheaf_stats all;
	uint64_t large = program.large_in_pools, loose = 0;

	for (unsigned int i = 0; i < nr_objects; i++)
		if (!objects[i].s && objects[i].pool == NO_POOL) {
			large += objects[i].size;
			loose += objects[i].state != LIVE ? objects[i].size : 0;
		}
	sheaf_stats(&all);
	WANT(all.used_bytes + all.free_bytes + all.mapped_bytes == all.held_bytes);
	if (all.mapped_bytes < large - loose || all.mapped_bytes > large)
		fail("large blocks have %llu bytes instead of %llu (%llu of them may be free)",
		     (unsigned long long)all.mapped_bytes, (unsigned long long)large,
		     (unsigned long long)loose);
}

void check_all(void)
{
	for (unsigned int i = 0; i < nr_objects; i++)
		if (objects[i].state != LOOSE)
			check_content(&objects[i], objects[i].size);
	for (unsigned int i = 0; i < nr_known; i++)
		if (known[i].s)
			check_cache(&known[i]);
	check_process();
	check_groups();
}
