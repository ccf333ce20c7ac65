/* SPDX-License-Identifier: MIT */
/* The expected state after each call, by the model; see operations.h. */
#ifndef TESTS_MAPLE_PLACES_H
#define TESTS_MAPLE_PLACES_H

#include "operations.h"

/* The fields of a state that programs see. */
struct place {
	unsigned long index, last;
	enum maple_status status;
};

struct search {
	const char *name;
	void *(*call)(struct ma_state *mas, unsigned long limit);
	/* Do the call in the model: returns the entry, and the place becomes the expected state. */
	void *(*wanted)(const struct run *r, struct place *p, unsigned long limit, bool gaps);
	bool gaps;
};

enum search_number {
	SEARCH_FIND,
	SEARCH_FIND_RANGE,
	SEARCH_FIND_REV,
	SEARCH_FIND_RANGE_REV,
	SEARCH_NEXT,
	SEARCH_NEXT_RANGE,
	SEARCH_PREV,
	SEARCH_PREV_RANGE,
	SEARCH_WALK, /* has no limit */
	NR_SEARCHES
};

extern const struct search searches[NR_SEARCHES];

/* Do mas_walk() in the model. */
void *place_walk(const struct run *r, struct place *p, unsigned long index);
/*
 * After a store of the model's cells first ... last. had_nodes: whether the tree had nodes before.
 */
void place_store(const struct run *r, struct place *p, bool had_nodes, const void *entry);
/* Prints a line and exits if the state is a different one. */
void check_place(const struct run *r, const struct ma_state *mas, const struct place *p);

#endif
