/* SPDX-License-Identifier: MIT */
/* See text.h. */
#include "text.h"

#include <errno.h>
#include <string.h>

struct store parts = {.name = "part", .size = sizeof(struct part)};
struct store lines = {.name = "line", .size = sizeof(struct line)};
struct store words = {.name = "word", .size = sizeof(struct word)};

bool file_read(struct file *file, const char *path)
{
	FILE *stream = fopen(path, "rb");
	size_t room = 0, got = 1;

	*file = (struct file){.path = path};
	while (stream && got) {
		if (file->size == room) {
			char *larger = realloc(file->text, room = 2 * room + (1 << 16));

			if (!larger) {
				errno = ENOMEM;
				break;
			}
			file->text = larger;
		}
		got = fread(file->text + file->size, 1, room - file->size, stream);
		file->size += got;
	}
	if (!stream || got || ferror(stream))
		fprintf(stderr, "words: cannot read %s: %s\n", path, strerror(errno));
	else if (!file->size)
		fprintf(stderr, "words: %s is empty; name a file with text in it\n", path);
	else
		got = 2;
	if (stream)
		fclose(stream);
	if (got != 2)
		free(file->text);
	return got == 2;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Read one word with the blanks before it, from the text up to end; returns the end of the word. */
static const char *word_make(struct word **at, const char *text, const char *end)
{
	struct word *word = store_get(&words);
	const char *start = text;

	word->next = NULL;
	word->blank = *text;
	while (text < end && is_blank(*text) && *text == word->blank && text - start < UINT8_MAX)
		text++;
	word->blanks = (uint8_t)(text - start);
	start = text;
	while (text < end && !is_blank(*text) && text - start < WORD_TEXT)
		text++;
	word->length = (uint8_t)(text - start);
	memcpy(word->text, start, word->length);
	*at = word;
	return text;
}

static const char *line_make(struct part *part, struct line **at, const char *text, const char *end)
{
	struct line *line = store_get(&lines);
	const char *feed = memchr(text, '\n', (size_t)(end - text));
	struct word **next = &line->first;

	line->next = NULL;
	line->first = NULL;
	line->ends = feed != NULL;
	for (end = feed ? feed : end; text < end; next = &(*next)->next) {
		text = word_make(next, text, end);
		part->words++;
	}
	part->lines++;
	*at = line;
	return text + line->ends;
}

struct part *part_make(const struct file *file, size_t start)
{
	struct part *part = store_get(&parts);
	const char *text = file->text + start, *end = file->text + file->size;
	struct line **next = &part->first;

	*part = (struct part){.file = file, .start = start};
	while (text < end && part->length < PART_BYTES) {
		text = line_make(part, next, text, end);
		next = &(*next)->next;
		part->length = (size_t)(text - file->text) - start;
	}
	store_got(&parts, 1);
	store_got(&lines, part->lines);
	store_got(&words, part->words);
	return part;
}

/* Check that this word comes next in the text. Returns its end, or NULL if it does not. */
static const char *word_check(const struct word *word, const char *text, const char *end)
{
	if ((size_t)(end - text) < (size_t)word->blanks + word->length)
		return NULL;
	for (int i = 0; i < word->blanks; i++)
		if (*text++ != word->blank)
			return NULL;
	return memcmp(text, word->text, word->length) ? NULL : text + word->length;
}

bool part_check(const struct part *part)
{
	const char *text = part->file->text + part->start, *end = text + part->length;
	const char *at = text;

	for (const struct line *line = part->first; line; line = line->next) {
		for (const struct word *word = line->first; word && at; word = word->next) {
			text = at;
			at = word_check(word, at, end);
		}
		if (at && line->ends) {
			text = at;
			at = at < end && *at == '\n' ? at + 1 : NULL;
		}
		if (!at)
			break;
	}
	if (at == end)
		return true;
	fprintf(stderr, "words: the text read from %s differs from the file at byte %zu\n",
		part->file->path, (size_t)((at ? at : text) - part->file->text));
	return false;
}

void part_damage(struct part *part)
{
	for (struct line *line = part->first; line; line = line->next)
		for (struct word *word = line->first; word; word = word->next)
			if (word->length) {
				word->text[word->length - 1] ^= 1;
				return;
			}
}

void part_free(struct part *part)
{
	struct line *line = part->first;

	store_gave(&words, part->words);
	store_gave(&lines, part->lines);
	store_gave(&parts, 1);
	while (line) {
		struct line *next_line = line->next;
		struct word *word = line->first;

		while (word) {
			struct word *next_word = word->next;

			store_put(&words, word);
			word = next_word;
		}
		store_put(&lines, line);
		line = next_line;
	}
	store_put(&parts, part);
}
