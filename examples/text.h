/* SPDX-License-Identifier: MIT */
/*
 * Text as linked objects: a part of a file is a list of lines, a line a list of words.
 *
 *   part -> line -> line -> ...        no byte is lost: a word knows the blanks before it, a line
 *            |       |                 whether it ends, a part where in its file it was
 *           word -> word -> ...
 *
 * The thread that owns a part owns everything in it; threads share nothing in it.
 */
#ifndef EXAMPLES_TEXT_H
#define EXAMPLES_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store.h"

#define WORD_TEXT  21	/* a longer word continues in the next object */
#define PART_BYTES 4096 /* a part ends with the line that reaches this size */

struct file {
	const char *path;
	char *text;
	size_t size;
};

struct word {
	struct word *next;
	uint8_t blanks; /* how often `blank` stands before the text */
	char blank;
	uint8_t length;
	char text[WORD_TEXT];
};

struct line {
	struct line *next;
	struct word *first;
	bool ends; /* false: the file's last line, without a line feed */
};

struct part {
	struct part *next;
	struct line *first;
	const struct file *file;
	size_t start, length; /* bytes of the file */
	size_t lines, words;
};

extern struct store parts, lines, words;

/* Read a whole file. Returns false after an error message if that fails or the file is empty. */
bool file_read(struct file *file, const char *path);

/* Create the part of a file that begins at this byte. */
struct part *part_make(const struct file *file, size_t start);
/* Compare every byte with the file's. Returns false after an error message if they differ. */
bool part_check(const struct part *part);
/* Flip one bit of one word, to test that the check finds it. */
void part_damage(struct part *part);
void part_free(struct part *part);

#endif
