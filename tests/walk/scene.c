/* SPDX-License-Identifier: MIT */
/* States of a slot, the calls on them, and the visible outcome. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "cache/process.h"
#include "internal/kit/pages.h"
#include "os/section.h"
#include "os/section_c.h"
#include "walk.h"

enum {
	MAX_LIVE = 4096
};

#define HOME	UINT64_C(0x10000000)
#define NOWHERE ((uintptr_t)1 << 63) /* as in a closed slot */

/* A cell that holds a stock, as in group/stock.h: nothing, something, as much as possible, and that
 * of another group; and what is added. */
#define CELL  3u
#define KEY   (UINT64_C(6) << 32)
#define OTHER (UINT64_C(7) << 32)
static const uint64_t stock_words[WALK_CAPACITY + 1] = {KEY, KEY + 100,	  0,
							0,   KEY + 65535, OTHER + 5};
static const uint64_t stock_adds[WALK_CAPACITY + 1] = {0, -(uint64_t)100, 100, -(uint64_t)1,
						       1, 65535};

/* A remote sheaf of a node, and another node that uses the same cell. */
#define NODE	   2u
#define OTHER_NODE (NODE + SLOT_REMOTE)

struct walk_scene *scene;
static struct section_slots *at;
static struct sheaf *sheaves[WALK_SHEAVES], *bootstrap;
static struct kmem_cache *cache;
static void *live[MAX_LIVE];
static unsigned int nr_live;

bool scene_make(void)
{
	char *rows;

	cache = caches_ready() ? kmem_cache_create("walk", 64, NULL, SLAB_NO_MERGE) : NULL;
	rows = map_one_row();
	if (!cache || !rows)
		return false;
	kmem_cache_set_sheaf_capacity(cache, 2);
	/* One page, all of it shared: slot, sheaves, handle and scene. */
	at = (struct section_slots *)(rows + 2048);
	at->handle = rows;
	for (int i = 0; i < WALK_SHEAVES; i++)
		sheaves[i] = (struct sheaf *)(rows + 1024 + i * 128);
	bootstrap = (struct sheaf *)(rows + 1920);
	scene = (struct walk_scene *)(rows + 3072);
	return true;
}

static struct sheaf *in_hand(void)
{
	return sheaves[2];
}

static bool is_sampled(void)
{
	return scene->call == WALK_POP_SAMPLED || scene->call == WALK_ARM;
}

void scene_set(void)
{
	struct slot *slot = slot_of_row(at->handle, 0);
	unsigned int sizes[WALK_SHEAVES] = {scene->main_size, scene->spare_size, 3,
					    scene->main_size};
	uintptr_t spare = scene->no_spare ? 0 : (uintptr_t)sheaves[1];

	memset(slot, 0, sizeof(*slot));
	for (int i = 0; i < WALK_SHEAVES; i++) {
		sheaves[i]->word = sizes[i];
		sheaves[i]->capacity = WALK_CAPACITY;
		for (int j = 0; j < WALK_CAPACITY; j++)
			sheaves[i]->objects[j] = (void *)(HOME + i * 4096 + j * 16);
	}
	/* Due, or not for long: an abort may count down once too often. Pops were counted. */
	sheaves[0]->left = scene->n % 2 ? 100 : scene->call == WALK_ARM ? -1 : 0;
	if (is_sampled() && os.counting)
		sheaves[0]->word |= scene->n / 2 * 77 * SHEAF_POP;
	memset(bootstrap, 0, sizeof(*bootstrap));
	slot->main = scene->bootstrap ? bootstrap : sheaves[0];
	slot->pair = (uintptr_t)slot->main ^ spare;
	slot->rcu_free = scene->bootstrap ? bootstrap : sheaves[3];
	slot->home = scene->closed ? NOWHERE : HOME;
	slot->home_size = scene->closed ? 0 : 0x100000;
	slot->cells[slot_remote_cell(NODE)] = scene->bootstrap ? 0 : (uintptr_t)sheaves[3];
	sheaves[3]->filled_by = (scene->n % 2 ? OTHER_NODE : NODE) + 1;
	slot->cells[CELL] = stock_words[scene->main_size];
	/* Only one of the two concerns a section; both concern one that changes remote sheaves. */
	at->stop = scene->call == WALK_REPLACE_RCU ? !scene->stop : scene->stop;
	at->rcu_stop = scene->call == WALK_REPLACE_RCU ? scene->stop : !scene->stop;
	if (scene->call == WALK_REPLACE_REMOTE) {
		at->stop = scene->stop && scene->n != 2;
		at->rcu_stop = scene->stop && scene->n != 1;
	}
	if (scene->call == WALK_REPLACE_RCU && scene->n % 2)
		in_hand()->objects[0] = (void *)(HOME - 16);
	memset(&scene->result, 0, sizeof(scene->result));
}

void scene_view(struct walk_view *view)
{
	struct slot *slot = slot_of_row(at->handle, 0);

	memset(view, 0, sizeof(*view));
	view->main = slot->main;
	view->stock = slot->cells[CELL];
	view->rcu_free = slot->rcu_free;
	view->remote = (struct sheaf *)slot->cells[slot_remote_cell(NODE)];
	view->spare = (struct sheaf *)(slot->pair ^ (uintptr_t)slot->main);
	for (int i = 0; i < WALK_SHEAVES; i++) {
		view->word[i] = sheaves[i]->word;
		view->capacity[i] = sheaves[i]->capacity;
		if (scene->call == WALK_ARM)
			view->left[i] = sheaves[i]->left;
		for (uint32_t j = 0; j < sheaf_size(sheaves[i]) && j < WALK_CAPACITY; j++)
			view->objects[i][j] = sheaves[i]->objects[j];
	}
}

static void new_objects(void **objects)
{
	for (uintptr_t i = 0; i < WALK_CAPACITY; i++)
		objects[i] = (void *)(HOME + 0x80000 + i * 16);
}

/* Failing calls may leave anything in the places they would have written to. */
static void forget_outputs(struct walk_result *r, unsigned int valid)
{
	for (unsigned int i = valid; i <= WALK_CAPACITY; i++)
		r->out[i] = NULL;
}

static unsigned int nr_outputs(const struct walk_result *r)
{
	switch (scene->call) {
	case WALK_POP_BULK:
		return (unsigned int)r->done;
	case WALK_POP:
	case WALK_POP_SAMPLED:
		return r->done ? 1 : 0;
	case WALK_REPLACE:
	case WALK_REPLACE_NONE:
	case WALK_REPLACE_RCU:
	case WALK_STOCK_SWAP:
	case WALK_REPLACE_REMOTE:
		return 1; /* untouched if it failed */
	default:
		return 0;
	}
}

static void *alloc_on_cache(void)
{
	void *object;

	switch (scene->call) {
	case WALK_ALLOC:
		return kmem_cache_alloc(cache, GFP_KERNEL);
	case WALK_ALLOC_FLAGS:
		return kmem_cache_alloc(cache, scene->n ? GFP_NOWAIT : GFP_ATOMIC);
	default:
		return kmem_cache_alloc_bulk(cache, GFP_KERNEL, 1, &object) ? object : NULL;
	}
}

/* A real cache is verified: 1 if it is consistent. */
static uint64_t run_on_cache(void)
{
	if (scene->call >= WALK_FREE) {
		if (!nr_live)
			return 1;
		nr_live--;
		if (scene->call == WALK_FREE)
			kmem_cache_free(cache, live[nr_live]);
		else
			kmem_cache_free_bulk(cache, 1, &live[nr_live]);
	} else {
		void *object = alloc_on_cache();

		if (!object || nr_live == MAX_LIVE)
			return 0;
		for (unsigned int i = 0; i < nr_live; i++)
			if (live[i] == object)
				return 0;
		live[nr_live++] = object;
	}
	return !scene->check || kmem_cache_verify(cache) == 0;
}

#define RUN(pop, pop_sampled, arm, push, pop_bulk, push_bulk, swap_empty, swap_full, put_spare,    \
	    replace, push_rcu, replace_rcu, stock, stock_swap, push_remote, replace_remote)        \
	do {                                                                                       \
		struct walk_result r = {0, {NULL}};                                                \
		void *objects[WALK_CAPACITY];                                                      \
                                                                                                   \
		new_objects(objects);                                                              \
		switch (scene->call) {                                                             \
		case WALK_POP:                                                                     \
			r.done = (pop);                                                            \
			break;                                                                     \
		case WALK_POP_SAMPLED:                                                             \
			r.done = (pop_sampled);                                                    \
			break;                                                                     \
		case WALK_ARM:                                                                     \
			r.done = arm(at, scene->n * 100);                                          \
			break;                                                                     \
		case WALK_PUSH:                                                                    \
			r.done = push(objects[0]);                                                 \
			break;                                                                     \
		case WALK_PUSH_FOREIGN:                                                            \
			r.done = push((void *)(HOME - 16));                                        \
			break;                                                                     \
		case WALK_POP_BULK:                                                                \
			r.done = pop_bulk(at, r.out, scene->n);                                    \
			break;                                                                     \
		case WALK_PUSH_BULK:                                                               \
			r.done = push_bulk(at, objects, scene->n);                                 \
			break;                                                                     \
		case WALK_SWAP_EMPTY:                                                              \
			r.done = (swap_empty);                                                     \
			break;                                                                     \
		case WALK_SWAP_FULL:                                                               \
			r.done = (swap_full);                                                      \
			break;                                                                     \
		case WALK_PUT_SPARE:                                                               \
			r.done = put_spare(at, in_hand());                                         \
			break;                                                                     \
		case WALK_REPLACE:                                                                 \
		case WALK_REPLACE_NONE:                                                            \
			r.done = replace(at, scene->call == WALK_REPLACE ? in_hand() : NULL,       \
					 (struct sheaf **)&r.out[0]);                              \
			break;                                                                     \
		case WALK_STOCK:                                                                   \
			r.done = stock(at, CELL, KEY, stock_adds[scene->n]);                       \
			break;                                                                     \
		case WALK_STOCK_SWAP:                                                              \
			r.done = stock_swap(at, CELL, KEY + 77, (uint64_t *)&r.out[0]);            \
			break;                                                                     \
		case WALK_PUSH_RCU:                                                                \
			r.done = push_rcu(objects[0]);                                             \
			break;                                                                     \
		case WALK_PUSH_RCU_FOREIGN:                                                        \
			r.done = push_rcu((void *)(HOME - 16));                                    \
			break;                                                                     \
		case WALK_REPLACE_RCU:                                                             \
			r.done = replace_rcu(at, in_hand(), (struct sheaf **)&r.out[0]);           \
			break;                                                                     \
		case WALK_PUSH_REMOTE:                                                             \
			r.done = push_remote(at->handle, NODE, objects[0]);                        \
			break;                                                                     \
		case WALK_REPLACE_REMOTE:                                                          \
			r.done = replace_remote(at, NODE, scene->n % 2 ? NULL : in_hand(),         \
						(struct sheaf **)&r.out[0]);                       \
			break;                                                                     \
		default:                                                                           \
			r.done = run_on_cache();                                                   \
		}                                                                                  \
		forget_outputs(&r, nr_outputs(&r));                                                \
		scene->result = r;                                                                 \
	} while (0)

#define SECTION_PUSH(object)	 section_push(at, object)
#define C_PUSH(object)		 c_push(at->handle, object)
#define SECTION_PUSH_RCU(object) section_push_rcu(at, object)
#define C_PUSH_RCU(object)	 c_push_rcu(at->handle, object)

void scene_run(void)
{
	RUN((r.out[0] = section_pop(at)) != NULL, (r.out[0] = section_pop_sampled(at)) != NULL,
	    section_arm, SECTION_PUSH, section_pop_bulk, section_push_bulk, section_swap_empty(at),
	    section_swap_full(at), section_put_spare, section_replace_spare, SECTION_PUSH_RCU,
	    section_replace_rcu, section_stock, section_stock_swap, section_push_remote,
	    section_replace_remote);
}

void scene_run_in_c(void)
{
	if (scene->call >= WALK_NR_SECTIONS) {
		scene->result = (struct walk_result){1, {NULL}};
		return;
	}
	RUN(c_pop(at->handle, &r.out[0]), c_pop_sampled(at->handle, &r.out[0]), c_arm, C_PUSH,
	    c_pop_bulk, c_push_bulk, c_swap(at, true), c_swap(at, false), c_put_spare,
	    c_replace_spare, C_PUSH_RCU, c_replace_rcu, c_stock, c_stock_swap, c_push_remote,
	    c_replace_remote);
}

bool scene_retries(void)
{
	return scene->call != WALK_POP && scene->call != WALK_POP_SAMPLED &&
	       scene->call != WALK_PUSH && scene->call != WALK_PUSH_FOREIGN &&
	       scene->call != WALK_PUSH_RCU && scene->call != WALK_PUSH_RCU_FOREIGN;
}

/* Empty, one, some, full: the sizes that make a difference. */
static bool next_size(unsigned int *size)
{
	*size = *size == 0 ? 1 : *size == 1 ? WALK_CAPACITY - 1 : *size + 1;
	if (*size <= WALK_CAPACITY)
		return true;
	*size = 0;
	return false;
}

static bool puts_a_sheaf(void)
{
	return (scene->call >= WALK_PUT_SPARE && scene->call <= WALK_REPLACE_NONE) ||
	       scene->call == WALK_REPLACE_RCU || scene->call == WALK_REPLACE_REMOTE;
}

/* The states of a slot that this call can tell apart: no spare, or one of any size; stop;
 * closed. */
static bool next_slot(void)
{
	bool looks_at_spare = scene->call >= WALK_SWAP_EMPTY && scene->call <= WALK_REPLACE_NONE;

	scene->bootstrap = !scene->bootstrap && scene->main_size == 0;
	if (scene->bootstrap || next_size(&scene->main_size))
		return true;
	if (!looks_at_spare && scene->call != WALK_REPLACE_RCU && scene->call != WALK_STOCK_SWAP &&
	    scene->call != WALK_REPLACE_REMOTE)
		return false;
	scene->no_spare = looks_at_spare && !scene->no_spare && scene->spare_size == 0;
	if (scene->no_spare || (looks_at_spare && next_size(&scene->spare_size)))
		return true;
	scene->stop = !scene->stop;
	if (scene->stop || !puts_a_sheaf())
		return scene->stop;
	scene->closed = !scene->closed;
	return scene->closed;
}

/* Is the call made with each n? */
static bool has_n(void)
{
	return scene->call == WALK_POP_BULK || scene->call == WALK_PUSH_BULK ||
	       scene->call == WALK_STOCK || scene->call == WALK_PUSH_REMOTE ||
	       scene->call == WALK_REPLACE_RCU || scene->call == WALK_REPLACE_REMOTE ||
	       is_sampled();
}

bool scene_next(void)
{
	bool bulk = has_n();
	bool cached = scene->call >= WALK_NR_SECTIONS;

	if ((bulk || cached) && ++scene->n <= WALK_CAPACITY)
		return true;
	scene->n = bulk ? 1 : 0;
	if (!cached && next_slot())
		return true;
	scene->call++;
	scene->n = has_n();
	return scene->call < WALK_NR_CALLS;
}

unsigned int scene_least_sections(void)
{
	return 11;
}
