/* SPDX-License-Identifier: MIT */
/*
 * The walker's scene for call sites: each shape is called with few objects, and with many. No
 * object may be lost, and none may be allocated twice.
 */
#include "shapes.h"

#include <sheaf/debug.h>
#include <sheaf/kmalloc.h>
#include <string.h>

#include "internal/kit/pages.h"
#include "kit/cache.h"
#include "os/section.h"
#include "walk.h"

enum {
	FEW = 8,
	ROUNDS = 2,
	LEAST_SECTIONS = 30
};

struct walk_scene *scene;
static struct shapes shapes;

void shapes_took(struct shapes *to, struct kmem_cache *s, void *object)
{
	void **words = object;

	if (!object) {
		to->wrong = 1;
		return;
	}
	for (unsigned int i = 0; i < to->nr_live; i++)
		if (to->live[i] == object)
			to->wrong = 1;
	words[1] = s;
	to->live[to->nr_live++] = object;
}

void *shapes_give(struct shapes *to, struct kmem_cache *s)
{
	for (unsigned int i = to->nr_live; i-- > 0;) {
		void **words = to->live[i];

		if (words[1] != s)
			continue;
		to->live[i] = to->live[--to->nr_live];
		return words;
	}
	return NULL;
}

bool scene_make(void)
{
	shapes.cache = make("shapes", 64, 0);
	shapes.other = make("other", 48, 0);
	/* Sheaves that are empty and full soon. */
	kmem_cache_set_sheaf_capacity(shapes.cache, 3);
	kmem_cache_set_sheaf_capacity(shapes.other, 2);
	kfree(kmalloc(64, GFP_KERNEL));
	scene = (struct walk_scene *)map_one_row();
	return scene;
}

void scene_set(void)
{
	scene->call = WALK_NR_SECTIONS; /* it is on a real cache */
	memset(&scene->result, 0, sizeof(scene->result));
}

void scene_view(struct walk_view *view)
{
	memset(view, 0, sizeof(*view));
}

/* As many objects are in use as the sites have. */
static bool is_consistent(void)
{
	uint64_t used = look(shapes.cache).objects_in_use + look(shapes.other).objects_in_use;

	return used == shapes.nr_live + shapes.dropped && !kmem_cache_verify(shapes.cache) &&
	       !kmem_cache_verify(shapes.other);
}

void scene_run(void)
{
	shapes.salt++;
	while (shapes.nr_live > (scene->n % 2 ? SHAPES_MOST_LIVE / 2 : FEW)) {
		void **words = shapes.live[shapes.nr_live - 1];
		struct kmem_cache *s = words[1];

		kmem_cache_free(s, shapes_give(&shapes, s));
	}
	/* For those that free. */
	shapes_took(&shapes, shapes.cache, kmem_cache_alloc(shapes.cache, GFP_KERNEL));
	shapes_took(&shapes, shapes.other, kmem_cache_alloc(shapes.other, GFP_KERNEL));
	shapes_list[scene->n / ROUNDS](&shapes);
	scene->result.done = !shapes.wrong && (!scene->check || is_consistent());
}

void scene_run_in_c(void)
{
	scene->result = (struct walk_result){1, {NULL}};
}

bool scene_retries(void)
{
	return true;
}

bool scene_next(void)
{
	return ++scene->n < ROUNDS * shapes_number;
}

unsigned int scene_least_sections(void)
{
	return LEAST_SECTIONS;
}
