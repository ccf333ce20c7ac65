/* SPDX-License-Identifier: MIT */
/*
 * Trees of many small objects, as parsers of XML and JSON build them: elements, attributes and
 * strings of a synthetic document. A round builds the tree, walks it and frees it.
 *
 *   element: name, attributes, children, next       attribute: name, value, next
 *
 * On libsheaf elements and attributes come from caches of their own and strings from kmalloc; on
 * malloc all come from malloc. Prints lines for the `sheaf` command: a line of nanoseconds of CPU
 * time for each object and round but the first.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/sized.h"
#include "common/common.h"

struct attribute {
	char *name, *value;
	struct attribute *next;
};

struct element {
	char *name, *text;
	struct attribute *attributes;
	struct element *children, *next;
	uint32_t depth;
};

struct options {
	size_t elements, iterations;
};

static uint64_t state;
static size_t objects; /* in the tree */
static uint64_t sum;   /* of the values that the walk reads */

#ifdef SHEAF_SLAB_H
static struct kmem_cache *elements, *attributes;

static bool begin(void)
{
	elements = KMEM_CACHE(element, 0);
	attributes = KMEM_CACHE(attribute, 0);
	return elements && attributes;
}

#define NEW(caches, type)    kmem_cache_alloc(caches, GFP_KERNEL)
#define DELETE(caches, item) kmem_cache_free(caches, item)
#else
static bool begin(void)
{
	return true;
}

#define NEW(caches, type)    malloc(sizeof(struct type))
#define DELETE(caches, item) free(item)
#endif

static void *made(void *object)
{
	if (!object)
		bench_out_of_memory();
	objects++;
	return object;
}

/* 4 to 43 letters, mostly few, as names and values have. */
static char *new_string(void)
{
	uint64_t random = bench_random(&state);
	size_t length = 4 + random % 12 + (random >> 8) % 4 / 3 * ((random >> 16) % 28);
	char *text = made(sized_alloc(length + 1));

	memset(text, 'a' + (int)(random >> 24) % 26, length);
	text[length] = '\0';
	return text;
}

static struct attribute *new_attributes(void)
{
	struct attribute *first = NULL;

	for (uint64_t n = bench_random(&state) % 4; n; n--) {
		struct attribute *one = made(NEW(attributes, attribute));

		one->name = new_string();
		one->value = new_string();
		one->next = first;
		first = one;
	}
	return first;
}

/* An element with 1 to 8 children, as long as elements are left. */
static struct element *new_element(size_t *left, uint32_t depth)
{
	struct element *one = made(NEW(elements, element));

	one->name = new_string();
	one->text = bench_random(&state) % 2 ? new_string() : NULL;
	one->attributes = new_attributes();
	one->children = NULL;
	one->next = NULL;
	one->depth = depth;
	for (uint64_t n = 1 + bench_random(&state) % 8; depth < 24 && n && *left; n--) {
		struct element *child;

		(*left)--;
		child = new_element(left, depth + 1);
		child->next = one->children;
		one->children = child;
	}
	return one;
}

static void walk(const struct element *one)
{
	for (; one; one = one->next) {
		sum += (uint64_t)one->name[0] + one->depth + (one->text ? strlen(one->text) : 0);
		for (const struct attribute *at = one->attributes; at; at = at->next)
			sum += (uint64_t)at->name[0] + (uint64_t)at->value[0];
		walk(one->children);
	}
}

static void delete_element(struct element *one)
{
	while (one) {
		struct element *next = one->next;

		for (struct attribute *at = one->attributes, *after; at; at = after) {
			after = at->next;
			sized_free(at->name);
			sized_free(at->value);
			DELETE(attributes, at);
		}
		delete_element(one->children);
		sized_free(one->name);
		if (one->text)
			sized_free(one->text);
		DELETE(elements, one);
		one = next;
	}
}

static void run_round(const struct options *options)
{
	struct element *first = NULL;

	state = BENCH_SEED;
	objects = 0;
	for (size_t left = options->elements; left;) {
		struct element *one;

		left--;
		one = new_element(&left, 0);
		one->next = first;
		first = one;
	}
	walk(first);
	delete_element(first);
}

int main(int argc, char **argv)
{
	struct options options = {.elements = 20000, .iterations = 8};
	const struct bench_option table[] = {
		{"elements", &options.elements, 1 << 24, NULL, NULL},
		{"iterations", &options.iterations, SIZE_MAX, NULL, NULL},
		{NULL, NULL, 0, NULL, NULL},
	};

	bench_parse(argc, argv, table, "Measure one allocator; `sheaf bench debug` runs this.\n");
	bench_pin(bench_cpu(0));
	sized_start("");
	if (!begin())
		bench_out_of_memory();
	for (size_t i = 0; i < options.iterations; i++) {
		double start = bench_thread_time();

		run_round(&options);
		if (i > 0)
			printf("%.4f\n", (bench_thread_time() - start) / (double)objects);
	}
	return sum ? 0 : 1;
}
