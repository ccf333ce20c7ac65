/* SPDX-License-Identifier: MIT */
/* Retired pointers of any kind; see any.h. */
#include "rcu/any.h"

#include "os/assert.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "page/pool.h"
#include "rcu/queue.h"

/* CPUs that share a shard wait for its lock, for one object at a time; each shard keeps two
 * sheaves. Not measured. */
#define SHARDS 8
/* A sheaf of 2 KiB. Half: twice as many allocations of sheaves. Double: twice as much memory for a
 * few objects. */
#define CAPACITY 252
#define BYTES	 (SHEAF_HEADER + CAPACITY * sizeof(void *))
/* Bytes in one of a sheaf's units. An object of more than 128 GiB counts as that: the sum of a
 * sheaf has 32 bits, and is less than half of what they hold before the last object (is_heavy()).
 */
#define UNIT	   64u
#define MOST_UNITS (UINT32_MAX / 2)
#define MIB	   (1u << 20)
/*
 * The part of rcu_limit that a sheaf may hold while it is being filled: together, at most an eighth
 * of the limit has no number. Half: a quarter. Double: sheaves of half as many large blocks. Not
 * measured.
 */
#define HEAVY 64u
/* A link: an object's address, and below it the offset of its head, which has the next link. */
#define OFFSET_BITS 12

struct rcu_shard {
	struct os_lock lock;
	uint32_t since; /* in ms: when the sheaf that is being filled arrived */
	uint32_t locked_by_fork;
	struct sheaf *filled, *standby; /* with objects; and what replaces it */
	struct rcu_queue queue;
};

struct rcu_any {
	struct grace_user user; /* first */
	const struct rcu_any_ops *ops;
	struct rcu_any *next;
	/* Objects by their heads: those without a number, and those that wait for `number`. */
	uint64_t linked, waiting, number;
	struct rcu_shard shards[SHARDS];
};

static struct rcu_any *first;

static struct rcu_any *any_of(const struct grace *grace)
{
	struct rcu_any *any = os_load_acquire(&first);

	while (any && any->user.grace != grace)
		any = any->next;
	return any;
}

/* The bytes of memory of an object, in units. */
static uint32_t units_of(const struct rcu_any *any, const void *object)
{
	size_t units = (any->ops->size_of(object) + UNIT - 1) / UNIT;

	return (uint32_t)(units < MOST_UNITS ? units : MOST_UNITS);
}

static struct sheaf *new_sheaf(void)
{
	struct sheaf *sheaf = pool_alloc(BYTES);

	if (sheaf)
		sheaf->capacity = CAPACITY;
	return sheaf;
}

/* With the shard's lock held: give a number to the sheaf that is being filled. */
static void queue_filled(struct rcu_any *any, struct rcu_shard *shard)
{
	if (!shard->filled)
		return;
	rcu_queue_add(&shard->queue, shard->filled, any->user.grace);
	shard->filled = NULL;
	if (!shard->standby) /* a nolock call used it */
		shard->standby = new_sheaf();
}

/* It holds too many bytes: a few objects may be more memory than should wait without a number. */
static bool is_heavy(const struct sheaf *sheaf)
{
	return sheaf->units >= os_options.rcu_limit * (MIB / UNIT / HEAVY);
}

/* With the shard's lock held. */
static void begin_standby(struct rcu_shard *shard)
{
	if (!shard->filled && shard->standby) {
		shard->filled = shard->standby;
		shard->standby = NULL;
		shard->since = os_now_ms();
	}
}

static struct sheaf *with_room(struct rcu_shard *shard)
{
	for (int turn = 0; turn < 2; turn++) {
		begin_standby(shard);
		if (!shard->standby)
			shard->standby = new_sheaf();
	}
	return shard->filled;
}

/*
 * With the shard's lock held. The first object of a sheaf activates the user and needs a batch in
 * flight. As long as the sheaf is there the user waits, so it stays active and callbacks continue
 * (GRACE-G3, GRACE-G6). Returns true if it is the first one.
 */
static bool store_pointer(struct rcu_any *any, struct sheaf *sheaf, void *object, uint32_t units)
{
	uint32_t size = sheaf->size;

	os_assert(size < CAPACITY); /* ANY-K1: a full one was queued */
	sheaf->objects[size] = object;
	sheaf->units += units;
	os_store_relaxed(&sheaf->word, size + 1);
	if (size == 0)
		grace_activate(&any->user);
	return size == 0;
}

/* The number of a sheaf that is queued needs another batch: then true, too. */
static bool store_or_queue(struct rcu_any *any, struct rcu_shard *shard, void *object,
			   uint32_t units)
{
	struct sheaf *sheaf = shard->filled;
	bool first = store_pointer(any, sheaf, object, units);

	if (sheaf->size < CAPACITY && !is_heavy(sheaf))
		return first;
	queue_filled(any, shard);
	return true;
}

static void link_by_head(struct rcu_any *any, void *object, size_t offset)
{
	struct kvfree_rcu_head *head = (void *)((char *)object + offset);
	uint64_t link = (uint64_t)(uintptr_t)object << OFFSET_BITS | offset;

	os_assert((void *)(uintptr_t)(link >> OFFSET_BITS) == object); /* ANY-K2 */
	head->link = os_load_relaxed(&any->linked);
	while (!os_cmpxchg(&any->linked, &head->link, link))
		;
	/* A thread that starts no batch, because one is in flight, relies on a callback that sees
	 * this. */
	grace_activate(&any->user);
}

bool rcu_any_free(struct grace *grace, void *object, size_t offset)
{
	struct rcu_any *any = any_of(grace);
	struct rcu_shard *shard = &any->shards[os_row() % SHARDS];
	uint32_t units = units_of(any, object);
	bool has_room, start = true, done, over;

	/* Counted before another thread can free it and subtract this. */
	over = grace_retired(grace, (uint64_t)units * UNIT);
	os_lock(&shard->lock);
	has_room = with_room(shard);
	if (has_room)
		start = store_or_queue(any, shard, object, units);
	os_unlock(&shard->lock);
	done = has_room || offset != RCU_NO_HEAD;
	if (!done)
		grace_reused(grace, (uint64_t)units * UNIT);
	else if (!has_room)
		link_by_head(any, object, offset);
	if (start || over)
		grace_start_after(grace, over);
	return done;
}

void rcu_any_link(struct grace *grace, void *object, size_t offset)
{
	struct rcu_any *any = any_of(grace);

	grace_retired(grace, (uint64_t)units_of(any, object) * UNIT);
	link_by_head(any, object, offset);
	grace_start_later(grace);
}

struct rcu_shard *rcu_any_reserve(struct grace *grace)
{
	struct rcu_any *any = any_of(grace);
	unsigned int row = os_row();

	for (unsigned int i = 0; i < SHARDS; i++) {
		struct rcu_shard *shard = &any->shards[(row + i) % SHARDS];

		if (!os_trylock(&shard->lock))
			continue;
		/* The last pointer is for a call that may queue the sheaf. */
		if (shard->filled ? shard->filled->size < CAPACITY - 1 : shard->standby != NULL)
			return shard;
		os_unlock(&shard->lock);
	}
	return NULL;
}

void rcu_any_store(struct grace *grace, struct rcu_shard *shard, void *object)
{
	struct rcu_any *any = any_of(grace);
	uint32_t units = object ? units_of(any, object) : 0;

	if (object) {
		grace_retired(grace, (uint64_t)units * UNIT);
		begin_standby(shard);
		store_pointer(any, shard->filled, object, units);
	}
	os_unlock(&shard->lock);
	if (object)
		grace_start_later(grace);
}

static void free_sheaf(struct rcu_any *any, struct sheaf *sheaf)
{
	grace_reused(any->user.grace, (uint64_t)sheaf->units * UNIT);
	tsan_acquire_all(sheaf->objects, sheaf->size);
	any->ops->free(sheaf->size, sheaf->objects, "kfree_rcu");
	pool_free(sheaf, BYTES);
}

/* Here and below, with the provider's lock held (GRACE-G5). */
static void number_linked(struct rcu_any *any)
{
	if (any->waiting || !os_load_relaxed(&any->linked))
		return;
	any->waiting = os_exchange(&any->linked, 0);
	any->number = grace_now(any->user.grace);
}

static void free_linked(struct rcu_any *any, uint64_t done)
{
	uint64_t link = any->waiting;

	if (any->number > done)
		return;
	while (link) {
		void *object = (void *)(uintptr_t)(link >> OFFSET_BITS);
		size_t offset = link & ((1u << OFFSET_BITS) - 1);

		tsan_acquire(object);
		link = ((struct kvfree_rcu_head *)((char *)object + offset))->link;
		grace_reused(any->user.grace, (uint64_t)units_of(any, object) * UNIT);
		any->ops->free(1, &object, "kfree_rcu");
	}
	any->waiting = 0;
	number_linked(any);
}

/* These pointers are never allocated again. */
static void flush_pointers(struct grace_user *user, bool all)
{
	struct rcu_any *any = (struct rcu_any *)user;
	uint64_t done = grace_done(user->grace);
	struct sheaf *sheaf;

	(void)all;
	for (int i = 0; i < SHARDS; i++)
		while ((sheaf = rcu_queue_take(&any->shards[i].queue, done, RCU_NEWEST, true)) !=
		       NULL)
			free_sheaf(any, sheaf);
	free_linked(any, done);
}

static bool collect_pointers(struct grace_user *user, uint32_t older_than)
{
	struct rcu_any *any = (struct rcu_any *)user;

	for (int i = 0; i < SHARDS; i++) {
		struct rcu_shard *shard = &any->shards[i];

		os_lock(&shard->lock);
		if (os_now_ms() - shard->since >= older_than)
			queue_filled(any, shard);
		os_unlock(&shard->lock);
	}
	number_linked(any);
	return false;
}

static bool pointers_wait(struct grace_user *user)
{
	struct rcu_any *any = (struct rcu_any *)user;
	bool any_waits = os_load_relaxed(&any->linked) || any->waiting;

	for (int i = 0; i < SHARDS; i++) {
		struct rcu_shard *shard = &any->shards[i];

		os_lock(&shard->lock);
		any_waits |= shard->filled || !rcu_queue_is_empty(&shard->queue);
		os_unlock(&shard->lock);
	}
	return any_waits;
}

static const struct grace_user_ops user_ops = {collect_pointers, NULL, flush_pointers,
					       pointers_wait};

bool rcu_any_init(struct grace *grace, const struct rcu_any_ops *ops)
{
	struct rcu_any *any;

	if (any_of(grace))
		return true;
	any = pool_alloc(sizeof(*any));
	if (!any)
		return false;
	any->ops = ops;
	for (int i = 0; i < SHARDS; i++) {
		os_lock_init(&any->shards[i].lock, OS_RANK_SHARD);
		rcu_queue_init(&any->shards[i].queue, 0);
	}
	/* A nolock call may be the first one. */
	any->shards[0].standby = new_sheaf();
	if (!grace_add_user(grace, &any->user, &user_ops)) {
		pool_free(any->shards[0].standby, BYTES);
		pool_free(any, sizeof(*any));
		return false;
	}
	any->next = first;
	os_store_release(&first, any);
	return true;
}

void rcu_any_barrier(struct grace *grace, bool all)
{
	struct rcu_any *any = any_of(grace);
	bool again;

	if (!any)
		return;
	grace_hold(grace);
	again = any->waiting != 0;
	grace_let_go(grace);
	grace_barrier(grace, all ? NULL : &any->user);
	/* Objects that were linked since get their number when those that waited are freed. */
	if (again)
		grace_barrier(grace, &any->user);
}

void rcu_any_act_on_locks(os_fork_act *act)
{
	for (struct rcu_any *any = first; any; any = any->next)
		for (struct rcu_shard *shard = any->shards; shard < any->shards + SHARDS; shard++) {
			act(&shard->lock, &shard->locked_by_fork);
			act(&shard->queue.lock, &shard->queue.locked_by_fork);
		}
}

/* The batch that the sheaves being filled count on may never return: the child's first object shall
 * start another one. */
void rcu_any_in_child(void)
{
	for (struct rcu_any *any = first; any; any = any->next)
		collect_pointers(&any->user, 0);
}
