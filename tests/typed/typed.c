/* SPDX-License-Identifier: MIT */
/*
 * What kmalloc_obj() and its family do with what a compiler knows of types. Built by each compiler
 * found, in C and C++, and run with the options of meson.build; what needs a newer compiler is
 * left out with a line.
 */
#ifdef __cplusplus
extern "C" {
#endif
#include "kit/check.h"
#ifdef __cplusplus
}
#endif
#include <limits.h>
#include <sheaf/slab.h>
#include <string.h>

/* --- counters of flexible arrays -------------------------------------------------------------- */

#ifndef __cplusplus
#if defined(__has_attribute)
#if __has_attribute(__counted_by__)
#define COUNTED_BY(member) __attribute__((__counted_by__(member)))
#endif
#endif
#ifndef COUNTED_BY
#define COUNTED_BY(member)
#endif
#if defined(__has_builtin)
#if __has_builtin(__builtin_counted_by_ref)
#define FINDS_COUNTERS 1
#endif
#endif

struct bytes {
	unsigned char length;
	short all[] COUNTED_BY(length);
};

struct ints {
	long first;
	int length;
	char all[] COUNTED_BY(length);
};

struct uncounted {
	unsigned char length;
	short all[];
};

static int evaluated;

static size_t once(size_t n)
{
	evaluated++;
	return n;
}

#ifdef FINDS_COUNTERS
static void counters_are_set(void)
{
	struct bytes *b = kmalloc_flex(*b, all, 255);
	struct ints *i = kvzalloc_flex(struct ints, all, INT_MAX / 2, GFP_KERNEL);

	CHECK(b && b->length == 255);
	kfree(b);
	CHECK(i && i->length == INT_MAX / 2 && !i->first);
	kvfree(i);
	i = kvmalloc_flex(*i, all, 0);
	CHECK(i && i->length == 0);
	kvfree(i);
	b = kzalloc_flex(*b, all, once(3), GFP_NOWAIT);
	CHECK(b && b->length == 3 && evaluated == 1);
	kfree(b);
}

static void what_a_counter_cannot_hold_fails(void)
{
	struct bytes *b;
	struct ints *i;

	CHECK(!(b = kmalloc_flex(*b, all, 256)));
	CHECK(!(b = kzalloc_flex(struct bytes, all, once(1000), GFP_KERNEL)) && evaluated == 2);
	CHECK(!(i = kvmalloc_flex(*i, all, (size_t)INT_MAX + 1)));
	CHECK(!(i = kvzalloc_flex(*i, all, -1)));
}
#else
/* Nothing is said of the counter, and nothing done to it. */
static void counters_are_the_callers(void)
{
	struct bytes *b = kzalloc_flex(*b, all, once(1000), GFP_KERNEL);
	struct ints *i = kzalloc_flex(*i, all, 10);

	CHECK(b && !b->length && ksize(b) >= 2000 && evaluated == 1);
	CHECK(i && !i->length);
	kfree(b);
	kfree(i);
}
#endif

static void without_a_counter(void)
{
	struct uncounted *u = kzalloc_flex(*u, all, 1000);

	CHECK(u && !u->length && ksize(u) >= 2000);
	kfree(u);
}

static void flexible_arrays(void)
{
#ifdef FINDS_COUNTERS
	counters_are_set();
	what_a_counter_cannot_hold_fails();
#else
	counters_are_the_callers();
	puts("left out: counters that are set; this compiler has no __builtin_counted_by_ref");
#endif
	without_a_counter();
}
#else
static void flexible_arrays(void)
{
	puts("left out: counters of flexible arrays; C++ has none");
}
#endif

int main(void)
{
	flexible_arrays();
	return 0;
}
