/* SPDX-License-Identifier: MIT */
/*
 * Sizes of structures and arrays that do not wrap. <sheaf/slab.h> does not include this header.
 *
 *     #include <sheaf/overflow.h>
 *
 *     struct text *t = kmalloc(struct_size(t, characters, n), GFP_KERNEL);
 *
 * A result that is too large for size_t is SIZE_MAX, which each call that allocates refuses. The
 * arguments are evaluated once; a pointer not at all. Kernel: <linux/overflow.h>, the same names.
 */
#ifndef SHEAF_OVERFLOW_H
#define SHEAF_OVERFLOW_H

#include <sheaf/slab.h>

/* a + b; a - b, or SIZE_MAX if that is negative or a or b is SIZE_MAX; a * b. */
#define size_add(a, b) __sheaf_size_add(a, b)
#define size_sub(a, b) __sheaf_size_sub(a, b)
#define size_mul(a, b) __sheaf_size_mul(a, b)

/* Bytes of an array of a elements of b bytes each; of a times b elements of c bytes each. */
#define array_size(a, b)     size_mul(a, b)
#define array3_size(a, b, c) size_mul(size_mul(a, b), c)

/* Bytes of count elements of the last member, member[], of the structure that p points to. */
#define flex_array_size(p, member, count) size_mul(count, sizeof((p)->member[0]))

/* Bytes of a structure whose last member, member[], has count elements: of that which p points to;
 * of this type. */
#define struct_size(p, member, count)	   size_add(sizeof(*(p)), flex_array_size(p, member, count))
#define struct_size_t(type, member, count) struct_size(SHEAF_CAST(type *, NULL), member, count)

/* --- private from here on --------------------------------------------------------------------- */

static __always_inline size_t __sheaf_size_add(size_t a, size_t b)
{
	size_t sum;

	return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

static __always_inline size_t __sheaf_size_sub(size_t a, size_t b)
{
	return a == SIZE_MAX || b > a ? SIZE_MAX : a - b;
}

static __always_inline size_t __sheaf_size_mul(size_t a, size_t b)
{
	size_t product;

	return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

#endif
