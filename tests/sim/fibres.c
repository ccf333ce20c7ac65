/* SPDX-License-Identifier: MIT */
/* Random operations on shared caches, each checked against the model; see fibres.h. */
#include "fibres.h"

#include <stdio.h>

#include "cache/cache.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "percpu/barn/barn.h"
#include "percpu/barn/budget.h"
#include "percpu/drain.h"
#include "rcu/rcu_free.h"
#include "sim/kit/model.h"
#include "sim/kit/quiet.h"
#include "sim/kit/readers.h"
#include "sim/sim.h"
#include <sheaf/stats.h>
#include <sheaf/trim.h>

enum {
	SMALL,
	CONSTRUCTED,
	NO_SHEAVES,
	LARGE,
	NR_CACHES,
	MOST_HELD = 80,
	MOST_LARGE = 4,
	MAILBOX = 24,
	BULK = 24,
	CHILD_OPERATIONS = 60,
};

struct object {
	unsigned int cache;
	void *at;
};

struct holder {
	struct object held[MOST_HELD];
	unsigned int n;
	struct object mail[MAILBOX];
	unsigned int nr_mail;
	bool grows;
	struct slab_sheaf *sheaf; /* prefilled, of this cache; this many objects are promised */
	unsigned int sheaf_of, promised;
};

static struct kmem_cache *shared[NR_CACHES];
static struct holder holders[MOST_FIBRES];
static const struct storm *now;

static const unsigned int sizes[NR_CACHES] = {24, 200, 64, 128 << 10};

static void take(struct holder *h, unsigned int cache, void *object)
{
	model_add(shared[cache], object, cache == CONSTRUCTED ? sizeof(uint64_t) : 0);
	h->held[h->n++] = (struct object){cache, object};
}

/* Forget a random held object, of this cache if one is named; false if there is none. */
static bool drop(struct holder *h, struct object *object)
{
	unsigned int i = h->n ? sim_below(h->n) : 0;

	if (!h->n)
		return false;
	*object = h->held[i];
	h->held[i] = h->held[--h->n];
	return true;
}

static unsigned int pick_cache(const struct holder *h)
{
	unsigned int large = 0, cache = sim_below(16);

	if (cache != LARGE)
		return cache < 8 ? SMALL : cache < 13 ? CONSTRUCTED : NO_SHEAVES;
	for (unsigned int i = 0; i < h->n; i++)
		large += h->held[i].cache == LARGE;
	return large < MOST_LARGE ? LARGE : SMALL;
}

static void allocate(struct holder *h)
{
	unsigned int cache = pick_cache(h);
	struct kmem_cache *s = shared[cache];
	static const gfp_t kinds[] = {GFP_KERNEL, GFP_NOWAIT, GFP_KERNEL | __GFP_NORETRY};
	gfp_t gfp = kinds[sim_below(3)];
	bool zero = cache != CONSTRUCTED && sim_below(8) == 0;
	char *object;

	if (h->n == MOST_HELD)
		return;
	object = zero ? kmem_cache_zalloc(s, gfp) : kmem_cache_alloc(s, gfp);
	if (!object)
		return;
	for (unsigned int i = 0; zero && i < kmem_cache_size(s); i++)
		if (object[i])
			sim_fail("kmem_cache_zalloc: byte %u is not zero", i);
	take(h, cache, object);
}

static void allocate_on_node(struct holder *h)
{
	unsigned int cache = pick_cache(h), node = sim_below(os.nr_nodes);
	bool only = sim_below(2);
	void *object;

	if (h->n == MOST_HELD)
		return;
	object = kmem_cache_alloc_node(shared[cache], GFP_NOWAIT | (only ? __GFP_THISNODE : 0),
				       (int)node);
	if (!object)
		return;
	if (only && page_node(object) != node)
		sim_fail("kmem_cache_alloc_node(THISNODE, %u) came from node %u", node,
			 page_node(object));
	take(h, cache, object);
}

static void allocate_bulk(struct holder *h)
{
	unsigned int cache = sim_below(LARGE), n = 1 + sim_below(BULK);
	void *objects[BULK];

	if (h->n + n > MOST_HELD)
		return;
	if (kmem_cache_alloc_bulk(shared[cache], GFP_KERNEL, n, objects) != (int)n)
		return;
	for (unsigned int i = 0; i < n; i++)
		take(h, cache, objects[i]);
}

/* The promised number of objects is there, after any events since. */
static void pop_prefilled(struct holder *h, unsigned int n)
{
	struct kmem_cache *s = shared[h->sheaf_of];

	for (; n > 0 && h->n < MOST_HELD; n--) {
		bool zero = h->sheaf_of != CONSTRUCTED && sim_below(4) == 0;
		char *object = kmem_cache_alloc_from_sheaf(s, zero ? __GFP_ZERO : 0, h->sheaf);

		if (!object && h->promised)
			sim_fail("a prefilled sheaf of %s lacks %u objects", s->name, h->promised);
		if (!object)
			return;
		for (unsigned int i = 0; zero && i < kmem_cache_size(s); i++)
			if (object[i])
				sim_fail("kmem_cache_alloc_from_sheaf: byte %u is not zero", i);
		h->promised -= h->promised != 0;
		take(h, h->sheaf_of, object);
	}
}

static void use_prefilled(struct holder *h)
{
	static const gfp_t kinds[] = {GFP_KERNEL, GFP_NOWAIT, 0};
	unsigned int what = sim_below(4), n = 1 + sim_below(sim_below(4) ? 8 : 80);
	gfp_t gfp = kinds[sim_below(3)];

	if (!h->sheaf) {
		h->sheaf_of = sim_below(LARGE);
		h->sheaf = kmem_cache_prefill_sheaf(shared[h->sheaf_of], gfp, n);
		h->promised = n;
	} else if (what == 0) {
		if (!kmem_cache_refill_sheaf(shared[h->sheaf_of], gfp, &h->sheaf, n))
			h->promised = n;
	} else if (what == 1) {
		kmem_cache_return_sheaf(shared[h->sheaf_of], gfp, h->sheaf);
		h->sheaf = NULL;
	} else {
		pop_prefilled(h, 1 + sim_below(8));
	}
}

static void allocate_nolock(struct holder *h)
{
	unsigned int cache = pick_cache(h);
	void *object;

	if (h->n == MOST_HELD)
		return;
	object = kmem_cache_alloc_nolock(shared[cache], 0);
	if (object)
		take(h, cache, object);
}

static void free_one(struct holder *h)
{
	struct object object;

	if (!drop(h, &object))
		return;
	model_remove(shared[object.cache], object.at);
	if (sim_below(6) == 0) {
		kmem_cache_free_nolock(shared[object.cache], object.at);
		return;
	}
	kmem_cache_free(shared[object.cache], object.at);
}

/* Free objects of one cache, or of all together by their owners. */
static void free_bulk(struct holder *h)
{
	bool by_owner = sim_below(3) == 0;
	unsigned int cache = sim_below(NR_CACHES), most = 1 + sim_below(BULK), n = 0;
	void *objects[BULK];

	for (unsigned int i = h->n; i-- > 0 && n < most;) {
		struct object object = h->held[i];

		if (!by_owner && object.cache != cache)
			continue;
		h->held[i] = h->held[--h->n];
		model_remove(shared[object.cache], object.at);
		objects[n++] = object.at;
	}
	kmem_cache_free_bulk(by_owner ? NULL : shared[cache], n, objects);
}

/* With a call that the fibre may make, which depends on whether it is a reader now. */
static void retire_object(struct kmem_cache *s, void *object, size_t offset, bool reader)
{
	unsigned int how = sim_below(8);
	/* Without a head and without memory it would be leaked. */
	bool head = how >= 4 || now->memory_refused;
	uint64_t which = model_retire(s, object, head && (how || reader));

	if (how == 0 && !reader)
		kfree_rcu_mightsleep(object);
	else if (how == 7)
		__kfree_rcu_nolock(object, offset);
	else if (head)
		__kvfree_rcu(object, offset);
	else if (how != 3 || kmem_cache_free_rcu_nolock(s, object))
		kmem_cache_free_rcu(s, object);
	model_was_retired(object, which);
}

static void retire(struct holder *h, bool reader)
{
	struct object object;

	if (drop(h, &object))
		retire_object(shared[object.cache], object.at,
			      object.cache == CONSTRUCTED ? sizeof(uint64_t) : 0, reader);
}

/* A read-side section, in which objects are allocated, freed and retired. */
static void read_section(unsigned int fibre, struct holder *h)
{
	readers_enter(fibre);
	for (unsigned int i = 1 + sim_below(6); i > 0; i--) {
		unsigned int kind = sim_below(4);

		if (kind == 0)
			allocate(h);
		else if (kind == 1)
			free_one(h);
		else if (kind == 2)
			retire(h, true);
		else
			os_sleep_briefly();
	}
	readers_leave(fibre);
}

static void check_waiting(void)
{
	for (unsigned int i = 0; i < NR_CACHES; i++)
		sheaf_for_each_retired(&shared[i]->sheaf, model_found_waiting, NULL);
}

static void wait_for_barrier(void)
{
	struct kmem_cache *s = sim_below(4) ? shared[sim_below(NR_CACHES)] : NULL;
	uint64_t moment = model_moment();

	if (s)
		kvfree_rcu_barrier_on_cache(s);
	else
		kvfree_rcu_barrier();
	model_has_passed(s, moment);
	check_waiting();
}

static void use_rcu(unsigned int fibre, struct holder *h)
{
	unsigned int kind = sim_below(64);

	if (kind < 36)
		retire(h, false);
	else if (kind < 48)
		read_section(fibre, h);
	else if (kind < 57)
		readers_pass();
	else if (now->all_reached)
		wait_for_barrier();
}

static void send(struct holder *h)
{
	struct holder *to = &holders[sim_below(now->fibres)];

	if (to->nr_mail < MAILBOX && drop(h, &to->mail[to->nr_mail]))
		to->nr_mail++;
}

static void receive(struct holder *h)
{
	while (h->nr_mail) {
		struct object object = h->mail[--h->nr_mail];

		if (h->n < MOST_HELD && sim_below(2)) {
			h->held[h->n++] = object;
			continue;
		}
		model_remove(shared[object.cache], object.at);
		kmem_cache_free(shared[object.cache], object.at);
	}
}

/* A cache of this fibre's own, perhaps merged with another's. */
static void own_cache(unsigned int fibre)
{
	static unsigned int nr_made;
	slab_flags_t flags = sim_below(2) ? SLAB_NO_MERGE : 0;
	struct kmem_cache *s;
	void *objects[BULK];
	char name[32];
	unsigned int n = 0;

	snprintf(name, sizeof(name), "own-%u-%u", fibre, nr_made++);
	if (now->retires && sim_below(4) == 0)
		flags |= SLAB_TYPESAFE_BY_RCU;
	s = kmem_cache_create(name, 40, NULL, flags);
	if (!s)
		return;
	while (n < BULK && (objects[n] = kmem_cache_alloc(s, GFP_KERNEL)) != NULL)
		model_add(s, objects[n++], 0);
	while (n-- > 0)
		if (now->retires && sim_below(2)) {
			retire_object(s, objects[n], 0, false);
		} else {
			model_remove(s, objects[n]);
			kmem_cache_free(s, objects[n]);
		}
	kmem_cache_destroy(s);
}

/* Debug caches have no sheaves: nothing to set. */
static void set_capacity(struct kmem_cache *s, unsigned int objects)
{
	if (!*os_options.slab_debug)
		kmem_cache_set_sheaf_capacity(s, objects);
}

static void set_barn(struct kmem_cache *s, size_t objects, size_t bytes)
{
	if (!*os_options.slab_debug)
		kmem_cache_set_barn(s, objects, bytes);
}

static void change_settings(unsigned int which)
{
	struct kmem_cache *s = shared[sim_below(2)];
	struct kmem_cache_stats stats;

	if (which == 0 && sim_below(3) == 0)
		sheaf_trim(sim_below(2) * 65536);
	else if (which == 0)
		kmem_cache_shrink(shared[sim_below(NR_CACHES)]);
	else if (sim_below(2))
		kmem_cache_stats(s, &stats);
	else if (which == 1)
		set_capacity(s, 1 + sim_below(now->few_sheaves ? 6 : 64));
	else
		set_barn(s, sim_below(now->few_sheaves ? 64 : 4096), sim_below(1 << 16));
}

/* SHEAF-H1, SHEAF-H2 */
static void verify_all(const char *when)
{
	for (unsigned int i = 0; i < NR_CACHES; i++)
		if (kmem_cache_verify(shared[i]))
			sim_fail("%s: kmem_cache_verify(%s) found faults", when, shared[i]->name);
}

/* Only what others had in hand is lost: no object of theirs is allocated to this fibre. */
static int use_caches_in_child(void *data)
{
	struct holder *h = data;

	verify_all("a child begins");
	for (unsigned int i = 0; i < CHILD_OPERATIONS; i++)
		sim_below(2) ? allocate(h) : free_one(h);
	while (h->n)
		free_one(h);
	verify_all("a child freed its objects");
	for (unsigned int i = 0; i < NR_CACHES; i++)
		kmem_cache_shrink(shared[i]);
	verify_all("a child shrank its caches");
	return 0;
}

static void fork_here(struct holder *h)
{
	if (sim_fork(use_caches_in_child, h))
		sim_fail("a child of fork() failed");
}

static void operate(unsigned int fibre, struct holder *h)
{
	unsigned int kind = sim_below(256);

	if (now->forks && sim_below(4096) < now->forks)
		fork_here(h);
	if (sim_below(256) < now->drains)
		kmem_cache_shrink(shared[SMALL]);
	else if (sim_below(256) < now->retires)
		use_rcu(fibre, h);
	else if (kind < 140)
		(sim_below(4) == 0) == h->grows ? free_one(h) : allocate(h);
	else if (kind < 146)
		allocate_nolock(h);
	else if (kind < 154)
		allocate_on_node(h);
	else if (kind < 166)
		use_prefilled(h);
	else if (kind < 182)
		allocate_bulk(h);
	else if (kind < 204)
		free_bulk(h);
	else if (kind < 230)
		send(h);
	else if (kind < 244)
		receive(h);
	else if (kind < 250)
		h->grows = !h->grows;
	else if (kind < 253)
		change_settings(kind % 3);
	else
		own_cache(fibre);
}

static void storm_fibre(unsigned int fibre, void *unused)
{
	struct holder *h = &holders[fibre];

	(void)unused;
	h->grows = sim_below(2);
	/* While others use a cache for the first time. */
	if (now->forks && sim_below(4) == 0)
		fork_here(h);
	for (unsigned int i = 0; i < now->operations; i++)
		operate(fibre, h);
}

static void free_all_fibre(unsigned int fibre, void *unused)
{
	struct holder *h = &holders[fibre];

	(void)unused;
	if (h->sheaf)
		kmem_cache_return_sheaf(shared[h->sheaf_of], GFP_KERNEL, h->sheaf);
	h->sheaf = NULL;
	while (h->n || h->nr_mail) {
		receive(h);
		free_one(h);
	}
}

/* No fibre is inside the library: nothing may be in hand, and every object must be in one place. */
static void check_quiet(struct kmem_cache *s)
{
	sim_faults(false);
	for (unsigned int row = 0; s->sheaf.barns && row < os.nr_rows; row++) {
		struct slot *slot = slot_of_row(s->sheaf.at.handle, row);

		if (slot->in_hand[0] || slot->in_hand[1] || slot->rcu_in_hand[0] ||
		    slot->rcu_in_hand[1] || slot->lock)
			sim_fail("a sheaf of %s is in hand when all is quiet", s->name);
	}
	if (s->sheaf.barns)
		barn_for_each_cell (&s->sheaf, cell)
			if (*cell & BARN_TRANSIT)
				sim_fail("a cell of %s is in transit when all is quiet", s->name);
	if (s->sheaf.at.stop || s->sheaf.at.rcu_stop)
		sim_fail("stop is set when all is quiet");
	if (kmem_cache_verify(s))
		sim_fail("kmem_cache_verify(%s) found faults", s->name);
	quiet_slabs(&s->sheaf.slab);
	quiet_marks(&s->sheaf);
	sim_faults(true);
}

struct counted {
	const struct sheaf_cache *cache;
	size_t bytes;
};

static void count_sheaf(void *data, struct sheaf *sheaf, bool waits)
{
	struct counted *counted = data;

	(void)waits;
	if (!(sheaf->capacity & SHEAF_OVERSIZE))
		counted->bytes += (size_t)sheaf_budget_of(counted->cache, sheaf->capacity);
}

/* J1: there are no sheaves but those of these caches, and those that fibres prefilled. */
static void check_budget(void)
{
	struct counted counted = {NULL, 0};

	for (unsigned int i = 0; i < NR_CACHES; i++) {
		counted.cache = &shared[i]->sheaf;
		sheaf_for_each(&shared[i]->sheaf, count_sheaf, &counted);
	}
	for (unsigned int i = 0; i < now->fibres; i++)
		if (holders[i].sheaf) {
			counted.cache = &shared[holders[i].sheaf_of]->sheaf;
			count_sheaf(&counted, (struct sheaf *)holders[i].sheaf, false);
		}
	if (counted.bytes != sheaf_budget_used())
		sim_fail("sheaves have %zu bytes, and %zu are counted", counted.bytes,
			 sheaf_budget_used());
}

/* Every user, active or not. */
static void check_users(const struct grace *grace)
{
	for (const struct grace_places *p = grace->places; p; p = p->next)
		for (uint64_t bits = p->taken; bits; bits &= bits - 1) {
			struct grace_user *user = p->users[__builtin_ctzll(bits)];

			if (!user->ops->waits(user))
				continue;
			if (!(p->active & user->bit))
				sim_fail("something waits, and no callback will look at it");
			if (!readers_asked())
				sim_fail("something waits for a grace period that nobody asked "
					 "for");
		}
}

/* Free objects that a barrier left to allocations. */
static uint64_t bytes_left(void)
{
	uint64_t waiting, passed, bytes = 0;

	for (unsigned int i = 0; i < NR_CACHES; i++) {
		sheaf_rcu_count(&shared[i]->sheaf, &waiting, &passed);
		bytes += passed * shared[i]->sheaf.slab.size;
	}
	return bytes;
}

/* There are no readers: everything that waits must have a requested grace period, and a barrier
 * frees it. */
static void check_retired(bool all)
{
	struct grace *grace = grace_of(NULL);

	sim_faults(false);
	check_waiting();
	/* As the next slow call would: nolock calls ask for a grace period, and start none. */
	grace_start_wanted();
	for (unsigned int i = 0; i < 4; i++)
		readers_pass();
	check_users(grace);
	if (all) {
		kvfree_rcu_barrier();
		model_all_freed();
		check_users(grace);
		if (now->all_reached && grace_sum(grace) != bytes_left())
			sim_fail("%llu bytes are retired after a barrier, and %llu are free",
				 (unsigned long long)grace_sum(grace),
				 (unsigned long long)bytes_left());
	}
	sim_faults(true);
}

static void make_caches(void)
{
	static const char *const names[NR_CACHES] = {"small", "constructed", "no-sheaves", "large"};

	for (unsigned int i = 0; i < NR_CACHES; i++) {
		struct kmem_cache_args args = {.ctor = i == CONSTRUCTED ? model_constructor : NULL};

		shared[i] =
			kmem_cache_create(names[i], sizes[i], &args,
					  SLAB_NO_MERGE | (i == NO_SHEAVES ? SLAB_NO_SHEAVES : 0));
		if (!shared[i])
			sim_fail("the cache \"%s\" cannot be made", names[i]);
	}
	for (unsigned int i = SMALL; now->few_sheaves && i <= CONSTRUCTED; i++) {
		set_capacity(shared[i], 1 + sim_below(6));
		set_barn(shared[i], sim_below(64), 1 << 16);
	}
}

void storm_run(const struct storm *storm)
{
	now = storm;
	readers_register();
	make_caches();
	if (storm->budget)
		sheaf_budget_set_limit(storm->budget);
	for (unsigned int round = 0; round <= storm->rounds; round++) {
		sim_run(storm->fibres, round < storm->rounds ? storm_fibre : free_all_fibre, NULL);
		check_retired(round == storm->rounds || sim_below(2));
		for (unsigned int i = 0; i < NR_CACHES; i++)
			check_quiet(shared[i]);
		check_budget();
	}
	if (model_live())
		sim_fail("%zu objects are live when all were freed", model_live());
	sim_faults(false);
	for (unsigned int i = 0; i < NR_CACHES; i++)
		if (storm->all_reached && kmem_cache_shrink(shared[i]))
			sim_fail("slabs of %s remain when all objects were freed", shared[i]->name);
	/* No fibre uses them: membarrier is not needed. */
	sim_faults(true);
	for (unsigned int i = 0; i < NR_CACHES; i++) {
		kmem_cache_destroy(shared[i]);
		if (shared[i]->name)
			sim_fail("%s was destroyed, and is there still", shared[i]->name);
	}
	if (sheaf_budget_used())
		sim_fail("%zu bytes of sheaves are left", sheaf_budget_used());
}
