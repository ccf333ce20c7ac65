/* SPDX-License-Identifier: MIT */
/* See history.h. */
#include "history.h"

#include <errno.h>
#include <stdlib.h>

#define HIGH (PAGES_MAX * SPACE_PAGE)

static unsigned long bytes(uint64_t pages)
{
	return pages * SPACE_PAGE;
}

bool history_init(struct history *history, const struct recording *recording)
{
	size_t largest = 1;

	for (size_t i = 0; i < recording->nr_ops; i++)
		if (recording->ops[i].nr_maps > largest)
			largest = recording->ops[i].nr_maps;
	*history = (struct history){
		.recording = recording,
		.spaces = calloc(recording->spaces + 1ul, sizeof(*history->spaces)),
		.image = calloc(largest, sizeof(*history->image)),
	};
	if (history->spaces && history->image)
		return true;
	history_free(history);
	return false;
}

struct space *history_space(struct history *history, unsigned int number)
{
	struct history_space *slot = &history->spaces[number];

	return slot->alive ? &slot->versions[slot->now] : NULL;
}

static const char *refused(long error)
{
	return error == -ENOMEM ? "the space has no memory for it"
				: "the space refuses what the kernel did";
}

static const char *exec(struct history *history, const struct op *op)
{
	struct history_space *slot = &history->spaces[op->space];
	struct space *old = &slot->versions[slot->now], *fresh = &slot->versions[!slot->now];
	int error;

	for (unsigned int i = 0; i < op->nr_maps; i++) {
		const struct op *map = &op[i + 1];

		history->image[i] = (struct space_request){.address = bytes(map->first),
							   .length = bytes(map->pages),
							   .flags = map->flags,
							   .file = map->file,
							   .page = map->page,
							   .fixed = true};
	}
	if (!slot->alive)
		space_init(old, 0, HIGH);
	error = space_exec(fresh, old, history->image, op->nr_maps);
	if (error)
		return refused(error);
	slot->now = !slot->now;
	slot->alive = true;
	space_set_brk(fresh, bytes(op->result));
	return NULL;
}

static const char *fork_space(struct history *history, const struct op *op)
{
	struct history_space *slot = &history->spaces[op->child];
	int error = space_fork(&slot->versions[0], history_space(history, op->space));

	if (error)
		return refused(error);
	slot->now = 0;
	slot->alive = true;
	return NULL;
}

static const char *map(struct space *space, const struct op *op)
{
	struct space_request request = {.address = bytes(op->result),
					.length = bytes(op->pages),
					.flags = op->flags,
					.file = op->file,
					.page = op->page,
					.fixed = op->how == HOW_FIXED || !op->result};
	long address = space_map(space, &request);

	if (address < 0)
		return refused(address);
	return (unsigned long)address == request.address
		       ? NULL
		       : "the space has something where the kernel mapped";
}

/* For a call that failed with ENOMEM: the part that the kernel had protected before it met a hole.
 */
static const char *protect_until_hole(struct space *space, const struct op *op)
{
	MA_STATE(mas, &space->tree, bytes(op->first), bytes(op->first));
	unsigned long start = bytes(op->first), at = start;
	unsigned long end = op->first < PAGES_MAX && op->pages < PAGES_MAX - op->first
				    ? bytes(op->first + op->pages)
				    : HIGH;
	const struct vma *vma;
	int error;

	mas_for_each(&mas, vma, end - 1)
	{
		if (vma->start > at)
			break;
		at = vma->end < end ? vma->end : end;
	}
	if (at == start || start >= HIGH)
		return NULL;
	error = space_protect(space, start, at - start, op->flags);
	return error ? refused(error) : NULL;
}

/* --- mremap ----------------------------------------------------------------------------------- */

/* Describe a mapping that continues a VMA, or is a part of it. */
static struct space_request like(const struct vma *vma, unsigned long from)
{
	return (struct space_request){
		.flags = vma->flags,
		.file = vma->file,
		.page = vma->file ? vma->page + (from - vma->start) / SPACE_PAGE : 0,
		.fixed = true};
}

static const char *grow(struct space *space, unsigned long end, unsigned long length)
{
	struct space_request more;
	const struct vma *last = mtree_load(&space->tree, end - 1);
	unsigned long at = end;
	long address;

	if (!last || mt_find(&space->tree, &at, end + length - 1))
		return "the space has something where mremap grew";
	more = like(last, end);
	more.address = end;
	more.length = length;
	address = space_map(space, &more);
	return address < 0 ? refused(address) : NULL;
}

/* Map the pieces of start ... end again, beginning at `to`; the last one extends to `to_end`. */
static const char *copy(struct space *space, unsigned long start, unsigned long end,
			unsigned long to, unsigned long to_end)
{
	for (unsigned long at = start; at < end;) {
		const struct vma *vma = mtree_load(&space->tree, at);
		struct space_request piece;
		unsigned long next;
		long address;

		if (!vma)
			return "the space lacks what mremap moved";
		next = vma->end < end ? vma->end : end;
		piece = like(vma, at);
		piece.address = to + (at - start);
		piece.length = next < end ? next - at : to_end - piece.address;
		address = space_map(space, &piece);
		if (address < 0)
			return refused(address);
		at = next;
	}
	return NULL;
}

static const char *remap(struct space *space, const struct op *op)
{
	unsigned long start = bytes(op->first), length = bytes(op->pages);
	unsigned long wanted = bytes(op->wanted), to = bytes(op->result);
	unsigned long copied = !length ? SPACE_PAGE : wanted < length ? wanted : length;
	const char *why;
	int error = 0;

	if (to == start && wanted > length)
		return grow(space, start + length, wanted - length);
	if (to == start)
		return wanted == length || !space_unmap(space, start + wanted, length - wanted)
			       ? NULL
			       : "the space cannot shrink what mremap shrank";
	error = space_unmap(space, to, wanted);
	if (error)
		return refused(error);
	why = copy(space, start, start + copied, to, to + wanted);
	if (!why && length && op->how != HOW_KEEP)
		error = space_unmap(space, start, length);
	return why || !error ? why : refused(error);
}

/* --- all calls -------------------------------------------------------------------------------- */

static const char *change(struct space *space, const struct op *op)
{
	long result = 0;

	switch (op->kind) {
	case OP_MMAP:
		return map(space, op);
	case OP_MUNMAP:
		result = space_unmap(space, bytes(op->first), bytes(op->pages));
		break;
	case OP_MPROTECT:
		if (op->pages)
			result =
				space_protect(space, bytes(op->first), bytes(op->pages), op->flags);
		break;
	case OP_BRK:
		if (bytes(op->result) != space->brk)
			result = space_brk(space, bytes(op->result));
		if (bytes(op->result) != space->brk)
			return "the heap's end is another one than the kernel's";
		break;
	case OP_MREMAP:
		return remap(space, op);
	default:
		break;
	}
	return result < 0 ? refused(result) : NULL;
}

const char *history_apply(struct history *history, size_t at)
{
	const struct op *op = &history->recording->ops[at];
	struct space *space = history_space(history, op->space);

	if (op->failed)
		return op->kind == OP_MPROTECT && op->no_memory ? protect_until_hole(space, op)
								: NULL;
	switch (op->kind) {
	case OP_EXEC:
		return exec(history, op);
	case OP_FORK:
		return fork_space(history, op);
	case OP_EXIT:
		space_destroy(space);
		history->spaces[op->space].alive = false;
		return NULL;
	default:
		return change(space, op);
	}
}

const char *history_grow(struct history *history, unsigned int number, uint64_t first,
			 uint64_t from)
{
	struct space *space = history_space(history, number);
	const struct vma *vma = mtree_load(&space->tree, bytes(from));
	struct space_request more;
	long address;

	if (!vma)
		return "the space lacks the stack";
	more = like(vma, bytes(from));
	more.address = bytes(first);
	more.length = bytes(from - first);
	more.page -= vma->file ? from - first : 0;
	address = space_map(space, &more);
	return address < 0 ? refused(address) : NULL;
}

void history_reset(struct history *history)
{
	for (unsigned int i = 1; i <= history->recording->spaces; i++)
		if (history->spaces[i].alive) {
			space_destroy(history_space(history, i));
			history->spaces[i].alive = false;
		}
}

void history_free(struct history *history)
{
	free(history->spaces);
	free(history->image);
	*history = (struct history){0};
}
