/* SPDX-License-Identifier: MIT */
/*
 * The users of a provider, and which of them are active: see GRACE-G5 and GRACE-G6.
 *
 *   grace -> places -> places -> ...    each: bits of places taken, bits of active users, users
 *
 * A program may have ten thousand caches of which a few retire objects now. A callback reads one
 * line for each GRACE_PLACES of them, and visits the active ones.
 */
#include "grace/grace.h"
#include "os/assert.h"
#include "page/pool.h"

#define ALL_TAKEN ((UINT64_C(1) << GRACE_PLACES) - 1)

_Static_assert(sizeof(struct grace_places) == 512, "a block of the pool");

static bool take_place(struct grace_places *places, struct grace_user *user)
{
	uint64_t taken = os_load_relaxed(&places->taken);

	while (taken != ALL_TAKEN) {
		uint64_t bit = ~taken & (taken + 1);

		if (!os_cmpxchg(&places->taken, &taken, taken | bit))
			continue;
		user->places = places;
		user->bit = bit;
		os_store_release(&places->users[__builtin_ctzll(bit)], user);
		return true;
	}
	return false;
}

bool grace_add_user(struct grace *grace, struct grace_user *user, const struct grace_user_ops *ops)
{
	struct grace_places *places = os_load_acquire(&grace->places);

	user->grace = grace;
	user->ops = ops;
	for (; places; places = places->next)
		if (take_place(places, user))
			return true;
	places = pool_alloc(sizeof(*places));
	if (!places)
		return false;
	take_place(places, user);
	places->next = os_load_relaxed(&grace->places);
	while (!os_cmpxchg(&grace->places, &places->next, places))
		;
	return true;
}

void grace_remove_user(struct grace_user *user)
{
	struct grace *grace = user->grace;

	os_lock(&grace->lock);
	os_fetch_and(&user->places->active, ~user->bit);
	os_fetch_and(&user->places->taken, ~user->bit);
	os_unlock(&grace->lock);
}

void grace_activate(struct grace_user *user)
{
	/* Pairs with the fence in grace_settle(). */
	os_fence();
	if (!(os_load_relaxed(&user->places->active) & user->bit))
		os_fetch_or(&user->places->active, user->bit);
}

bool grace_settle(struct grace_user *user)
{
	os_assert(os_peek(&user->grace->lock.word)); /* GRACE-G5 */
	if (user->ops->waits(user))
		return true;
	os_fetch_and(&user->places->active, ~user->bit);
	os_fence();
	if (!user->ops->waits(user))
		return false;
	os_fetch_or(&user->places->active, user->bit);
	return true;
}

void grace_for_each_active(struct grace *grace, void (*visit)(struct grace_user *user, void *data),
			   void *data)
{
	struct grace_places *places = os_load_acquire(&grace->places);

	os_assert(os_peek(&grace->lock.word)); /* GRACE-G5 */
	for (; places; places = places->next)
		for (uint64_t bits = os_load_acquire(&places->active); bits; bits &= bits - 1)
			visit(os_load_acquire(&places->users[__builtin_ctzll(bits)]), data);
}
