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
 *
 * With several sets of caches (SHEAF_OPTIONS=random_kmalloc_caches), the type selects the set if
 * the compiler knows types (clang 22), and types that contain pointers have other sets than all
 * that is allocated otherwise; with other compilers the place in the program selects it, as for
 * kmalloc(). In a program that defines SHEAF_TYPED_KMALLOC, kmalloc(), kzalloc(), kvmalloc(),
 * kvzalloc(), and those of these names for arrays, are macros that do the same with the type whose
 * sizeof their size contains.
 */
#ifndef SHEAF_KMALLOC_OBJ_H
#define SHEAF_KMALLOC_OBJ_H

#include <sheaf/kmalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* (WHAT) or (WHAT, GFP): one object. */
#define kmalloc_obj(...)  SHEAF_OBJ(__kmalloc_typed, 0u, __VA_ARGS__)
#define kzalloc_obj(...)  SHEAF_OBJ(__kmalloc_typed, __GFP_ZERO, __VA_ARGS__)
#define kvmalloc_obj(...) SHEAF_OBJ(__kvmalloc_typed, 0u, __VA_ARGS__)
#define kvzalloc_obj(...) SHEAF_OBJ(__kvmalloc_typed, __GFP_ZERO, __VA_ARGS__)

/* (WHAT, COUNT) or (WHAT, COUNT, GFP): an array of COUNT objects. NULL if the product overflows. */
#define kmalloc_objs(...)  SHEAF_OBJS(__kmalloc_array_typed, 0u, __VA_ARGS__)
#define kzalloc_objs(...)  SHEAF_OBJS(__kmalloc_array_typed, __GFP_ZERO, __VA_ARGS__)
#define kvmalloc_objs(...) SHEAF_OBJS(__kvmalloc_array_typed, 0u, __VA_ARGS__)
#define kvzalloc_objs(...) SHEAF_OBJS(__kvmalloc_array_typed, __GFP_ZERO, __VA_ARGS__)

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

static __always_inline SHEAF_CHECK_RESULT void *
__kmalloc_flexible(size_t head, size_t n, size_t each, gfp_t flags, uint64_t token)
{
	size_t bytes;

	return __kmalloc_flex_overflows(head, n, each, &bytes)
		       ? NULL
		       : __kmalloc_typed(bytes, flags, token);
}

static __always_inline SHEAF_CHECK_RESULT void *
__kvmalloc_flexible(size_t head, size_t n, size_t each, gfp_t flags, uint64_t token)
{
	size_t bytes;

	return __kmalloc_flex_overflows(head, n, each, &bytes)
		       ? NULL
		       : __kvmalloc_typed(bytes, flags, token);
}

/*
 * The compiler's number for the type that such a size, or n and size, are of. 0: it knows none, or
 * gives other numbers, because of an option -falloc-token-max.
 */
#if defined(__has_builtin)
#if __has_builtin(__builtin_infer_alloc_token)
#define SHEAF_TOKEN_OF(...) SHEAF_CAST(uint64_t, __builtin_infer_alloc_token(__VA_ARGS__))
#define SHEAF_TOKEN(...)    (SHEAF_TOKEN_OF(sizeof(void *)) >> 63 ? SHEAF_TOKEN_OF(__VA_ARGS__) : 0)
#endif
#endif
#ifndef SHEAF_TOKEN
#define SHEAF_TOKEN(...) 0
#endif

/* The one for as many arguments as there are; the last empty one is for strict compilers. */
#define SHEAF_PICK_2(a, b, chosen, ...)	      chosen
#define SHEAF_PICK_3(a, b, c, chosen, ...)    chosen
#define SHEAF_PICK_4(a, b, c, d, chosen, ...) chosen

#define SHEAF_OBJ(call, more, ...)                                                                 \
	SHEAF_PICK_2(__VA_ARGS__, SHEAF_OBJ_2, SHEAF_OBJ_1, )(call, more, __VA_ARGS__)
#define SHEAF_OBJ_1(call, more, what) SHEAF_OBJ_2(call, more, what, GFP_KERNEL)
#define SHEAF_OBJ_2(call, more, what, gfp)                                                         \
	SHEAF_CAST(__typeof__(what) *,                                                             \
		   call(sizeof(what), (gfp) | (more), SHEAF_TOKEN(sizeof(what))))

#define SHEAF_OBJS(call, more, ...)                                                                \
	SHEAF_PICK_3(__VA_ARGS__, SHEAF_OBJS_3, SHEAF_OBJS_2, )(call, more, __VA_ARGS__)
#define SHEAF_OBJS_2(call, more, what, count) SHEAF_OBJS_3(call, more, what, count, GFP_KERNEL)
#define SHEAF_OBJS_3(call, more, what, count, gfp)                                                 \
	SHEAF_CAST(__typeof__(what) *,                                                             \
		   call(count, sizeof(what), (gfp) | (more), SHEAF_TOKEN(sizeof(what))))

#define SHEAF_FLEX(call, more, ...)                                                                \
	SHEAF_PICK_4(__VA_ARGS__, SHEAF_FLEX_4, SHEAF_FLEX_3, )(call, more, __VA_ARGS__)
#define SHEAF_FLEX_3(call, more, what, member, count)                                              \
	SHEAF_FLEX_4(call, more, what, member, count, GFP_KERNEL)
#define SHEAF_FLEX_BLOCK(call, more, what, member, count, gfp)                                     \
	SHEAF_CAST(__typeof__(what) *,                                                             \
		   call(sizeof(what), count,                                                       \
			sizeof(SHEAF_CAST(__typeof__(what) *, NULL)->member[0]), (gfp) | (more),   \
			SHEAF_TOKEN(sizeof(what))))

#if defined(__has_builtin) && !defined(__cplusplus)
#if __has_builtin(__builtin_counted_by_ref)
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
#endif
#endif
#ifndef SHEAF_FLEX_4
#define SHEAF_FLEX_4 SHEAF_FLEX_BLOCK
#endif

#define SHEAF_BY_SIZE(call, more, size, flags) call(size, (flags) | (more), SHEAF_TOKEN(size))
#define SHEAF_BY_SIZES(call, more, n, size, flags)                                                 \
	call(n, size, (flags) | (more), SHEAF_TOKEN(n, size))

#ifdef SHEAF_TYPED_KMALLOC
#define kmalloc(...)	    SHEAF_BY_SIZE(__kmalloc_typed, 0u, __VA_ARGS__)
#define kzalloc(...)	    SHEAF_BY_SIZE(__kmalloc_typed, __GFP_ZERO, __VA_ARGS__)
#define kvmalloc(...)	    SHEAF_BY_SIZE(__kvmalloc_typed, 0u, __VA_ARGS__)
#define kvzalloc(...)	    SHEAF_BY_SIZE(__kvmalloc_typed, __GFP_ZERO, __VA_ARGS__)
#define kmalloc_array(...)  SHEAF_BY_SIZES(__kmalloc_array_typed, 0u, __VA_ARGS__)
#define kcalloc(...)	    SHEAF_BY_SIZES(__kmalloc_array_typed, __GFP_ZERO, __VA_ARGS__)
#define kvmalloc_array(...) SHEAF_BY_SIZES(__kvmalloc_array_typed, 0u, __VA_ARGS__)
#define kvcalloc(...)	    SHEAF_BY_SIZES(__kvmalloc_array_typed, __GFP_ZERO, __VA_ARGS__)
#endif

#ifdef __cplusplus
}
#endif

#endif
