/* SPDX-License-Identifier: MIT */
/*
 * The ranked lock between fibres. The word is 0 or 1. A fibre that finds it held is not a candidate
 * for the scheduler until it is released, so that the simulator detects deadlocks and fibres that
 * are never woken. Ranks are always checked.
 */
#include "os/lock.h"

#include "os/atomic.h"
#include "sim/state.h"

void os_lock_init(struct os_lock *lock, enum os_rank rank)
{
	lock->word = 0;
	lock->rank = rank;
}

static void hold(struct os_lock *lock)
{
	lock->word = 1;
	sim.current->held_ranks |= 1u << lock->rank;
	sim.current->nr_held[lock->rank]++;
	sim.current->held_since[lock->rank] = sim.current->steps;
}

static void note_hold(const struct os_lock *lock)
{
	uint64_t steps = sim.current->steps - sim.current->held_since[lock->rank];

	if (steps > sim.longest_hold[lock->rank])
		sim.longest_hold[lock->rank] = steps;
}

uint64_t sim_longest_hold(unsigned int rank)
{
	uint64_t longest = sim.longest_hold[rank];

	sim.longest_hold[rank] = 0;
	return longest;
}

void os_lock(struct os_lock *lock)
{
	if (sim.current->held_ranks >> lock->rank)
		sim_fail("a lock of rank %u is taken with ranks %#x held", lock->rank,
			 sim.current->held_ranks);
	sim_step(LOCK, lock, sizeof(lock->word));
	while (lock->word) {
		if (sim.current == &sim.outside)
			sim_fail("a lock of rank %u is held when everything is quiet", lock->rank);
		sim.current->waits_for = lock;
		sim_pass();
	}
	hold(lock);
}

bool os_trylock(struct os_lock *lock)
{
	sim_step(TRYLOCK, lock, sizeof(lock->word));
	if (lock->word)
		return false;
	hold(lock);
	return true;
}

void os_unlock(struct os_lock *lock)
{
	sim_step(UNLOCK, lock, sizeof(lock->word));
	if (!lock->word || !(sim.current->held_ranks >> lock->rank & 1))
		sim_fail("a lock of rank %u is released by a fibre that does not hold it",
			 lock->rank);
	note_hold(lock);
	lock->word = 0;
	if (!--sim.current->nr_held[lock->rank])
		sim.current->held_ranks &= ~(1u << lock->rank);
	for (unsigned int i = 0; i < sim.nr_fibres; i++)
		if (sim.fibres[i].waits_for == lock)
			sim.fibres[i].waits_for = NULL;
}

bool os_lock_held(struct os_lock *lock)
{
	return lock->word != 0;
}

bool os_holds_nothing(const char *what)
{
	if (sim.current->held_ranks)
		sim_fail("a fibre %s with locks of ranks %#x held", what, sim.current->held_ranks);
	return true;
}

void os_wait(uint32_t *word, uint32_t value, uint32_t ms)
{
	struct fibre *fibre = sim.current;

	if (sim.current->held_ranks)
		sim_fail("waits with ranks %#x held", sim.current->held_ranks);
	sim_step(WAIT, word, sizeof(*word));
	if (*word != value)
		return;
	if (fibre == &sim.outside)
		sim_fail("waits to be woken when everything is quiet");
	fibre->waits_on = word;
	fibre->gives_up = ms && !sim.config.patient;
	if (fibre->gives_up)
		fibre->asleep_until = sim.steps + ms * UINT64_C(1000000) / sim_step_ns();
	sim_pass();
	fibre->waits_on = NULL;
	fibre->asleep_until = 0;
}

void os_wake(uint32_t *word)
{
	unsigned int first = sim_below(sim.nr_fibres + 1);

	sim_step(WAKE, word, sizeof(*word));
	for (unsigned int i = 0; i < sim.nr_fibres; i++) {
		struct fibre *fibre = &sim.fibres[(first + i) % sim.nr_fibres];

		if (fibre->waits_on == word) {
			fibre->waits_on = NULL;
			fibre->asleep_until = 0;
			return;
		}
	}
}
