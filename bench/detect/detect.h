/* SPDX-License-Identifier: MIT */
/*
 * What the programs of the detection table are written with: caches of 64-byte objects, blocks of
 * any size, and grace periods, so that one source runs on libsheaf (layer_sheaf.c) and on every
 * malloc (layer_malloc.c: a cache is a size, and retired objects are freed when a grace period
 * passes).
 *
 * A case has the name of its class in bench/detect/classes:
 *
 *     CASE("double-free")
 *     {
 *             struct cache *s = cache_make("conn", CONN);
 *             unsigned char *object = made_here(s);
 *
 *             freed_here(s, object);
 *             MISUSE(freed_here(s, object));
 *     }
 *
 * main.c then continues as a program would: it allocates, writes and frees objects of each cache,
 * destroys the caches, and returns. Marks on standard output show `sheaf detect` how far it came.
 * It looks there for reports that name made_here and freed_here.
 */
#ifndef BENCH_DETECT_H
#define BENCH_DETECT_H

#include <stdbool.h>
#include <stddef.h>

enum {
	CONN = 64
}; /* bytes of an object */

struct cache;

/* --- the layer -------------------------------------------------------------------------------- */

extern const bool has_caches; /* and an allocator's own kfree_rcu */

struct cache *cache_make(const char *name, size_t size, void (*ctor)(void *object));
void *cache_take(struct cache *s);
void cache_give(struct cache *s, void *object);
void cache_give_many(struct cache *s, size_t n, void **objects);
void cache_retire(struct cache *s, void *object);
void grace_pass(void);
void cache_end(struct cache *s);

void *block_take(size_t size);
void block_give(void *block);
void *block_resize(void *block, size_t size);
/* Allocate from a different allocator than the one that block_give() frees to; and free there. */
void *block_of_other_kind(size_t size);
void give_to_other_kind(void *block);

/* --- cases ------------------------------------------------------------------------------------ */

struct detect_case {
	const char *name;
	void (*run)(void);
	struct detect_case *next;
};

void detect_add(struct detect_case *one);
/* A mark on standard output. */
void detect_mark(const char *what);
/* This bug cannot be written with a malloc: the program ends. */
void needs_caches(void);
/* main.c does not use this cache any more. */
void leave_alone(struct cache *s);

void *made_here(struct cache *s);
void freed_here(struct cache *s, void *object);

#define CASE(title)                                                                                \
	static void run_case(void);                                                                \
	__attribute__((constructor)) static void add_case(void)                                    \
	{                                                                                          \
		static struct detect_case one = {title, run_case, NULL};                           \
		detect_add(&one);                                                                  \
	}                                                                                          \
	static void run_case(void)

#define MISUSE(...)                                                                                \
	do {                                                                                       \
		detect_mark("misuse");                                                             \
		__VA_ARGS__;                                                                       \
		detect_mark("done");                                                               \
	} while (0)

#endif
