/* SPDX-License-Identifier: MIT */
/*
 * The model that replay.c holds address spaces against: an array of ranges in order, changed in the
 * simplest way that can be right. Neighbours are never joined; who compares joins them.
 */
#ifndef VMA_PLAIN_H
#define VMA_PLAIN_H

#include "recording.h"

struct plain_range {
	uint64_t first, end; /* pages; end is the first behind it */
	uint64_t page;	     /* of the file, at first */
	unsigned int flags, file;
	bool grows; /* downwards, without a call */
};

struct plain {
	struct plain_range *ranges;
	size_t n, room;
	uint64_t brk_start, brk;
};

/* Let the model go through a call of a space other than fork. NULL, or why that cannot have
 * been. */
const char *plain_apply(struct plain *plain, const struct op *op);

/*
 * If a range that grows ends as this one of the kernel's, and begins above it: let it begin there,
 * too. Where it began before; 0 if there is no such range.
 */
uint64_t plain_grow(struct plain *plain, uint64_t first, uint64_t end);

/* How far from `first` everything is mapped: `end` at most. */
uint64_t plain_mapped_until(const struct plain *plain, uint64_t first, uint64_t end);

/* `to` is an empty model. */
void plain_copy(struct plain *to, const struct plain *from);
void plain_free(struct plain *plain);

#endif
