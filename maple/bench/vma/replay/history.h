/* SPDX-License-Identifier: MIT */
/*
 * Repeats a recording's calls on address spaces of space.h, for replay.c and benchmarks.
 *
 * The kernel's answers are the requests here: a mapping goes to the address that the kernel
 * returned, which must be free unless the mapping is fixed. One thread at a time; other threads may
 * replay the same recording in histories of their own.
 */
#ifndef VMA_HISTORY_H
#define VMA_HISTORY_H

#include "../space/space.h"
#include "recording.h"

struct history_space {
	struct space versions[2]; /* exec fills the other one, then destroys this */
	unsigned int now;
	bool alive;
};

struct history {
	const struct recording *recording;
	struct history_space *spaces; /* by number */
	struct space_request *image;  /* with room for the largest exec */
};

/* False if there is no memory. */
bool history_init(struct history *history, const struct recording *recording);

/* Make the call at this place in the recording. Places come in order, from the first. Returns NULL,
 * or why the call failed. */
const char *history_apply(struct history *history, size_t at);

/* The space with this number, which must exist. */
struct space *history_space(struct history *history, unsigned int number);

/* Make the mapping at page `from` begin at `first`: stacks grow without a call. */
const char *history_grow(struct history *history, unsigned int number, uint64_t first,
			 uint64_t from);

/* Whether a place in the recording is a call, not a line of /proc/PID/maps. */
static inline bool history_is_call(const struct op *op)
{
	return op->kind != OP_MAP && op->kind != OP_END;
}

/* Destroy all spaces that are left. A new round may follow, or history_free(). */
void history_reset(struct history *history);
void history_free(struct history *history);

#endif
