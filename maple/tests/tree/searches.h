/* SPDX-License-Identifier: MIT */
/* The calls that change nothing, as operations; see operations.h. */
#ifndef TESTS_MAPLE_SEARCHES_H
#define TESTS_MAPLE_SEARCHES_H

#include "operations.h"
#include "places.h"

/* A few steps from here on, by any of the calls. */
void search_on(struct run *r, struct ma_state *mas, struct place *place, const struct op *op);

/* OP_LOOK, OP_SEARCH, OP_MT_FIND, OP_ITERATE */
void do_search(struct run *r, const struct op *op);

/* The next call, as C. */
#define TELL(...)                                                                                  \
	do {                                                                                       \
		if (r->tell) {                                                                     \
			fprintf(stderr, "\t" __VA_ARGS__);                                         \
			fputc('\n', stderr);                                                       \
		}                                                                                  \
	} while (0)

#endif
