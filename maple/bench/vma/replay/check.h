/* SPDX-License-Identifier: MIT */
/*
 * Replays a recording on the address space of space.h and, in step, on a plain model.
 *
 * After each call the space's ranges must be the model's, and before each exit both must be what
 * the kernel had then, as far as the recording shows it. It shows which permissions are where, so:
 *   - neighbours of the same permissions count as one range: the kernel also separates ranges that
 *     differ in ways that no line shows (how they were first mapped, advice, names)
 *   - the stack may begin lower than it did: it grows without a call, so it is extended here, too
 */
#ifndef VMA_CHECK_H
#define VMA_CHECK_H

#include "history.h"
#include "plain.h"

enum verdict {
	CHECK_GOOD,
	CHECK_IMPOSSIBLE, /* the recording is at fault: by the model, a call is impossible */
	CHECK_KERNEL,	  /* before an exit the kernel had different ranges than the model */
	CHECK_SPACE,	  /* the space has different ranges than the model: it is wrong */
	CHECK_NO_MEMORY
};

struct check {
	const char *path; /* for messages */
	struct recording *recording;
	char error[ERROR_ROOM]; /* a line with the recording's name and line number */
	enum verdict verdict;
	/* counts */
	uint64_t made[OP_KINDS], failed;
	unsigned long most_vmas, ends;
	/* private */
	struct history history;
	struct plain *plains; /* by number of space */
};

/* Check a recording. The caller has set path and recording; all else is zero. */
enum verdict check_recording(struct check *check);

#endif
