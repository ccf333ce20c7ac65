/* SPDX-License-Identifier: MIT */
/*
 * Call sites of many shapes. A compiler may use an older value of a section's output, if the code
 * behind the section has several predecessors (bug 113921 of gcc); check-shapes compiles this file
 * by each compiler that it finds.
 */
#include "shapes.h"

#include <sheaf/kmalloc.h>

static void single(struct shapes *to)
{
	shapes_took(to, to->cache, kmem_cache_alloc(to->cache, GFP_KERNEL));
}

static void in_a_loop(struct shapes *to)
{
	for (unsigned int i = 0; i < 3; i++)
		shapes_took(to, to->cache, kmem_cache_alloc(to->cache, GFP_KERNEL));
}

static void filled_array(struct shapes *to)
{
	void *objects[4];

	for (int i = 0; i < 4; i++)
		objects[i] = kmem_cache_alloc(to->cache, GFP_KERNEL);
	for (int i = 0; i < 4; i++)
		shapes_took(to, to->cache, objects[i]);
}

static void again_if_it_fails(struct shapes *to)
{
	void *object = kmem_cache_alloc(to->cache, GFP_NOWAIT);

	for (int tries = 0; !object && tries < 3; tries++)
		object = kmem_cache_alloc(to->cache, GFP_KERNEL);
	shapes_took(to, to->cache, object);
}

static void in_two_branches(struct shapes *to)
{
	struct kmem_cache *s = to->cache;
	void *object;

	if (to->salt & 1) {
		object = kmem_cache_alloc(to->cache, GFP_KERNEL);
	} else {
		s = to->other;
		object = kmem_cache_alloc(to->other, GFP_KERNEL);
	}
	shapes_took(to, s, object);
}

static void in_a_switch(struct shapes *to)
{
	void *object = to, *second = to;

	switch (to->salt % 4) {
	case 0:
		object = kmem_cache_alloc(to->cache, GFP_KERNEL);
		break;
	case 1:
		second = kmem_cache_alloc(to->cache, GFP_KERNEL);
		/* fallthrough */
	case 2:
		object = kmem_cache_alloc(to->cache, GFP_NOWAIT);
		break;
	default:
		break;
	}
	if (object != to)
		shapes_took(to, to->cache, object);
	if (second != to)
		shapes_took(to, to->cache, second);
}

static void chosen_cache(struct shapes *to)
{
	struct kmem_cache *s = to->salt & 2 ? to->cache : to->other;

	shapes_took(to, s, kmem_cache_alloc(s, GFP_KERNEL));
}

static void two_took(struct shapes *to, void *one, void *two)
{
	if (one == two)
		to->wrong = 1;
	shapes_took(to, to->cache, one);
	shapes_took(to, to->other, two);
}

static void two_arguments(struct shapes *to)
{
	two_took(to, kmem_cache_alloc(to->cache, GFP_KERNEL),
		 kmem_cache_alloc(to->other, GFP_KERNEL));
}

static void two_in_a_condition(struct shapes *to)
{
	void *one, *two;

	if ((one = kmem_cache_alloc(to->cache, GFP_KERNEL)) &&
	    (two = kmem_cache_alloc(to->other, GFP_KERNEL)))
		two_took(to, one, two);
	else
		to->wrong = 1;
}

static void either(struct shapes *to)
{
	void *old = to->nr_live ? to->live[0] : to;
	void *object = to->salt & 1 ? kmem_cache_alloc(to->cache, GFP_KERNEL) : old;

	if (object != old)
		shapes_took(to, to->cache, object);
}

static void only_compared(struct shapes *to)
{
	void *old = to->nr_live ? to->live[0] : NULL;

	if (kmem_cache_alloc(to->cache, GFP_KERNEL) == old)
		to->wrong = 1;
	to->dropped++;
}

static void from_several_places(struct shapes *to)
{
	void *object = NULL;
	unsigned int way = to->salt % 3;

	if (way == 0)
		goto allocate;
	if (way == 1 && to->nr_live)
		goto look;
	way = 0;
allocate:
	object = kmem_cache_alloc(to->cache, GFP_KERNEL);
	if (!object && !way++)
		goto allocate;
look:
	if (object)
		shapes_took(to, to->cache, object);
}

static void freed(struct shapes *to)
{
	void *object = shapes_give(to, to->cache);

	if (object)
		kmem_cache_free(to->cache, object);
}

static void freed_in_a_loop(struct shapes *to)
{
	void *object;

	while ((object = shapes_give(to, to->other)))
		kmem_cache_free(to->other, object);
}

static void freed_in_two_branches(struct shapes *to)
{
	struct kmem_cache *s = to->salt & 1 ? to->cache : to->other;
	void *object = shapes_give(to, s);

	if (!object)
		return;
	if (s == to->cache)
		kmem_cache_free(to->cache, object);
	else
		kmem_cache_free(to->other, object);
}

static void exchanged(struct shapes *to)
{
	void *old = shapes_give(to, to->cache), *object = kmem_cache_alloc(to->cache, GFP_KERNEL);

	if (old && old == object)
		to->wrong = 1;
	if (old)
		kmem_cache_free(to->cache, old);
	shapes_took(to, to->cache, object);
}

static void freed_and_allocated(struct shapes *to)
{
	void *old = shapes_give(to, to->cache);

	if (old)
		kmem_cache_free(to->cache, old);
	shapes_took(to, to->cache, kmem_cache_alloc(to->cache, GFP_KERNEL));
}

static void blocks(struct shapes *to)
{
	char *constant = kmalloc(64, GFP_KERNEL),
	     *variable = kmalloc(40 + to->salt % 64, GFP_KERNEL);

	if (!constant || !variable || constant == variable)
		to->wrong = 1;
	*(char volatile *)constant = 1;
	*(char volatile *)variable = 2;
	if (*(char volatile *)constant != 1)
		to->wrong = 1;
	kfree(constant);
	kfree(variable);
}

shape_call *const shapes_list[] = {
	single,
	in_a_loop,
	filled_array,
	again_if_it_fails,
	in_two_branches,
	freed_in_a_loop,
	in_a_switch,
	chosen_cache,
	two_arguments,
	two_in_a_condition,
	either,
	only_compared,
	freed,
	from_several_places,
	freed_in_two_branches,
	exchanged,
	freed_and_allocated,
	blocks,
};
const unsigned int shapes_number = sizeof(shapes_list) / sizeof(*shapes_list);
