/* SPDX-License-Identifier: MIT */
/* See parse.h: the words of a recording's lines. */
#include "parse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../space/space.h"

static const char *const hows[] = {"any",  "fixed", "noreplace", "growsdown",
				   "stay", "move",  "keep"};

bool parse_fail(struct parser *parser, const char *format, ...)
{
	va_list words;
	int length = snprintf(parser->error, ERROR_ROOM, "%s:%u: ", parser->path, parser->line);

	if (length < 0 || length >= ERROR_ROOM)
		return false;
	va_start(words, format);
	vsnprintf(parser->error + length, ERROR_ROOM - (size_t)length, format, words);
	va_end(words);
	return false;
}

/* A hexadecimal number below a limit, up to the end of the word. */
static bool number(struct parser *parser, const char *word, uint64_t limit, uint64_t *value)
{
	char *end;

	if (!*word || strspn(word, "0123456789abcdef") != strlen(word))
		return parse_fail(parser, "'%.40s' is not a hexadecimal number", word);
	errno = 0;
	*value = strtoull(word, &end, 16);
	if (errno || *value >= limit)
		return parse_fail(parser, "%.40s is out of range", word);
	return true;
}

bool parse_decimal(struct parser *parser, const char *word, unsigned long limit,
		   unsigned int *value)
{
	unsigned long found;
	char *end;

	if (!*word || strspn(word, "0123456789") != strlen(word))
		return parse_fail(parser, "'%.40s' is not a number", word);
	errno = 0;
	found = strtoul(word, &end, 10);
	if (errno || found < 1 || found > limit)
		return parse_fail(parser, "%.40s is out of range", word);
	*value = (unsigned int)found;
	return true;
}

/* Only a call that failed may have an empty range; the end of the line shows whether it failed. */
static bool range(struct parser *parser, char *word)
{
	char *plus = strchr(word, '+');
	struct op *op = parser->op;

	if (!plus)
		return parse_fail(parser, "'%.40s' is not a range FIRST+PAGES", word);
	*plus = '\0';
	return number(parser, word, UINT64_MAX, &op->first) &&
	       number(parser, plus + 1, UINT64_MAX, &op->pages);
}

static bool letters(struct parser *parser, const char *word, const char *all)
{
	static const unsigned int flags[] = {VMA_READ, VMA_WRITE, VMA_EXEC};
	size_t n = strlen(all);

	if (strlen(word) != n)
		return parse_fail(parser, "'%.40s' is not like %s", word, all);
	for (int i = 0; i < 3; i++)
		if (word[i] == all[i])
			parser->op->flags |= flags[i];
		else if (word[i] != '-')
			return parse_fail(parser, "'%.40s' is not like %s", word, all);
	if (n < 4)
		return true;
	if (word[3] == 's')
		parser->op->flags |= VMA_SHARED;
	else if (word[3] != 'p')
		return parse_fail(parser, "'%.40s' is not like %s", word, all);
	return true;
}

static unsigned int *file_number(struct recording *recording, char *name, unsigned int *file)
{
	char **larger;

	for (*file = 1; *file < recording->nr_names; ++*file)
		if (!strcmp(recording->names[*file], name))
			return file;
	larger = realloc(recording->names, (*file + 1) * sizeof(*larger));
	if (!larger)
		return NULL;
	recording->names = larger;
	larger[*file] = name;
	recording->nr_names = *file + 1;
	return file;
}

/* Heap, stack and other anonymous memory count as one kind. */
static bool file(struct parser *parser, char *word)
{
	struct op *op = parser->op;
	char *at = strrchr(word, '@');

	if (!at || at == word)
		return parse_fail(parser, "'%.40s' is not NAME@PAGE", word);
	*at = '\0';
	if (!number(parser, at + 1, UINT64_MAX, &op->page))
		return false;
	op->grows = !strcmp(word, "[stack]");
	if (op->grows || !strcmp(word, "-") || !strcmp(word, "[heap]")) {
		op->page = 0;
		return true;
	}
	if (!file_number(parser->recording, word, &op->file))
		return parse_fail(parser, "out of memory");
	return true;
}

static bool how(struct parser *parser, const char *word)
{
	int from = parser->op->kind == OP_MMAP ? HOW_ANY : HOW_STAY;
	int to = parser->op->kind == OP_MMAP ? HOW_GROWSDOWN : HOW_KEEP;

	for (int i = 0; i <= HOW_KEEP; i++)
		if (!strcmp(word, hows[i]) && ((i >= from && i <= to) || i == HOW_FIXED)) {
			parser->op->how = (enum op_how)i;
			return true;
		}
	return parse_fail(parser, "%s knows no '%.40s'", op_names[parser->op->kind], word);
}

/* A page number, "ok", or an error's name. */
static bool result(struct parser *parser, const char *word, bool page)
{
	struct op *op = parser->op;

	if (word[0] == 'E') {
		op->failed = true;
		op->no_memory = !strcmp(word, "ENOMEM");
		return true;
	}
	if (page)
		return number(parser, word, PAGES_MAX, &op->result);
	return !strcmp(word, "ok") ||
	       parse_fail(parser, "'%.40s' is no result: ok, or E and more", word);
}

bool parse_word(struct parser *parser, char letter, char *text)
{
	struct op *op = parser->op;

	switch (letter) {
	case 'r':
		return range(parser, text);
	case 'p':
		return letters(parser, text, "rwxp");
	case 'a':
		return letters(parser, text, "rwx");
	case 'f':
		return file(parser, text);
	case 'h':
		return how(parser, text);
	case 'v':
	case 'o':
		return result(parser, text, letter == 'v');
	case 'w':
		return number(parser, text, UINT64_MAX, &op->wanted);
	case 'b':
		return number(parser, text, PAGES_MAX, &op->result);
	case 's':
		return parse_decimal(parser, text, UINT32_MAX - 1, &op->child);
	case '=':
		return !strcmp(text, "=") ||
		       parse_fail(parser, "'%.40s' is where = should be", text);
	default:
		return true;
	}
}
