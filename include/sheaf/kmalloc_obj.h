/* SPDX-License-Identifier: MIT */
/*
 * Memory for objects of a type: the macros compute the size and return a pointer of that type.
 * Included by <sheaf/slab.h>.
 *
 *     struct point *p = kmalloc_obj(*p), *many = kzalloc_objs(struct point, n, GFP_KERNEL);
 *     struct text *t = kmalloc_flex(*t, bytes, length, GFP_NOWAIT);
 *
 * WHAT is a type, or an expression of that type, which is not evaluated. GFP is optional; the
 * default is GFP_KERNEL. Otherwise each macro is like the call whose name it begins with: same
 * results, contexts and cost. Free the memory by kfree() or kvfree(). No constructor runs. Kernel:
 * the same names, since 7.0.
 */
#ifndef SHEAF_KMALLOC_OBJ_H
#define SHEAF_KMALLOC_OBJ_H

#include <sheaf/kmalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* (WHAT) or (WHAT, GFP): one object. */
#define kmalloc_obj(...)  SHEAF_OBJ(kmalloc, __VA_ARGS__)
#define kzalloc_obj(...)  SHEAF_OBJ(kzalloc, __VA_ARGS__)
#define kvmalloc_obj(...) SHEAF_OBJ(kvmalloc, __VA_ARGS__)
#define kvzalloc_obj(...) SHEAF_OBJ(kvzalloc, __VA_ARGS__)

/* (WHAT, COUNT) or (WHAT, COUNT, GFP): an array of COUNT objects. NULL if the product overflows. */
#define kmalloc_objs(...)  SHEAF_OBJS(kmalloc_array, __VA_ARGS__)
#define kzalloc_objs(...)  SHEAF_OBJS(kcalloc, __VA_ARGS__)
#define kvmalloc_objs(...) SHEAF_OBJS(kvmalloc_array, __VA_ARGS__)
#define kvzalloc_objs(...) SHEAF_OBJS(kvcalloc, __VA_ARGS__)

/*
 * (WHAT, MEMBER, COUNT) or (WHAT, MEMBER, COUNT, GFP): a structure whose last member MEMBER[] has
 * COUNT elements. NULL if the size overflows.
 *
 * If a member counts the elements, the caller must set it. But these macros set it where MEMBER has
 * the attribute counted_by and the compiler finds the counter (__builtin_counted_by_ref: C only,
 * gcc 15, clang 22); and there they return NULL, too, if the counter cannot hold COUNT. The
 * attribute is what kernel code calls __counted_by.
 */
#define kmalloc_flex(...)  SHEAF_FLEX(__kmalloc_flexible, 0u, __VA_ARGS__)
#define kzalloc_flex(...)  SHEAF_FLEX(__kmalloc_flexible, __GFP_ZERO, __VA_ARGS__)
#define kvmalloc_flex(...) SHEAF_FLEX(__kvmalloc_flexible, 0u, __VA_ARGS__)
#define kvzalloc_flex(...) SHEAF_FLEX(__kvmalloc_flexible, __GFP_ZERO, __VA_ARGS__)

/* --- private from here on --------------------------------------------------------------------- */

static __always_inline bool __kmalloc_flex_overflows(size_t head, size_t n, size_t each,
						     size_t *bytes)
{
	return __builtin_mul_overflow(n, each, bytes) ||
	       __builtin_add_overflow(*bytes, head, bytes);
}

static __always_inline SHEAF_CHECK_RESULT void *__kmalloc_flexible(size_t head, size_t n,
								   size_t each, gfp_t flags)
{
	size_t bytes;

	return __kmalloc_flex_overflows(head, n, each, &bytes) ? NULL : kmalloc(bytes, flags);
}

static __always_inline SHEAF_CHECK_RESULT void *__kvmalloc_flexible(size_t head, size_t n,
								    size_t each, gfp_t flags)
{
	size_t bytes;

	return __kmalloc_flex_overflows(head, n, each, &bytes) ? NULL : kvmalloc(bytes, flags);
}

/* The one for as many arguments as there are; the last empty one is for strict compilers. */
#define SHEAF_PICK_2(a, b, chosen, ...)	      chosen
#define SHEAF_PICK_3(a, b, c, chosen, ...)    chosen
#define SHEAF_PICK_4(a, b, c, d, chosen, ...) chosen

#define SHEAF_OBJ(call, ...)                                                                       \
	SHEAF_PICK_2(__VA_ARGS__, SHEAF_OBJ_2, SHEAF_OBJ_1, )(call, __VA_ARGS__)
#define SHEAF_OBJ_1(call, what)	     SHEAF_OBJ_2(call, what, GFP_KERNEL)
#define SHEAF_OBJ_2(call, what, gfp) SHEAF_CAST(__typeof__(what) *, call(sizeof(what), gfp))

#define SHEAF_OBJS(call, ...)                                                                      \
	SHEAF_PICK_3(__VA_ARGS__, SHEAF_OBJS_3, SHEAF_OBJS_2, )(call, __VA_ARGS__)
#define SHEAF_OBJS_2(call, what, count) SHEAF_OBJS_3(call, what, count, GFP_KERNEL)
#define SHEAF_OBJS_3(call, what, count, gfp)                                                       \
	SHEAF_CAST(__typeof__(what) *, call(count, sizeof(what), gfp))

#define SHEAF_FLEX(call, more, ...)                                                                \
	SHEAF_PICK_4(__VA_ARGS__, SHEAF_FLEX_4, SHEAF_FLEX_3, )(call, more, __VA_ARGS__)
#define SHEAF_FLEX_3(call, more, what, member, count)                                              \
	SHEAF_FLEX_4(call, more, what, member, count, GFP_KERNEL)
#define SHEAF_FLEX_BLOCK(call, more, what, member, count, gfp)                                     \
	SHEAF_CAST(__typeof__(what) *,                                                             \
		   call(sizeof(what), count,                                                       \
			sizeof(SHEAF_CAST(__typeof__(what) *, NULL)->member[0]), (gfp) | (more)))

#if defined(__has_builtin) && !defined(__cplusplus)
#if __has_builtin(__builtin_counted_by_ref)
#define SHEAF_COUNTS_FLEX 1
#endif
#endif
#ifdef SHEAF_COUNTS_FLEX
/* The counter of this member, or a variable that nobody reads. */
#define SHEAF_COUNTER(member)                                                                      \
	*_Generic(__builtin_counted_by_ref(member),                                                \
		void *: &(size_t){0},                                                              \
		default: __builtin_counted_by_ref(member))
#define SHEAF_FLEX_4(call, more, what, member, count, gfp)                                         \
	__extension__({                                                                            \
		__typeof__(what) *sheaf_block = NULL;                                              \
		const size_t sheaf_count = (count);                                                \
		__typeof__(SHEAF_COUNTER(sheaf_block->member)) sheaf_counted;                      \
                                                                                                   \
		if (!__builtin_add_overflow(sheaf_count, 0u, &sheaf_counted)) {                    \
			sheaf_block =                                                              \
				SHEAF_FLEX_BLOCK(call, more, what, member, sheaf_count, gfp);      \
			if (sheaf_block)                                                           \
				SHEAF_COUNTER(sheaf_block->member) = sheaf_counted;                \
		}                                                                                  \
		sheaf_block;                                                                       \
	})
#else
#define SHEAF_FLEX_4 SHEAF_FLEX_BLOCK
#endif

#ifdef __cplusplus
}
#endif

#endif
