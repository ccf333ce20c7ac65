/* SPDX-License-Identifier: MIT */
/* What the program writes to its objects, and must find there. */
#include "fuzz/api/model.h"

static unsigned char content(const struct object *o, size_t at)
{
	return (unsigned char)(o->number * 37 + at * 7 + (at >> 8) * 13 + 1);
}

/* The bytes that the model writes and checks: all of small objects; of others the first and last
 * ones, and some of up to 64 pages. */
static void each_byte(const struct object *o, size_t end,
		      void (*visit)(const struct object *o, size_t from, size_t to))
{
	size_t all = 1024, step = (o->size / 64 + 4096) & ~(size_t)4095, last = o->size - 128;

	visit(o, 0, end < all ? end : all);
	if (end <= all)
		return;
	for (size_t at = step; at < end; at += step)
		visit(o, at, at + 8 < end ? at + 8 : end);
	if (end > last)
		visit(o, last > all ? last : all, end);
}

static void write_bytes(const struct object *o, size_t from, size_t to)
{
	for (size_t at = from; at < to; at++)
		if (!o->built || at >= BUILT_BYTES)
			o->p[at] = content(o, at);
}

static void check_bytes(const struct object *o, size_t from, size_t to)
{
	for (size_t at = from; at < to; at++)
		if ((!o->built || at >= BUILT_BYTES) && o->p[at] != content(o, at))
			fail("object %p of %zu bytes: byte %zu was overwritten", (void *)o->p,
			     o->size, at);
}

static void check_zero(const struct object *o, size_t from, size_t to)
{
	for (size_t at = from; at < to; at++)
		if (o->p[at])
			fail("object %p of %zu bytes: byte %zu is not zero", (void *)o->p, o->size,
			     at);
}

void check_zeroed(const struct object *o)
{
	each_byte(o, o->size, check_zero);
}

void fill(const struct object *o)
{
	each_byte(o, o->size, write_bytes);
}

void check_content(const struct object *o, size_t bytes)
{
	each_byte(o, bytes, check_bytes);
}

void check_built(const struct object *o)
{
	for (unsigned int i = 0; o->built && i < BUILT_BYTES; i++)
		if (o->p[i] != 0xb0 + i)
			fail("object %p is not as its constructor left it", (void *)o->p);
}
