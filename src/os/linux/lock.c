/* SPDX-License-Identifier: MIT */
/*
 * The ranked lock, and waiting, on Linux futexes. See os/lock.h for the invariants; the three-state
 * word is from Drepper, "Futexes Are Tricky" (mutex 2).
 */
#include "os/lock.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/assert.h"
#include "os/report/report.h"
#include "os/should_fail.h"
#include "os/tsan.h"

#define FREE	0u
#define HELD	1u
#define WAITERS 2u

#ifdef SHEAF_DEBUG
/* Ranks that this thread holds, one bit each. A TLS variable: debug builds only (docs/design.md,
 * R9). */
static __thread uint32_t held_ranks;

static void rank_push(struct os_lock *lock, bool ordered)
{
	if (ordered && (held_ranks >> lock->rank) != 0)
		os_fatal("lock of rank %u taken while ranks %#x are held: see enum os_rank",
			 lock->rank, held_ranks);
	held_ranks |= 1u << lock->rank;
}

static void rank_pop(struct os_lock *lock)
{
	held_ranks &= ~(1u << lock->rank);
}

bool os_holds_nothing(const char *what)
{
	if (held_ranks)
		os_fatal("a thread %s with locks of ranks %#x held", what, held_ranks);
	return true;
}

void os_assert_failed(const char *what)
{
	if (write(STDERR_FILENO, what, strlen(what)) < 0)
		abort();
	abort();
}
#else
static void rank_push(struct os_lock *lock, bool ordered)
{
	(void)lock, (void)ordered;
}

static void rank_pop(struct os_lock *lock)
{
	(void)lock;
}

/* Named by assertions that are off: in the single file, what is named must be defined. */
bool os_holds_nothing(const char *what)
{
	(void)what;
	return true;
}
#endif

void os_lock_init(struct os_lock *lock, enum os_rank rank)
{
	lock->word = FREE;
	lock->rank = rank;
}

void os_wait(uint32_t *word, uint32_t value, uint32_t ms)
{
	const struct timespec most = {ms / 1000, (long)(ms % 1000) * 1000000};
	OS_KEEP_ERRNO;

	os_syscall_may_fail(EINTR, futex, word, FUTEX_WAIT_PRIVATE, value, ms ? &most : NULL, NULL,
			    0);
}

void os_wake(uint32_t *word)
{
	OS_KEEP_ERRNO;

	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static OS_COLD void lock_slow(struct os_lock *lock)
{
	while (os_exchange(&lock->word, WAITERS) != FREE)
		os_wait(&lock->word, WAITERS, 0);
}

/* Locks that may be held for a long time guard data that memcpy() and strcmp() touch. If the others
 * were reported to the sanitizer, races of the program would be hidden, because every refill takes
 * one. */
static bool is_seen(const struct os_lock *lock)
{
	return tsan_is_on() && lock->rank <= OS_RANK_DRAIN;
}

void os_lock(struct os_lock *lock)
{
	uint32_t expected = FREE;

	rank_push(lock, true);
	if (!os_cmpxchg(&lock->word, &expected, HELD))
		lock_slow(lock);
	if (is_seen(lock))
		tsan_acquire(lock);
}

bool os_trylock(struct os_lock *lock)
{
	uint32_t expected = FREE;

	if (!os_cmpxchg(&lock->word, &expected, HELD))
		return false;
	/* A try-lock cannot deadlock, so it may be taken out of order. */
	rank_push(lock, false);
	if (is_seen(lock))
		tsan_acquire(lock);
	return true;
}

void os_unlock(struct os_lock *lock)
{
	rank_pop(lock);
	if (is_seen(lock))
		tsan_release(lock);
	if (os_exchange(&lock->word, FREE) == WAITERS)
		os_wake(&lock->word);
}

bool os_lock_held(struct os_lock *lock)
{
	return os_load_relaxed(&lock->word) != FREE;
}
