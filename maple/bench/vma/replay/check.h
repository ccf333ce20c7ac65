/* SPDX-License-Identifier: MIT */
/*
 * A recording gone through by the address space of space.h and by a plain model at once.
 *
 * After each call the space's ranges must be the model's, and before each exit both must be what
 * the kernel had then, as far as it can be told. What it can be told of is where which permissions
 * are, so:
 *   - neighbours of the same permissions count as one range: the kernel also keeps apart what
 *     differs in things that no line tells (how it was first mapped, advice, names)
 *   - the stack may begin lower than it did: it grows without a call; then it does so here, too
 */
#ifndef VMA_CHECK_H
#define VMA_CHECK_H

#include "history.h"
#include "plain.h"

enum verdict {
	CHECK_GOOD,
	CHECK_IMPOSSIBLE, /* the recording: the model says that a call cannot have been */
	CHECK_KERNEL,	  /* before an exit the kernel had something else than the model */
	CHECK_SPACE,	  /* the space has something else than the model: it is wrong */
	CHECK_NO_MEMORY
};

struct check {
	const char *path; /* for messages */
	struct recording *recording;
	char error[ERROR_ROOM]; /* a line with the recording's name and line number */
	enum verdict verdict;
	/* what was seen */
	uint64_t made[OP_KINDS], failed;
	unsigned long most_vmas, ends;
	/* the rest is its own */
	struct history history;
	struct plain *plains; /* by number of space */
};

/* Go through a recording; path and recording are set, all else is zero. */
enum verdict check_recording(struct check *check);

#endif
