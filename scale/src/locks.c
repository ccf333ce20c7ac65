/* SPDX-License-Identifier: MIT */
/*
 * The library's lock, and its waiting, with prices, in place of sim/os/lock.c. As in
 * src/os/linux/lock.c, a thread that finds the lock held notes that in the word, and sleeps if the
 * word is still the same when the system looks at it. A thread that releases such a lock wakes the
 * first sleeper, and another thread may be faster.
 *
 * Or like the kernel's queued spinlocks: a waiter keeps its CPU, and reads a line of its own. The
 * lock is handed over in the order of arrival, for the cost of that line. Holders and waiters are
 * not preempted.
 *
 * Ranks are not checked here: the simulator's tests do that.
 */
#include "scale/src/locks.h"

#include "os/lock.h"
#include "scale/src/clock.h"
#include "scale/src/price.h"
#include "scale/src/task.h"
#include "sim/state.h"

#define HERE __builtin_return_address(0)

/* Values of a lock's word. That of a queued lock is never WAITERS. */
#define FREE	0u
#define HELD	1u
#define WAITERS 2u

static bool queued;

/* In the order of arrival, of all locks. */
static struct {
	const struct os_lock *lock;
	struct task *task;
} waiters[CLOCK_TASKS];
static unsigned int nr_waiters;

void locks_are_queued(void)
{
	queued = true;
}

static struct tally_lock *counted(const struct task *task, const struct os_lock *lock)
{
	return &tally_at(task->clock)->locks[lock->rank];
}

void os_lock_init(struct os_lock *lock, enum os_rank rank)
{
	lock->word = FREE;
	lock->rank = rank;
}

static void hold(struct task *task, struct os_lock *lock)
{
	sim.current->held_ranks |= 1u << lock->rank;
	if (!task)
		return;
	task->stays += queued;
	task->taken_at[lock->rank] = task->clock;
	counted(task, lock)->taken++;
}

/* It takes between half and one and a half of this time, at random: otherwise tasks that meet once
 * would meet again and again. */
static void call_system(struct task *task, enum machine_cost cost)
{
	uint64_t ps = task_machine->cost[cost];

	task->clock += ps / 2 + ps * sim_below(1024) / 1024;
}

static void add_waiter(struct task *task, const struct os_lock *lock)
{
	waiters[nr_waiters].lock = lock;
	waiters[nr_waiters++].task = task;
}

/* The releasing task hands it over. */
static void wait_in_queue(struct task *task, const struct os_lock *lock)
{
	add_waiter(task, lock);
	task_spin();
}

/* The releasing task wakes a sleeper. */
static void wait_asleep(struct task *task, struct os_lock *lock, const void *pc)
{
	for (;;) {
		uint32_t was;

		price_lock(lock, PRICE_CHANGE, pc);
		was = lock->word;
		lock->word = WAITERS;
		if (was == FREE)
			return;
		call_system(task, MACHINE_call);
		task_pass();
		if (lock->word != WAITERS)
			continue;
		add_waiter(task, lock);
		task_block();
	}
}

void os_lock(struct os_lock *lock)
{
	struct task *task = task_now();

	price_lock(lock, PRICE_CHANGE, HERE);
	if (lock->word && !task)
		sim_fail("a lock of rank %u is held when no task runs", lock->rank);
	if (lock->word) {
		task->since = task->clock;
		if (queued)
			wait_in_queue(task, lock);
		else
			wait_asleep(task, lock, HERE);
		counted(task, lock)->waited++;
		tally_lock_time(lock->rank, true, task->since, task->clock);
	} else {
		lock->word = HELD;
	}
	hold(task, lock);
}

bool os_trylock(struct os_lock *lock)
{
	price_lock(lock, PRICE_CHANGE, HERE);
	if (lock->word)
		return false;
	lock->word = HELD;
	hold(task_now(), lock);
	return true;
}

static void wake(unsigned int waiter, uint64_t at)
{
	struct task *task = waiters[waiter].task;

	for (nr_waiters--; waiter < nr_waiters; waiter++)
		waiters[waiter] = waiters[waiter + 1];
	task_wake(task, at);
}

/* The first one that waits for this lock; nr_waiters: none. */
static unsigned int first_waiter(const struct os_lock *lock)
{
	unsigned int i = 0;

	while (i < nr_waiters && waiters[i].lock != lock)
		i++;
	return i;
}

/* A waiter sees that the lock is free when all that was written under it has arrived. */
static uint64_t all_done(const struct task *task)
{
	return ahead_all(&task->ahead, task->clock);
}

/* The first one in the queue has the lock. */
static void hand_over(const struct task *task, struct os_lock *lock)
{
	const struct machine *m = task_machine;
	unsigned int i = first_waiter(lock);

	if (i == nr_waiters)
		return;
	lock->word = HELD;
	wake(i, all_done(task) + m->cost[machine_distance(m, task->cpu, waiters[i].task->cpu)]);
}

static void wake_sleeper(struct task *task, const struct os_lock *lock)
{
	unsigned int i = first_waiter(lock);

	if (i == nr_waiters) {
		call_system(task, MACHINE_call);
		return;
	}
	task->clock = all_done(task);
	call_system(task, MACHINE_wake);
	wake(i, task->clock + task_machine->cost[MACHINE_woken]);
}

void os_unlock(struct os_lock *lock)
{
	struct task *task = task_now();
	uint32_t was;

	price_lock(lock, queued ? PRICE_WRITE : PRICE_CHANGE, HERE);
	was = lock->word;
	if (was == FREE)
		sim_fail("a lock of rank %u is released and was not held", lock->rank);
	lock->word = FREE;
	sim.current->held_ranks &= ~(1u << lock->rank);
	if (!task)
		return;
	tally_lock_time(lock->rank, false, task->taken_at[lock->rank], task->clock);
	task->stays -= queued;
	if (queued)
		hand_over(task, lock);
	else if (was == WAITERS)
		wake_sleeper(task, lock);
}

bool os_lock_held(struct os_lock *lock)
{
	return lock->word != FREE;
}

/* Without a limit in time, a task that nobody wakes is an error: see task.c. */
void os_wait(uint32_t *word, uint32_t value, uint32_t ms)
{
	struct task *task = task_now();

	price_access(word, sizeof(*word), PRICE_LOOK, HERE);
	if (!task)
		sim_fail("waits when no task runs");
	task_pass();
	if (*word != value)
		return;
	if (ms) {
		task_sleep(ms * UINT64_C(1000000000));
		return;
	}
	task->waits_on = word;
	task->since = task->clock;
	task_block();
	task->waits_on = NULL;
}

void os_wake(uint32_t *word)
{
	struct task *task = task_now(), *first = NULL;

	for (unsigned int i = 0; i < task_count(); i++) {
		struct task *other = task_at(i);

		if (other->waits_on == word && (!first || other->since < first->since))
			first = other;
	}
	if (!task || !first)
		return;
	task->clock += task_machine->cost[MACHINE_wake];
	first->waits_on = NULL;
	task_wake(first, task->clock + task_machine->cost[MACHINE_woken]);
}
