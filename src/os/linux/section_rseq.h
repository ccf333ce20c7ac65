/* SPDX-License-Identifier: MIT */
/*
 * The restartable sections, made from this architecture's text.
 *
 * Each is one `asm volatile goto`: volatile, because a compiler may delete a section whose outputs
 * it thinks are unused; goto, because a section has no flag left to test. SHEAF_KEEP_OUTPUTS
 * follows where an output is used (include/sheaf/section.h). A section that leaves by `slow`
 * (nothing to do, or not registered) or `aborted` has stored nothing. Those of fast paths try once:
 * the caller makes the second try. The others try RSEQ_TRIES times. rseq_cs stays set after a
 * section: the library is never unloaded.
 *
 * Callers: os/rseq.h.
 */
#ifndef SHEAF_OS_SECTION_RSEQ_H
#define SHEAF_OS_SECTION_RSEQ_H

#include "os/compiler.h"
#include "os/machine.h"
#include "os/section.h"

/*
 * Aborts in a row before a slow path continues without the sheaf. One abort is a preemption, which
 * is rare; a second one in so few instructions means a storm of signals or a debugger that steps,
 * and more tries do not help there.
 */
#define RSEQ_TRIES	   4
#define RSEQ_ALWAYS_INLINE static OS_ALWAYS_INLINE

/* Operands: several of them as one argument of a macro. */
#define RSEQ_LIST(...) __VA_ARGS__

/* The rest of a function with one try: run the section and return `done`, or 0 if it leaves or is
 * aborted. */
/* clang-format off */
#define RSEQ_TRY(ROW, TEXT, OUTPUTS, INPUTS, done)                                                 \
	RSEQ_TRY_WITH(SHEAF_RSEQ_CLOBBERS, ROW, TEXT, RSEQ_LIST(OUTPUTS), RSEQ_LIST(INPUTS), done)
#define RSEQ_TRY_WITH(CLOBBERS, ROW, TEXT, OUTPUTS, INPUTS, done)                                  \
	__asm__ volatile goto(SHEAF_RSEQ_BEGIN ROW TEXT SHEAF_RSEQ_END(slow)                       \
			      : OUTPUTS                                                            \
			      : INPUTS                                                             \
			      : CLOBBERS                                                           \
			      : slow);                                                             \
	SHEAF_KEEP_OUTPUTS;                                                                        \
	return done;                                                                               \
slow:                                                                                              \
	return 0
/* clang-format on */

/* Operands of sections: a handle, and where in the rseq area the index of the row is. */
#define RSEQ_PLACE_BY(area_, by, cache)                                                            \
	[handle] "r"(cache), [area] "r"(area_), [id] "r"((uintptr_t)(by))
#define RSEQ_PLACE(cache) RSEQ_PLACE_BY(os.rseq_offset, os.id_offset, cache)

/* area, by: os.rseq_offset and os.id_offset, or the words of a cache that have the same values. */
#define RSEQ_DEFINE_POP(name, POP)                                                                 \
	RSEQ_ALWAYS_INLINE bool name(ptrdiff_t area, uint32_t by, char *handle, void **popped)     \
	{                                                                                          \
		void *object, *m;                                                                  \
		uintptr_t t, w;                                                                    \
                                                                                                   \
		RSEQ_TRY(SHEAF_RSEQ_ROW, POP,                                                      \
			 RSEQ_LIST([object] "=&r"(object), [m] "=&r"(m), [t] "=&r"(t),             \
				   [w] "=&r"(w)),                                                  \
			 RSEQ_LIST(RSEQ_PLACE_BY(area, by, handle)), (*popped = object, true));    \
	}

#define RSEQ_DEFINE_PUSH(name, ROW, PUSH)                                                          \
	RSEQ_ALWAYS_INLINE bool name(ptrdiff_t area, uint32_t by, char *handle, void *object)      \
	{                                                                                          \
		void *m;                                                                           \
		uintptr_t t, w, i;                                                                 \
                                                                                                   \
		RSEQ_TRY(ROW, PUSH,                                                                \
			 RSEQ_LIST([m] "=&r"(m), [t] "=&r"(t), [w] "=&r"(w), [i] "=&r"(i)),        \
			 RSEQ_LIST(RSEQ_PLACE_BY(area, by, handle), [object] "r"(object)), true);  \
	}

/* clang-format off */
RSEQ_DEFINE_POP(rseq_pop, SHEAF_RSEQ_POP)
RSEQ_DEFINE_POP(rseq_pop_ahead, RSEQ_POP_AHEAD)
RSEQ_DEFINE_POP(rseq_pop_counted, RSEQ_POP_COUNTED)
RSEQ_DEFINE_POP(rseq_pop_sampled, RSEQ_POP_SAMPLED)
RSEQ_DEFINE_POP(rseq_pop_sampled_counted, RSEQ_POP_SAMPLED_COUNTED)
RSEQ_DEFINE_PUSH(rseq_push, SHEAF_RSEQ_ROW, SHEAF_RSEQ_PUSH)
RSEQ_DEFINE_PUSH(rseq_push_counted, SHEAF_RSEQ_ROW, RSEQ_PUSH_COUNTED)
/* 32 bits wide even where events are counted: the word of such a sheaf has no pops. */
RSEQ_DEFINE_PUSH(rseq_push_rcu, SHEAF_RSEQ_ROW, RSEQ_PUSH_RCU)
/* Directly after another section. */
RSEQ_DEFINE_PUSH(rseq_push_again, RSEQ_ROW_AGAIN, SHEAF_RSEQ_PUSH)
RSEQ_DEFINE_PUSH(rseq_push_again_counted, RSEQ_ROW_AGAIN, RSEQ_PUSH_COUNTED)
/* clang-format on */

/* Hides the number of tries. Otherwise gcc makes a copy of the section for each try, the copies
 * share what follows, and SHEAF_KEEP_OUTPUTS does not help the last one. */
#define RSEQ_UNKNOWN(number) __asm__ volatile("" : "+r"(number))

/*
 * The rest of a function: do `before` and run the section, again if it was aborted, and return
 * `done`; or return false if the section leaves, or after RSEQ_TRIES aborts.
 */
/* clang-format off */
#define RSEQ_RUN(before, TEXT, OUTPUTS, INPUTS, done)                                              \
	int tries = RSEQ_TRIES;                                                                    \
again:                                                                                             \
	before;                                                                                    \
	__asm__ volatile goto(SHEAF_RSEQ_BEGIN SHEAF_RSEQ_ROW TEXT SHEAF_RSEQ_END(aborted)         \
			      : OUTPUTS                                                            \
			      : INPUTS                                                             \
			      : RSEQ_BULK_CLOBBERS                                                 \
			      : slow, aborted);                                                    \
	SHEAF_KEEP_OUTPUTS;                                                                        \
	return done;                                                                               \
aborted:                                                                                           \
	RSEQ_UNKNOWN(tries);                                                                       \
	if (--tries)                                                                               \
		goto again;                                                                        \
slow:                                                                                              \
	return false
/* clang-format on */

/* If a sample is due in main, so many pops are left. */
RSEQ_ALWAYS_INLINE bool rseq_arm(char *handle, uint64_t n)
{
	uintptr_t t;
	void *m;

	RSEQ_RUN(, RSEQ_ARM, RSEQ_LIST([m] "=&r"(m), [t] "=&r"(t)),
		 RSEQ_LIST(RSEQ_PLACE(handle), [n] "r"(n)), true);
}

/* Add n to the word at this distance from this CPU's slot, if the slot is open. */
RSEQ_ALWAYS_INLINE bool rseq_count(char *handle, intptr_t word, uint64_t n)
{
	uintptr_t t;

	RSEQ_RUN(, RSEQ_COUNT, [t] "=&r"(t),
		 RSEQ_LIST(RSEQ_PLACE(handle), [word] "r"(word), [n] "r"(n)), true);
}

/*
 * Arrays, with one try for fast paths. After the row is found, [area] and [id] are free for the
 * copy, so that a fast path needs no more registers than a function may change.
 */
#define RSEQ_BULK_OUTPUTS                                                                          \
	[m] "=&r"(m), [t] "=&r"(t), [area] "+&r"(area), [id] "+&r"(id), [count] "+&r"(count)
#define RSEQ_BULK_INPUTS [handle] "r"(handle), [array] "r"(array)
#define RSEQ_DEFINE_BULK(name, TEXT)                                                               \
	RSEQ_ALWAYS_INLINE unsigned int name##_once(char *handle, void **array, unsigned int n)    \
	{                                                                                          \
		uintptr_t t, area = (uintptr_t)os.rseq_offset, id = os.id_offset, count = n;       \
		void *m;                                                                           \
                                                                                                   \
		RSEQ_TRY_WITH(RSEQ_BULK_CLOBBERS, SHEAF_RSEQ_ROW, TEXT,                            \
			      RSEQ_LIST(RSEQ_BULK_OUTPUTS), RSEQ_LIST(RSEQ_BULK_INPUTS),           \
			      (unsigned int)count);                                                \
	}                                                                                          \
                                                                                                   \
	RSEQ_ALWAYS_INLINE unsigned int name(char *handle, void **array, unsigned int n)           \
	{                                                                                          \
		uintptr_t t, area, id, count;                                                      \
		void *m;                                                                           \
                                                                                                   \
		RSEQ_RUN(                                                                          \
			RSEQ_LIST(area = (uintptr_t)os.rseq_offset, id = os.id_offset, count = n), \
			TEXT, RSEQ_LIST(RSEQ_BULK_OUTPUTS), RSEQ_LIST(RSEQ_BULK_INPUTS),           \
			(unsigned int)count);                                                      \
	}

/* clang-format off */
RSEQ_DEFINE_BULK(rseq_pop_bulk, RSEQ_POP_BULK)
RSEQ_DEFINE_BULK(rseq_push_bulk, RSEQ_PUSH_BULK)
/* clang-format on */

#define RSEQ_DEFINE_SWAP(name, CONDITION)                                                          \
	RSEQ_ALWAYS_INLINE bool rseq_swap_##name(struct section_slots *s)                          \
	{                                                                                          \
		void *m, *p;                                                                       \
		uintptr_t t, w;                                                                    \
                                                                                                   \
		RSEQ_RUN(, RSEQ_MAIN_AND_SPARE RSEQ_HAS_SPARE CONDITION RSEQ_SWAP,                 \
			 RSEQ_LIST([m] "=&r"(m), [p] "=&r"(p), [t] "=&r"(t), [w] "=&r"(w)),        \
			 RSEQ_LIST(RSEQ_PLACE(s->handle), RSEQ_STOP(stop, s->stop)), true);        \
	}

RSEQ_DEFINE_SWAP(empty, RSEQ_MAIN_EMPTY)
RSEQ_DEFINE_SWAP(full, RSEQ_MAIN_FULL)

/* Of those that put a sheaf into the slot. */
#define RSEQ_SHEAF_INTO(slots, which, put)                                                         \
	RSEQ_PLACE(slots->handle), RSEQ_STOP(stop, slots->which), [sheaf] "r"(put)

RSEQ_ALWAYS_INLINE bool rseq_replace_spare(struct section_slots *s, struct sheaf *sheaf,
					   struct sheaf **old)
{
	void *m, *p;
	uintptr_t t;

	RSEQ_RUN(, RSEQ_IS_OPEN RSEQ_MAIN_AND_SPARE RSEQ_REPLACE,
		 RSEQ_LIST([m] "=&r"(m), [p] "=&r"(p), [t] "=&r"(t)),
		 RSEQ_SHEAF_INTO(s, stop, sheaf), (*old = p, true));
}

RSEQ_ALWAYS_INLINE bool rseq_put_spare(struct section_slots *s, struct sheaf *sheaf)
{
	void *m, *p;
	uintptr_t t;

	RSEQ_RUN(, RSEQ_IS_OPEN RSEQ_MAIN_AND_SPARE RSEQ_HAS_NO_SPARE RSEQ_REPLACE,
		 RSEQ_LIST([m] "=&r"(m), [p] "=&r"(p), [t] "=&r"(t)),
		 RSEQ_SHEAF_INTO(s, stop, sheaf), true);
}

RSEQ_ALWAYS_INLINE bool rseq_replace_rcu(struct section_slots *s, struct sheaf *sheaf,
					 struct sheaf **old)
{
	uintptr_t t;
	void *m;

	/* A closed slot is at home for nothing. */
	RSEQ_RUN(, SHEAF_RSEQ_IS_AT_HOME RSEQ_REPLACE_RCU, RSEQ_LIST([m] "=&r"(m), [t] "=&r"(t)),
		 RSEQ_LIST(RSEQ_SHEAF_INTO(s, rcu_stop, sheaf), [object] "r"(sheaf->objects[0])),
		 (*old = m, true));
}

/* The cell's distance is part of the handle here, so that the section needs no addition. */
#define RSEQ_CELL(at, cell) RSEQ_PLACE((at) + 8 * (size_t)(cell))

/* 32 bits wide even where events are counted, because this word carries no pops. */
RSEQ_ALWAYS_INLINE bool rseq_push_remote(char *handle, unsigned int kind, void *object)
{
	uintptr_t t;
	void *m;

	RSEQ_RUN(, RSEQ_PUSH_REMOTE, RSEQ_LIST([m] "=&r"(m), [t] "=&r"(t)),
		 RSEQ_LIST(RSEQ_CELL(handle, slot_remote_cell(kind)), [kind] "r"(kind + 1),
			   [object] "r"(object)),
		 true);
}

RSEQ_ALWAYS_INLINE bool rseq_replace_remote(struct section_slots *s, unsigned int kind,
					    struct sheaf *sheaf, struct sheaf **old)
{
	uintptr_t t;
	void *m;

	RSEQ_RUN(, RSEQ_IS_OPEN RSEQ_REPLACE_REMOTE, RSEQ_LIST([m] "=&r"(m), [t] "=&r"(t)),
		 RSEQ_LIST(RSEQ_SHEAF_INTO(s, stop, sheaf), RSEQ_STOP(rcu_stop, s->rcu_stop),
			   [cell] "r"(8 * (size_t)slot_remote_cell(kind))),
		 (*old = m, true));
}

RSEQ_ALWAYS_INLINE bool rseq_stock(struct section_slots *s, unsigned int cell, uint64_t key,
				   uint64_t add)
{
	uintptr_t t, w;
	uint64_t k;

	RSEQ_RUN(k = key, RSEQ_STOCK, RSEQ_LIST([t] "=&r"(t), [w] "=&r"(w), [key] "+&r"(k)),
		 RSEQ_LIST(RSEQ_CELL(s->handle, cell), [add] "r"(add)), true);
}

/* One try: on the paths of objects. cell: of the handle. `n` is added, or, directly after another
 * section, subtracted. */
#define RSEQ_DEFINE_STOCK(name, ROW, STOCK)                                                        \
	RSEQ_ALWAYS_INLINE bool name(ptrdiff_t area, uint32_t by, char *cell, uint64_t key,        \
				     uint64_t n)                                                   \
	{                                                                                          \
		uintptr_t t, w;                                                                    \
                                                                                                   \
		RSEQ_TRY(ROW, STOCK, RSEQ_LIST([t] "=&r"(t), [w] "=&r"(w), [key] "+&r"(key)),      \
			 RSEQ_LIST(RSEQ_PLACE_BY(area, by, cell), [add] "r"(n)), true);            \
	}

RSEQ_DEFINE_STOCK(rseq_stock_more, SHEAF_RSEQ_ROW, RSEQ_STOCK)
RSEQ_DEFINE_STOCK(rseq_stock_less, RSEQ_ROW_AGAIN, RSEQ_STOCK_LESS)

RSEQ_ALWAYS_INLINE bool rseq_stock_swap(struct section_slots *s, unsigned int cell, uint64_t word,
					uint64_t *old)
{
	uintptr_t t, w;

	RSEQ_RUN(
		, RSEQ_STOCK_SWAP, RSEQ_LIST([t] "=&r"(t), [w] "=&r"(w)),
		RSEQ_LIST(RSEQ_PLACE(s->handle),
			  RSEQ_STOP(stop, s->stop), [word] "r"(word), [cell] "r"(8 * (size_t)cell)),
		(*old = w, true));
}

#endif
