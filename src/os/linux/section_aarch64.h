/* SPDX-License-Identifier: MIT */
/*
 * The restartable sections for aarch64: the same as linux/section_x86_64.h, which explains them.
 *
 * x9 and x10 hold the area's address and a scratch value.
 */
#ifndef SHEAF_OS_SECTION_AARCH64_H
#define SHEAF_OS_SECTION_AARCH64_H

#include "os/machine.h"
#include "os/section.h"

#define RSEQ_TRIES	   4 /* aborts in a row before a slow path does without the sheaf */
#define RSEQ_ALWAYS_INLINE static inline __attribute__((always_inline))

#define RSEQ_BEGIN                                                                                 \
	".pushsection __rseq_cs, \"aw\"\n"                                                         \
	".balign 32\n"                                                                             \
	"3: .long 0, 0\n"                                                                          \
	".quad 1f, 2f - 1f, 4f\n"                                                                  \
	".popsection\n"                                                                            \
	".pushsection __rseq_cs_ptr_array, \"aw\"\n"                                               \
	".quad 3b\n"                                                                               \
	".popsection\n"                                                                            \
	".pushsection __rseq_exit_point_array, \"aw\"\n"                                           \
	".quad 1f, %l[slow]\n"                                                                     \
	".popsection\n"                                                                            \
	"mrs x9, tpidr_el0\n"                                                                      \
	"add x9, x9, %[area]\n"                                                                    \
	"adrp %[t], 3b\n"                                                                          \
	"add %[t], %[t], :lo12:3b\n"                                                               \
	"str %[t], [x9, #8]\n"                                                                     \
	"1:\n"

#define RSEQ_END(aborted)                                                                          \
	"2:\n"                                                                                     \
	".pushsection __rseq_failure, \"ax\"\n"                                                    \
	".inst 0xd428bc00\n"                                                                       \
	"4: b %l[" #aborted "]\n"                                                                  \
	".popsection\n"

#define RSEQ_ROW_FROM(LOAD_ID)                                                                     \
	"ldr %w[t], [x9, #4]\n"                                                                    \
	"tbnz %w[t], #31, %l[slow]\n" LOAD_ID "add %[t], %[handle], %[t], lsl #16\n"               \
	"add %[t], %[t], #16, lsl #12\n"                                                           \
	"add %[t], %[t], #192\n"
#define RSEQ_ROW_MM_CID RSEQ_ROW_FROM("ldr %w[t], [x9, #24]\n")
#define RSEQ_ROW_CPU_ID RSEQ_ROW_FROM("")
#define RSEQ_ROW_EITHER RSEQ_ROW_FROM("ldr %w[t], [x9, %[id]]\n")

#define RSEQ_POP                                                                                   \
	"ldr %[m], [%[t]]\n"                                                                       \
	"ldr %w[t], [%[m]]\n"                                                                      \
	"subs %w[t], %w[t], #1\n"                                                                  \
	"b.lo %l[slow]\n"                                                                          \
	"add x10, %[m], %[t], lsl #3\n"                                                            \
	"ldr %[object], [x10, #32]\n"                                                              \
	"str %w[t], [%[m]]\n"

#define RSEQ_PUSH                                                                                  \
	"ldp %[m], x10, [%[t], #16]\n"                                                             \
	"sub %[m], %[object], %[m]\n"                                                              \
	"cmp %[m], x10\n"                                                                          \
	"b.hs %l[slow]\n"                                                                          \
	"ldr %[m], [%[t]]\n"                                                                       \
	"ldr %w[t], [%[m]]\n"                                                                      \
	"ldr w10, [%[m], #4]\n"                                                                    \
	"cmp %w[t], w10\n"                                                                         \
	"b.hs %l[slow]\n"                                                                          \
	"add x10, %[m], %[t], lsl #3\n"                                                            \
	"str %[object], [x10, #32]\n"                                                              \
	"add %w[t], %w[t], #1\n"                                                                   \
	"str %w[t], [%[m]]\n"

#define RSEQ_DEFINE_POP(suffix, ROW)                                                               \
	RSEQ_ALWAYS_INLINE bool rseq_pop_##suffix(char *handle, void **popped)                     \
	{                                                                                          \
		void *object, *m;                                                                  \
		uintptr_t t;                                                                       \
                                                                                                   \
		__asm__ volatile goto(RSEQ_BEGIN ROW RSEQ_POP RSEQ_END(slow)                       \
				      : [object] "=&r"(object), [m] "=&r"(m), [t] "=&r"(t)         \
				      : [handle] "r"(handle), [area] "r"(os.rseq_offset)           \
				      : "memory", "cc", "x9", "x10"                                \
				      : slow);                                                     \
		*popped = object;                                                                  \
		return true;                                                                       \
	slow:                                                                                      \
		return false;                                                                      \
	}

#define RSEQ_DEFINE_PUSH(suffix, ROW)                                                              \
	RSEQ_ALWAYS_INLINE bool rseq_push_##suffix(char *handle, void *object)                     \
	{                                                                                          \
		void *m;                                                                           \
		uintptr_t t;                                                                       \
                                                                                                   \
		__asm__ volatile goto(                                                             \
			RSEQ_BEGIN ROW RSEQ_PUSH RSEQ_END(slow)                                    \
			: [m] "=&r"(m), [t] "=&r"(t)                                               \
			: [handle] "r"(handle), [area] "r"(os.rseq_offset), [object] "r"(object)   \
			: "memory", "cc", "x9", "x10"                                              \
			: slow);                                                                   \
		return true;                                                                       \
	slow:                                                                                      \
		return false;                                                                      \
	}

RSEQ_DEFINE_POP(mm_cid, RSEQ_ROW_MM_CID)
RSEQ_DEFINE_POP(cpu_id, RSEQ_ROW_CPU_ID)
RSEQ_DEFINE_PUSH(mm_cid, RSEQ_ROW_MM_CID)
RSEQ_DEFINE_PUSH(cpu_id, RSEQ_ROW_CPU_ID)

/* Copy [i] pointers from src to dst, [i] > 0; LOOK is done to each in x10, after it was stored. */
#define RSEQ_COPY(LOOK)                                                                            \
	"5: sub %[i], %[i], #1\n"                                                                  \
	"ldr x10, [%[src], %[i], lsl #3]\n"                                                        \
	"str x10, [%[dst], %[i], lsl #3]\n" LOOK "cbnz %[i], 5b\n"

/* The home test of a whole batch: a range's size is a power of two, so no offset from its begin
 * reaches it if their bits together do not. */
#define RSEQ_LOOK_AT_HOME                                                                          \
	"sub x10, x10, %[home]\n"                                                                  \
	"orr %[bits], %[bits], x10\n"

RSEQ_ALWAYS_INLINE unsigned int rseq_pop_bulk(struct section_slots *s, void **objects,
					      unsigned int n)
{
	uintptr_t t, i, count;
	int tries = RSEQ_TRIES;
	void *m, *src;

again:
	count = n;
	__asm__ volatile goto(
		RSEQ_BEGIN RSEQ_ROW_EITHER
		"ldr %[m], [%[t]]\n"
		"ldr %w[t], [%[m]]\n"
		"cbz %w[t], %l[slow]\n"
		"cmp %w[count], %w[t]\n"
		"csel %w[count], %w[count], %w[t], lo\n"
		"sub %w[t], %w[t], %w[count]\n"
		"add %[src], %[m], %[t], lsl #3\n"
		"add %[src], %[src], #32\n"
		"mov %w[i], %w[count]\n" RSEQ_COPY("") "str %w[t], [%[m]]\n" RSEQ_END(aborted)
		: [m] "=&r"(m), [t] "=&r"(t), [i] "=&r"(i), [src] "=&r"(src), [count] "+&r"(count)
		: [handle] "r"(s->handle), [area] "r"(os.rseq_offset),
		  [id] "r"((uint64_t)os.id_offset), [dst] "r"(objects)
		: "memory", "cc", "x9", "x10"
		: slow, aborted);
	return (unsigned int)count;
aborted:
	if (--tries)
		goto again;
slow:
	return 0;
}

RSEQ_ALWAYS_INLINE unsigned int rseq_push_bulk(struct section_slots *s, void **objects,
					       unsigned int n)
{
	uintptr_t t, i, count, home, limit, bits;
	int tries = RSEQ_TRIES;
	void *m, *dst;

again:
	count = n;
	__asm__ volatile goto(
		RSEQ_BEGIN RSEQ_ROW_EITHER
		"ldp %[home], %[limit], [%[t], #16]\n"
		"mov %[bits], #0\n"
		"ldr %[m], [%[t]]\n"
		"ldr %w[t], [%[m]]\n"
		"add %[dst], %[m], %[t], lsl #3\n"
		"add %[dst], %[dst], #32\n"
		"ldr %w[i], [%[m], #4]\n"
		"subs %w[t], %w[i], %w[t]\n"
		"b.eq %l[slow]\n"
		"cmp %w[count], %w[t]\n"
		"csel %w[count], %w[count], %w[t], lo\n"
		"mov %w[i], %w[count]\n" RSEQ_COPY(RSEQ_LOOK_AT_HOME) "cmp %[bits], %[limit]\n"
								      "b.hs %l[slow]\n"
								      "ldr w10, [%[m]]\n"
								      "add w10, w10, %w[count]\n"
								      "str w10, [%[m]]\n" RSEQ_END(
									      aborted)
		: [m] "=&r"(m), [t] "=&r"(t), [i] "=&r"(i), [dst] "=&r"(dst), [home] "=&r"(home),
		  [limit] "=&r"(limit), [bits] "=&r"(bits), [count] "+&r"(count)
		: [handle] "r"(s->handle), [area] "r"(os.rseq_offset),
		  [id] "r"((uint64_t)os.id_offset), [src] "r"(objects)
		: "memory", "cc", "x9", "x10"
		: slow, aborted);
	return (unsigned int)count;
aborted:
	if (--tries)
		goto again;
slow:
	return 0;
}

/* m = main, p = spare. */
#define RSEQ_MAIN_AND_SPARE                                                                        \
	"ldr %w[m], %[stop]\n"                                                                     \
	"cbnz %w[m], %l[slow]\n"                                                                   \
	"ldp %[m], %[p], [%[t]]\n"                                                                 \
	"eor %[p], %[p], %[m]\n"

#define RSEQ_DEFINE_SWAP(name, CONDITION)                                                          \
	RSEQ_ALWAYS_INLINE bool rseq_swap_##name(struct section_slots *s)                          \
	{                                                                                          \
		void *m, *p;                                                                       \
		uintptr_t t, w;                                                                    \
		int tries = RSEQ_TRIES;                                                            \
                                                                                                   \
	again:                                                                                     \
		__asm__ volatile goto(RSEQ_BEGIN RSEQ_ROW_EITHER RSEQ_MAIN_AND_SPARE               \
				      "cbz %[p], %l[slow]\n" CONDITION                             \
				      "str %[p], [%[t]]\n" RSEQ_END(aborted)                       \
				      : [m] "=&r"(m), [p] "=&r"(p), [t] "=&r"(t), [w] "=&r"(w)     \
				      : [handle] "r"(s->handle), [area] "r"(os.rseq_offset),       \
					[id] "r"((uint64_t)os.id_offset), [stop] "m"(s->stop)      \
				      : "memory", "cc", "x9", "x10"                                \
				      : slow, aborted);                                            \
		return true;                                                                       \
	aborted:                                                                                   \
		if (--tries)                                                                       \
			goto again;                                                                \
	slow:                                                                                      \
		return false;                                                                      \
	}

RSEQ_DEFINE_SWAP(empty, "ldr %w[w], [%[m]]\n"
			"cbnz %w[w], %l[slow]\n"
			"ldr %w[w], [%[p]]\n"
			"cbz %w[w], %l[slow]\n")
RSEQ_DEFINE_SWAP(full, "ldr %w[w], [%[m]]\n"
		       "ldr w10, [%[m], #4]\n"
		       "cmp %w[w], w10\n"
		       "b.lo %l[slow]\n"
		       "ldr %w[w], [%[p]]\n"
		       "ldr w10, [%[p], #4]\n"
		       "cmp %w[w], w10\n"
		       "b.hs %l[slow]\n")

RSEQ_ALWAYS_INLINE bool rseq_replace_spare(struct section_slots *s, struct sheaf *sheaf,
					   struct sheaf **old)
{
	void *m, *p;
	uintptr_t t;
	int tries = RSEQ_TRIES;

again:
	__asm__ volatile goto(
		RSEQ_BEGIN RSEQ_ROW_EITHER RSEQ_MAIN_AND_SPARE
		"eor %[m], %[m], %[sheaf]\n"
		"str %[m], [%[t], #8]\n" RSEQ_END(aborted)
		: [m] "=&r"(m), [p] "=&r"(p), [t] "=&r"(t)
		: [handle] "r"(s->handle), [area] "r"(os.rseq_offset),
		  [id] "r"((uint64_t)os.id_offset), [stop] "m"(s->stop), [sheaf] "r"(sheaf)
		: "memory", "cc", "x9", "x10"
		: slow, aborted);
	*old = p;
	return true;
aborted:
	if (--tries)
		goto again;
slow:
	return false;
}

#endif
