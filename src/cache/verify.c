/* SPDX-License-Identifier: MIT */
/*
 * Verify: every object of a quiet cache is in exactly one place (docs/design.md, R5); see verify.h.
 *
 * The pointers in sheaves are copied and sorted. Then each slab of the cache is checked with one
 * bit for each object, which is set if the object is free in its slab or is in a sheaf. A bit that
 * would be set twice is an object in two places. The counts must agree with the slab's state.
 *
 * Locks: OS_RANK_DRAIN. Callers: programs; in_use.c.
 */
#include "cache/verify.h"
#include "cache/paths.h"

#include "os/memory.h"
#include "os/sort.h"
#include "percpu/drain.h"
#include "percpu/percpu.h"
#include "rcu/rcu_free.h"
#include "slab/rcu_free_slab.h"

/* --- the pointers in sheaves ------------------------------------------------------------------ */

static void count_sheaf(void *data, struct sheaf *sheaf, bool waits)
{
	(void)waits;
	*(size_t *)data += sheaf_size(sheaf);
}

static void copy_sheaf(void *data, struct sheaf *sheaf, bool waits)
{
	struct pointers *p = data;

	(void)waits;
	for (unsigned int i = 0; i < sheaf_size(sheaf) && p->n < p->room; i++)
		p->at[p->n++] = sheaf->objects[i];
}

static int by_address(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return x < y ? -1 : x > y;
}

/* The index of the first one that is not below this address. */
static size_t pointers_find(const struct pointers *p, const char *address)
{
	size_t low = 0, high = p->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if ((char *)p->at[middle] < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static size_t pointers_bytes(const struct pointers *p)
{
	return (p->room * sizeof(void *) + OS_PAGE) & ~(OS_PAGE - 1);
}

/* Copy those of all sheaves. False: there is no memory. */
static bool pointers_copy(struct pointers *p, struct sheaf_cache *cache)
{
	sheaf_for_each(cache, count_sheaf, &p->room);
	p->at = os_map(pointers_bytes(p));
	if (!p->at)
		return false;
	sheaf_for_each(cache, copy_sheaf, p);
	os_sort(p->at, p->n, sizeof(*p->at), by_address);
	return true;
}

/* --- slabs ------------------------------------------------------------------------------------ */

void check_fault(struct check *check, const void *object, const char *what)
{
	check->faults++;
	os_misuse_later(check->s->name, "%s(%s): object %p %s", check->call, check->s->name, object,
			what);
}

unsigned int check_mark_free(struct check *check, struct slab *slab, uint64_t state)
{
	struct slab_cache *cache = &check->s->sheaf.slab;
	unsigned int objects = slab_order_of(cache, state).objects, n = 0;
	unsigned int words = slab_nr_words(cache, state);
	uint64_t surplus = objects % 64 ? ~UINT64_C(0) << objects % 64 : 0;

	for (unsigned int i = 0; i < words; i++) {
		check->bits[i] = os_load_acquire(slab_words(cache, slab) + i);
		n += (unsigned int)__builtin_popcountll(check->bits[i]);
	}
	if (check->bits[words - 1] & surplus)
		check_fault(check, page_address(slab),
			    "begins a slab with bits beyond its last object");
	return n;
}

static void note_free(struct check *check, void *object, unsigned int index)
{
	uint64_t bit = UINT64_C(1) << index % 64;

	if (check->bits[index / 64] & bit)
		check_fault(check, object, "is free in two places");
	check->bits[index / 64] |= bit;
}

unsigned int check_mark_sheaves(struct check *check, struct slab *slab, uint64_t state)
{
	struct slab_cache *cache = &check->s->sheaf.slab;
	const struct pointers *p = &check->sheaves;
	char *end = slab_object(cache, slab, slab_order_of(cache, state).objects);
	unsigned int n = 0;

	for (size_t i = pointers_find(p, page_address(slab)); i < p->n; i++, n++) {
		unsigned int index;

		if ((char *)p->at[i] >= end)
			break;
		index = slab_index(cache, slab, p->at[i]);
		if (index == SLAB_NO_OBJECT)
			check_fault(check, p->at[i], "in a sheaf is not an object's first byte");
		else
			note_free(check, p->at[i], index);
	}
	check->matched += n;
	return n;
}

void check_each_slab(struct check *check, void (*each)(struct check *check, struct slab *slab))
{
	struct slab_cache *cache = &check->s->sheaf.slab;
	struct slab *slab;

	page_for_each_slab (slab)
		if (os_load_relaxed(&slab->cache) == cache &&
		    !(os_load_relaxed(&slab->state) & SLAB_TAIL))
			each(check, slab);
}

/* In a debug cache, check the bytes of each object that was ever used, and the bytes around it. */
static void check_objects(struct check *check, struct slab *slab, unsigned int objects)
{
	struct slab_cache *cache = &check->s->sheaf.slab;

	for (unsigned int i = 0; i < objects; i++)
		if (slab_is_prepared(cache, slab, i))
			check->faults += debug_verify(cache, slab_object(cache, slab, i),
						      check->bits[i / 64] >> i % 64 & 1,
						      caches.forked, "kmem_cache_verify");
}

static void mark_slab(struct check *check, struct slab *slab)
{
	uint64_t state = os_load_acquire(&slab->state);
	unsigned int objects = slab_order_of(&check->s->sheaf.slab, state).objects;
	unsigned int sum = check_mark_free(check, slab, state) + slab_inuse(state);

	/* In a forked child, threads that vanished may have been between a slab's bits and its
	 * count (SLAB-B2). */
	if (sum != objects && !(caches.forked && (state & SLAB_HELD || sum > objects)))
		check_fault(check, page_address(slab),
			    "begins a slab whose count of used objects is wrong");
	if (cache_is_checked(check->s))
		check_objects(check, slab, objects);
	if (check_mark_sheaves(check, slab, state) > slab_inuse(state))
		check_fault(check, page_address(slab),
			    "begins a slab with more objects cached than used");
}

bool verify_check_all(struct check *check, void (*each)(struct check *check, struct slab *slab))
{
	/* Other caches are not drained, and reports about debug caches do not wait. */
	bool locks = sheaf_capacity(&check->s->sheaf), copied;

	if (locks)
		os_lock(&sheaf_drains);
	copied = pointers_copy(&check->sheaves, &check->s->sheaf);
	if (copied)
		check_each_slab(check, each);
	if (locks)
		os_unlock(&sheaf_drains);
	if (copied)
		os_unreserve(check->sheaves.at, pointers_bytes(&check->sheaves));
	return copied;
}

static int verify(struct kmem_cache *s)
{
	struct check check = {.s = s, .call = "kmem_cache_verify"};
	bool looked;

	sheaf_give_deferred(&s->sheaf);
	/* Otherwise frees of other caches could let its objects go meanwhile. */
	check.faults = quarantine_end(&s->sheaf.slab);
	looked = verify_check_all(&check, mark_slab);
	if (check.matched != check.sheaves.n)
		check_fault(&check, s,
			    "(the cache) has sheaves with pointers that are in none of its slabs");
	return looked ? check.faults + guard_verify(&s->sheaf.slab) : -ENOMEM;
}

/* No thread uses the cache, but the provider's callbacks may free objects that were retired
 * before. */
int check_held(struct kmem_cache *s, int (*check_it)(struct kmem_cache *s))
{
	struct sheaf_rcu *rcu = sheaf_rcu_of(&s->sheaf);
	struct grace_list *late = s->sheaf.slab.late;
	struct grace *grace = rcu ? rcu->user.grace : late ? late->user.grace : NULL;
	int faults;

	if (grace)
		grace_hold(grace);
	faults = check_it(s);
	if (grace)
		grace_let_go(grace);
	return faults;
}

SHEAF_PUBLIC int kmem_cache_verify(struct kmem_cache *s)
{
	int faults;

	if (cache_is_null(s, "kmem_cache_verify"))
		return -EINVAL;
	faults = check_held(s, verify);
	cache_leave();
	return faults;
}
