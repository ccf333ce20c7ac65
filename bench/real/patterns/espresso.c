/* SPDX-License-Identifier: MIT */
/*
 * Minimising logic: terms of a function are merged, two that differ in one place into one
 * with a gap, until none can be. Sets are arrays that grow, terms are blocks of several small
 * sizes; a pass frees the last one's.
 */
#include <stdbool.h>
#include <string.h>

#include "pattern.h"

#define INPUTS 9

struct term {
	size_t size; /* as in each block */
	bool is_merged;
	uint16_t value, gaps;
	char name[]; /* a place for each input */
};

struct set {
	struct term **terms;
	size_t n, room;
};

static void add(struct set *set, unsigned int value, unsigned int gaps)
{
	struct term *term;

	for (size_t i = 0; i < set->n; i++)
		if (set->terms[i]->value == value && set->terms[i]->gaps == gaps)
			return;
	if (set->n == set->room) {
		set->room = set->room ? 2 * set->room : 4;
		set->terms = realloc(set->terms, set->room * sizeof(*set->terms));
		if (!set->terms)
			fail("no memory");
	}
	/* Longer for terms with fewer gaps, as where gaps are left out. */
	term = make(sizeof(*term) + 2 * INPUTS - 2 * (size_t)__builtin_popcount(gaps) + 1);
	term->is_merged = false;
	term->value = (uint16_t)value;
	term->gaps = (uint16_t)gaps;
	memset(term->name, '-', (size_t)(INPUTS - __builtin_popcount(gaps)));
	set->terms[set->n++] = term;
}

static void end(struct set *set)
{
	for (size_t i = 0; i < set->n; i++)
		release(set->terms[i]);
	free(set->terms);
}

/* The terms of the next pass; how many could not be merged. */
static size_t merge(const struct set *from, struct set *to)
{
	size_t prime = 0;

	for (size_t i = 0; i < from->n; i++) {
		struct term *one = from->terms[i];

		for (size_t k = i + 1; k < from->n; k++) {
			struct term *other = from->terms[k];
			unsigned int differ = one->value ^ other->value;

			if (one->gaps != other->gaps || __builtin_popcount(differ) != 1)
				continue;
			one->is_merged = other->is_merged = true;
			add(to, one->value & ~differ, one->gaps | differ);
		}
		prime += !one->is_merged;
	}
	return prime;
}

static size_t minimise(uint32_t *state)
{
	struct set set = {.n = 0};
	size_t primes = 0;

	for (unsigned int value = 0; value < 1u << INPUTS; value++)
		if (next(state) % 3 == 0)
			add(&set, value, 0);
	while (set.n) {
		struct set merged = {.n = 0};

		primes += merge(&set, &merged);
		end(&set);
		set = merged;
	}
	end(&set);
	return primes;
}

void *espresso(void *number)
{
	uint32_t state = seed(number);
	size_t primes = 0;

	for (size_t n = 0; n < rounds; n++)
		primes += minimise(&state);
	if (!primes)
		fail("no term is left");
	return NULL;
}
