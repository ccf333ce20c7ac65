/* SPDX-License-Identifier: MIT */
/* What a drain takes from a slot and may put back; see taken.c. Callers: drain.c, fork.c. */
#ifndef SHEAF_PERCPU_TAKEN_H
#define SHEAF_PERCPU_TAKEN_H

#include "percpu/rows.h"
#include "percpu/sheaf.h"

/* What a drain takes from a slot. */
struct aim {
	/* Take the sheaf out and leave the bootstrap sheaf. */
	void (*take)(struct slot *slot, unsigned int row, struct sheaf **list);
	/* Undo this for one of the sheaves. */
	void (*put_back)(struct slot *slot, struct sheaf *sheaf);
	size_t stop; /* the stop word that concerns it: its offset in the cache */
};

/* In taken_from, with the row: from where in its slot. */
enum taken_place {
	TAKEN_MAIN,
	TAKEN_SPARE,
	TAKEN_REMOTE, /* and the number of its cell */
	TAKEN_PLACES = TAKEN_REMOTE + SLOT_REMOTE
};

/* Main and spare; remote sheaves of freed objects. */
extern const struct aim aim_objects;
/* The rcu_free sheaf; remote sheaves of retired objects. */
extern const struct aim aim_retired;

static inline unsigned int taken_row(const struct sheaf *taken)
{
	return (unsigned int)(taken->taken_from / TAKEN_PLACES);
}

static inline unsigned int taken_place_of(const struct sheaf *taken)
{
	return (unsigned int)(taken->taken_from % TAKEN_PLACES);
}

#endif
