/* SPDX-License-Identifier: MIT */
/* Batches, their callbacks, and threads that wait for them; see grace.h. */
#include "grace/grace.h"

#include "os/assert.h"
#include "os/enter_program.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "os/report/report.h"
#include "page/pool.h"

#define MILLION UINT64_C(1000000)
/*
 * Between batches. Half: up to twice as many callbacks on a busy machine. Double: retired objects
 * wait that much longer for the start of their grace period, which itself takes milliseconds. Not
 * measured.
 */
#define SPACING_NS UINT64_C(20000)
/*
 * For this time after a thread last wanted a batch, each callback starts another one: longer than
 * that thread may be off its CPU. Without an end, 16 batches stayed in flight for one object in 50
 * ms, and liburcu's thread used a tenth of a CPU. Double: that lasts twice as long after a busy
 * time. Half: a thread that returns waits for a start more often.
 */
#define BUSY_NS	 (40 * MILLION)
#define ASKED_NS (BUSY_NS / 16) /* how exactly that time is known */

static uint32_t too_many;
uint32_t grace_some_wanted;

void grace_advance(struct grace *grace, uint64_t number, uint64_t now)
{
	uint64_t done = os_load_relaxed(&grace->done);

	os_assert(number <= os_peek(&grace->started)); /* GRACE-G1 */
	do
		if (done >= number)
			return;
	while (!os_cmpxchg(&grace->done, &done, number));
	os_store_relaxed(&grace->moved_at, now);
	os_store_relaxed(&grace->reported_stall, 0);
}

/* No batch is in flight. */
static bool is_idle(struct grace *grace)
{
	return os_load_relaxed(&grace->done) == os_load_relaxed(&grace->started);
}

/* A thread retires many objects: the number of batches in flight decides how soon their memory can
 * be reused. */
static bool is_busy(struct grace *grace, uint64_t now)
{
	return now - os_load_relaxed(&grace->asked_at) < BUSY_NS;
}

static void report_stall(struct grace *grace, uint64_t now)
{
	uint64_t for_ms = (now - os_load_relaxed(&grace->moved_at)) / MILLION, bytes;

	if (for_ms < os_options.rcu_stall || for_ms > UINT32_MAX || is_idle(grace) ||
	    os_load_relaxed(&grace->reported_stall))
		return;
	bytes = grace_sum(grace);
	if (!bytes || os_exchange(&grace->reported_stall, 1))
		return;
	os_report("RCU (%s): no grace period has ended for %llu ms, and %llu bytes wait for one. "
		  "Look for a reader that does not leave its read-side section",
		  grace->ops.name, (unsigned long long)for_ms, (unsigned long long)bytes);
}

/* --- starting --------------------------------------------------------------------------------- */

static void batch_passed(struct sheaf_rcu_head *head);

static struct grace_batch *free_batch(struct grace *grace)
{
	for (int i = 0; i < GRACE_BATCHES; i++) {
		struct grace_batch *batch = &grace->batches[i];

		if (!os_load_relaxed(&batch->busy) && !os_exchange(&batch->busy, 1))
			return batch;
	}
	return NULL;
}

/* Start a batch that the caller provides. */
static void start_batch(struct grace *grace, struct grace_batch *batch, uint64_t now)
{
	struct os_program call;

	os_assert(os_peek(&batch->busy) && batch->grace == grace); /* GRACE-G2 */
	if (is_idle(grace))
		os_store_relaxed(&grace->moved_at, now);
	os_store_relaxed(&grace->started_at, now);
	batch->number = os_fetch_add(&grace->started, 1) + 1;
	/* Pairs with grace_now(): a thread that gets this number has unlinked its object before
	 * this. */
	os_fence();
	grace_arm_poll(grace, batch->number);
	tsan_acquire(grace);
	call = os_enter_program();
	grace->ops.call(&batch->head, batch_passed);
	os_leave_program(call);
}

static void start_at(struct grace *grace, uint64_t now)
{
	struct grace_batch *batch;

	/* It is registered with no provider. A call of the program starts the batch, or the
	 * callback of another one. */
	if (os_unlikely(os_thread_is_own())) {
		grace_start_later(grace);
		return;
	}
	batch = free_batch(grace);
	if (batch)
		start_batch(grace, batch, now);
}

void grace_start(struct grace *grace)
{
	start_at(grace, os_now());
}

static void start_spaced(struct grace *grace)
{
	uint64_t now = os_now();

	/* The line is shared by all who retire objects. */
	if (now - os_load_relaxed(&grace->asked_at) >= ASKED_NS)
		os_store_relaxed(&grace->asked_at, now);
	report_stall(grace, now);
	/* If no batch is in flight, no callback will see the caller's waiting objects. */
	if (now - os_load_relaxed(&grace->started_at) >= SPACING_NS || is_idle(grace))
		start_at(grace, now);
}

/* --- starting later --------------------------------------------------------------------------- */

void grace_hold(struct grace *grace)
{
	os_lock(&grace->lock);
}

/* No other thread could start a batch while we held it. */
void grace_let_go(struct grace *grace)
{
	os_unlock(&grace->lock);
	/* A thread that found it locked has set this before: pairs with the order in
	 * grace_start_all_wanted(). */
	os_fence();
	if (os_load_relaxed(&grace->wanted) && os_exchange(&grace->wanted, 0))
		start_spaced(grace);
}

void grace_start_later(struct grace *grace)
{
	os_store_relaxed(&grace->wanted, 1);
	os_exchange(&grace_some_wanted, 1);
}

/* This thread itself may hold the lock. The holder checks again when it releases the lock. */
static void start_if_wanted(struct grace *grace)
{
	if (os_load_acquire(&grace->wanted) && os_trylock(&grace->lock))
		grace_let_go(grace);
}

void grace_start_all_wanted(void)
{
	OS_KEEP_ERRNO;

	if (os_exchange(&grace_some_wanted, 0)) {
		/* Pairs with the fence in grace_let_go(). */
		os_order_rmw();
		grace_for_each(start_if_wanted);
	}
}

/* --- callbacks -------------------------------------------------------------------------------- */

/* What a callback or a barrier wants of the users, and what it found. */
struct grace_pass {
	uint32_t older_than;
	bool all, waits;
	struct grace_user *due;
};

static void collect_user(struct grace_user *user, void *data)
{
	struct grace_pass *pass = data;

	if (!user->ops->collect || !user->ops->collect(user, pass->older_than))
		return;
	user->due = pass->due;
	pass->due = user;
}

/* Only users of one kind need a drain: the caches' rcu_free sheaves. */
static bool drain_due(const struct grace_pass *pass)
{
	return !pass->due || pass->due->ops->drain(pass->due, pass->older_than);
}

static void flush_user(struct grace_user *user, void *data)
{
	struct grace_pass *pass = data;

	user->ops->flush(user, pass->all);
}

static void settle_user(struct grace_user *user, void *data)
{
	struct grace_pass *pass = data;

	pass->waits |= grace_settle(user);
}

static void serve_users(struct grace *grace, uint64_t now)
{
	struct grace_pass pass = {.older_than = os_options.rcu_delay};

	grace_hold(grace);
	grace_for_each_active(grace, collect_user, &pass);
	drain_due(&pass);
	grace_for_each_active(grace, flush_user, &pass);
	grace_for_each_active(grace, settle_user, &pass);
	grace_let_go(grace);
	if (pass.waits && (is_idle(grace) || is_busy(grace, now)))
		start_at(grace, now);
}

static void batch_passed(struct sheaf_rcu_head *head)
{
	struct grace_batch *batch = (struct grace_batch *)head;
	struct grace *grace = batch->grace;
	uint64_t number = batch->number, now = os_now();

	/* Waiting threads could not report the stall. */
	report_stall(grace, now);
	os_assert(os_peek(&batch->busy)); /* GRACE-G2 */
	tsan_release(grace);
	os_store_release(&batch->busy, 0);
	grace_advance(grace, number, now);
	serve_users(grace, now);
	os_report_kept();
}

/* --- waiting ---------------------------------------------------------------------------------- */

/*
 * A provider's barrier does not cover batches that other threads have numbered but not called yet:
 * those threads may be off their CPUs for a long time, and hold all heads. So a waiting thread
 * starts its own batch, in its own memory: its callback has returned when the barrier returns.
 * Without memory, or if the provider still has that batch, the thread uses any head that is free.
 */
void grace_wait(struct grace *grace, uint64_t number)
{
	struct grace_batch *own = pool_alloc(sizeof(*own));
	struct os_program call;

	if (own)
		own->grace = grace;
	while (!grace_passed(grace, number)) {
		if (own && !os_exchange(&own->busy, 1))
			start_batch(grace, own, os_now());
		else
			grace_start(grace);
		call = os_enter_program();
		grace->ops.barrier();
		os_leave_program(call);
		report_stall(grace, os_now());
	}
	if (own && !os_load_acquire(&own->busy))
		pool_free(own, sizeof(*own));
}

/* Visit one user, or all active ones (NULL). */
static void visit(struct grace *grace, struct grace_user *one,
		  void (*each)(struct grace_user *user, void *data), struct grace_pass *pass)
{
	if (one)
		each(one, pass);
	else
		grace_for_each_active(grace, each, pass);
}

void grace_barrier(struct grace *grace, struct grace_user *one)
{
	struct grace_pass pass = {.all = true};
	bool reached;

	grace_hold(grace);
	visit(grace, one, collect_user, &pass);
	reached = drain_due(&pass);
	visit(grace, one, settle_user, &pass);
	grace_let_go(grace);
	if (!reached)
		os_report("kvfree_rcu_barrier: the kernel refuses membarrier, so objects that are "
			  "collected on other CPUs are not waited for. Allow it (seccomp?), or "
			  "use SHEAF_OPTIONS=backend=trylock");
	os_report_kept();
	if (!pass.waits)
		return;
	grace_wait(grace, grace_now(grace));
	grace_hold(grace);
	visit(grace, one, flush_user, &pass);
	pass.waits = false;
	visit(grace, one, settle_user, &pass);
	grace_let_go(grace);
	os_report_kept();
	/* A callback must check what was left. */
	if (pass.waits && is_idle(grace))
		grace_start(grace);
}

void grace_start_after(struct grace *grace, bool over)
{
	if (!over) {
		start_spaced(grace);
		return;
	}
	os_report_once(&too_many,
		       "kfree_rcu: more than %u MiB wait for a grace period or for reuse (%s). "
		       "Retire less, keep readers short, or raise SHEAF_OPTIONS=rcu_limit=MIB",
		       os_options.rcu_limit, grace->ops.name);
	grace_start(grace);
}
