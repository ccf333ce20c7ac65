/* SPDX-License-Identifier: MIT */
/*
 * The walker in two parts: the task of a section and the check of its outcome (scene.c, and for
 * call sites shapes_scene.c), and the traced child whose sections are aborted at every instruction
 * (walk.c).
 */
#ifndef SHEAF_TESTS_WALK_H
#define SHEAF_TESTS_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "os/section.h"

enum {
	WALK_CAPACITY = 5,
	WALK_SHEAVES = 4 /* main, spare, one in hand, rcu_free or remote */
};

enum walk_call {
	WALK_POP,
	WALK_PUSH,
	WALK_PUSH_FOREIGN,
	WALK_POP_BULK,
	WALK_PUSH_BULK,
	WALK_SWAP_EMPTY,
	WALK_SWAP_FULL,
	WALK_PUT_SPARE,
	WALK_REPLACE,
	WALK_REPLACE_NONE,
	WALK_PUSH_RCU,
	WALK_PUSH_RCU_FOREIGN,
	WALK_REPLACE_RCU,
	WALK_POP_SAMPLED,
	WALK_ARM,
	WALK_STOCK,
	WALK_STOCK_SWAP,
	WALK_PUSH_REMOTE,
	WALK_REPLACE_REMOTE,
	WALK_NR_SECTIONS,
	/* On a real cache: sections inlined into the fast paths, and the slow paths behind them. */
	WALK_ALLOC = WALK_NR_SECTIONS,
	WALK_ALLOC_FLAGS,
	WALK_ALLOC_ARRAY, /* of one object */
	WALK_FREE,
	WALK_FREE_ARRAY,
	WALK_NR_CALLS
};

/* The outcome of a section: done, and the objects that it returned. */
struct walk_result {
	uint64_t done;
	void *out[WALK_CAPACITY + 1];
};

/* All that other code can see of the slot and its sheaves. */
struct walk_view {
	struct sheaf *main, *spare, *rcu_free, *remote;
	uint64_t word[WALK_SHEAVES];
	uint64_t stock;
	uint32_t capacity[WALK_SHEAVES];
	int32_t left[WALK_SHEAVES]; /* of WALK_ARM */
	void *objects[WALK_SHEAVES][WALK_CAPACITY];
};

/* Shared with the child: what to do, and the outcome. */
struct walk_scene {
	enum walk_call call;
	unsigned int n; /* of a bulk call; of one that samples: when it is due */
	unsigned int main_size, spare_size, stop;
	bool no_spare, bootstrap, closed;
	bool check; /* a real cache, by kmem_cache_verify() */
	uint32_t idle;
	struct walk_result result;
};

extern struct walk_scene *scene;

/* Make the shared memory and the cache. False: there is none. */
bool scene_make(void);
/* Put slot and sheaves into the scene's state. */
void scene_set(void);
/* Run the call by the backend's sections (in the child), or by the sections in C. */
void scene_run(void);
void scene_run_in_c(void);
void scene_view(struct walk_view *view);
/* May the call itself try again when it is aborted? */
bool scene_retries(void);
/* Walk through every state: false after the last. */
bool scene_next(void);
/* How many sections the walk must meet. */
unsigned int scene_least_sections(void);

#endif
