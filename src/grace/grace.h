/* SPDX-License-Identifier: MIT */
/*
 * Grace periods: what a provider (include/sheaf/rcu.h) says of them, as numbers.
 *
 * Grace periods are asked for in batches, numbered as they are started. What is retired now is safe once
 * the batch that is started next has passed: grace_now() is its number, grace_passed() the question. So
 * nothing that waits is linked into the provider's queue, and one callback serves everything that
 * was retired before it was asked for.
 *
 *   retired ---- number n+1 ----.                     .--- passed: n+1 <= done
 *   batches    ... | n | <------ n+1 is started: call() | its callback: done = n+1
 *
 * Several batches are in flight, so that one need not wait for the next one's callback.
 *
 * Invariants
 *  G1. `started` grows before call() of that batch, `done` in its callback (or when poll() says so).
 *      A batch that has passed proves it of all with smaller numbers.
 *  G2. A batch's head is the provider's while it is busy. Those of GRACE_BATCHES are everybody's; who
 *      waits has one of its own, so that it waits for readers and for no thread of ours.
 *  G3. Callbacks go on while a user waits for something: each one starts another batch then while
 *      somebody wants one, else only the last one in flight.
 *  G4. No lock of the library is held, and nothing in hand, while a function of the provider's runs.
 *  G5. Users are added by an exchange, and removed with the lock, which is held while they are
 *      called: that takes long.
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

/* In flight at once. With one, what is retired after its start waits for its end, too: up to two grace periods.
 * With 16 little more than one; more would only be more callbacks. Not measured. */
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

/* Who has something that waits. The users' lock is held while these run. */
struct grace_user_ops {
	/* Number what was retired so many ms ago or earlier; NULL: all has its number from the beginning.
	 * False: not all could be reached. */
	bool (*collect)(struct grace_user *user, uint32_t older_than);
	/* Free what has passed: all of it, or what is not worth keeping for allocations. */
	void (*flush)(struct grace_user *user, bool all);
	bool (*waits)(struct grace_user *user);
};

struct grace_user {
	struct grace_user *next;
	struct grace *grace;
	const struct grace_user_ops *ops;
};

struct grace {
	const struct sheaf_rcu_ops *given; /* by its address it is known */
	struct sheaf_rcu_ops ops;
	struct grace *next;
	struct os_lock lock;
	struct grace_user *users;
	uint64_t started, done;
	uint64_t started_at; /* when a batch was last started, in ns */
	uint64_t asked_at;   /* when somebody last wanted one */
	uint64_t moved_at;   /* when done last moved, or the first batch since was started */
	uint64_t bytes;	     /* retired, and neither freed nor allocated again */
	uint32_t told_stall; /* of the grace period in progress */
	uint32_t locked_by_fork;
	/* One moment that the provider is asked about: whoever takes it may look. */
	uint32_t poll_taken, poll_armed;
	uint32_t wanted; /* a batch, by who could not start it */
	uint64_t poll_number;
	struct sheaf_rcu_poll poll;
	struct grace_batch *batches; /* GRACE_BATCHES */
};

/* The one of this provider, made if there is none; of the process's if ops is NULL. NULL: no memory,
 * no provider, or one that cannot be used: see provider.h. */
struct grace *grace_of(const struct sheaf_rcu_ops *ops);
/* Make it the process's. False if there is another, or no memory. */
bool grace_register(const struct sheaf_rcu_ops *ops);

/* Never waits: its caller may be a reader. */
void grace_add_user(struct grace *grace, struct grace_user *user, const struct grace_user_ops *ops);
/* On return its functions run no more. */
void grace_remove_user(struct grace_user *user);

/* Keep callbacks from the users' objects. */
void grace_hold(struct grace *grace);
void grace_let_go(struct grace *grace);

/* What is retired by now waits for this number. */
static inline uint64_t grace_now(struct grace *grace)
{
	/* Pairs with the fence before a batch is given to the provider, in start_batch() (grace.c). */
	os_fence();
	return os_load_relaxed(&grace->started) + 1;
}

/* What has passed by now has a number of at most this one. */
static inline uint64_t grace_done(struct grace *grace)
{
	uint64_t done = os_load_acquire(&grace->done);

	tsan_taken(grace);
	return done;
}

static inline bool grace_passed(struct grace *grace, uint64_t number)
{
	return grace_done(grace) >= number;
}

/* Start a batch now, if a head is free. */
void grace_start(struct grace *grace);
/*
 * Start one unless one was just started, at the next call of grace_start_wanted(): for callers with something
 * in hand, or inside a user's function, or that must not wait.
 */
void grace_start_later(struct grace *grace);

extern uint32_t grace_some_wanted;
void grace_start_all_wanted(void) __attribute__((cold));

/* With no lock held and nothing in hand: start what was put off. */
static inline void grace_start_wanted(void)
{
	if (__builtin_expect(os_load_relaxed(&grace_some_wanted) != 0, 0))
		grace_start_all_wanted();
}

/* Ask the provider, if it can be asked, whether something passed. */
void grace_poll(struct grace *grace);
/* Return when number has passed. Waits; not for readers. */
void grace_wait(struct grace *grace, uint64_t number);
/* Return when all that this user, or every user (NULL), retired is freed. Waits; not for readers. */
void grace_barrier(struct grace *grace, struct grace_user *user);

/* Count bytes that were retired; true if they are too many now. */
bool grace_retired(struct grace *grace, uint64_t bytes);
/* After that, with nothing in hand: start a batch unless one was just started, or if they are too many. */
void grace_start_after(struct grace *grace, bool over);
bool grace_is_over_limit(struct grace *grace);
static inline void grace_reused(struct grace *grace, uint64_t bytes)
{
	os_fetch_add_relaxed(&grace->bytes, -bytes);
}

/* What waits with every provider there is. */
uint64_t grace_bytes(void);
/* Call each for every provider there is. */
void grace_for_each(void (*each)(struct grace *grace));

/* Around fork(). */
void grace_lock_all(void);
void grace_unlock_all(void);
/* In a forked child: what vanished threads had taken from the provider never comes back. */
void grace_after_fork(void);

#endif
