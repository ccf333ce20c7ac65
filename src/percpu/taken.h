/* SPDX-License-Identifier: MIT */
/* What a drain takes from a slot and may put back; see taken.c. Callers: drain.c, fork.c. */
#ifndef SHEAF_PERCPU_TAKEN_H
#define SHEAF_PERCPU_TAKEN_H

#include "percpu/rows.h"
#include "percpu/sheaf.h"

/* In taken_from, with the row: from where in its slot. */
enum taken_place {
	TAKEN_MAIN,
	TAKEN_SPARE,
	TAKEN_REMOTE, /* and the number of its cell */
	TAKEN_PLACES = TAKEN_REMOTE + SLOT_REMOTE
};

/* Take main, spare and remote sheaves of freed objects; or, retired, rcu_free and those of retired
 * ones. Leaves the bootstrap sheaf. */
void taken_take(struct slot *slot, unsigned int row, struct sheaf **list, bool retired);
/* Undo this for one of the sheaves. */
void taken_put_back(struct slot *slot, struct sheaf *sheaf, bool retired);

static inline unsigned int taken_row(const struct sheaf *taken)
{
	return (unsigned int)(taken->taken_from / TAKEN_PLACES);
}

static inline unsigned int taken_place_of(const struct sheaf *taken)
{
	return (unsigned int)(taken->taken_from % TAKEN_PLACES);
}

#endif
