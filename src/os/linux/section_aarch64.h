/* SPDX-License-Identifier: MIT */
/*
 * The text of the restartable sections for AArch64; linux/section_rseq.h makes functions from it.
 *
 * What a pop and a push need is in <sheaf/section.h>, for programs, too.
 */
#ifndef SHEAF_OS_SECTION_AARCH64_H
#define SHEAF_OS_SECTION_AARCH64_H

#include <sheaf/section.h>

/* The beginning of the slot, and the first cell. */
#define SLOT_BEGIN "#-" SHEAF_TEXT(SHEAF_SLOT_WORDS)
#define SLOT_CELL  "[%[t], #8-" SHEAF_TEXT(SHEAF_SLOT_WORDS) "]"

/* In a thread that has just left a section by its end, and so is registered. */
#define RSEQ_ROW_AGAIN SHEAF_RSEQ_ROW_FROM("ldr %w[t], [x9, %[id]]\n")

/* A pop with a prefetch for writing of an object that will be taken soon. For the last objects,
 * words of the sheaf's header are taken for pointers, which is harmless. */
#define RSEQ_POP_AHEAD                                                                             \
	SHEAF_RSEQ_ONE_LESS                                                                        \
	"ldr %[object], [x10]\n"                                                                   \
	"prfm pstl1keep, [%[object]]\n" SHEAF_RSEQ_TAKE

#define RSEQ_PUSH_RCU SHEAF_RSEQ_PUSH_TO("[%[t], #48]")

/* The same where events are counted: a pop also adds one in the upper bits of the word (w), and a
 * push shows the word to others, OS_COUNTERS bytes from the slot, before committing it. */
#define RSEQ_SHOW                                                                                  \
	"mov x10, #0x20000000\n"                                                                   \
	"add x10, x10, %[t]\n"                                                                     \
	"stur %[w], [x10, " SLOT_BEGIN "]\n"
/* object: the newest one of main, whose word w is. */
#define RSEQ_NEWEST                                                                                \
	"ldr %[m], [%[t]]\n"                                                                       \
	"ldr %[w], [%[m]]\n"                                                                       \
	"ands x10, %[w], #8191\n"                                                                  \
	"b.eq %l[slow]\n"                                                                          \
	"add x10, %[m], x10, lsl #3\n"                                                             \
	"ldr %[object], [x10, #24]\n"
#define RSEQ_TAKE_COUNTED                                                                          \
	"mov x10, #8191\n"                                                                         \
	"add %[w], %[w], x10\n"                                                                    \
	"str %[w], [%[m]]\n"
#define RSEQ_POP_COUNTED RSEQ_NEWEST RSEQ_TAKE_COUNTED
/* Where objects are sampled; through this register. */
/* clang-format off */
#define RSEQ_COUNT_DOWN(register)                                                                  \
	"ldr " register ", [%[m], #16]\n"                                                          \
	"subs " register ", " register ", #1\n"                                                    \
	"str " register ", [%[m], #16]\n"                                                          \
	"b.mi %l[slow]\n"
/* clang-format on */
#define RSEQ_POP_SAMPLED	 SHEAF_RSEQ_ONE_LESS RSEQ_COUNT_DOWN("%w[w]") SHEAF_RSEQ_TAKE
#define RSEQ_POP_SAMPLED_COUNTED RSEQ_NEWEST RSEQ_COUNT_DOWN("w10") RSEQ_TAKE_COUNTED
#define RSEQ_ARM                                                                                   \
	"ldr %[m], [%[t]]\n"                                                                       \
	"ldr w10, [%[m], #16]\n"                                                                   \
	"tbz w10, #31, %l[slow]\n"                                                                 \
	"str %w[n], [%[m], #16]\n"
#define RSEQ_PUSH_COUNTED                                                                          \
	SHEAF_RSEQ_IS_AT_HOME                                                                      \
	"ldr %[m], [%[t]]\n"                                                                       \
	"ldr %[w], [%[m]]\n"                                                                       \
	"and %[i], %[w], #8191\n"                                                                  \
	"ldr w10, [%[m], #8]\n"                                                                    \
	"cmp %w[i], w10\n"                                                                         \
	"b.hs %l[slow]\n"                                                                          \
	"add x10, %[m], %[i], lsl #3\n"                                                            \
	"str %[object], [x10, #32]\n"                                                              \
	"add %[w], %[w], #1\n" RSEQ_SHOW "str %[w], [%[m]]\n"

/* Leaves if no thread has opened the slot. */
#define RSEQ_IS_OPEN                                                                               \
	"ldr x10, [%[t], #24]\n"                                                                   \
	"cbz x10, %l[slow]\n"

/* Add n to a word of this CPU's counters, if its slot is open. */
#define RSEQ_COUNT                                                                                 \
	RSEQ_IS_OPEN                                                                               \
	"add %[t], %[t], %[word]\n"                                                                \
	"ldur x10, [%[t], " SLOT_BEGIN "]\n"                                                       \
	"add x10, x10, %[n]\n"                                                                     \
	"stur x10, [%[t], " SLOT_BEGIN "]\n"

/* Copy [id] pointers, [id] > 0, from operand FROM to TO; LOOK is applied to each pointer in x10,
 * after it is stored. */
#define RSEQ_COPY(FROM, TO, LOOK)                                                                  \
	"5: sub %[id], %[id], #1\n"                                                                \
	"ldr x10, [%[" FROM "], %[id], lsl #3]\n"                                                  \
	"str x10, [%[" TO "], %[id], lsl #3]\n" LOOK "cbnz %[id], 5b\n"

/* The home test of a whole batch: the size of a range is a power of two, so if the OR of all
 * offsets from its beginning is below it, so is each offset. x11 = home, x12 = its size, x13 = the
 * OR. */
#define RSEQ_LOOK_AT_HOME                                                                          \
	"sub x10, x10, x11\n"                                                                      \
	"orr x13, x13, x10\n"

#define RSEQ_POP_BULK                                                                              \
	"ldr %[m], [%[t]]\n"                                                                       \
	"ldr %w[t], [%[m]]\n"                                                                      \
	"ands %w[id], %w[t], #8191\n"                                                              \
	"b.eq %l[slow]\n"                                                                          \
	"cmp %w[count], %w[id]\n"                                                                  \
	"csel %w[count], %w[count], %w[id], lo\n"                                                  \
	"sub %w[t], %w[t], %w[count]\n"                                                            \
	"sub %w[id], %w[id], %w[count]\n"                                                          \
	"add %[area], %[m], %[id], lsl #3\n"                                                       \
	"add %[area], %[area], #32\n"                                                              \
	"mov %w[id], %w[count]\n" RSEQ_COPY("area", "array", "") "str %w[t], [%[m]]\n"

#define RSEQ_PUSH_BULK                                                                             \
	"ldp x11, x12, [%[t], #16]\n"                                                              \
	"mov x13, #0\n"                                                                            \
	"ldr %[m], [%[t]]\n"                                                                       \
	"ldr %w[t], [%[m]]\n"                                                                      \
	"and w10, %w[t], #8191\n"                                                                  \
	"add %[area], %[m], x10, lsl #3\n"                                                         \
	"add %[area], %[area], #32\n"                                                              \
	"ldr %w[id], [%[m], #8]\n"                                                                 \
	"subs %w[id], %w[id], w10\n"                                                               \
	"b.eq %l[slow]\n"                                                                          \
	"cmp %w[count], %w[id]\n"                                                                  \
	"csel %w[count], %w[count], %w[id], lo\n"                                                  \
	"mov %w[id], %w[count]\n"                                                                  \
	"add %w[t], %w[t], %w[count]\n" RSEQ_COPY("array", "area",                                 \
						  RSEQ_LOOK_AT_HOME) "cmp x13, x12\n"              \
								     "b.hs %l[slow]\n"             \
								     "str %w[t], [%[m]]\n"

/*
 * m = main, p = spare; leaves if a drain has set stop. The load of stop acquires, here and below:
 * nothing that the drain changes may be read before it, as c_may_change() says. A drain that
 * membarrier serves would do without (it aborts such a section), one that it serves once only does
 * not: tests/litmus/tests/stop.rs.
 */
#define RSEQ_MAIN_AND_SPARE                                                                        \
	"ldar %w[m], %[stop]\n"                                                                    \
	"cbnz %w[m], %l[slow]\n"                                                                   \
	"ldp %[m], %[p], [%[t]]\n"                                                                 \
	"eor %[p], %[p], %[m]\n"
#define RSEQ_HAS_SPARE	  "cbz %[p], %l[slow]\n"
#define RSEQ_HAS_NO_SPARE "cbnz %[p], %l[slow]\n"
#define RSEQ_MAIN_EMPTY                                                                            \
	"ldr %w[w], [%[m]]\n"                                                                      \
	"tst %w[w], #8191\n"                                                                       \
	"b.ne %l[slow]\n"                                                                          \
	"ldr %w[w], [%[p]]\n"                                                                      \
	"tst %w[w], #8191\n"                                                                       \
	"b.eq %l[slow]\n"
#define RSEQ_MAIN_FULL                                                                             \
	"ldr %w[w], [%[m]]\n"                                                                      \
	"and %w[w], %w[w], #8191\n"                                                                \
	"ldr w10, [%[m], #8]\n"                                                                    \
	"cmp %w[w], w10\n"                                                                         \
	"b.lo %l[slow]\n"                                                                          \
	"ldr %w[w], [%[p]]\n"                                                                      \
	"and %w[w], %w[w], #8191\n"                                                                \
	"ldr w10, [%[p], #8]\n"                                                                    \
	"cmp %w[w], w10\n"                                                                         \
	"b.hs %l[slow]\n"
#define RSEQ_SWAP "str %[p], [%[t]]\n"
#define RSEQ_REPLACE                                                                               \
	"eor %[m], %[m], %[sheaf]\n"                                                               \
	"str %[m], [%[t], #8]\n"

#define RSEQ_REPLACE_RCU                                                                           \
	"ldar %w[m], %[stop]\n"                                                                    \
	"cbnz %w[m], %l[slow]\n"                                                                   \
	"ldr %[m], [%[t], #48]\n"                                                                  \
	"str %[sheaf], [%[t], #48]\n"

/* handle: that of the slots, and the cell's distance from its first one. */
#define RSEQ_PUSH_REMOTE                                                                           \
	"ldur %[m], " SLOT_CELL "\n"                                                               \
	"cbz %[m], %l[slow]\n"                                                                     \
	"ldr w10, [%[m], #24]\n"                                                                   \
	"cmp w10, %w[kind]\n"                                                                      \
	"b.ne %l[slow]\n" SHEAF_RSEQ_APPEND
/* cell: its distance from the slot's first one. */
#define RSEQ_REPLACE_REMOTE                                                                        \
	"ldar w10, %[stop]\n"                                                                      \
	"cbnz w10, %l[slow]\n"                                                                     \
	"ldar w10, %[rcu_stop]\n"                                                                  \
	"cbnz w10, %l[slow]\n"                                                                     \
	"add %[t], %[t], %[cell]\n"                                                                \
	"ldur %[m], " SLOT_CELL "\n"                                                               \
	"stur %[sheaf], " SLOT_CELL "\n"
/* key: of the word. */
#define RSEQ_STOCK	RSEQ_STOCK_BY("add")
#define RSEQ_STOCK_LESS RSEQ_STOCK_BY("sub")
#define RSEQ_STOCK_BY(ADD)                                                                         \
	"ldur %[w], " SLOT_CELL "\n" ADD " %[w], %[w], %[add]\n"                                   \
	"eor %[key], %[key], %[w]\n"                                                               \
	"lsr %[key], %[key], #16\n"                                                                \
	"cbnz %[key], %l[slow]\n"                                                                  \
	"stur %[w], " SLOT_CELL "\n"
/* cell: its distance from the first one. */
#define RSEQ_STOCK_SWAP                                                                            \
	RSEQ_IS_OPEN                                                                               \
	"ldar w10, %[stop]\n"                                                                      \
	"cbnz w10, %l[slow]\n"                                                                     \
	"add %[t], %[t], %[cell]\n"                                                                \
	"ldur %[w], " SLOT_CELL "\n"                                                               \
	"stur %[word], " SLOT_CELL "\n"

/* A stop word as an operand: an address without an offset, as ldar wants it. */
#define RSEQ_STOP(name, word) [name] "Q"(word)
#define RSEQ_BULK_CLOBBERS    SHEAF_RSEQ_CLOBBERS, "x11", "x12", "x13"

#endif
