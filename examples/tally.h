/* SPDX-License-Identifier: MIT */
/*
 * Counts of words: a binary tree in the order of the words' hashes, which keeps the tree shallow in
 * whatever order the words come. For one thread at a time.
 */
#ifndef EXAMPLES_TALLY_H
#define EXAMPLES_TALLY_H

#include "text.h"

struct entry {
	struct entry *left, *right;
	size_t count;
	uint32_t hash;
	uint8_t length;
	char text[WORD_TEXT];
};

struct tally {
	struct entry *root;
	size_t count; /* of all entries */
};

extern struct store entries;

void tally_add(struct tally *tally, const struct word *word);
/* Move everything from one tally into another. */
void tally_merge(struct tally *into, struct tally *from);
/* The n most frequent entries, most frequent first; NULL where there are fewer. */
void tally_top(const struct tally *tally, const struct entry **top, int n);
void tally_free(struct tally *tally);

#endif
