/* SPDX-License-Identifier: MIT */
/*
 * The model that replay.c holds address spaces against: an array of ranges in order, changed in the
 * simplest way that can be right. It never joins neighbours; a comparison must do that.
 */
#ifndef VMA_PLAIN_H
#define VMA_PLAIN_H

#include "recording.h"

struct plain_range {
	uint64_t first, end; /* pages; end is the first behind it */
	uint64_t page;	     /* of the file, at `first` */
	unsigned int flags, file;
	bool grows; /* grows downwards, without a call */
};

struct plain {
	struct plain_range *ranges;
	size_t n, room;
	uint64_t brk_start, brk;
};

/* Apply a call other than fork to the model. Returns NULL, or why the call is impossible. */
const char *plain_apply(struct plain *plain, const struct op *op);

/*
 * If a range that grows ends where this range of the kernel's does, but begins above it, extend it
 * to the same start. Returns its old start, or 0 if there is no such range.
 */
uint64_t plain_grow(struct plain *plain, uint64_t first, uint64_t end);

/* The end of the mapped stretch that begins at `first`; at most `end`. */
uint64_t plain_mapped_until(const struct plain *plain, uint64_t first, uint64_t end);

/* Copy a model into `to`, an empty one. */
void plain_copy(struct plain *to, const struct plain *from);
void plain_free(struct plain *plain);

#endif
