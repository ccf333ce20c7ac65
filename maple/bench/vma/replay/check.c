/* SPDX-License-Identifier: MIT */
/* See check.h. */
#include "check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define VALIDATE_EVERY 64 /* calls: the whole tree is looked at then */

static bool fault(struct check *check, enum verdict verdict, const struct op *op,
		  const char *format, ...)
{
	va_list words;
	int length = snprintf(check->error, ERROR_ROOM, "%s:%u: ", check->path, op->line);

	check->verdict = verdict;
	if (length < 0 || length >= ERROR_ROOM)
		return false;
	va_start(words, format);
	vsnprintf(check->error + length, ERROR_ROOM - (size_t)length, format, words);
	va_end(words);
	return false;
}

/* --- ranges, neighbours joined ---------------------------------------------------------------- */

/* The ranges of one of the three, in order. */
struct cursor {
	const struct plain *plain;
	struct ma_state *mas;
	const struct op *ends, *ends_end; /* lines of the kernel's ranges */
	size_t at;
	bool only_permissions;
	bool ahead; /* the range below was read, but not returned yet */
	struct plain_range range;
};

static bool read_range(struct cursor *cursor, struct plain_range *range)
{
	const struct vma *vma;

	if (cursor->plain) {
		if (cursor->at == cursor->plain->n)
			return false;
		*range = cursor->plain->ranges[cursor->at++];
		return true;
	}
	if (cursor->ends) {
		const struct op *op = cursor->ends;

		if (op == cursor->ends_end)
			return false;
		*range = (struct plain_range){
			op->first, op->first + op->pages, op->page, op->flags, op->file, op->grows};
		cursor->ends++;
		return true;
	}
	vma = mas_find(cursor->mas, ULONG_MAX);
	if (!vma)
		return false;
	*range = (struct plain_range){.first = vma->start / SPACE_PAGE,
				      .end = vma->end / SPACE_PAGE,
				      .page = vma->page,
				      .flags = (unsigned int)vma->flags,
				      .file = (unsigned int)vma->file};
	return true;
}

static bool goes_on(const struct cursor *cursor, const struct plain_range *range,
		    const struct plain_range *next)
{
	if (next->first != range->end || next->flags != range->flags)
		return false;
	if (cursor->only_permissions)
		return true;
	return next->file == range->file &&
	       (!next->file || next->page == range->page + (range->end - range->first));
}

static bool next_range(struct cursor *cursor, struct plain_range *range)
{
	if (!cursor->ahead && !read_range(cursor, &cursor->range))
		return false;
	*range = cursor->range;
	while ((cursor->ahead = read_range(cursor, &cursor->range)) &&
	       goes_on(cursor, range, &cursor->range))
		range->end = cursor->range.end;
	return true;
}

static bool differ(const struct cursor *cursor, const struct plain_range *a,
		   const struct plain_range *b)
{
	if (a->first != b->first || a->end != b->end || a->flags != b->flags)
		return true;
	return !cursor->only_permissions && (a->file != b->file || (a->file && a->page != b->page));
}

static const char *shown(char text[64], bool there, const struct plain_range *range)
{
	if (!there)
		return "nothing";
	snprintf(text, 64, "%" PRIx64 "+%" PRIx64 " %c%c%c%c", range->first,
		 range->end - range->first, range->flags & VMA_READ ? 'r' : '-',
		 range->flags & VMA_WRITE ? 'w' : '-', range->flags & VMA_EXEC ? 'x' : '-',
		 range->flags & VMA_SHARED ? 's' : 'p');
	return text;
}

/* Whether both have the same ranges; reports the first difference. */
static bool same(struct check *check, const struct op *op, struct cursor *one, struct cursor *other,
		 enum verdict verdict)
{
	struct plain_range a = {0}, b = {0};
	char text_a[64], text_b[64];
	bool more_a, more_b;
	const char *names = verdict == CHECK_SPACE ? "the space has, the model has"
						   : "the model has, the kernel had";

	do {
		more_a = next_range(one, &a);
		more_b = next_range(other, &b);
		if (more_a != more_b || (more_a && differ(one, &a, &b)))
			return fault(check, verdict, op, "space %u after %s: %s: %s, %s", op->space,
				     op_names[op->kind], names, shown(text_a, more_a, &a),
				     shown(text_b, more_b, &b));
	} while (more_a);
	return true;
}

/* --- a recording, checked --------------------------------------------------------------------- */

static bool check_space(struct check *check, const struct op *op, unsigned int number)
{
	struct space *space = history_space(&check->history, number);
	MA_STATE(mas, &space->tree, 0, 0);
	struct cursor ours = {.mas = &mas}, model = {.plain = &check->plains[number]};

	if (space->vmas > check->most_vmas)
		check->most_vmas = space->vmas;
	return same(check, op, &ours, &model, CHECK_SPACE);
}

/* What the kernel had at the end, beginning with this line. */
static bool check_end(struct check *check, const struct op *first)
{
	struct plain *plain = &check->plains[first->space];
	struct cursor model = {.plain = plain, .only_permissions = true}, kernel = {.ends = first};
	const struct op *op = first;

	for (; op->kind == OP_END; op++) {
		uint64_t before = plain_grow(plain, op->first, op->first + op->pages);
		const char *why =
			before ? history_grow(&check->history, op->space, op->first, before) : NULL;

		if (why)
			return fault(check, CHECK_SPACE, op, "%s", why);
	}
	kernel.ends_end = op;
	kernel.only_permissions = true;
	check->ends++;
	return check_space(check, first, first->space) &&
	       same(check, first, &model, &kernel, CHECK_KERNEL);
}

/* Make a call on both; whether both succeeded. */
static bool both(struct check *check, size_t at)
{
	const struct op *op = &check->recording->ops[at];
	const char *why = plain_apply(&check->plains[op->space], op);

	if (why)
		return fault(check, CHECK_IMPOSSIBLE, op, "%s: %s", op_names[op->kind], why);
	if (op->kind == OP_FORK)
		plain_copy(&check->plains[op->child], &check->plains[op->space]);
	if (op->kind != OP_MAP)
		why = history_apply(&check->history, at);
	if (why)
		return fault(check, CHECK_SPACE, op, "%s: %s", op_names[op->kind], why);
	return true;
}

static bool step(struct check *check, size_t at)
{
	const struct op *op = &check->recording->ops[at];

	if (!both(check, at))
		return false;
	check->made[op->kind]++;
	check->failed += op->failed;
	switch (op->kind) {
	case OP_EXEC: /* the model is complete with the last of its ranges */
	case OP_EXIT:
		return true;
	case OP_MAP:
		return (at + 1 < check->recording->nr_ops && op[1].kind == OP_MAP) ||
		       check_space(check, op, op->space);
	case OP_END:
		return op[-1].kind == OP_END || check_end(check, op);
	case OP_FORK:
		if (!check_space(check, op, op->child))
			return false;
		/* fall through */
	default:
		return check_space(check, op, op->space);
	}
}

static bool validate(struct check *check, const struct op *op)
{
	for (unsigned int i = 1; i <= check->recording->spaces; i++) {
		struct space *space = history_space(&check->history, i);

		if (space && space_validate(space, false))
			return fault(check, CHECK_SPACE, op, "space %u is damaged", i);
	}
	return true;
}

static bool check_all(struct check *check)
{
	size_t n = check->recording->nr_ops;

	for (size_t i = 0; i < n; i++) {
		const struct op *op = &check->recording->ops[i];

		if (!step(check, i) ||
		    ((i % VALIDATE_EVERY == 0 || i + 1 == n) && !validate(check, op)))
			return false;
	}
	return true;
}

enum verdict check_recording(struct check *check)
{
	unsigned int spaces = check->recording->spaces;

	check->plains = calloc(spaces + 1ul, sizeof(*check->plains));
	if (check->plains && history_init(&check->history, check->recording)) {
		check_all(check);
		history_reset(&check->history);
		history_free(&check->history);
	} else {
		check->verdict = CHECK_NO_MEMORY;
		snprintf(check->error, ERROR_ROOM, "%s: out of memory", check->path);
	}
	for (unsigned int i = 0; check->plains && i <= spaces; i++)
		plain_free(&check->plains[i]);
	free(check->plains);
	check->plains = NULL;
	return check->verdict;
}
