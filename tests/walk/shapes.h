/* SPDX-License-Identifier: MIT */
/*
 * Call sites of many shapes (shapes.c), which each compiler compiles, and the objects that they
 * have. Callers: shapes_scene.c, for the walker.
 */
#ifndef SHEAF_TESTS_SHAPES_H
#define SHEAF_TESTS_SHAPES_H

#include <sheaf/slab.h>

enum {
	SHAPES_MOST_LIVE = 64
};

struct shapes {
	struct kmem_cache *cache, *other;
	void *live[SHAPES_MOST_LIVE]; /* of both caches: it is in the second word of each object */
	unsigned int nr_live;
	unsigned long dropped; /* objects of `cache` whose address was only compared */
	unsigned int salt;     /* differs from call to call */
	int wrong;	       /* a result that is not a new object */
};

typedef void shape_call(struct shapes *to);
extern shape_call *const shapes_list[];
extern const unsigned int shapes_number;

/* An allocated object of this cache: it becomes live. NULL is wrong. Not in the sites' file. */
void shapes_took(struct shapes *to, struct kmem_cache *s, void *object);
/* The newest live object of this cache, which is to be freed; NULL: there is none. */
void *shapes_give(struct shapes *to, struct kmem_cache *s);

#endif
