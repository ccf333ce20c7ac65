/* SPDX-License-Identifier: MIT */
/*
 * Readers of a maple tree in the simulator, and checks of their results.
 *
 * The writer's stores are numbered; content[n] is the tree after n of them. A call that began after
 * n stores and ended when store m had begun may have seen content[n] ... content[m]: an entry with
 * its index and last must be a range of one of these; each index reported as free must be free in
 * one of these.
 */
#ifndef SHEAF_TESTS_SIM_MAPLE_READERS_H
#define SHEAF_TESTS_SIM_MAPLE_READERS_H

#include "kit/model.h"

enum {
	CELLS = 400, /* indices; the last cell extends to ULONG_MAX */
	MOST_STORES = 8
};

enum reading {
	READ_LOAD,
	READ_WALK,
	READ_FIND,
	READ_FIND_REV,
	READ_FIND_RANGE,
	READ_FIND_RANGE_REV,
	READ_NEXT_PREV,
	READ_MT_FIND,
	NR_READINGS
};

struct reader {
	enum reading reading;
	unsigned long at;    /* the index, or where it begins */
	unsigned long limit; /* where it ends */
};

struct history {
	unsigned int begun, done;
	struct model content[MOST_STORES + 1];
};
extern struct history history;

/* In a section of its own. */
void reader_run(struct maple_tree *mt, const struct reader *reader);

#endif
