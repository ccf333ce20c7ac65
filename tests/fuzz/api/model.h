/* SPDX-License-Identifier: MIT */
/*
 * What the program of the API target must find after each call: the model. One thread runs at a
 * time, so every number is exact, except those of objects that may have been freed by a grace
 * period, which are in a range.
 */
#ifndef SHEAF_TESTS_FUZZ_API_MODEL_H
#define SHEAF_TESTS_FUZZ_API_MODEL_H

#include <sheaf/group.h>
#include <sheaf/mempool.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MAX_OBJECTS = 1500,
	MAX_CACHES = 12, /* that the program made */
	MAX_KNOWN = 400, /* with those of kmalloc() */
	MAX_GROUPS = 24, /* 0: the root */
	MAX_SHEAVES = 6,
	MAX_POOLS = 4,
	MAX_SETS = 2,
	MAX_THREADS = 4,
	MAX_BULK = 96,
	BUILT_BYTES = 16, /* of an object, by its constructor */
	NO_POOL = -1,
	ROOT = 0,
	ERRNO = 4242
};

#define MiB	  ((size_t)1 << 20)
#define MAX_BYTES (48 * MiB) /* of all objects */

/* --- the program ------------------------------------------------------------------------------ */

unsigned int byte(void);
/* A number below n, from one byte or two. */
unsigned int below(unsigned int n);
/* How many: few in general. */
unsigned int count(unsigned int most);
size_t some_size(void);

/* End the process: the library broke a promise. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
#define WANT(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail("%s:%d: %s", __FILE__, __LINE__, #condition);                         \
	} while (0)

/* A whole program, at the end of which the process ends. */
void run_program(const uint8_t *bytes, size_t size) __attribute__((noreturn));
void end_child(void) __attribute__((noreturn));
/* Steps, until the bytes end, or this thread does. */
void run_steps(void);
bool thread_ends(void);
/* Free everything, check that nothing is left, and end the process. */
void finish(void) __attribute__((noreturn));

/* This step may report, or must. */
void may_report(void);
void must_report(void);

/* --- caches ----------------------------------------------------------------------------------- */

/* A cache: the program's, or one of kmalloc(). */
struct known {
	struct kmem_cache *s;
	uint64_t charge;	    /* of an object */
	unsigned int in_use, loose; /* loose: these may be free */
	/* Of a cache of the program. */
	size_t size;
	unsigned int names; /* 0: of kmalloc(), or destroyed */
	slab_flags_t flags;
	unsigned int group; /* 0: none */
	bool mergeable, built, limited, leaked;
	unsigned int set; /* of kmem_buckets; 0: none */
};

struct known *known_of(struct kmem_cache *s);
/* NULL: of none, as a large block. */
struct kmem_cache *cache_of_block(const void *block);
void forget_cache(struct known *k);
void forget_set(unsigned int set);
/* One that the program made; NULL: there is none. The second one makes one then. */
struct known *some_cache(void);
struct known *need_cache(void);

/* --- groups ----------------------------------------------------------------------------------- */

struct group {
	struct kmem_group *g;
	bool exists;
	unsigned int parent;
	unsigned int mine, threads, caches, children;	     /* references */
	uint64_t bytes, objects, loose_bytes, loose_objects; /* own; loose: part of it */
	size_t hard, high, low;
	bool exceeded;	   /* a call that cannot fail may have charged more than `hard` */
	unsigned int data; /* its number */
};

extern struct group groups_known[MAX_GROUPS];

/* A group, or 0. */
unsigned int some_group(void);
struct kmem_group *pointer_of(unsigned int group);
/* To whom an allocation from the cache, or by kmalloc() for NULL, is charged; 0: nobody. */
unsigned int payer(const struct known *k, gfp_t flags);
/* Do so many bytes more exceed a limit? Is there one? */
bool group_is_full(unsigned int group, uint64_t bytes);
bool group_has_limit(unsigned int group);
/* The library has dropped one of these references: with the last one, the group ends. */
void group_drop(unsigned int group, unsigned int *references);
void check_groups(void);
void finish_groups(void);

/* --- objects ---------------------------------------------------------------------------------- */

enum state {
	LIVE,
	RETIRED, /* readers may look at it */
	LOOSE	 /* perhaps its grace period has passed */
};

struct object {
	unsigned char *p;
	size_t size, charge;
	struct kmem_cache *s; /* NULL: a large block */
	uint32_t number;
	unsigned int group; /* 0: nobody is charged, or the root */
	bool charged, built, pinned;
	enum state state;
	int pool;
};

extern struct object objects[MAX_OBJECTS];
extern unsigned int nr_objects;

/* May the program have so many bytes more? */
bool has_room(size_t bytes);
/* The program has the result of an allocation: check it, and fill it. */
void adopt(void *p, size_t asked, gfp_t flags, struct known *k, unsigned int group);
/* As adopt(), but the element was counted when the pool got it. */
void adopt_element(void *p, size_t asked, int pool);
/* A live object that no pool owns; -1: there is none. */
int pick_object(void);
/* Check and forget it: the caller frees it. */
struct object disown(unsigned int i);
/* Free one that no pool owns. */
void free_any(unsigned int i);
/* Count one, or no longer, in its cache and its group. */
void count_in(const struct object *o);
void uncount(const struct object *o);

/* The caller has retired it. */
void retired(unsigned int i);
/* Grace periods begin to pass: until now, retired objects must be as they were. */
void grace_passes(void);
/* All retired objects are free; those of one cache, if it is not NULL. */
void all_passed(struct kmem_cache *s);

/* May an allocation for this cache (NULL: a block) fail, because of a limit or an option? */
bool may_fail(const struct known *k, gfp_t flags, unsigned int group, uint64_t bytes);
bool memory_is_limited(void);
/* It did: there must be a reason. */
void failed(const struct known *k, gfp_t flags, unsigned int group, uint64_t bytes);

void check_all(void);

/* --- content.c: what is in an object ---------------------------------------------------------- */

void fill(const struct object *o);
void check_content(const struct object *o, size_t bytes);
void check_zeroed(const struct object *o);
void check_built(const struct object *o);

/* --- the steps, by file ----------------------------------------------------------------------- */

struct step {
	const char *name;
	void (*run)(void);
	unsigned int weight;
};

void begin_retiring(void);
/* Those of the provider that only caches have. */
void pass_of_caches(void);

extern const struct step object_steps[], retire_steps[], block_steps[], cache_steps[],
	sheaf_steps[], group_steps[], pool_steps[], process_steps[], thread_steps[], misuse_steps[];

void make_cache(void);
void destroy_cache(struct known *k);
/* Those of one cache; NULL: all. */
void return_sheaves(struct kmem_cache *s);
void destroy_pools(struct kmem_cache *s);
void destroy_sets(void);
void finish_process(void);

struct program {
	unsigned int thread;		   /* that runs */
	unsigned int current[MAX_THREADS]; /* its group */
	bool lost_threads;		   /* in a forked child */
	bool limited;			   /* the process */
	bool all_checked;		   /* wrong frees are found immediately */
	bool plain;			   /* blocks have the size of their cache */
	unsigned int steps;
	uint64_t large_in_pools; /* bytes of their large blocks */
};
extern struct program program;

gfp_t some_flags(void);
gfp_t flags_for(const struct known *k);
int some_node(void);

#endif
