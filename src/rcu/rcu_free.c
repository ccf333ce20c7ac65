/* SPDX-License-Identifier: MIT */
/* Retired objects of a cache, after its CPUs' rcu_free sheaves; see rcu_free.h. */
#include "rcu/rcu_free.h"

#include "os/assert.h"
#include "os/machine.h"
#include "os/probe.h"
#include "page/pool.h"
#include "percpu/in_hand.h"
#include "percpu/remote.h"
#include "percpu/rows.h"
#include "percpu/sheaf.h"
#include "rcu/stat.h"
#include "slab/drain_marks.h"

static size_t size_of_rcu(uint32_t per_node)
{
	return sizeof(struct sheaf_rcu) + os.nr_nodes * per_node * sizeof(struct rcu_queue);
}

static uint32_t *enter(struct sheaf_rcu *rcu)
{
	uint32_t *in_hand = in_hand_begin_rcu(rcu->cache);

	grace_activate(&rcu->user);
	return in_hand;
}

static bool queue_counted(struct sheaf_rcu *rcu, struct sheaf *sheaf, unsigned int row)
{
	bool over = grace_retired(rcu->user.grace, rcu_bytes_of(rcu, sheaf));
	uint64_t bit = UINT64_C(1) << row % rcu->per_node;

	/* Whoever frees an object may take such a sheaf out of its cell, too. */
	grace_activate(&rcu->user);
	if (!(os_load_relaxed(&rcu->used) & bit))
		os_fetch_or(&rcu->used, bit);
	stat_add(&rcu->cache->slab, STAT_free_rcu_sheaf, sheaf_size(sheaf));
	stat_add(&rcu->cache->slab, STAT_rcu_over_limit, over);
	probe(rcu_queue, rcu->cache->slab.name, sheaf_size(sheaf), row);
	os_store_relaxed(&sheaf->since, grace_last_start(rcu->user.grace));
	rcu_queue_add(rcu_queue_of(rcu, page_node(sheaf->objects[0]), row), sheaf, rcu->user.grace);
	slab_mark(&rcu->cache->slab, MARK_RETIRED);
	return over;
}

/* QUEUE-Q1: if no object in it belongs to this cache, the sheaf need not wait. */
bool rcu_queue_sheaf(struct sheaf_rcu *rcu, struct sheaf *sheaf, unsigned int row)
{
	sheaf_check_newest(rcu->cache, sheaf, EARLIER_RETIRE);
	if (sheaf_size(sheaf))
		return queue_counted(rcu, sheaf, row);
	sheaf_hand_over(rcu->cache, sheaf);
	return false;
}

/* Make it the CPU's rcu_free sheaf, and queue the one that it replaces. */
static bool put_rcu_free(struct sheaf_rcu *rcu, struct sheaf *sheaf, bool *over)
{
	struct sheaf_cache *cache = rcu->cache;
	struct sheaf *old;
	unsigned int row;

	if (!section_replace_rcu(&cache->at, sheaf, &old))
		return false;
	/* SHEAF-H1, SECTION-S1 */
	os_assert(old && old != sheaf);
	row = os_row();
	/* If we are on another CPU by now, its sheaf's age is wrong until the next trim. */
	os_store_relaxed(&slot_of_row(cache->at.handle, row)->rcu_since, os_now_ms());
	if (old != &sheaf_bootstrap)
		*over = rcu_queue_sheaf(rcu, old, row);
	return true;
}

/* Put a sheaf with an object of another node into the slot. */
static bool put_remote_rcu(struct sheaf_rcu *rcu, struct sheaf *sheaf, bool *over)
{
	struct sheaf_cache *cache = rcu->cache;
	unsigned int kind = remote_kind(page_node(sheaf->objects[0]), true);
	struct sheaf *old;
	bool done;

	os_store_relaxed(&sheaf->filled_by, kind + 1);
	os_store_relaxed(&sheaf->since, os_now_ms());
	if (!os_load_relaxed(&rcu->remote))
		os_store_relaxed(&rcu->remote, 1);
	done = section_replace_remote(&cache->at, kind, sheaf, &old);
	os_assert(!done || old != sheaf); /* SHEAF-H1 */
	if (done)
		*over = sheaf_give_remote(cache, old);
	return done;
}

/* From this CPU's node, or the node of the objects that it is to collect: then it remembers where
 * the last one was. */
static struct sheaf *take_empty_here(struct sheaf_cache *cache)
{
	uint32_t capacity = sheaf_retired_capacity(cache);
	/* By the spare rule it is the previous main, if the program retires what it allocates. */
	struct sheaf *empty = sheaf_take_empty_spare(cache, capacity);

	if (!empty && capacity != sheaf_capacity(cache))
		empty = sheaf_make(cache, capacity);
	return empty ? empty : sheaf_take_empty(cache, os_node(), NULL);
}

static struct sheaf *take_empty_there(struct sheaf_cache *cache, unsigned int node)
{
	const struct slot *slot = slot_of_row(cache->at.handle, os_row());
	const struct sheaf *full = slot_remote(slot, remote_kind(node, true), true);
	uint16_t place = full ? os_load_relaxed(&full->place) : 0;
	struct sheaf *empty = sheaf_take_empty(cache, node, &place);

	if (empty)
		os_store_relaxed(&empty->place, place);
	return empty;
}

/* Put a sheaf with this object in place of a full one, or of none. */
static bool replace_full_rcu(struct sheaf_rcu *rcu, void *object)
{
	struct sheaf_cache *cache = rcu->cache;
	unsigned int node = page_node(object);
	bool done, over = false, remote = node != os_node();
	struct sheaf *empty = remote ? take_empty_there(cache, node) : take_empty_here(cache);
	uint32_t *in_hand;

	if (!empty)
		return false;
	empty->objects[0] = object;
	sheaf_set_size(empty, 1);
	in_hand = enter(rcu);
	done = remote ? put_remote_rcu(rcu, empty, &over) : put_rcu_free(rcu, empty, &over);
	in_hand_end(in_hand);
	if (!done) {
		sheaf_set_size(empty, 0);
		sheaf_hand_over(cache, empty);
		return false;
	}
	grace_start_after(rcu->user.grace, over);
	return true;
}

bool sheaf_rcu_free(struct sheaf_cache *cache, void *object)
{
	if (section_push_rcu(&cache->at, object) ||
	    sheaf_push_remote(cache->at.handle, object, true))
		return true;
	return cache->barns && !os_load_relaxed(&cache->at.rcu_stop) && os_registered() &&
	       page_is_ours(object) && rows_open_here(cache->at.handle) &&
	       replace_full_rcu(sheaf_rcu_of(cache), object);
}

/* than: 0 for any age. It may have come after `now` was read. */
static bool is_older(uint32_t since, uint32_t now, uint32_t than)
{
	return !than || (int32_t)(now - since) >= (int32_t)than;
}

static bool slot_is_due(const struct slot *slot, uint32_t now, uint32_t older_than)
{
	return os_load_relaxed(&slot->rcu_free) != &sheaf_bootstrap &&
	       is_older(os_load_relaxed(&slot->rcu_since), now, older_than);
}

static bool remote_is_due(const struct slot *slot, uint32_t now, uint32_t older_than)
{
	for (unsigned int i = 0; i < slot_remotes(); i++) {
		const struct sheaf *sheaf = slot_remote(slot, i, true);

		if (sheaf && is_older(os_load_relaxed(&sheaf->since), now, older_than))
			return true;
	}
	return false;
}

/* True if a CPU's sheaf is older than this: then all of them are queued. */
static bool is_due(const struct sheaf_rcu *rcu, uint32_t older_than)
{
	char *handle = rcu->cache->at.handle;
	uint32_t now = os_now_ms();

	rows_for_each (handle, row) {
		const struct slot *slot = slot_of_row(handle, row);

		if (slot_is_due(slot, now, older_than) ||
		    (os_load_relaxed(&rcu->remote) && remote_is_due(slot, now, older_than)))
			return true;
	}
	return false;
}

/* Return when every rcu_free sheaf that was in hand has been queued. */
static void wait_for_hands(struct sheaf_rcu *rcu)
{
	for (int turn = 0; turn < 2; turn++)
		in_hand_wait_phase(rcu->cache, offsetof(struct slot, rcu_in_hand),
				   os_fetch_add(&rcu->cache->rcu_phase, 1) & 1);
}

/* In this order: a sheaf that leaves hands or slots while we look is then seen where it went. */
static bool sheaves_wait(struct grace_user *user)
{
	struct sheaf_rcu *rcu = (struct sheaf_rcu *)user;
	const struct sheaf_cache *cache = rcu->cache;

	rows_for_each (cache->at.handle, row) {
		const uint32_t *in_hand = slot_of_row(cache->at.handle, row)->rcu_in_hand;

		if (os_load_acquire(&in_hand[0]) || os_load_acquire(&in_hand[1]))
			return true;
	}
	if (is_due(rcu, 0))
		return true;
	rcu_queues_for_each (rcu, queue)
		if (!rcu_queue_is_empty(queue))
			return true;
	return false;
}

/* If all are wanted, those that threads have in hand now are, too, even if no slot has any. */
static bool collect_sheaves(struct grace_user *user, uint32_t older_than)
{
	return !older_than || is_due((struct sheaf_rcu *)user, older_than);
}

static bool drain_sheaves(struct grace_user *due, uint32_t older_than)
{
	struct drain *first = NULL;
	bool reached;

	for (struct grace_user *user = due; user; user = user->due) {
		struct sheaf_rcu *rcu = (struct sheaf_rcu *)user;

		if (!older_than && !is_due(rcu, 0))
			continue;
		rcu->drain.next = first;
		first = &rcu->drain;
	}
	reached = !first || drain_rcu(first);
	for (struct grace_user *user = due; user && !older_than; user = user->due)
		wait_for_hands((struct sheaf_rcu *)user);
	return reached;
}

static const struct grace_user_ops sheaves_ops = {collect_sheaves, drain_sheaves, rcu_flush_passed,
						  sheaves_wait};

bool sheaf_rcu_init(struct sheaf_cache *cache, struct grace *grace, sheaf_rcu_passed_fn *passed)
{
	uint32_t per_node = os.nr_rows < RCU_QUEUES ? os.nr_rows : RCU_QUEUES;
	struct sheaf_rcu *rcu = pool_alloc(size_of_rcu(per_node));

	if (!rcu)
		return false;
	rcu->cache = rcu->drain.cache = cache;
	rcu->passed = passed;
	rcu->per_node = per_node;
	for (unsigned int i = 0; i < rcu_nr_queues(rcu); i++)
		rcu_queue_init(&rcu->queues[i], i % per_node);
	if (!grace_add_user(grace, &rcu->user, &sheaves_ops)) {
		pool_free(rcu, size_of_rcu(per_node));
		return false;
	}
	os_store_release(&cache->rcu, rcu);
	return true;
}

void sheaf_rcu_exit(struct sheaf_cache *cache)
{
	struct sheaf_rcu *rcu = sheaf_rcu_of(cache);

	if (!rcu)
		return;
	grace_remove_user(&rcu->user);
	pool_free(rcu, size_of_rcu(rcu->per_node));
	cache->rcu = NULL;
}

void sheaf_rcu_count(struct sheaf_cache *cache, uint64_t *waiting, uint64_t *passed)
{
	struct sheaf_rcu *rcu = sheaf_rcu_of(cache);

	*waiting = *passed = 0;
	rcu_queues_for_each (rcu, queue) {
		rcu_queue_settle(queue, grace_done(rcu->user.grace));
		*waiting += os_load_relaxed(&queue->n_waiting);
		*passed += os_load_relaxed(&queue->n_passed);
	}
}

static struct sheaf_rcu *rcu_of_user(struct grace_user *user)
{
	return user->ops == &sheaves_ops ? (struct sheaf_rcu *)user : NULL;
}

static void act_on_queues(struct grace_user *user, void *data)
{
	os_fork_act *const *act = data;
	struct sheaf_rcu *rcu = rcu_of_user(user);

	rcu_queues_for_each (rcu, queue)
		(*act)(&queue->lock, &queue->locked_by_fork);
}

static void reset_queues(struct grace_user *user, void *lost)
{
	struct sheaf_rcu *rcu = rcu_of_user(user);

	rcu_queues_for_each (rcu, queue) {
		if (queue->locked_by_fork || !os_lock_held(&queue->lock))
			continue;
		*queue = (struct rcu_queue){0};
		rcu_queue_init(queue, 0);
		++*(unsigned int *)lost;
	}
}

void sheaf_rcu_act_on_locks(os_fork_act *act)
{
	grace_for_each_user(act_on_queues, &act);
}

unsigned int sheaf_rcu_reset_in_child(void)
{
	unsigned int lost = 0;

	grace_for_each_user(reset_queues, &lost);
	return lost;
}
