/* SPDX-License-Identifier: MIT */
/*
 * Grace periods of a provider (include/sheaf/rcu.h), as numbers.
 *
 * Grace periods are requested in batches, which are numbered as they are started. An object that is
 * retired now is safe once the next batch to be started has passed: grace_now() returns that
 * batch's number, and grace_passed() says whether it has passed. So no waiting object is linked
 * into the provider's queue, and one callback serves all objects that were retired before it was
 * requested.
 *
 *   retired ---- number n+1 ----.                     .--- passed: n+1 <= done
 *   batches    ... | n | <------ n+1 is started: call() | its callback: done = n+1
 *
 * Several batches are in flight, so that starting one need not wait for the callback of another.
 *
 * Invariants
 *  GRACE-G1. `started` grows before call() of that batch, `done` in its callback (or when poll()
 *      says so). When a batch has passed, so have all batches with smaller numbers.
 *  GRACE-G2. The provider owns a batch's head while it is busy. All threads share the GRACE_BATCHES
 *      heads; a waiting thread has its own, so that it waits for readers only, and for no thread of
 *      the library's callers.
 *  GRACE-G3. Callbacks continue while a user waits for something. Each one starts another batch
 *      while a thread wants one; otherwise only the last one in flight does.
 *  GRACE-G4. While a function of the provider runs, the thread holds no lock of the library and has
 *      nothing in hand.
 *  GRACE-G5. Users are added without a lock, and removed under the lock, which is held while they
 *      are called.
 *  GRACE-G6. Only active users are called, so those for which nothing waits cost nothing. A thread
 *      that retires something lets the user's waits() see it, or a count that announces it, and
 *      then activates the user. A callback clears the user's bit, reads waits() once more, and sets
 *      the bit again if something waits.
 *
 * Locks: OS_RANK_GRACE, for the users of one provider.
 * Callers: src/slab/ and the layers above.
 */
#ifndef SHEAF_GRACE_GRACE_H
#define SHEAF_GRACE_GRACE_H

#include <sheaf/rcu.h>
#include <stdbool.h>
#include <stdint.h>

#include "os/atomic.h"
#include "os/lock.h"
#include "os/tsan.h"

/*
 * Batches in flight at the same time. With one, an object that is retired after its start waits
 * for its end, too: up to two grace periods. With 16, little more than one; more batches would only
 * add callbacks. Not measured.
 */
#define GRACE_BATCHES 16
#define GRACE_NEVER   UINT64_MAX

struct grace;
struct grace_user;

struct grace_batch {
	struct sheaf_rcu_head head;
	struct grace *grace;
	uint64_t number;
	uint32_t busy;
};

/* A part of the library that has waiting objects. The users' lock is held while these functions
 * run. */
struct grace_user_ops {
	/*
	 * Give a number to everything that was retired older_than ms ago or earlier. Returns true
	 * if this takes a drain: then drain() does it for all such users together. NULL: everything
	 * has its number from the beginning.
	 */
	bool (*collect)(struct grace_user *user, uint32_t older_than);
	/* For these users, which are linked by `due`. Returns false if not all could be reached. */
	bool (*drain)(struct grace_user *due, uint32_t older_than);
	/*
	 * Free the objects that have passed: for a barrier (all), or those that are not worth
	 * storing for allocations. A barrier may leave free objects where allocations take them.
	 */
	void (*flush)(struct grace_user *user, bool all);
	/* Does something wait, or may a thread that activated the user still retire something? */
	bool (*waits)(struct grace_user *user);
};

struct grace_user {
	struct grace *grace;
	const struct grace_user_ops *ops;
	struct grace_places *places; /* where it is listed, and its bit there */
	uint64_t bit;
	struct grace_user *due; /* the next one in a list of those to be drained */
};

/* Places for users: in active.c. */
#define GRACE_PLACES 61 /* in 512 bytes */
struct grace_places {
	struct grace_places *next;
	uint64_t taken, active; /* bits */
	struct grace_user *users[GRACE_PLACES];
};

/* The bytes that a CPU retired, less those that it freed or allocated again, and has not yet added
 * to the provider's. CPUs do not share a line. */
struct grace_part {
	int64_t bytes;
	int64_t unused[7];
};

/* Its words are in lines by who writes them, and how often. */
struct grace {
	/* Hardly ever written. */
	const struct sheaf_rcu_ops *given; /* its address identifies it */
	struct sheaf_rcu_ops ops;
	struct grace *next;
	struct grace_part *parts;    /* os.nr_cpus, by row */
	struct grace_batch *batches; /* GRACE_BATCHES */
	struct grace_places *places; /* grows only */
	/* By each thread that starts a batch. */
	uint64_t started __attribute__((aligned(64)));
	uint64_t started_at; /* when a batch was last started, in ns */
	uint64_t asked_at;   /* about when a thread last wanted one */
	uint32_t wanted;     /* set by a thread that wanted a batch and could not start it */
	/* By callbacks. */
	uint64_t done __attribute__((aligned(64)));
	uint64_t moved_at; /* when done last moved, or the first batch after that was started */
	uint32_t reported_stall; /* the grace period in progress was reported */
	uint32_t locked_by_fork;
	struct os_lock lock;
	/* Retired, and neither freed nor allocated again yet, except what is in the parts; may be
	 * less than 0. By a CPU whose part is large. */
	int64_t bytes __attribute__((aligned(64)));
	/* One moment that the provider is asked about; the thread that takes it may ask. */
	uint32_t poll_taken __attribute__((aligned(64)));
	uint32_t poll_armed;
	uint64_t poll_number;
	struct sheaf_rcu_poll poll;
};

/*
 * In all.c, as the calls for all providers at the end. The grace structure of this provider,
 * created if there is none; of the process's provider if ops is NULL. Returns NULL if there is no
 * memory, no provider, or one that cannot be used: see provider_read().
 */
struct grace *grace_of(const struct sheaf_rcu_ops *ops);
/* Copy a program's description of its provider. Returns NULL if it can be used; otherwise a text
 * that says what is wrong with it, and what to do. */
const char *provider_read(struct sheaf_rcu_ops *ours, const struct sheaf_rcu_ops *given);
/* Make it the provider of the process. Returns false if there is another one, or no memory. */
bool grace_register(const struct sheaf_rcu_ops *ops);

/* Returns false if there is no memory. Never waits: the caller may be a reader. */
bool grace_add_user(struct grace *grace, struct grace_user *user, const struct grace_user_ops *ops);
/* After return its functions no longer run. */
void grace_remove_user(struct grace_user *user);
/* Before something is retired for this user: callbacks and barriers call it from now on
 * (GRACE-G6). */
void grace_activate(struct grace_user *user);
/* With the lock held: call visit for each active user. */
void grace_for_each_active(struct grace *grace, void (*visit)(struct grace_user *user, void *data),
			   void *data);
/* With the lock held: returns false, and the user is no longer active, if nothing waits. */
bool grace_settle(struct grace_user *user);

/* Keep callbacks away from the users' objects. */
void grace_hold(struct grace *grace);
void grace_let_go(struct grace *grace);

/* Objects retired until now wait for this number. */
static inline uint64_t grace_now(struct grace *grace)
{
	/* Pairs with the fence before a batch is passed to the provider, in start_batch()
	 * (grace.c). */
	os_fence();
	return os_load_relaxed(&grace->started) + 1;
}

/* Everything that has passed until now has at most this number. */
static inline uint64_t grace_done(struct grace *grace)
{
	uint64_t done = os_load_acquire(&grace->done);

	tsan_acquire(grace);
	return done;
}

/* About when a batch was last started; when one last passed: in units of 2^20 ns, about a ms. No
 * clock is read. */
static inline uint32_t grace_last_start(struct grace *grace)
{
	return (uint32_t)(os_load_relaxed(&grace->started_at) >> 20);
}

static inline uint32_t grace_last_end(struct grace *grace)
{
	return (uint32_t)(os_load_relaxed(&grace->moved_at) >> 20);
}

static inline bool grace_passed(struct grace *grace, uint64_t number)
{
	return grace_done(grace) >= number;
}

/* Start a batch now, if a head is free. The library's own thread leaves that to others, as by
 * grace_start_later(), because it is registered with no provider. */
void grace_start(struct grace *grace);
/* Start one at the next call of grace_start_wanted(), unless one has just been started: for callers
 * that have something in hand, run inside a user's function, or must not wait. */
void grace_start_later(struct grace *grace);

extern uint32_t grace_some_wanted __attribute__((visibility("hidden")));
void grace_start_all_wanted(void) OS_COLD;

/* With no lock held and nothing in hand: start batches that were deferred. */
static inline void grace_start_wanted(void)
{
	if (os_unlikely(os_load_relaxed(&grace_some_wanted)))
		grace_start_all_wanted();
}

/* Return when number has passed. Waits; readers must not call it. */
void grace_wait(struct grace *grace, uint64_t number);
/* Return when everything that this user, or every user (NULL), retired is freed. Waits; readers
 * must not call it. */
void grace_barrier(struct grace *grace, struct grace_user *user);

/* All batches up to this number have passed. */
void grace_advance(struct grace *grace, uint64_t number, uint64_t now);

/* --- poll.c ----------------------------------------------------------------------------------- */

/* Note the moment when this batch was started, unless another one is noted. */
void grace_arm_poll(struct grace *grace, uint64_t number);
/* Ask the provider, if it supports that, whether a grace period has passed; not in the library's
 * own thread. */
void grace_poll(struct grace *grace);

/*
 * In bytes.c. Count retired bytes; returns true if they are now too many. Each CPU counts by
 * itself, and adds to the sum from time to time; so "too many" may be off by a sixteenth of
 * rcu_limit, or by 32 KiB for each CPU.
 */
bool grace_retired(struct grace *grace, uint64_t bytes);
/* Call this after grace_retired(), with nothing in hand: start a batch, unless one has just been
 * started and the bytes are not too many. */
void grace_start_after(struct grace *grace, bool over);
bool grace_is_over_limit(struct grace *grace);
void grace_reused(struct grace *grace, uint64_t bytes);
/* Exactly, if nothing is retired or freed meanwhile. Reads a line for each CPU. */
uint64_t grace_sum(struct grace *grace);

/* The bytes that wait with all providers. */
uint64_t grace_bytes(void);
/* The number of grace periods that have passed, of all providers. */
uint64_t grace_all_done(void);
/* Call each for every provider. */
void grace_for_each(void (*each)(struct grace *grace));
/* Call visit for every active user of all providers, whose locks are held. */
void grace_for_each_user(void (*visit)(struct grace_user *user, void *data), void *data);

/* Around fork(). */
void grace_act_on_locks(os_fork_act *act);
/* In a forked child: batches that vanished threads had passed to the provider never return. */
void grace_after_fork(void);

#endif
