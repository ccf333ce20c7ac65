/* SPDX-License-Identifier: MIT */
/*
 * The library's lock, and its waiting, with prices: in the place of sim/os/lock.c. As
 * src/os/linux/lock.c does it: a thread that finds the lock held looks again for a short while
 * (`spin`), and then sleeps; who releases the lock wakes the first one that sleeps, and somebody
 * else may be faster.
 *
 * The word is 0, or 1 while held. Ranks are not checked here: the simulator's tests do that.
 */
#include "os/lock.h"

#include "os/wait.h"
#include "sim/scale/price.h"
#include "sim/scale/task.h"
#include "sim/state.h"

#define HERE __builtin_return_address(0)

static struct tally_lock *counted(const struct task *task, const struct os_lock *lock)
{
	return &tally_at(task->clock)->locks[lock->rank];
}

void os_lock_init(struct os_lock *lock, enum os_rank rank)
{
	lock->word = 0;
	lock->rank = rank;
}

static void hold(struct task *task, struct os_lock *lock)
{
	lock->word = 1;
	sim.current->held_ranks |= 1u << lock->rank;
	if (!task)
		return;
	task->taken_at[lock->rank] = task->clock;
	counted(task, lock)->taken++;
}

void os_lock(struct os_lock *lock)
{
	struct task *task = task_now();

	price_lock(lock, PRICE_CHANGE, HERE);
	if (lock->word && !task)
		sim_fail("a lock of rank %u is held when no task runs", lock->rank);
	if (lock->word) {
		task->since = task->clock;
		while (lock->word) {
			task->waits_for = lock;
			task_block(); /* who releases it wakes this task */
			price_lock(lock, PRICE_CHANGE, HERE);
		}
		counted(task, lock)->waited++;
		tally_lock_time(lock->rank, true, task->since, task->clock);
	}
	hold(task, lock);
}

bool os_trylock(struct os_lock *lock)
{
	price_lock(lock, PRICE_CHANGE, HERE);
	if (lock->word)
		return false;
	hold(task_now(), lock);
	return true;
}

static void wake(struct task *task, uint64_t at)
{
	task->waits_for = NULL;
	task_wake(task, at);
}

/* All that still look go on; if none does, the one that sleeps longest is woken. */
static void wake_next(struct task *task, const struct os_lock *lock)
{
	const uint64_t *cost = task_machine->cost;
	struct task *sleeper = NULL;
	bool looks = false;

	for (unsigned int i = 0; i < task_count(); i++) {
		struct task *other = task_at(i);

		if (other->waits_for != lock)
			continue;
		if (task->clock - other->since <= cost[MACHINE_spin] ||
		    other->since > task->clock) {
			wake(other, task->clock);
			looks = true;
		} else if (!sleeper || other->since < sleeper->since) {
			sleeper = other;
		}
	}
	if (looks || !sleeper)
		return;
	task->clock += cost[MACHINE_wake];
	wake(sleeper, task->clock + cost[MACHINE_woken]);
}

void os_unlock(struct os_lock *lock)
{
	struct task *task = task_now();

	price_lock(lock, PRICE_CHANGE, HERE);
	if (!lock->word)
		sim_fail("a lock of rank %u is released and was not held", lock->rank);
	lock->word = 0;
	sim.current->held_ranks &= ~(1u << lock->rank);
	if (!task)
		return;
	tally_lock_time(lock->rank, false, task->taken_at[lock->rank], task->clock);
	wake_next(task, lock);
}

bool os_lock_held(struct os_lock *lock)
{
	return lock->word != 0;
}

void os_holds_nothing(const char *what)
{
	(void)what;
}

/* Without a limit in time, a task that nobody wakes is an error: see task.c. */
void os_wait(uint32_t *word, uint32_t value, uint32_t ms)
{
	struct task *task = task_now();

	price_access(word, sizeof(*word), PRICE_READ, HERE);
	if (!task)
		sim_fail("waits when no task runs");
	task_pass();
	if (*word != value)
		return;
	if (ms) {
		task->clock += ms * UINT64_C(1000000000);
		task_pass();
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
