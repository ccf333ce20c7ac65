/* SPDX-License-Identifier: MIT */
/* See recording.h: lines, and how they relate. */
#include "recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"

#define WORDS_MAX 10

const char *const op_names[OP_KINDS] = {"exec",	  "map",      "mmap", "munmap", "mprotect", "brk",
					"mremap", "dontneed", "fork", "end",	"exit"};
static const char *const patterns[OP_KINDS] = {"nb",	"rpf", "rphf=v", "r=o", "ra=o", "w=b",
					       "rwh=v", "r=o", "s",	 "rpf", ""};

/* --- how lines relate ------------------------------------------------------------------------- */

static bool begin_space(struct parser *parser, unsigned int number)
{
	struct recording *recording = parser->recording;
	bool *larger;

	if (number != recording->spaces + 1)
		return parse_fail(parser, "space %u begins, but the next one is %u", number,
				  recording->spaces + 1);
	larger = realloc(parser->alive, number + 1);
	if (!larger)
		return parse_fail(parser, "out of memory");
	parser->alive = larger;
	larger[number] = true;
	recording->spaces = number;
	return true;
}

static bool check_numbers(struct parser *parser)
{
	struct op *op = parser->op;

	if (op->failed)
		return true;
	if (strchr(patterns[op->kind], 'r') &&
	    (op->first >= PAGES_MAX || op->pages > PAGES_MAX - op->first))
		return parse_fail(parser, "the range is out of range");
	if (strchr(patterns[op->kind], 'r') && !op->pages && op->kind != OP_MREMAP &&
	    op->kind != OP_MPROTECT && op->kind != OP_DONTNEED)
		return parse_fail(parser, "the range is empty");
	if (op->kind == OP_MREMAP &&
	    (!op->wanted || op->wanted > PAGES_MAX || op->wanted > PAGES_MAX - op->result))
		return parse_fail(parser, "the new length is out of range");
	if (op->kind == OP_MMAP && op->pages > PAGES_MAX - op->result)
		return parse_fail(parser, "the result is out of range");
	return true;
}

static bool check_order(struct parser *parser)
{
	struct op *op = parser->op, *before = op > parser->recording->ops ? op - 1 : NULL;
	unsigned int number = op->space;
	bool known = number <= parser->recording->spaces && parser->alive[number];

	if (before && before->kind == OP_END &&
	    (before->space != number || (op->kind != OP_END && op->kind != OP_EXIT)))
		return parse_fail(parser, "end lines of space %u are not followed by its exit",
				  before->space);
	if (op->kind == OP_EXEC && !known)
		return begin_space(parser, number);
	if (!known)
		return parse_fail(parser, "there is no space %u now", number);
	if (op->kind == OP_MAP) {
		struct op *exec = parser->image ? &parser->recording->ops[parser->image - 1] : NULL;

		if (!exec || exec->space != number)
			return parse_fail(parser, "a map line that follows no exec of space %u",
					  number);
		exec->nr_maps++;
	}
	if (op->kind == OP_FORK)
		return begin_space(parser, op->child);
	if (op->kind == OP_EXIT)
		parser->alive[number] = false;
	return true;
}

/* --- lines ------------------------------------------------------------------------------------ */

static bool add_op(struct parser *parser)
{
	struct recording *recording = parser->recording;

	if (recording->nr_ops == parser->room) {
		size_t room = 2 * parser->room + 256;
		struct op *larger = realloc(recording->ops, room * sizeof(*larger));

		if (!larger)
			return parse_fail(parser, "out of memory");
		recording->ops = larger;
		parser->room = room;
	}
	parser->op = &recording->ops[recording->nr_ops];
	*parser->op = (struct op){.line = parser->line};
	return true;
}

static bool parse_op(struct parser *parser, char **words, unsigned int n)
{
	struct op *op;
	int kind = 0;
	const char *pattern;

	if (!add_op(parser))
		return false;
	op = parser->op;
	if (!parse_decimal(parser, words[0], UINT32_MAX - 1, &op->space))
		return false;
	while (kind < OP_KINDS && (n < 2 || strcmp(words[1], op_names[kind])))
		kind++;
	if (kind == OP_KINDS)
		return parse_fail(parser, "'%.40s' is no call", n < 2 ? "" : words[1]);
	op->kind = (enum op_kind)kind;
	pattern = patterns[kind];
	if (n != strlen(pattern) + 2)
		return parse_fail(parser,
				  "%s has %zu words, not %u: sheaf-maps(5) describes the format",
				  op_names[kind], strlen(pattern) + 2, n);
	for (unsigned int i = 2; i < n; i++)
		if (!parse_word(parser, pattern[i - 2], words[i]))
			return false;
	if (!check_numbers(parser) || !check_order(parser))
		return false;
	parser->recording->nr_ops++;
	if (kind != OP_MAP)
		parser->image = kind == OP_EXEC ? parser->recording->nr_ops : 0;
	return true;
}

static bool parse_head(struct parser *parser, char **words, unsigned int n)
{
	unsigned int version, page;

	if (n < 2 || strcmp(words[0], "sheaf-maps"))
		return parse_fail(parser, "not a recording of `sheaf record-maps`");
	if (strcmp(words[1], "1")) {
		if (!parse_decimal(parser, words[1], UINT32_MAX - 1, &version))
			return false;
		return parse_fail(parser, "a recording of version %u; this reads version 1",
				  version);
	}
	if (n != 6 || strcmp(words[2], "page") || strcmp(words[4], "machine"))
		return parse_fail(parser, "after the version: page BYTES machine NAME");
	return parse_decimal(parser, words[3], 1 << 24, &page);
}

/* Split at single spaces. Returns the number of words; more than the maximum if there are too many.
 */
static unsigned int split(char *line, char *words[WORDS_MAX])
{
	unsigned int n = 0;

	for (char *at = line; at && n <= WORDS_MAX; n++) {
		char *blank = strchr(at, ' ');

		if (blank)
			*blank++ = '\0';
		if (n < WORDS_MAX)
			words[n] = at;
		at = blank;
	}
	return n;
}

static bool parse_line(struct parser *parser, char *line)
{
	char *words[WORDS_MAX];
	unsigned int n, lines;

	parser->line++;
	if (line[0] == '#')
		return true;
	if (parser->done)
		return parse_fail(parser, "more lines after the one that says done");
	if (parser->counted == 1 && !strncmp(line, "command ", strlen("command "))) {
		parser->recording->command = line + strlen("command ");
		parser->counted++;
		return true;
	}
	n = split(line, words);
	if (n > WORDS_MAX)
		return parse_fail(parser, "too many words");
	if (parser->counted == 0) {
		parser->counted++;
		return parse_head(parser, words, n);
	}
	if (n == 2 && !strcmp(words[0], "done")) {
		if (parser->op && parser->op->kind == OP_END)
			return parse_fail(parser, "end lines are not followed by an exit");
		parser->done = true;
		if (!parse_decimal(parser, words[1], UINT32_MAX - 1, &lines))
			return false;
		return lines == parser->counted ||
		       parse_fail(parser, "%u lines were recorded, not %u", lines, parser->counted);
	}
	parser->counted++;
	return parse_op(parser, words, n);
}

static bool parse_text(struct parser *parser, char *text, size_t size)
{
	char *end = text + size;

	if (memchr(text, '\0', size)) {
		parser->line = 1;
		return parse_fail(parser, "not a text");
	}
	*end = '\0';
	while (text < end) {
		char *feed = memchr(text, '\n', (size_t)(end - text));

		if (!feed) {
			parser->line++;
			return parse_fail(parser, "the last line is cut off");
		}
		*feed = '\0';
		if (!parse_line(parser, text))
			return false;
		text = feed + 1;
	}
	if (parser->done)
		return true;
	parser->line += !parser->line;
	return parse_fail(parser, parser->counted
					  ? "cut off: the recording ends without the line done"
					  : "empty");
}

bool recording_parse(struct recording *recording, const char *path, char *text, size_t size,
		     char error[ERROR_ROOM])
{
	struct parser parser = {.recording = recording, .path = path, .error = error};
	bool good;

	*recording = (struct recording){.text = text, .nr_names = 1, .command = ""};
	good = parse_text(&parser, text, size);
	free(parser.alive);
	if (!good)
		recording_free(recording);
	return good;
}

bool recording_read(struct recording *recording, const char *path, char error[ERROR_ROOM])
{
	FILE *file = fopen(path, "rb");
	size_t room = 1 << 16, size = 0, got = 1;
	char *text = malloc(room + 1);

	*recording = (struct recording){0};
	while (file && text && got) {
		if (size == room) {
			char *larger = realloc(text, 2 * room + 1);

			if (!larger)
				break;
			text = larger;
			room *= 2;
		}
		got = fread(text + size, 1, room - size, file);
		size += got;
	}
	if (!file || !text || got || ferror(file)) {
		snprintf(error, ERROR_ROOM, "%s: %s", path, strerror(errno));
		free(text);
		text = NULL;
	}
	if (file)
		fclose(file);
	return text && recording_parse(recording, path, text, size, error);
}

void recording_free(struct recording *recording)
{
	free(recording->ops);
	free(recording->names);
	free(recording->text);
	*recording = (struct recording){0};
}
