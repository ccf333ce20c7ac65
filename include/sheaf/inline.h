/* SPDX-License-Identifier: MIT */
/*
 * The common allocation and the common free in the caller, without a call. <sheaf/slab.h> includes
 * this file where that is wanted; do not include it yourself.
 *
 * Each is a restartable section (rseq) of about fifteen instructions (<sheaf/section.h>). They know
 * where the words of a cache's slots lie, and that a pop commits the 32-bit size of a sheaf alone.
 * The first words of a cache say whether this is so, and the cache allows it. In a library with
 * another layout, and for a cache with checks, samples, counted events or charged objects, they
 * say no, and the program makes the call. So a program works with every version of the library.
 *
 * After a section, the thread's rseq area points to the section's descriptor, in the object file
 * that made the call, until the kernel clears it. So a shared object that is unloaded by dlclose()
 * must not have sections in place, or be linked with -z nodelete.
 */
#ifndef SHEAF_INLINE_H
#define SHEAF_INLINE_H

#ifndef SHEAF_SLAB_H
#error "include <sheaf/slab.h> in place of this file"
#endif

#include <sheaf/section.h>

/* The sections need `asm goto` with outputs. */
#if defined(__clang_major__)
#define SHEAF_ASM_GOTO (__clang_major__ >= 14)
#else
#define SHEAF_ASM_GOTO (__GNUC__ >= 11)
#endif
#if defined(SHEAF_IN_PLACE) && defined(SHEAF_RSEQ_BEGIN) && SHEAF_ASM_GOTO
#define SHEAF_HAS_SECTIONS 1
#endif

#ifdef SHEAF_HAS_SECTIONS
#ifdef __cplusplus
extern "C" {
#endif

/* The library may change them while threads use the cache. */
#define SHEAF_ROW_WORDS(s)                                                                         \
	SHEAF_CAST(const volatile struct sheaf_row_words *, SHEAF_CAST(const void *, s))

/* The newest object of this CPU's main sheaf; NULL: make the call. An output that is written after
 * the last use of an input has its register: with few registers, code is shorter. */
static __always_inline void *__sheaf_pop_inline(struct kmem_cache *s)
{
	const uint32_t id = SHEAF_ROW_WORDS(s)->pop_by;
	void *object, *m;
	uintptr_t t;

	if (__builtin_expect(id <= SHEAF_BY_CALL, 0))
		return NULL;
	__asm__ volatile goto(SHEAF_RSEQ_BEGIN SHEAF_RSEQ_ROW SHEAF_RSEQ_POP SHEAF_RSEQ_END(slow)
			      : [object] "=&r"(object), [m] "=&r"(m), [t] "=&r"(t)
			      : [handle] "r"(s), [area] "[object]"(SHEAF_ROW_WORDS(s)->area),
				[id] "[m]"(SHEAF_CAST(uintptr_t, id))
			      : SHEAF_RSEQ_CLOBBERS
			      : slow);
	SHEAF_KEEP_OUTPUTS;
	if (!object)
		__builtin_unreachable();
	return object;
slow:
	return NULL;
}

/* Put the object into this CPU's main sheaf; false: make the call. */
static __always_inline int __sheaf_push_inline(struct kmem_cache *s, void *object)
{
	const uint32_t id = SHEAF_ROW_WORDS(s)->push_by;
	uintptr_t t;
	void *m;

	if (__builtin_expect(id <= SHEAF_BY_CALL, 0))
		return 0;
	__asm__ volatile goto(SHEAF_RSEQ_BEGIN SHEAF_RSEQ_ROW SHEAF_RSEQ_PUSH SHEAF_RSEQ_END(slow)
			      : [m] "=&r"(m), [t] "=&r"(t)
			      : [handle] "r"(s), [area] "r"(SHEAF_ROW_WORDS(s)->area),
				[id] "[m]"(SHEAF_CAST(uintptr_t, id)), [object] "r"(object)
			      : SHEAF_RSEQ_CLOBBERS
			      : slow);
	return 1;
slow:
	return 0;
}

#define SHEAF_POP_INLINE(s)	     __sheaf_pop_inline(s)
#define SHEAF_PUSH_INLINE(s, object) __sheaf_push_inline(s, object)

#ifdef __cplusplus
}
#endif
#endif

#endif
