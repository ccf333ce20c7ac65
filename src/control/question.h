/* SPDX-License-Identifier: MIT */
/*
 * A request and its answer, for the files that answer requests; control.c lists these.
 *
 * Callers: src/control/.
 */
#ifndef SHEAF_CONTROL_QUESTION_H
#define SHEAF_CONTROL_QUESTION_H

#include "cache/cache.h"
#include "stats/out.h"

struct question {
	char *words;
	const char *name; /* NULL: all caches */
	struct out *out;
	const char *error;
	char why[232];	     /* an error that has values in it: the asker reads 256 bytes */
	unsigned int caches; /* found */
};

/* Does the request name this cache? */
bool question_means(const void *question, const struct kmem_cache *s);
/* Call each for the caches that the request names; they are pinned. */
void question_for_each(struct question *question,
		       void (*each)(struct question *question, struct out *out,
				    struct kmem_cache *s));
/* Begin the answer's object about a cache. */
void question_begin_cache(struct question *question, struct out *out, const struct kmem_cache *s);

/* In tune.c: change settings, all of them or none, and list them. */
void question_tune(struct question *question);

#endif
