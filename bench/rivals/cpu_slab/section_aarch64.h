/* SPDX-License-Identifier: MIT */
/*
 * The text of the baseline's sections for aarch64, for section.h; the frame and the row come from
 * os/linux/section_aarch64.h: t is the address of the slot's hot words, x9 and x10 are scratch.
 */
#ifndef BENCH_CPU_SLAB_SECTION_AARCH64_H
#define BENCH_CPU_SLAB_SECTION_AARCH64_H

#define SLOT_HEAD "[%[t], #8]"
#define SLOT_LIST "[%[t], #16]"
#define SLOT_SPAN "[%[t], #24]"

/* Prefetch the next link for writing: another CPU may have freed that object. */
#define RSEQ_POP_HEAD                                                                              \
	"ldr %[object], " SLOT_HEAD "\n"                                                           \
	"tbnz %[object], #0, %l[slow]\n"                                                           \
	"ldr %[m], [%[object]]\n"                                                                  \
	"prfm pstl1keep, [%[m]]\n"                                                                 \
	"str %[m], " SLOT_HEAD "\n"

/* Addresses of one slab, which is aligned to its size, differ by less than that. */
#define RSEQ_PUSH_HEAD                                                                             \
	"ldr %[m], " SLOT_HEAD "\n"                                                                \
	"ldr x10, " SLOT_SPAN "\n"                                                                 \
	"eor %[x], %[m], %[object]\n"                                                              \
	"cmp %[x], x10\n"                                                                          \
	"b.hs %l[slow]\n"                                                                          \
	"str %[m], [%[tail]]\n"                                                                    \
	"str %[object], " SLOT_HEAD "\n"

#define RSEQ_POP_HEAD_BULK                                                                         \
	"ldr %[m], " SLOT_HEAD "\n"                                                                \
	"mov %[i], #0\n"                                                                           \
	"tbnz %[m], #0, %l[slow]\n"                                                                \
	"5: str %[m], [%[dst], %[i], lsl #3]\n"                                                    \
	"ldr %[m], [%[m]]\n"                                                                       \
	"add %[i], %[i], #1\n"                                                                     \
	"tbnz %[m], #0, 6f\n"                                                                      \
	"cmp %w[i], %w[count]\n"                                                                   \
	"b.lo 5b\n"                                                                                \
	"6: str %[m], " SLOT_HEAD "\n"

#define RSEQ_INSTALL                                                                               \
	"ldr %[m], " SLOT_HEAD "\n"                                                                \
	"tbz %[m], #0, %l[slow]\n"                                                                 \
	"str %[head], " SLOT_HEAD "\n"

#define RSEQ_POP_LIST                                                                              \
	"ldr %[slab], " SLOT_LIST "\n"                                                             \
	"tbnz %[slab], #0, %l[slow]\n"                                                             \
	"ldr %[m], [%[slab], #16]\n"                                                               \
	"str %[m], " SLOT_LIST "\n"

#define RSEQ_PUSH_LIST                                                                             \
	"ldr %[m], " SLOT_LIST "\n"                                                                \
	"mov %[x], #0\n"                                                                           \
	"tbnz %[m], #0, 5f\n"                                                                      \
	"ldr %[x], [%[m], #24]\n"                                                                  \
	"5: cmp %[x], %[limit]\n"                                                                  \
	"b.hs %l[slow]\n"                                                                          \
	"add %[x], %[x], #1\n"                                                                     \
	"stp %[m], %[x], [%[slab], #16]\n"                                                         \
	"str %[slab], " SLOT_LIST "\n"

#define RSEQ_TAKE_LIST                                                                             \
	"ldr %[slab], " SLOT_LIST "\n"                                                             \
	"mov x10, #1\n"                                                                            \
	"str x10, " SLOT_LIST "\n"

#endif
