/* SPDX-License-Identifier: MIT */
/* See plain.h. Every change cuts at both ends, drops the ranges in between, and inserts. */
#include "plain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../space/space.h"

#define ACCESS (VMA_READ | VMA_WRITE | VMA_EXEC)

static void make_room(struct plain *plain)
{
	if (plain->n < plain->room)
		return;
	plain->room = 2 * plain->room + 32;
	plain->ranges = realloc(plain->ranges, plain->room * sizeof(*plain->ranges));
	if (!plain->ranges) {
		fprintf(stderr, "out of memory\n");
		exit(1);
	}
}

static void insert(struct plain *plain, size_t at, struct plain_range range)
{
	make_room(plain);
	memmove(plain->ranges + at + 1, plain->ranges + at,
		(plain->n - at) * sizeof(*plain->ranges));
	plain->ranges[at] = range;
	plain->n++;
}

/* The place of the first range that ends behind the page. */
static size_t place_of(const struct plain *plain, uint64_t page)
{
	size_t at = 0;

	while (at < plain->n && plain->ranges[at].end <= page)
		at++;
	return at;
}

/* Split a range that crosses the page. Returns the place of the first range at or behind it. */
static size_t cut(struct plain *plain, uint64_t page)
{
	size_t at = place_of(plain, page);
	struct plain_range upper;

	if (at == plain->n || plain->ranges[at].first >= page)
		return at;
	upper = plain->ranges[at];
	upper.page += page - upper.first;
	upper.first = page;
	upper.grows = false;
	plain->ranges[at].end = page;
	insert(plain, at + 1, upper);
	return at + 1;
}

static void unmap(struct plain *plain, uint64_t first, uint64_t end)
{
	size_t from = cut(plain, first), to = cut(plain, end);

	if (to == from)
		return;
	memmove(plain->ranges + from, plain->ranges + to, (plain->n - to) * sizeof(*plain->ranges));
	plain->n -= to - from;
}

static void map(struct plain *plain, struct plain_range range)
{
	unmap(plain, range.first, range.end);
	insert(plain, place_of(plain, range.first), range);
}

static bool is_free(const struct plain *plain, uint64_t first, uint64_t end)
{
	size_t at = place_of(plain, first);

	return at == plain->n || plain->ranges[at].first >= end;
}

uint64_t plain_mapped_until(const struct plain *plain, uint64_t first, uint64_t end)
{
	for (size_t at = place_of(plain, first); at < plain->n && first < end; at++) {
		if (plain->ranges[at].first > first)
			break;
		first = plain->ranges[at].end;
	}
	return first < end ? first : end;
}

/* At a hole the kernel stops and returns ENOMEM; what lies before the hole has changed. */
static void protect(struct plain *plain, const struct op *op)
{
	uint64_t end = plain_mapped_until(plain, op->first, op->first + op->pages);
	size_t to;

	if (end == op->first)
		return;
	cut(plain, op->first);
	to = cut(plain, end);
	for (size_t at = place_of(plain, op->first); at < to; at++) {
		plain->ranges[at].flags &= ~ACCESS;
		plain->ranges[at].flags |= op->flags;
	}
}

static const char *heap(struct plain *plain, const struct op *op)
{
	uint64_t old = plain->brk;

	if (op->result < plain->brk_start)
		return "the heap ends before it begins";
	plain->brk = op->result;
	if (op->result < old)
		unmap(plain, op->result, old);
	else if (!is_free(plain, old, op->result))
		return "the heap grows into what is mapped";
	else if (op->result > old)
		map(plain, (struct plain_range){
				   .first = old, .end = op->result, .flags = VMA_READ | VMA_WRITE});
	return NULL;
}

/* The ranges of first ... end, as pieces at another place; the last one extends to the new length.
 */
static void move(struct plain *plain, const struct op *op, uint64_t end)
{
	uint64_t to_end = op->result + op->wanted;
	size_t from = cut(plain, op->first), n = cut(plain, end) - from;
	struct plain_range *pieces = malloc((n + 1) * sizeof(*pieces));

	if (!pieces) {
		fprintf(stderr, "out of memory\n");
		exit(1);
	}
	memcpy(pieces, plain->ranges + from, n * sizeof(*pieces));
	if (op->how != HOW_KEEP && op->pages)
		unmap(plain, op->first, op->first + op->pages);
	unmap(plain, op->result, to_end);
	for (size_t i = 0; i < n; i++) {
		pieces[i].first += op->result - op->first;
		pieces[i].end = i + 1 < n ? pieces[i].end + op->result - op->first : to_end;
		map(plain, pieces[i]);
	}
	free(pieces);
}

static const char *remap(struct plain *plain, const struct op *op)
{
	uint64_t old_end = op->first + op->pages, new_end = op->first + op->wanted;
	uint64_t to_end = op->result + op->wanted;

	if (plain_mapped_until(plain, op->first, old_end) < old_end ||
	    is_free(plain, op->first, op->first + 1))
		return "what mremap moves is not mapped";
	if (op->result != op->first) {
		bool apart = to_end <= op->first || op->result >= old_end;

		if (!apart)
			return "mremap moves a range over itself";
		/* No pages: the old range is mapped a second time. */
		move(plain, op,
		     op->pages == 0	      ? op->first + 1
		     : op->wanted < op->pages ? new_end
					      : old_end);
		return NULL;
	}
	if (op->wanted < op->pages) {
		unmap(plain, new_end, old_end);
	} else if (op->wanted > op->pages) {
		struct plain_range more = plain->ranges[place_of(plain, old_end - 1)];

		if (!op->pages || !is_free(plain, old_end, new_end))
			return "mremap grows a range into what is mapped";
		more.page += old_end - more.first;
		more.first = old_end;
		more.end = new_end;
		more.grows = false;
		map(plain, more);
	}
	return NULL;
}

static const char *map_call(struct plain *plain, const struct op *op)
{
	uint64_t first = op->kind == OP_MMAP ? op->result : op->first;

	if (op->kind == OP_MMAP && op->how == HOW_FIXED)
		unmap(plain, first, first + op->pages);
	if (!is_free(plain, first, first + op->pages))
		return "the kernel mapped where something is mapped";
	map(plain, (struct plain_range){.first = first,
					.end = first + op->pages,
					.page = op->page,
					.flags = op->flags,
					.file = op->file,
					.grows = op->grows || op->how == HOW_GROWSDOWN});
	return NULL;
}

const char *plain_apply(struct plain *plain, const struct op *op)
{
	if (op->kind == OP_MPROTECT && op->failed && op->no_memory)
		protect(plain, op);
	if (op->failed)
		return NULL;
	switch (op->kind) {
	case OP_EXEC:
		plain_free(plain);
		plain->brk_start = plain->brk = op->result;
		return NULL;
	case OP_MAP:
	case OP_MMAP:
		return map_call(plain, op);
	case OP_MUNMAP:
		unmap(plain, op->first, op->first + op->pages);
		return NULL;
	case OP_MPROTECT:
		if (plain_mapped_until(plain, op->first, op->first + op->pages) <
		    op->first + op->pages)
			return "the kernel protected what is not mapped";
		protect(plain, op);
		return NULL;
	case OP_BRK:
		return heap(plain, op);
	case OP_MREMAP:
		return remap(plain, op);
	case OP_EXIT:
		plain_free(plain);
		return NULL;
	default:
		return NULL;
	}
}

uint64_t plain_grow(struct plain *plain, uint64_t first, uint64_t end)
{
	size_t at = place_of(plain, end - 1);
	struct plain_range *range = &plain->ranges[at];
	uint64_t before;

	if (at == plain->n || !range->grows || range->end != end || range->first <= first ||
	    !is_free(plain, first, range->first))
		return 0;
	before = range->first;
	range->page -= before - first;
	range->first = first;
	return before;
}

void plain_copy(struct plain *to, const struct plain *from)
{
	for (size_t i = 0; i < from->n; i++)
		insert(to, i, from->ranges[i]);
	to->brk_start = from->brk_start;
	to->brk = from->brk;
}

void plain_free(struct plain *plain)
{
	free(plain->ranges);
	*plain = (struct plain){0};
}
