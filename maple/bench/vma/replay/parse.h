/* SPDX-License-Identifier: MIT */
/*
 * Shared by recording.c (lines, and how they relate) and words.c (the words of a line).
 *
 * Each kind of line has a pattern for the words after the space and the kind, one letter for each:
 *
 *     r range    p permissions (rwxp)   a access (rwx)     f NAME@PAGE    n name    b page number
 *     w a number wanted   h how         = the word itself  v page or error          o ok or error
 *     s a new space
 */
#ifndef VMA_PARSE_H
#define VMA_PARSE_H

#include "recording.h"

struct parser {
	struct recording *recording;
	const char *path;
	char *error;
	unsigned int line, counted; /* lines; those that are not comments */
	size_t room;
	bool *alive; /* by number of space */
	bool done;
	struct op *op; /* being read */
	size_t image;  /* the exec whose map lines these may be: its place + 1; 0: none */
};

/* Report what is wrong with the line. Returns false. */
bool parse_fail(struct parser *parser, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A decimal number from 1 to a limit. */
bool parse_decimal(struct parser *parser, const char *word, unsigned long limit,
		   unsigned int *value);

/* Parse the word for this letter of a pattern into parser->op. */
bool parse_word(struct parser *parser, char letter, char *word);

#endif
