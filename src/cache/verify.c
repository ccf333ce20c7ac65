/* SPDX-License-Identifier: MIT */
/*
 * Verify: every object of a quiet cache is in exactly one place (docs/design.md, R5).
 *
 * The pointers in sheaves are copied and sorted. Then each slab of the cache is checked with one
 * bit per object, which is set if the object is free in its slab or is in a sheaf. A bit that would
 * be set twice is an object in two places. The counts must agree with the slab's state.
 *
 * Locks: OS_RANK_DRAIN, so that no object moves meanwhile: other threads drain caches that they do
 * not use, in housekeeping or because memory is short.
 */
#include <errno.h>
#include <string.h>

#include "cache/account.h"
#include "debug/guard.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/report.h"
#include "percpu/drain.h"
#include "percpu/nolock.h"
#include "rcu/rcu_free.h"
#include "slab/late.h"

struct pointers {
	void **at;
	size_t n, room;
};

struct check {
	struct kmem_cache *s;
	const char *call;
	struct pointers sheaves;
	size_t matched; /* pointers of sheaves found in slabs */
	int faults;
	uint64_t bits[(SLAB_MAX_OBJECTS + 63) / 64];
};

static void count_sheaf(void *data, struct sheaf *sheaf)
{
	*(size_t *)data += sheaf_size(sheaf);
}

static void copy_sheaf(void *data, struct sheaf *sheaf)
{
	struct pointers *p = data;

	for (unsigned int i = 0; i < sheaf_size(sheaf) && p->n < p->room; i++)
		p->at[p->n++] = sheaf->objects[i];
}

static void swap(void **a, void **b)
{
	void *c = *a;

	*a = *b;
	*b = c;
}

static void sift_down(void **at, size_t i, size_t n)
{
	for (size_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && (uintptr_t)at[child] < (uintptr_t)at[child + 1])
			child++;
		if ((uintptr_t)at[i] >= (uintptr_t)at[child])
			return;
		swap(&at[i], &at[child]);
	}
}

/* By address. A heapsort, because qsort() calls malloc(), which may be the program's. */
static void sort(void **at, size_t n)
{
	for (size_t i = n / 2; i > 0; i--)
		sift_down(at, i - 1, n);
	for (; n > 1; n--) {
		swap(&at[0], &at[n - 1]);
		sift_down(at, 0, n - 1);
	}
}

static void fault(struct check *check, const void *object, const char *what)
{
	check->faults++;
	os_misuse_later(check->s->name, "%s(%s): object %p %s", check->call, check->s->name, object,
			what);
}

/* Mark the free objects of the slab, and return their number. */
static unsigned int mark_free(struct check *check, struct slab *slab, uint64_t state)
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
		fault(check, page_address(slab), "begins a slab with bits beyond its last object");
	return n;
}

static void note_free(struct check *check, void *object, unsigned int index)
{
	uint64_t bit = UINT64_C(1) << index % 64;

	if (check->bits[index / 64] & bit)
		fault(check, object, "is free in two places");
	check->bits[index / 64] |= bit;
}

static size_t first_at_or_above(const struct pointers *p, const char *address)
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

static unsigned int mark_sheaves(struct check *check, struct slab *slab, uint64_t state)
{
	struct slab_cache *cache = &check->s->sheaf.slab;
	const struct pointers *p = &check->sheaves;
	char *end = slab_object(cache, slab, slab_order_of(cache, state).objects);
	unsigned int n = 0;

	for (size_t i = first_at_or_above(p, page_address(slab)); i < p->n; i++, n++) {
		unsigned int index;

		if ((char *)p->at[i] >= end)
			break;
		index = slab_index(cache, slab, p->at[i]);
		if (index == SLAB_NO_OBJECT)
			fault(check, p->at[i], "in a sheaf is not an object's first byte");
		else
			note_free(check, p->at[i], index);
	}
	check->matched += n;
	return n;
}

/* Call each(check, slab) for every slab of the cache. */
static void for_each_slab(struct check *check, void (*each)(struct check *check, struct slab *slab))
{
	struct slab_cache *cache = &check->s->sheaf.slab;

	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		struct slab *slab;
		size_t n = page_slabs(node, &slab);

		for (; n > 0; n--, slab++)
			if (os_load_relaxed(&slab->cache) == cache &&
			    !(os_load_relaxed(&slab->state) & SLAB_TAIL))
				each(check, slab);
	}
}

/* In a forked child, threads that vanished may have been between a slab's bits and its count
 * (slab.h, B2). */
static bool counts_agree(uint64_t state, unsigned int free, unsigned int objects)
{
	if (caches.forked)
		return state & SLAB_HELD || free + slab_inuse(state) >= objects;
	return free + slab_inuse(state) == objects;
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
	unsigned int objects = slab_order_of(&check->s->sheaf.slab, state).objects, free;

	free = mark_free(check, slab, state);
	if (!counts_agree(state, free, objects))
		fault(check, page_address(slab),
		      "begins a slab whose count of used objects is wrong");
	if (cache_is_checked(check->s))
		check_objects(check, slab, objects);
	if (mark_sheaves(check, slab, state) > slab_inuse(state))
		fault(check, page_address(slab),
		      "begins a slab with more objects cached than used");
}

static bool copy_pointers(struct check *check)
{
	struct pointers *p = &check->sheaves;
	size_t bytes;

	sheaf_for_each(&check->s->sheaf, count_sheaf, &p->room);
	bytes = (p->room * sizeof(void *) + OS_PAGE) & ~(OS_PAGE - 1);
	p->at = os_map(bytes);
	if (!p->at)
		return false;
	sheaf_for_each(&check->s->sheaf, copy_sheaf, p);
	sort(p->at, p->n);
	return true;
}

static void release_pointers(struct check *check)
{
	struct pointers *p = &check->sheaves;

	if (p->at)
		os_unreserve(p->at, (p->room * sizeof(void *) + OS_PAGE) & ~(OS_PAGE - 1));
}

/* Look at each slab, with the pointers of sheaves. False: there is no memory. */
static bool look_at_all(struct check *check, void (*each)(struct check *check, struct slab *slab))
{
	/* Other caches are not drained, and reports about debug caches do not wait. */
	bool locks = sheaf_capacity(&check->s->sheaf), copied;

	if (locks)
		sheaf_lock_drains();
	copied = copy_pointers(check);
	if (copied)
		for_each_slab(check, each);
	if (locks)
		sheaf_unlock_drains();
	release_pointers(check);
	return copied;
}

static int verify(struct kmem_cache *s)
{
	struct check check = {.s = s, .call = "kmem_cache_verify"};
	bool looked;

	sheaf_give_deferred(&s->sheaf);
	/* Otherwise frees of other caches could let its objects go meanwhile. */
	check.faults = quarantine_end(&s->sheaf.slab);
	looked = look_at_all(&check, mark_slab);
	if (check.matched != check.sheaves.n)
		fault(&check, s,
		      "(the cache) has sheaves with pointers that are in none of its slabs");
	return looked ? check.faults + guard_verify(&s->sheaf.slab) : -ENOMEM;
}

/* What is in use is charged, or nobody ever paid for it. */
static void find_uncharged(struct check *check, struct slab *slab)
{
	struct slab_cache *cache = &check->s->sheaf.slab;
	uint64_t state = os_load_acquire(&slab->state);

	if (!(state & SLAB_OWNED))
		return;
	mark_free(check, slab, state);
	mark_sheaves(check, slab, state);
	for (unsigned int i = 0; i < slab_order_of(cache, state).objects; i++) {
		void *object = slab_object(cache, slab, i);

		if (!(check->bits[i / 64] >> i % 64 & 1) &&
		    !os_load_relaxed(owner_at(cache, object)))
			fault(check, object,
			      "is in use, but its charge was given back. Look for a free of an "
			      "address inside it");
	}
}

static int verify_charges(struct kmem_cache *s)
{
	struct check check = {.s = s, .call = "kmem_group_verify"};

	look_at_all(&check, find_uncharged);
	return check.faults;
}

/* No thread uses the cache, but the provider's callbacks may free objects that were retired
 * before. */
static int verify_held(struct kmem_cache *s, int (*verify_it)(struct kmem_cache *s))
{
	struct sheaf_rcu *rcu = sheaf_rcu_of(&s->sheaf);
	struct grace_list *late = s->sheaf.slab.late;
	struct grace *grace = rcu ? rcu->user.grace : late ? late->user.grace : NULL;
	int faults;

	if (grace)
		grace_hold(grace);
	faults = verify_it(s);
	if (grace)
		grace_let_go(grace);
	return faults;
}

/* Debug caches check each free before its charge goes back. In a forked child, threads have
 * vanished with objects in hand. */
int cache_verify_charges(struct kmem_cache *s)
{
	bool all = os_load_relaxed(&s->accounted) == ACCOUNT_ALL;

	return all && !cache_is_checked(s) && !caches.forked ? verify_held(s, verify_charges) : 0;
}

SHEAF_PUBLIC int kmem_cache_verify(struct kmem_cache *s)
{
	int saved = errno, faults;

	if (cache_is_null(s, "kmem_cache_verify"))
		return -EINVAL;
	faults = verify_held(s, verify);
	cache_leave();
	errno = saved;
	return faults;
}

/* Mark first: the slab may go with its last object. */
static void give_leaked_of(struct check *check, struct slab *slab)
{
	struct slab_cache *cache = &check->s->sheaf.slab;
	unsigned int objects = slab_order_of(cache, os_load_acquire(&slab->state)).objects;

	memset(check->bits, 0, sizeof(check->bits));
	for (unsigned int i = 0; i < objects; i++)
		if (slab_is_prepared(cache, slab, i) &&
		    debug_end_leak(cache, slab_object(cache, slab, i)))
			check->bits[i / 64] |= UINT64_C(1) << i % 64;
	for (unsigned int i = 0; i < objects; i++) {
		void *object = slab_object(cache, slab, i);

		if (check->bits[i / 64] >> i % 64 & 1)
			slab_give(cache, &object, 1, "kmem_cache_destroy");
	}
}

void cache_give_leaked(struct kmem_cache *s)
{
	struct check check = {.s = s};

	for_each_slab(&check, give_leaked_of);
}

struct live {
	struct check check;
	void **objects;
	size_t room, n;
};

static void find_live(struct check *check, struct slab *slab)
{
	struct live *live = (struct live *)check;
	struct slab_cache *cache = &check->s->sheaf.slab;
	uint64_t state = os_load_acquire(&slab->state);

	mark_free(check, slab, state);
	for (unsigned int i = 0; i < slab_order_of(cache, state).objects; i++)
		if (!(check->bits[i / 64] >> i % 64 & 1)) {
			if (live->n < live->room)
				live->objects[live->n] = slab_object(cache, slab, i);
			live->n++;
		}
}

size_t cache_live_objects(struct kmem_cache *s, void **objects, size_t room)
{
	struct live live = {.check = {.s = s}, .objects = objects, .room = room};

	for_each_slab(&live.check, find_live);
	return live.n + guard_live(&s->sheaf.slab, objects + (live.n < room ? live.n : room),
				   live.n < room ? room - live.n : 0);
}
