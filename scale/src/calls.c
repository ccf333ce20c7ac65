/* SPDX-License-Identifier: MIT */
/* See calls.h. This file is instrumented. */
#define CALLS_THEMSELVES
#include "scale/src/calls.h"

#include <stdlib.h>

#include "os/machine.h"
#include "scale/src/workloads.h"

#define ARRAY 64u /* objects */

/* Represents a prefilled sheaf. */
struct array {
	_Alignas(128) unsigned int n;
	struct array *next; /* that this CPU keeps */
	void *objects[ARRAY];
};

static struct array *kept[MACHINE_CPUS];

static bool has_sheaves(void)
{
	return running.allocator->prefills;
}

struct kmem_cache *calls_create(const char *name, size_t size, const struct kmem_cache_args *args)
{
	const struct cache_request request = {
		.name = name, .size = size, .capacity = args ? args->sheaf_capacity : 0};

	return running.allocator->open(running.allocator, &request);
}

void *calls_alloc(struct kmem_cache *s)
{
	return work_alloc(running.allocator, s);
}

void calls_free(struct kmem_cache *s, void *object)
{
	work_free(running.allocator, s, object);
}

void calls_retire(struct kmem_cache *s, void *object)
{
	work_retire(running.allocator, s, object);
}

/* --- in bulk -------------------------------------------------------------------------------- */

bool calls_alloc_bulk(struct kmem_cache *s, size_t n, void **objects)
{
	enum tally_side side = work_side(TALLY_ALLOCATOR);
	bool done = true;

	if (has_sheaves()) {
		done = kmem_cache_alloc_bulk(s, GFP_KERNEL, n, objects);
	} else {
		for (size_t i = 0; i < n; i++)
			objects[i] = running.allocator->alloc(s);
	}
	work_side(side);
	return done;
}

void calls_free_bulk(struct kmem_cache *s, size_t n, void **objects)
{
	enum tally_side side = work_side(TALLY_ALLOCATOR);

	if (has_sheaves()) {
		kmem_cache_free_bulk(s, n, objects);
	} else {
		for (size_t i = 0; i < n; i++)
			running.allocator->free(s, objects[i]);
	}
	work_side(side);
}

/* --- prefilled sheaves ---------------------------------------------------------------------- */

static struct array *array_of(struct slab_sheaf *sheaf)
{
	return (struct array *)(void *)sheaf;
}

struct slab_sheaf *calls_prefill(struct kmem_cache *s, unsigned int n)
{
	enum tally_side side = work_side(TALLY_ALLOCATOR);
	struct slab_sheaf *sheaf;
	struct array *array;

	if (has_sheaves()) {
		sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, n);
	} else {
		array = kept[os_cpu()];
		if (array)
			kept[os_cpu()] = array->next;
		else
			array = aligned_alloc(128, (sizeof(*array) + 127) / 128 * 128);
		array->n = 0;
		sheaf = (struct slab_sheaf *)(void *)array;
		calls_refill(s, &sheaf, n);
	}
	work_side(side);
	return sheaf;
}

int calls_refill(struct kmem_cache *s, struct slab_sheaf **sheaf, unsigned int n)
{
	enum tally_side side = work_side(TALLY_ALLOCATOR);
	struct array *array = array_of(*sheaf);
	int error = 0;

	if (has_sheaves())
		error = kmem_cache_refill_sheaf(s, GFP_KERNEL, sheaf, n);
	else
		while (array->n < n && array->n < ARRAY)
			array->objects[array->n++] = running.allocator->alloc(s);
	work_side(side);
	return error;
}

void calls_return(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	enum tally_side side = work_side(TALLY_ALLOCATOR);
	struct array *array = array_of(sheaf);

	if (has_sheaves()) {
		kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	} else {
		while (array->n)
			running.allocator->free(s, array->objects[--array->n]);
		array->next = kept[os_cpu()];
		kept[os_cpu()] = array;
	}
	work_side(side);
}

void *calls_take(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	enum tally_side side = work_side(TALLY_ALLOCATOR);
	struct array *array = array_of(sheaf);
	void *object;

	if (has_sheaves())
		object = kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf);
	else
		object = array->objects[--array->n];
	work_side(side);
	return object;
}

unsigned int calls_left(const struct slab_sheaf *sheaf)
{
	if (has_sheaves())
		return kmem_cache_sheaf_size((struct slab_sheaf *)(uintptr_t)sheaf);
	return ((const struct array *)(const void *)sheaf)->n;
}
