/* SPDX-License-Identifier: MIT */
/*
 * The text of the restartable sections for x86-64; linux/section_rseq.h makes functions from it.
 *
 * What a pop and a push need is in <sheaf/section.h>, for programs, too.
 */
#ifndef SHEAF_OS_SECTION_X86_64_H
#define SHEAF_OS_SECTION_X86_64_H

#include <sheaf/section.h>

/* In a thread that has just left a section by its end, and so is registered. */
#define RSEQ_ROW_AGAIN                                                                             \
	"movl %%fs:(%[area], %[id]), %k[t]\n"                                                      \
	"shlq $16, %[t]\n"

#define SLOT_PAIR     SHEAF_SLOT(8)
#define SLOT_RCU_FREE SHEAF_SLOT(48)

/* A pop with a prefetch for writing of an object that will be taken soon. For the last objects,
 * words of the sheaf's header are taken for pointers, which is harmless. */
#define RSEQ_POP_AHEAD                                                                             \
	SHEAF_RSEQ_ONE_LESS                                                                        \
	"movq (%[m], %[t], 8), %[object]\n"                                                        \
	"prefetchw (%[object])\n" SHEAF_RSEQ_TAKE

#define RSEQ_PUSH_RCU SHEAF_RSEQ_PUSH_TO(SLOT_RCU_FREE)

/*
 * The same where events are counted: a pop also adds one in the upper bits of the word (w), and a
 * push shows the word to others, 65536 + OS_COUNTERS bytes from the handle's row, before committing
 * it.
 */
#define SHOWN "536936448(%[handle], %[t])"
/* object: the newest one of main, whose word w is. */
#define RSEQ_NEWEST                                                                                \
	"movq " SHEAF_SLOT_MAIN ", %[m]\n"                                                         \
	"movq (%[m]), %[w]\n"                                                                      \
	"movl %k[w], %k[object]\n"                                                                 \
	"andl $8191, %k[object]\n"                                                                 \
	"jz %l[slow]\n"                                                                            \
	"movq 24(%[m], %[object], 8), %[object]\n"
#define RSEQ_TAKE_COUNTED                                                                          \
	"addq $8191, %[w]\n"                                                                       \
	"movq %[w], (%[m])\n"
#define RSEQ_POP_COUNTED RSEQ_NEWEST RSEQ_TAKE_COUNTED
/* Where objects are sampled. */
#define RSEQ_COUNT_DOWN                                                                            \
	"subl $1, 16(%[m])\n"                                                                      \
	"js %l[slow]\n"
#define RSEQ_POP_SAMPLED SHEAF_RSEQ_ONE_LESS RSEQ_COUNT_DOWN SHEAF_RSEQ_TAKE
#define RSEQ_POP_SAMPLED_COUNTED                                                                   \
	RSEQ_NEWEST                                                                                \
	RSEQ_COUNT_DOWN                                                                            \
	RSEQ_TAKE_COUNTED
#define RSEQ_ARM                                                                                   \
	"movq " SHEAF_SLOT_MAIN ", %[m]\n"                                                         \
	"cmpl $0, 16(%[m])\n"                                                                      \
	"jns %l[slow]\n"                                                                           \
	"movl %k[n], 16(%[m])\n"
#define RSEQ_PUSH_COUNTED                                                                          \
	SHEAF_RSEQ_IS_AT_HOME                                                                      \
	"movq " SHEAF_SLOT_MAIN ", %[m]\n"                                                         \
	"movq (%[m]), %[w]\n"                                                                      \
	"movl %k[w], %k[i]\n"                                                                      \
	"andl $8191, %k[i]\n"                                                                      \
	"cmpl 8(%[m]), %k[i]\n"                                                                    \
	"jae %l[slow]\n"                                                                           \
	"movq %[object], 32(%[m], %[i], 8)\n"                                                      \
	"addq $1, %[w]\n"                                                                          \
	"movq %[w], " SHOWN "\n"                                                                   \
	"movq %[w], (%[m])\n"

/* Leaves if no thread has opened the slot. */
#define RSEQ_IS_OPEN                                                                               \
	"cmpq $0, " SHEAF_SLOT_HOME_SIZE "\n"                                                      \
	"je %l[slow]\n"

/* Add n to a word of this CPU's counters, if its slot is open. */
#define RSEQ_COUNT                                                                                 \
	RSEQ_IS_OPEN                                                                               \
	"addq %[word], %[t]\n"                                                                     \
	"addq %[n], 65536(%[handle], %[t])\n"

/*
 * Copy [id] pointers, [id] > 0, from operand FROM to TO: the odd one, the odd pair, then two pairs
 * per turn. The same count is copied in the same pieces in both directions, so that loads find
 * whole stores to forward. LOOK is applied to each pair, in its register, after it is stored.
 */
/* clang-format off */
#define RSEQ_COPY(FROM, TO, LOOK)                                                                  \
	"testl $1, %k[id]\n"                                                                       \
	"jz 5f\n"                                                                                  \
	"movq -8(%[" FROM "], %[id], 8), %%xmm0\n"                                                 \
	"movq %%xmm0, -8(%[" TO "], %[id], 8)\n"                                                   \
	"punpcklqdq %%xmm0, %%xmm0\n"                                                              \
	LOOK("%%xmm0")                                                                             \
	"decl %k[id]\n"                                                                            \
	"5: testl $2, %k[id]\n"                                                                    \
	"jz 6f\n"                                                                                  \
	"movups -16(%[" FROM "], %[id], 8), %%xmm0\n"                                              \
	"movups %%xmm0, -16(%[" TO "], %[id], 8)\n"                                                \
	LOOK("%%xmm0")                                                                             \
	"subl $2, %k[id]\n"                                                                        \
	"6: testl %k[id], %k[id]\n"                                                                \
	"jz 8f\n"                                                                                  \
	"7: movups -16(%[" FROM "], %[id], 8), %%xmm0\n"                                           \
	"movups -32(%[" FROM "], %[id], 8), %%xmm1\n"                                              \
	"movups %%xmm0, -16(%[" TO "], %[id], 8)\n"                                                \
	"movups %%xmm1, -32(%[" TO "], %[id], 8)\n"                                                \
	LOOK("%%xmm0")                                                                             \
	LOOK("%%xmm1")                                                                             \
	"subl $4, %k[id]\n"                                                                        \
	"jnz 7b\n"                                                                                 \
	"8:\n"
/* clang-format on */
#define RSEQ_NO_LOOK(pair) ""

/* The home test of a whole batch: the size of a range is a power of two, so if the OR of all
 * offsets from its beginning is below it, so is each offset. xmm2 = home twice, xmm3 = the OR,
 * xmm4 = the size of home. */
#define RSEQ_LOOK_AT_HOME(pair)                                                                    \
	"psubq %%xmm2, " pair "\n"                                                                 \
	"por " pair ", %%xmm3\n"
#define RSEQ_HOME_BEGIN                                                                            \
	"movq " SHEAF_SLOT_HOME_SIZE ", %%xmm4\n"                                                  \
	"movq " SHEAF_SLOT_HOME ", %%xmm2\n"                                                       \
	"punpcklqdq %%xmm2, %%xmm2\n"                                                              \
	"pxor %%xmm3, %%xmm3\n"
#define RSEQ_HOME_END                                                                              \
	"movdqa %%xmm3, %%xmm0\n"                                                                  \
	"punpckhqdq %%xmm0, %%xmm0\n"                                                              \
	"por %%xmm3, %%xmm0\n"                                                                     \
	"movq %%xmm0, %[id]\n"                                                                     \
	"movq %%xmm4, %[area]\n"                                                                   \
	"cmpq %[area], %[id]\n"                                                                    \
	"jae %l[slow]\n"

#define RSEQ_POP_BULK                                                                              \
	"movq " SHEAF_SLOT_MAIN ", %[m]\n"                                                         \
	"movl (%[m]), %k[t]\n"                                                                     \
	"movl %k[t], %k[id]\n"                                                                     \
	"andl $8191, %k[id]\n"                                                                     \
	"jz %l[slow]\n"                                                                            \
	"cmpl %k[id], %k[count]\n"                                                                 \
	"cmovael %k[id], %k[count]\n"                                                              \
	"subl %k[count], %k[t]\n"                                                                  \
	"subl %k[count], %k[id]\n"                                                                 \
	"leaq 32(%[m], %[id], 8), %[area]\n"                                                       \
	"movl %k[count], %k[id]\n" RSEQ_COPY("area", "array", RSEQ_NO_LOOK) "movl %k[t], (%[m])\n"

#define RSEQ_PUSH_BULK                                                                             \
	RSEQ_HOME_BEGIN                                                                            \
	"movq " SHEAF_SLOT_MAIN ", %[m]\n"                                                         \
	"movl (%[m]), %k[t]\n"                                                                     \
	"movl %k[t], %k[id]\n"                                                                     \
	"andl $8191, %k[id]\n"                                                                     \
	"leaq 32(%[m], %[id], 8), %[area]\n"                                                       \
	"negl %k[id]\n"                                                                            \
	"addl 8(%[m]), %k[id]\n"                                                                   \
	"jz %l[slow]\n"                                                                            \
	"cmpl %k[id], %k[count]\n"                                                                 \
	"cmovael %k[id], %k[count]\n"                                                              \
	"movl %k[count], %k[id]\n"                                                                 \
	"addl %k[count], %k[t]\n" RSEQ_COPY("array", "area", RSEQ_LOOK_AT_HOME) RSEQ_HOME_END      \
		"movl %k[t], (%[m])\n"

/* m = main, p = spare; leaves if a drain has set stop. */
#define RSEQ_MAIN_AND_SPARE                                                                        \
	"cmpl $0, %[stop]\n"                                                                       \
	"jne %l[slow]\n"                                                                           \
	"movq " SHEAF_SLOT_MAIN ", %[m]\n"                                                         \
	"movq " SLOT_PAIR ", %[p]\n"                                                               \
	"xorq %[m], %[p]\n"
#define RSEQ_HAS_SPARE	  "jz %l[slow]\n"
#define RSEQ_HAS_NO_SPARE "jnz %l[slow]\n"
#define RSEQ_MAIN_EMPTY                                                                            \
	"testl $8191, (%[m])\n"                                                                    \
	"jnz %l[slow]\n"                                                                           \
	"testl $8191, (%[p])\n"                                                                    \
	"jz %l[slow]\n"
#define RSEQ_MAIN_FULL                                                                             \
	"movl (%[m]), %k[w]\n"                                                                     \
	"andl $8191, %k[w]\n"                                                                      \
	"cmpl 8(%[m]), %k[w]\n"                                                                    \
	"jb %l[slow]\n"                                                                            \
	"movl (%[p]), %k[w]\n"                                                                     \
	"andl $8191, %k[w]\n"                                                                      \
	"cmpl 8(%[p]), %k[w]\n"                                                                    \
	"jae %l[slow]\n"
#define RSEQ_SWAP "movq %[p], " SHEAF_SLOT_MAIN "\n"
#define RSEQ_REPLACE                                                                               \
	"xorq %[sheaf], %[m]\n"                                                                    \
	"movq %[m], " SLOT_PAIR "\n"

#define RSEQ_REPLACE_RCU                                                                           \
	"cmpl $0, %[stop]\n"                                                                       \
	"jne %l[slow]\n"                                                                           \
	"movq " SLOT_RCU_FREE ", %[m]\n"                                                           \
	"movq %[sheaf], " SLOT_RCU_FREE "\n"

/* handle: that of the slots, and the cell's distance from its first one. */
#define CELL "65544(%[handle], %[t])"
#define RSEQ_PUSH_REMOTE                                                                           \
	"movq " CELL ", %[m]\n"                                                                    \
	"testq %[m], %[m]\n"                                                                       \
	"jz %l[slow]\n"                                                                            \
	"cmpl %k[kind], 24(%[m])\n"                                                                \
	"jne %l[slow]\n" SHEAF_RSEQ_APPEND
/* cell: its distance from the slot's first one. */
#define RSEQ_REPLACE_REMOTE                                                                        \
	"cmpl $0, %[stop]\n"                                                                       \
	"jne %l[slow]\n"                                                                           \
	"cmpl $0, %[rcu_stop]\n"                                                                   \
	"jne %l[slow]\n"                                                                           \
	"addq %[cell], %[t]\n"                                                                     \
	"movq " CELL ", %[m]\n"                                                                    \
	"movq %[sheaf], " CELL "\n"
/* key: of the word. */
#define RSEQ_STOCK	RSEQ_STOCK_BY("addq")
#define RSEQ_STOCK_LESS RSEQ_STOCK_BY("subq")
#define RSEQ_STOCK_BY(ADD)                                                                         \
	"movq " CELL ", %[w]\n" ADD " %[add], %[w]\n"                                              \
	"xorq %[w], %[key]\n"                                                                      \
	"shrq $16, %[key]\n"                                                                       \
	"jnz %l[slow]\n"                                                                           \
	"movq %[w], " CELL "\n"
/* cell: its distance from the first one. */
#define RSEQ_STOCK_SWAP                                                                            \
	RSEQ_IS_OPEN                                                                               \
	"cmpl $0, %[stop]\n"                                                                       \
	"jne %l[slow]\n"                                                                           \
	"addq %[cell], %[t]\n"                                                                     \
	"movq " CELL ", %[w]\n"                                                                    \
	"movq %[word], " CELL "\n"

/* Loads are in order here. */
#define RSEQ_STOP(name, word) [name] "m"(word)
#define RSEQ_BULK_CLOBBERS    SHEAF_RSEQ_CLOBBERS, "xmm0", "xmm1", "xmm2", "xmm3", "xmm4"

#endif
