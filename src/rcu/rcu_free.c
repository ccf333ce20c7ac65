/* SPDX-License-Identifier: MIT */
/* Retired objects of a cache, after its CPUs' rcu_free sheaves; see rcu_free.h. */
#include "rcu/rcu_free.h"

#include "os/machine.h"
#include "os/options.h"
#include "page/pool.h"
#include "percpu/drain.h"
#include "percpu/in_hand.h"
#include "percpu/rows.h"
#include "percpu/sheaf.h"
#include "rcu/stat.h"

/* Between two trims. Half: objects needed after a grace period of more than 25 ms look unused.
 * Double: they are held for twice as long. */
#define TRIM_MS 50u
/*
 * The part of the unused objects that is freed. When all were freed, 154 objects of 1000 were freed
 * to slabs and taken from them again (docs/decisions.md). With a smaller part, unused memory is
 * freed more slowly.
 */
#define TRIM_PART 4
#define FREE_CALL "kfree_rcu"

static size_t size_of_rcu(uint32_t per_node)
{
	return sizeof(struct sheaf_rcu) + os.nr_nodes * per_node * sizeof(struct rcu_queue);
}

static unsigned int nr_queues(const struct sheaf_rcu *rcu)
{
	return os.nr_nodes * rcu->per_node;
}

static struct rcu_queue *queue_of_row(struct sheaf_rcu *rcu, unsigned int row)
{
	return &rcu->queues[os.node_of_row[row] * rcu->per_node + row % rcu->per_node];
}

static uint32_t *enter(struct sheaf_rcu *rcu)
{
	return in_hand_begin_phase(rcu->cache, offsetof(struct slot, rcu_in_hand),
				   os_load_relaxed(&rcu->phase));
}

static uint64_t bytes_of(const struct sheaf_rcu *rcu, const struct sheaf *sheaf)
{
	return (uint64_t)sheaf_size(sheaf) * rcu->cache->slab.size;
}

/* Returns true if too much is retired. */
static bool queue_sheaf(struct sheaf_rcu *rcu, struct sheaf *sheaf, unsigned int row)
{
	bool over = grace_retired(rcu->user.grace, bytes_of(rcu, sheaf));

	stat_add(&rcu->cache->slab, STAT_free_rcu_sheaf, sheaf_size(sheaf));
	stat_add(&rcu->cache->slab, STAT_rcu_over_limit, over);
	rcu_queue_add(queue_of_row(rcu, row), sheaf, rcu->user.grace);
	os_store_release(&rcu->active, 1);
	return over;
}

/* Q1: if no object in it belongs to this cache, the sheaf need not wait. */
static bool queue_checked(struct sheaf_rcu *rcu, struct sheaf *sheaf, unsigned int row)
{
	sheaf_check_newest(rcu->cache, sheaf, "kmem_cache_free_rcu");
	if (sheaf_size(sheaf))
		return queue_sheaf(rcu, sheaf, row);
	sheaf_hand_over(rcu->cache, sheaf, "kmem_cache_free_rcu");
	return false;
}

/* Put a sheaf with this object in place of a full one, which is queued. */
static bool replace_full_rcu(struct sheaf_rcu *rcu, void *object)
{
	struct sheaf_cache *cache = rcu->cache;
	/* By the spare rule it is the previous main, if the program retires what it allocates. */
	struct sheaf *empty = sheaf_take_empty_spare(cache), *old = NULL;
	bool done, over = false;
	unsigned int row;
	uint32_t *in_hand;

	if (!empty)
		empty = sheaf_take_empty(cache);
	if (!empty)
		return false;
	empty->objects[0] = object;
	sheaf_set_size(empty, 1);
	in_hand = enter(rcu);
	done = section_replace_rcu(&cache->at, empty, &old);
	row = os_row();
	if (done) {
		os_store_release(&rcu->active, 1);
		/* If we are on another CPU by now, its sheaf's age is wrong until the next trim. */
		os_store_relaxed(&slot_of_row(cache->at.handle, row)->rcu_since, os_now_ms());
		if (old != &sheaf_bootstrap)
			over = queue_checked(rcu, old, row);
	}
	in_hand_end(in_hand);
	if (!done) {
		sheaf_set_size(empty, 0);
		sheaf_hand_over(cache, empty, FREE_CALL);
		return false;
	}
	grace_start_after(rcu->user.grace, over);
	return true;
}

bool sheaf_rcu_free(struct sheaf_cache *cache, void *object)
{
	if (section_push_rcu(&cache->at, object))
		return true;
	return cache->barns && !os_load_relaxed(&cache->at.stop) && os_registered() &&
	       page_is_ours(object) && page_node(object) == os_node() &&
	       rows_open_here(cache->at.handle) && replace_full_rcu(sheaf_rcu_of(cache), object);
}

/* The grace period of this sheaf has passed: from now on its objects are free. */
static struct sheaf *freed(struct sheaf_rcu *rcu, struct sheaf *sheaf)
{
	grace_reused(rcu->user.grace, bytes_of(rcu, sheaf));
	stat_add(&rcu->cache->slab, STAT_free_fastpath, sheaf_size(sheaf));
	sheaf->filled_by = SHEAF_COLD;
	sheaf_set_size(sheaf, sheaf_size(sheaf));
	/* The readers have finished with them, too. */
	tsan_all_given(sheaf->objects, sheaf->size);
	return sheaf;
}

/* Take one from this queue or another queue of the node. */
static struct sheaf *take_sheaf(struct sheaf_rcu *rcu, unsigned int first)
{
	unsigned int begin = first / rcu->per_node * rcu->per_node;
	uint64_t done = grace_done(rcu->user.grace);

	for (unsigned int i = 0; i < rcu->per_node; i++) {
		unsigned int at = begin + (first - begin + i) % rcu->per_node;
		struct sheaf *sheaf = rcu_queue_take(&rcu->queues[at], done, RCU_NEWEST);

		if (sheaf)
			return freed(rcu, sheaf);
	}
	return NULL;
}

static struct sheaf_rcu *of_source(struct sheaf_source *source)
{
	return (struct sheaf_rcu *)((char *)source - offsetof(struct sheaf_rcu, source));
}

static struct sheaf *take_here(struct sheaf_source *source)
{
	struct sheaf_rcu *rcu = of_source(source);
	unsigned int mine = (unsigned int)(queue_of_row(rcu, os_row()) - rcu->queues);

	return take_sheaf(rcu, mine);
}

static void poll_sheaves(struct sheaf_source *source)
{
	grace_poll(of_source(source)->user.grace);
}

/* Free and count the objects in hand: to the barn if they fill a sheaf and it has room. */
static void flush(struct sheaf_rcu *rcu, struct sheaf *sheaf)
{
	struct sheaf_cache *cache = rcu->cache;

	/* A drain may already have emptied the barn. */
	if (sheaf->size == sheaf->capacity && sheaf_fits(cache, sheaf) &&
	    !in_hand_sees_drain(cache) && sheaf_put_full(cache, sheaf))
		return;
	stat_add(&cache->slab, STAT_rcu_flush, sheaf->size);
	sheaf_flush(cache, sheaf, FREE_CALL);
	sheaf_hand_over(cache, sheaf, FREE_CALL);
}

/* Free this many passed objects, in whole sheaves, the oldest first. */
static void flush_queue(struct sheaf_rcu *rcu, struct rcu_queue *queue, uint64_t wanted)
{
	uint64_t done = grace_done(rcu->user.grace), n = 0;
	struct sheaf *sheaf;

	while (n < wanted) {
		uint32_t *in_hand = in_hand_begin(rcu->cache);

		sheaf = rcu_queue_take(queue, done, RCU_OLDEST);
		if (sheaf) {
			n += sheaf_size(sheaf);
			flush(rcu, freed(rcu, sheaf));
		}
		in_hand_end(in_hand);
		if (!sheaf)
			return;
	}
}

static struct sheaf *take_all(struct sheaf_source *source)
{
	struct sheaf_rcu *rcu = of_source(source);
	struct sheaf *list = NULL, *sheaf;

	for (uint32_t node = 0; node < os.nr_nodes; node++)
		while ((sheaf = take_sheaf(rcu, node * rcu->per_node)) != NULL) {
			sheaf->next = list;
			list = sheaf;
		}
	return list;
}

static bool slot_is_due(const struct slot *slot, uint32_t now, uint32_t older_than)
{
	return os_load_relaxed(&slot->rcu_free) != &sheaf_bootstrap &&
	       now - os_load_relaxed(&slot->rcu_since) >= older_than;
}

static void take_collected(void *data, struct sheaf *sheaf, unsigned int row)
{
	queue_checked(data, sheaf, row);
}

/* Queue every CPU's rcu_free sheaf if one of them is older than older_than ms. Returns false if not
 * all could be reached. */
static bool collect_older(struct sheaf_rcu *rcu, uint32_t older_than)
{
	struct sheaf_cache *cache = rcu->cache;
	uint32_t now = os_now_ms();
	bool due = false;

	for (uint32_t row = 0; cache->barns && row < os.nr_rows && !due; row++)
		due = slot_is_due(slot_of_row(cache->at.handle, row), now, older_than);
	if (!due)
		return true;
	return drain_rcu(cache, take_collected, rcu);
}

/* Return when every rcu_free sheaf that was in hand has been queued. */
static void wait_for_hands(struct sheaf_rcu *rcu)
{
	for (int turn = 0; turn < 2; turn++)
		in_hand_wait_phase(rcu->cache, offsetof(struct slot, rcu_in_hand),
				   os_fetch_add(&rcu->phase, 1) & 1);
}

/* Objects that were not needed since the last trim are too many. Grace periods vary, and objects
 * that are freed now must come from slabs again in a longer one, so only a part is freed. */
static uint64_t too_much(struct sheaf_rcu *rcu, struct rcu_queue *queue)
{
	uint32_t unused = rcu_queue_unused(queue, grace_done(rcu->user.grace));

	return (unused + TRIM_PART - 1) / TRIM_PART;
}

/* True if it is time for a trim. */
static bool trim_is_due(struct sheaf_rcu *rcu)
{
	uint32_t now = os_now_ms();

	if (!os_load_relaxed(&rcu->active) || now - rcu->trimmed_at < TRIM_MS)
		return false;
	rcu->trimmed_at = now;
	return true;
}

static bool holds_sheaves(const struct sheaf_rcu *rcu)
{
	const struct sheaf_cache *cache = rcu->cache;

	for (unsigned int i = 0; i < nr_queues(rcu); i++)
		if (!rcu_queue_is_empty(&rcu->queues[i]))
			return true;
	for (uint32_t row = 0; cache->barns && row < os.nr_rows; row++)
		if (os_load_relaxed(&slot_of_row(cache->at.handle, row)->rcu_free) !=
		    &sheaf_bootstrap)
			return true;
	return false;
}

/* Many caches on many CPUs may retire nothing for long: one word says so. */
static bool sheaves_wait(struct grace_user *user)
{
	struct sheaf_rcu *rcu = (struct sheaf_rcu *)user;

	if (!os_exchange(&rcu->active, 0))
		return false;
	/*
	 * A thread that installs or queues a sheaf that is not seen here sets the word after that.
	 */
	if (!holds_sheaves(rcu))
		return false;
	os_store_relaxed(&rcu->active, 1);
	return true;
}

/* Collect all sheaves, including those that a thread has in hand now. */
static bool collect_sheaves(struct grace_user *user, uint32_t older_than)
{
	struct sheaf_rcu *rcu = (struct sheaf_rcu *)user;
	bool reached;

	if (older_than && !os_load_relaxed(&rcu->active))
		return true;
	/* No object can have been retired here: the structure is being created, or was when this
	 * process was forked. */
	if (sheaf_rcu_of(rcu->cache) != rcu)
		return true;
	reached = collect_older(rcu, older_than);
	if (!older_than)
		wait_for_hands(rcu);
	return reached;
}

static void flush_passed(struct grace_user *user, bool all)
{
	struct sheaf_rcu *rcu = (struct sheaf_rcu *)user;

	if (!all && !trim_is_due(rcu))
		return;
	for (unsigned int i = 0; i < nr_queues(rcu); i++) {
		struct rcu_queue *queue = &rcu->queues[i];

		flush_queue(rcu, queue, all ? UINT64_MAX : too_much(rcu, queue));
	}
}

static const struct grace_user_ops sheaves_ops = {collect_sheaves, flush_passed, sheaves_wait};

static void for_each(struct sheaf_source *source,
		     void (*visit)(void *data, struct sheaf *sheaf, bool waits), void *data)
{
	struct sheaf_rcu *rcu = of_source(source);

	for (unsigned int i = 0; i < nr_queues(rcu); i++) {
		struct rcu_queue *queue = &rcu->queues[i];

		os_lock(&queue->lock);
		for (struct sheaf *sheaf = queue->top; sheaf; sheaf = sheaf->next)
			visit(data, sheaf, false);
		for (struct sheaf *sheaf = queue->first; sheaf; sheaf = sheaf->next)
			visit(data, sheaf, !grace_passed(rcu->user.grace, sheaf->number));
		os_unlock(&queue->lock);
	}
}

static const struct sheaf_source_ops source_ops = {poll_sheaves, take_here, take_all, for_each};

bool sheaf_rcu_init(struct sheaf_cache *cache, struct grace *grace)
{
	uint32_t per_node = os.nr_rows < RCU_QUEUES ? os.nr_rows : RCU_QUEUES;
	struct sheaf_rcu *rcu = pool_alloc(size_of_rcu(per_node));

	if (!rcu)
		return false;
	rcu->source.ops = &source_ops;
	rcu->cache = cache;
	rcu->per_node = per_node;
	for (unsigned int i = 0; i < nr_queues(rcu); i++)
		rcu_queue_init(&rcu->queues[i]);
	/* Before any object is retired: a barrier must find it. */
	grace_add_user(grace, &rcu->user, &sheaves_ops);
	os_store_release(&cache->rcu, &rcu->source);
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
	for (unsigned int i = 0; rcu && i < nr_queues(rcu); i++) {
		struct rcu_queue *queue = &rcu->queues[i];

		rcu_queue_settle(queue, grace_done(rcu->user.grace));
		*waiting += os_load_relaxed(&queue->n_waiting);
		*passed += os_load_relaxed(&queue->n_passed);
	}
}

void sheaf_rcu_lock_for_fork(struct sheaf_cache *cache)
{
	struct sheaf_rcu *rcu = sheaf_rcu_of(cache);

	for (unsigned int i = 0; rcu && i < nr_queues(rcu); i++)
		os_lock_for_fork(&rcu->queues[i].lock, &rcu->queues[i].locked_by_fork);
}

void sheaf_rcu_unlock_after_fork(struct sheaf_cache *cache)
{
	struct sheaf_rcu *rcu = sheaf_rcu_of(cache);

	for (unsigned int i = 0; rcu && i < nr_queues(rcu); i++)
		os_unlock_after_fork(&rcu->queues[i].lock, &rcu->queues[i].locked_by_fork);
}
