/* SPDX-License-Identifier: MIT */
/*
 * A recording's calls made again on address spaces of space.h: for replay.c, and for benchmarks.
 *
 * What the kernel answered is what is asked for here: a mapping goes to the address that was its
 * result, which must be free unless it was a fixed one. One thread at a time; others may go through
 * the same recording in histories of their own.
 */
#ifndef VMA_HISTORY_H
#define VMA_HISTORY_H

#include "../space/space.h"
#include "recording.h"

struct history_space {
	struct space versions[2]; /* exec makes the other one from the image, then destroys this */
	unsigned int now;
	bool alive;
};

struct history {
	const struct recording *recording;
	struct history_space *spaces; /* by number */
	struct space_request *image;  /* room for that of the largest exec */
};

/* False if there is no memory. */
bool history_init(struct history *history, const struct recording *recording);

/* Make the call of this place in the recording; in order, from the first. NULL, or why it
 * failed. */
const char *history_apply(struct history *history, size_t at);

/* The space of this number; only if it is there now. */
struct space *history_space(struct history *history, unsigned int number);

/* Let what is mapped at page `from` begin at `first`: stacks grow without a call. */
const char *history_grow(struct history *history, unsigned int number, uint64_t first,
			 uint64_t from);

/* Whether a place in the recording is a call, not a line of /proc/PID/maps. */
static inline bool history_is_call(const struct op *op)
{
	return op->kind != OP_MAP && op->kind != OP_END;
}

/* Destroy all spaces that are left; a new round may begin, or history_free(). */
void history_reset(struct history *history);
void history_free(struct history *history);

#endif
