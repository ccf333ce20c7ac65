/* SPDX-License-Identifier: MIT */
/*
 * The baseline's per-CPU sections. They work on the slots of os/section.h, in separate rows that
 * libsheaf's sections never see, and use three of a slot's words:
 *
 *   pair       HEAD: the first free object of this CPU's slab; its link leads to the next one, the
 *              last one's is the slab's address | 1. So HEAD, odd, is an empty freelist and still
 *              says whose: 1 alone means that this CPU has no slab.
 *   home       LIST: the CPU partial list's first slab; the last one's link is 1. The next word
 *              counts the slabs from there on.
 *   home_size  SPAN: bytes of a slab, a power of two to which slabs are aligned.
 *
 * Since HEAD names both a freelist and its slab, every change is one committing store
 * (docs/design.md, R1), and no state lies between two. All return false when there is nothing to do
 * or the section cannot run; nothing was stored then.
 */
#ifndef BENCH_CPU_SLAB_SECTION_H
#define BENCH_CPU_SLAB_SECTION_H

#include "os/machine.h"
#include "os/rseq.h"
#include "os/section_c.h"
#include "slab/slab.h"

#define EMPTY ((uintptr_t)1)

_Static_assert(offsetof(struct slot, pair) - offsetof(struct slot, main) == 8 &&
		       offsetof(struct slot, home) - offsetof(struct slot, main) == 16 &&
		       offsetof(struct slot, home_size) - offsetof(struct slot, main) == 24,
	       "sections know the slot's words");
_Static_assert(offsetof(struct slab, bits) == 16, "sections know a slab's links");
_Static_assert(offsetof(struct slab, next) == 24, "sections know a slab's links");

static inline uintptr_t *link_of(void *object)
{
	return object;
}

/* The end of a slab's freelist. */
static inline uintptr_t end_of(const struct slab *slab)
{
	return (uintptr_t)page_address(slab) | EMPTY;
}

#ifdef HAVE_RSEQ
#ifdef __x86_64__
#include "section_x86_64.h"
#else
#include "section_aarch64.h"
#endif

/* One section: its text, outputs, further inputs, and what to do after it. */
#define SECTION(TEXT, OUTPUTS, INPUTS, DONE)                                                       \
	uintptr_t t;                                                                               \
                                                                                                   \
	__asm__ volatile goto(SHEAF_RSEQ_BEGIN SHEAF_RSEQ_ROW TEXT SHEAF_RSEQ_END(slow)            \
			      : [t] "=&r"(t), OUTPUTS                                              \
			      : RSEQ_PLACE(handle), INPUTS:SHEAF_RSEQ_CLOBBERS                     \
			      : slow);                                                             \
	SHEAF_KEEP_OUTPUTS;                                                                        \
	DONE;                                                                                      \
	return true;                                                                               \
	slow:                                                                                      \
	return false
#define AND    ,
#define INLINE static inline __attribute__((always_inline))

INLINE bool rseq_pop_head(char *handle, void **popped)
{
	void *object, *m;

	SECTION(RSEQ_POP_HEAD, [object] "=&r"(object)AND[m] "=&r"(m), "i"(0), *popped = object);
}

INLINE bool rseq_push_head(char *handle, void *object, void *tail)
{
	uintptr_t m, x;

	SECTION(RSEQ_PUSH_HEAD, [m] "=&r"(m)AND[x] "=&r"(x),
		[object] "r"(object)AND[tail] "r"(tail), );
}

INLINE bool rseq_pop_head_bulk(char *handle, void **dst, unsigned int most, unsigned int *n)
{
	uintptr_t m, i, count = most;

	SECTION(RSEQ_POP_HEAD_BULK, [m] "=&r"(m)AND[i] "=&r"(i),
		[dst] "r"(dst)AND[count] "r"(count), *n = (unsigned int)i);
}

INLINE bool rseq_install(char *handle, uintptr_t head, uintptr_t *old)
{
	uintptr_t m;

	SECTION(RSEQ_INSTALL, [m] "=&r"(m), [head] "r"(head), *old = m);
}

INLINE bool rseq_pop_list(char *handle, struct slab **popped)
{
	struct slab *slab;
	uintptr_t m;

	SECTION(RSEQ_POP_LIST, [slab] "=&r"(slab)AND[m] "=&r"(m), "i"(0), *popped = slab);
}

INLINE bool rseq_push_list(char *handle, struct slab *slab, uintptr_t limit)
{
	uintptr_t m, x;

	SECTION(RSEQ_PUSH_LIST, [m] "=&r"(m)AND[x] "=&r"(x),
		[slab] "r"(slab)AND[limit] "r"(limit), );
}

INLINE bool rseq_take_list(char *handle, struct slab **list)
{
	struct slab *slab;

	SECTION(RSEQ_TAKE_LIST, [slab] "=&r"(slab), "i"(0), *list = slab);
}
#undef INLINE
#undef AND
#undef SECTION
#endif

/* The sections in C, under the slot's try-lock. All writes to the slots of a row are made under it.
 */

C_SECTION bool c_pop_head_bulk(char *handle, void **dst, unsigned int most, unsigned int *n)
{
	struct slot *slot C_LEAVES = c_section_begin(handle);
	uintptr_t head;

	if (!slot)
		return false;
	head = slot->pair;
	for (*n = 0; *n < most && !(head & EMPTY); head = *link_of((void *)head))
		dst[(*n)++] = (void *)head;
	slot->pair = head;
	return *n;
}

C_SECTION bool c_pop_head(char *handle, void **object)
{
	unsigned int n;

	return c_pop_head_bulk(handle, object, 1, &n);
}

C_SECTION bool c_push_head(char *handle, void *object, void *tail)
{
	struct slot *slot C_LEAVES = c_section_begin(handle);
	bool ours;

	if (!slot)
		return false;
	ours = ((uintptr_t)object ^ slot->pair) < slot->home_size;
	if (ours) {
		*link_of(tail) = slot->pair;
		slot->pair = (uintptr_t)object;
	}
	return ours;
}

C_SECTION bool c_install(char *handle, uintptr_t head, uintptr_t *old)
{
	struct slot *slot C_LEAVES = c_section_begin(handle);
	bool empty;

	if (!slot)
		return false;
	empty = slot->pair & EMPTY;
	if (empty) {
		*old = slot->pair;
		slot->pair = head;
	}
	return empty;
}

/* LIST is linked through up to two words of a descriptor that the library does not use here. */
static inline uint64_t *length_of(struct slab *slab)
{
	return (uint64_t *)&slab->next;
}

C_SECTION bool c_pop_list(char *handle, struct slab **slab)
{
	struct slot *slot C_LEAVES = c_section_begin(handle);
	bool any;

	if (!slot)
		return false;
	any = !(slot->home & EMPTY);
	if (any) {
		*slab = (struct slab *)slot->home;
		slot->home = (*slab)->bits;
	}
	return any;
}

C_SECTION bool c_push_list(char *handle, struct slab *slab, uintptr_t limit)
{
	struct slot *slot C_LEAVES = c_section_begin(handle);
	struct slab *first;
	uintptr_t n;

	if (!slot)
		return false;
	first = (struct slab *)slot->home;
	n = slot->home & EMPTY ? 0 : *length_of(first);
	if (n < limit) {
		slab->bits = (uintptr_t)first;
		*length_of(slab) = n + 1;
		slot->home = (uintptr_t)slab;
	}
	return n < limit;
}

C_SECTION bool c_take_list(char *handle, struct slab **list)
{
	struct slot *slot C_LEAVES = c_section_begin(handle);

	if (!slot)
		return false;
	*list = (struct slab *)slot->home;
	slot->home = EMPTY;
	return true;
}

/* For slow paths: the backend is looked up at every call. */
#ifdef HAVE_RSEQ
#define SECTION_OF(name, ...)                                                                      \
	(os.backend == OS_BACKEND_RSEQ ? rseq_##name(__VA_ARGS__) : c_##name(__VA_ARGS__))
#else
#define SECTION_OF(name, ...) c_##name(__VA_ARGS__)
#endif

/* Take the first free object. */
static inline bool pop_head(char *handle, void **object)
{
	return SECTION_OF(pop_head, handle, object);
}

/* Take up to `most` of them, `most` > 0. */
static inline bool pop_head_bulk(char *handle, void **objects, unsigned int most, unsigned int *n)
{
	return SECTION_OF(pop_head_bulk, handle, objects, most, n);
}

/* Put a chain of objects of one slab there, if the slab is this CPU's. */
static inline bool push_head(char *handle, void *object, void *tail)
{
	return SECTION_OF(push_head, handle, object, tail);
}

/* If the freelist is empty, replace it and its slab; *old is the old HEAD. */
static inline bool install(char *handle, uintptr_t head, uintptr_t *old)
{
	return SECTION_OF(install, handle, head, old);
}

/* Take the first slab of the CPU partial list. */
static inline bool pop_list(char *handle, struct slab **slab)
{
	return SECTION_OF(pop_list, handle, slab);
}

/* Put one there, if there are fewer than limit. */
static inline bool push_list(char *handle, struct slab *slab, unsigned int limit)
{
	return SECTION_OF(push_list, handle, slab, limit);
}

/* Take them all. */
static inline bool take_list(char *handle, struct slab **list)
{
	return SECTION_OF(take_list, handle, list);
}

#endif
