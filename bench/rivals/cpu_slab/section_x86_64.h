/* SPDX-License-Identifier: MIT */
/*
 * The text of the baseline's sections for x86-64, for section.h; the frame and the row come from
 * os/linux/section_x86_64.h.
 */
#ifndef BENCH_CPU_SLAB_SECTION_X86_64_H
#define BENCH_CPU_SLAB_SECTION_X86_64_H

#define SLOT_HEAD SLOT_PAIR
#define SLOT_LIST SHEAF_SLOT_HOME
#define SLOT_SPAN SHEAF_SLOT_HOME_SIZE

/* Prefetch the next link for writing: another CPU may have freed that object. */
#define RSEQ_POP_HEAD                                                                              \
	"movq " SLOT_HEAD ", %[object]\n"                                                          \
	"testb $1, %b[object]\n"                                                                   \
	"jnz %l[slow]\n"                                                                           \
	"movq (%[object]), %[m]\n"                                                                 \
	"prefetchw (%[m])\n"                                                                       \
	"movq %[m], " SLOT_HEAD "\n"

/* Addresses of one slab, which is aligned to its size, differ by less than that. */
#define RSEQ_PUSH_HEAD                                                                             \
	"movq " SLOT_HEAD ", %[m]\n"                                                               \
	"movq %[m], %[x]\n"                                                                        \
	"xorq %[object], %[x]\n"                                                                   \
	"cmpq " SLOT_SPAN ", %[x]\n"                                                               \
	"jae %l[slow]\n"                                                                           \
	"movq %[m], (%[tail])\n"                                                                   \
	"movq %[object], " SLOT_HEAD "\n"

#define RSEQ_POP_HEAD_BULK                                                                         \
	"movq " SLOT_HEAD ", %[m]\n"                                                               \
	"xorl %k[i], %k[i]\n"                                                                      \
	"testb $1, %b[m]\n"                                                                        \
	"jnz %l[slow]\n"                                                                           \
	"5: movq %[m], (%[dst], %[i], 8)\n"                                                        \
	"movq (%[m]), %[m]\n"                                                                      \
	"incl %k[i]\n"                                                                             \
	"testb $1, %b[m]\n"                                                                        \
	"jnz 6f\n"                                                                                 \
	"cmpl %k[count], %k[i]\n"                                                                  \
	"jb 5b\n"                                                                                  \
	"6: movq %[m], " SLOT_HEAD "\n"

#define RSEQ_INSTALL                                                                               \
	"movq " SLOT_HEAD ", %[m]\n"                                                               \
	"testb $1, %b[m]\n"                                                                        \
	"jz %l[slow]\n"                                                                            \
	"movq %[head], " SLOT_HEAD "\n"

#define RSEQ_POP_LIST                                                                              \
	"movq " SLOT_LIST ", %[slab]\n"                                                            \
	"testb $1, %b[slab]\n"                                                                     \
	"jnz %l[slow]\n"                                                                           \
	"movq 16(%[slab]), %[m]\n"                                                                 \
	"movq %[m], " SLOT_LIST "\n"

#define RSEQ_PUSH_LIST                                                                             \
	"movq " SLOT_LIST ", %[m]\n"                                                               \
	"xorl %k[x], %k[x]\n"                                                                      \
	"testb $1, %b[m]\n"                                                                        \
	"jnz 5f\n"                                                                                 \
	"movq 24(%[m]), %[x]\n"                                                                    \
	"5: cmpq %[limit], %[x]\n"                                                                 \
	"jae %l[slow]\n"                                                                           \
	"incq %[x]\n"                                                                              \
	"movq %[m], 16(%[slab])\n"                                                                 \
	"movq %[x], 24(%[slab])\n"                                                                 \
	"movq %[slab], " SLOT_LIST "\n"

#define RSEQ_TAKE_LIST                                                                             \
	"movq " SLOT_LIST ", %[slab]\n"                                                            \
	"movq $1, " SLOT_LIST "\n"

#endif
