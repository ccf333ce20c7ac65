/* SPDX-License-Identifier: MIT */
/*
 * The restartable sections, made from this architecture's text.
 *
 * Each is one `asm volatile goto`: volatile, because a compiler may delete a section whose outputs
 * it thinks are unused; goto, because a section has no flag left to test. A section that leaves by
 * `slow` (nothing to do, or not registered) or `aborted` has stored nothing. For pop and push, the
 * caller makes the second try; the others try RSEQ_TRIES times. rseq_cs stays set after a section:
 * the library is never unloaded.
 *
 * Callers: os/rseq.h.
 */
#ifndef SHEAF_OS_SECTION_RSEQ_H
#define SHEAF_OS_SECTION_RSEQ_H

#include "os/machine.h"
#include "os/section.h"

/*
 * Aborts in a row before a slow path continues without the sheaf. One abort is a preemption, which
 * is rare; a second one in so few instructions means a storm of signals or a debugger that steps,
 * and more tries do not help there.
 */
#define RSEQ_TRIES	   4
#define RSEQ_ALWAYS_INLINE static inline __attribute__((always_inline))

#define RSEQ_DEFINE_POP(suffix, ROW, POP)                                                          \
	RSEQ_ALWAYS_INLINE bool rseq_pop_##suffix(char *handle, void **popped)                     \
	{                                                                                          \
		void *object, *m;                                                                  \
		uintptr_t t, w;                                                                    \
                                                                                                   \
		__asm__ volatile goto(                                                             \
			RSEQ_BEGIN ROW POP RSEQ_END(slow)                                          \
			: [object] "=&r"(object), [m] "=&r"(m), [t] "=&r"(t), [w] "=&r"(w)         \
			: [handle] "r"(handle), [area] "r"(os.rseq_offset)                         \
			: RSEQ_CLOBBERS                                                            \
			: slow);                                                                   \
		*popped = object;                                                                  \
		return true;                                                                       \
	slow:                                                                                      \
		return false;                                                                      \
	}

#define RSEQ_DEFINE_PUSH(suffix, ROW, PUSH)                                                        \
	RSEQ_ALWAYS_INLINE bool rseq_push_##suffix(char *handle, void *object)                     \
	{                                                                                          \
		void *m;                                                                           \
		uintptr_t t, w, i;                                                                 \
                                                                                                   \
		__asm__ volatile goto(                                                             \
			RSEQ_BEGIN ROW PUSH RSEQ_END(slow)                                         \
			: [m] "=&r"(m), [t] "=&r"(t), [w] "=&r"(w), [i] "=&r"(i)                   \
			: [handle] "r"(handle), [area] "r"(os.rseq_offset), [object] "r"(object)   \
			: RSEQ_CLOBBERS                                                            \
			: slow);                                                                   \
		return true;                                                                       \
	slow:                                                                                      \
		return false;                                                                      \
	}

RSEQ_DEFINE_POP(mm_cid, RSEQ_ROW_MM_CID, RSEQ_POP)
RSEQ_DEFINE_POP(cpu_id, RSEQ_ROW_CPU_ID, RSEQ_POP)
RSEQ_DEFINE_POP(mm_cid_ahead, RSEQ_ROW_MM_CID, RSEQ_POP_AHEAD)
RSEQ_DEFINE_POP(cpu_id_ahead, RSEQ_ROW_CPU_ID, RSEQ_POP_AHEAD)
RSEQ_DEFINE_POP(mm_cid_counted, RSEQ_ROW_MM_CID, RSEQ_POP_COUNTED)
RSEQ_DEFINE_POP(cpu_id_counted, RSEQ_ROW_CPU_ID, RSEQ_POP_COUNTED)
RSEQ_DEFINE_POP(mm_cid_sampled, RSEQ_ROW_MM_CID, RSEQ_POP_SAMPLED)
RSEQ_DEFINE_POP(cpu_id_sampled, RSEQ_ROW_CPU_ID, RSEQ_POP_SAMPLED)
RSEQ_DEFINE_PUSH(mm_cid, RSEQ_ROW_MM_CID, RSEQ_PUSH)
RSEQ_DEFINE_PUSH(cpu_id, RSEQ_ROW_CPU_ID, RSEQ_PUSH)
RSEQ_DEFINE_PUSH(mm_cid_counted, RSEQ_ROW_MM_CID, RSEQ_PUSH_COUNTED)
RSEQ_DEFINE_PUSH(cpu_id_counted, RSEQ_ROW_CPU_ID, RSEQ_PUSH_COUNTED)

/* By either index. 32 bits wide even where events are counted, because the word of an rcu_free
 * sheaf carries no pops. */
RSEQ_ALWAYS_INLINE bool rseq_push_rcu(char *handle, void *object)
{
	uintptr_t t;
	void *m;

	__asm__ volatile goto(RSEQ_BEGIN RSEQ_ROW_EITHER RSEQ_PUSH_RCU RSEQ_END(slow)
			      : [m] "=&r"(m), [t] "=&r"(t)
			      : [handle] "r"(handle), [area] "r"(os.rseq_offset), [id] "r"(RSEQ_ID),
				[object] "r"(object)
			      : RSEQ_CLOBBERS
			      : slow);
	return true;
slow:
	return false;
}

/* Add n to the word of main, if a sample is due there. */
RSEQ_ALWAYS_INLINE bool rseq_arm(char *handle, uint64_t n)
{
	int tries = RSEQ_TRIES;
	uintptr_t t, w;
	void *m;

again:
	__asm__ volatile goto(
		RSEQ_BEGIN RSEQ_ROW_EITHER RSEQ_ARM RSEQ_END(aborted)
		: [m] "=&r"(m), [t] "=&r"(t), [w] "=&r"(w)
		: [handle] "r"(handle), [area] "r"(os.rseq_offset), [id] "r"(RSEQ_ID), [n] "r"(n)
		: RSEQ_CLOBBERS
		: slow, aborted);
	return true;
aborted:
	if (--tries)
		goto again;
slow:
	return false;
}

/* Add n to the word at this distance from this CPU's slot, if the slot is open. */
RSEQ_ALWAYS_INLINE bool rseq_count(char *handle, intptr_t word, uint64_t n)
{
	int tries = RSEQ_TRIES;
	uintptr_t t;

again:
	__asm__ volatile goto(RSEQ_BEGIN RSEQ_ROW_EITHER RSEQ_COUNT RSEQ_END(aborted)
			      : [t] "=&r"(t)
			      : [handle] "r"(handle), [area] "r"(os.rseq_offset), [id] "r"(RSEQ_ID),
				[word] "r"(word), [n] "r"(n)
			      : RSEQ_CLOBBERS
			      : slow, aborted);
	return true;
aborted:
	if (--tries)
		goto again;
slow:
	return false;
}

RSEQ_ALWAYS_INLINE unsigned int rseq_pop_bulk(struct section_slots *s, void **objects,
					      unsigned int n)
{
	uintptr_t t, i, count;
	int tries = RSEQ_TRIES;
	void *m, *src;

again:
	count = n;
	__asm__ volatile goto(
		RSEQ_BEGIN RSEQ_ROW_EITHER RSEQ_POP_BULK RSEQ_END(aborted)
		: [m] "=&r"(m), [t] "=&r"(t), [i] "=&r"(i), [src] "=&r"(src), [count] "+&r"(count)
		: [handle] "r"(s->handle), [area] "r"(os.rseq_offset), [id] "r"(RSEQ_ID),
		  [dst] "r"(objects)
		: RSEQ_BULK_CLOBBERS
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
		RSEQ_BEGIN RSEQ_ROW_EITHER RSEQ_PUSH_BULK RSEQ_END(aborted)
		: [m] "=&r"(m), [t] "=&r"(t), [i] "=&r"(i), [dst] "=&r"(dst), [home] "=&r"(home),
		  [limit] "=&r"(limit), [bits] "=&r"(bits), [count] "+&r"(count)
		: [handle] "r"(s->handle), [area] "r"(os.rseq_offset), [id] "r"(RSEQ_ID),
		  [src] "r"(objects)
		: RSEQ_BULK_CLOBBERS
		: slow, aborted);
	return (unsigned int)count;
aborted:
	if (--tries)
		goto again;
slow:
	return 0;
}

#define RSEQ_DEFINE_SWAP(name, CONDITION)                                                          \
	RSEQ_ALWAYS_INLINE bool rseq_swap_##name(struct section_slots *s)                          \
	{                                                                                          \
		void *m, *p;                                                                       \
		uintptr_t t, w;                                                                    \
		int tries = RSEQ_TRIES;                                                            \
                                                                                                   \
	again:                                                                                     \
		__asm__ volatile goto(RSEQ_BEGIN RSEQ_ROW_EITHER RSEQ_MAIN_AND_SPARE               \
					      RSEQ_HAS_SPARE CONDITION RSEQ_SWAP RSEQ_END(aborted) \
				      : [m] "=&r"(m), [p] "=&r"(p), [t] "=&r"(t), [w] "=&r"(w)     \
				      : [handle] "r"(s->handle), [area] "r"(os.rseq_offset),       \
					[id] "r"(RSEQ_ID), [stop] "m"(s->stop)                     \
				      : RSEQ_CLOBBERS                                              \
				      : slow, aborted);                                            \
		return true;                                                                       \
	aborted:                                                                                   \
		if (--tries)                                                                       \
			goto again;                                                                \
	slow:                                                                                      \
		return false;                                                                      \
	}

RSEQ_DEFINE_SWAP(empty, RSEQ_MAIN_EMPTY)
RSEQ_DEFINE_SWAP(full, RSEQ_MAIN_FULL)

RSEQ_ALWAYS_INLINE bool rseq_replace_spare(struct section_slots *s, struct sheaf *sheaf,
					   struct sheaf **old)
{
	void *m, *p;
	uintptr_t t;
	int tries = RSEQ_TRIES;

again:
	__asm__ volatile goto(
		RSEQ_BEGIN RSEQ_ROW_EITHER RSEQ_MAIN_AND_SPARE RSEQ_REPLACE RSEQ_END(aborted)
		: [m] "=&r"(m), [p] "=&r"(p), [t] "=&r"(t)
		: [handle] "r"(s->handle), [area] "r"(os.rseq_offset), [id] "r"(RSEQ_ID),
		  [stop] "m"(s->stop), [sheaf] "r"(sheaf)
		: RSEQ_CLOBBERS
		: slow, aborted);
	*old = p;
	return true;
aborted:
	if (--tries)
		goto again;
slow:
	return false;
}

RSEQ_ALWAYS_INLINE bool rseq_put_spare(struct section_slots *s, struct sheaf *sheaf)
{
	void *m, *p;
	uintptr_t t;
	int tries = RSEQ_TRIES;

again:
	__asm__ volatile goto(RSEQ_BEGIN RSEQ_ROW_EITHER RSEQ_MAIN_AND_SPARE RSEQ_HAS_NO_SPARE
				      RSEQ_REPLACE RSEQ_END(aborted)
			      : [m] "=&r"(m), [p] "=&r"(p), [t] "=&r"(t)
			      : [handle] "r"(s->handle), [area] "r"(os.rseq_offset),
				[id] "r"(RSEQ_ID), [stop] "m"(s->stop), [sheaf] "r"(sheaf)
			      : RSEQ_CLOBBERS
			      : slow, aborted);
	return true;
aborted:
	if (--tries)
		goto again;
slow:
	return false;
}

RSEQ_ALWAYS_INLINE bool rseq_replace_rcu(struct section_slots *s, struct sheaf *sheaf,
					 struct sheaf **old)
{
	int tries = RSEQ_TRIES;
	uintptr_t t;
	void *m;

again:
	__asm__ volatile goto(RSEQ_BEGIN RSEQ_ROW_EITHER RSEQ_REPLACE_RCU RSEQ_END(aborted)
			      : [m] "=&r"(m), [t] "=&r"(t)
			      : [handle] "r"(s->handle), [area] "r"(os.rseq_offset),
				[id] "r"(RSEQ_ID), [stop] "m"(s->stop), [sheaf] "r"(sheaf)
			      : RSEQ_CLOBBERS
			      : slow, aborted);
	*old = m;
	return true;
aborted:
	if (--tries)
		goto again;
slow:
	return false;
}

#endif
