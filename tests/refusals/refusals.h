/* SPDX-License-Identifier: MIT */
/*
 * Calls whose every refusal is swept: refusals.c runs them, slab.c, blocks.c and process.c have
 * them.
 *
 * A process makes one call of a scene, in which the n-th point may fail (os/should_fail.h). It must
 * succeed or return an error that its header promises. Then it is made once more, with nothing
 * refused, and must succeed.
 */
#ifndef SHEAF_TESTS_REFUSALS_H
#define SHEAF_TESTS_REFUSALS_H

#include <sheaf/group.h>
#include <sheaf/slab.h>
#include <stdbool.h>
#include <stddef.h>

/* What a call returned that returned NULL or no object. */
#define NOTHING 1

enum {
	MOST = 150 /* objects of a scene: more than two sheaves */
};

struct scene {
	const char *name;
	const char *options;   /* of SHEAF_OPTIONS; NULL: every set of options */
	void (*prepare)(void); /* NULL: the call is the first one of the process */
	void (*ready)(void);   /* before each call: what it needs */
	int (*call)(void);     /* 0, NOTHING or a negative error number */
	void (*settle)(void);  /* then, before it is verified */
	void (*undo)(void);    /* after each call: what it made, except objects */
	void (*finish)(void);  /* what prepare() made, except the cache and the group */
	bool never_fails;      /* it succeeds whatever is refused */
	bool once;	       /* it waits for as long as everything is refused */
};

extern const struct scene slab_scenes[], block_scenes[], process_scenes[];

/* What scenes use. What is in p[] is freed after each call, the rest at the end. */
struct world {
	struct kmem_cache *s;
	struct kmem_group *g;
	void *p[MOST];
	size_t lost; /* objects of s that the program has, but not in p[] */
};

extern struct world w;

/* 0 if all these are there. */
int all_or_nothing(bool all);
/* End this run. */
void fault(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
