/* SPDX-License-Identifier: MIT */
/*
 * The text of two restartable sections: pop, which takes the newest object of a CPU's main sheaf,
 * and push. They know where the words of a cache's slots lie. The library makes its own sections
 * from this text (src/os/linux/section_rseq.h), and <sheaf/inline.h> those of programs. Not for
 * other use.
 */
#ifndef SHEAF_SECTION_H
#define SHEAF_SECTION_H

#include <stddef.h>
#include <stdint.h>

/*
 * The first words of a cache; the rest of it is private. They say where a thread's rseq area is,
 * from the thread pointer, and where in it the index of the CPU's row is. pop_by or push_by is
 * SHEAF_BY_CALL or less: make the call.
 */
struct sheaf_row_words {
	uint32_t pop_by, push_by;
	ptrdiff_t area;
};
#define SHEAF_BY_CALL 3u

/* Where the words of a slot that operations use are; a test builds the library with them elsewhere
 * (tests/abi/). */
#ifndef SHEAF_SLOT_WORDS
#define SHEAF_SLOT_WORDS 192
#endif
#define SHEAF_TEXT_OF(number) #number
#define SHEAF_TEXT(macro)     SHEAF_TEXT_OF(macro)

/*
 * Labels: 1 start, 2 after the commit, 3 descriptor, 4 abort. The rseq area, at the thread pointer
 * + [area]: cpu_id at 4 (negative: not registered), rseq_cs at 8; the index of the row at [id].
 * `?` puts the descriptor into the group of the function, which the linker may discard.
 */
#define SHEAF_RSEQ_DESCRIPTOR                                                                      \
	".pushsection __rseq_cs, \"aw?\"\n"                                                        \
	".balign 32\n"                                                                             \
	"3: .long 0, 0\n"                                                                          \
	".quad 1f, 2f - 1f, 4f\n"                                                                  \
	".popsection\n"

/*
 * Follows each `asm goto` whose outputs are used. Otherwise gcc 11 to 13.2 may use an older value
 * of an output (its bug 113921), if the code that follows has several predecessors.
 */
#define SHEAF_KEEP_OUTPUTS __asm__ volatile("")

#if defined(__x86_64__) && defined(__LP64__)

/* {a|b}: in AT&T syntax, and in that of -masm=intel. */

/* The descriptor, and the store that arms the section. */
#define SHEAF_RSEQ_BEGIN                                                                           \
	SHEAF_RSEQ_DESCRIPTOR                                                                      \
	"{leaq 3b(%%rip), %[t]|lea %[t], [rip + 3b]}\n"                                            \
	"{movq %[t], %%fs:8(%[area])|mov fs:[%[area] + 8], %[t]}\n"                                \
	"1:\n"
/* The end of a section after the commit, and the abort handler after the signature that the kernel
 * looks for. */
#define SHEAF_RSEQ_END(aborted)                                                                    \
	"2:\n"                                                                                     \
	".pushsection __rseq_failure, \"ax?\"\n"                                                   \
	".byte 0x0f, 0xb9, 0x3d\n"                                                                 \
	".long 0x53053053\n"                                                                       \
	"4: jmp %l[" #aborted "]\n"                                                                \
	".popsection\n"
/* t = byte offset of this CPU's row from the first one, which is 65536 bytes after the handle. */
#define SHEAF_RSEQ_ROW                                                                             \
	"{cmpl $0, %%fs:4(%[area])|cmp dword ptr fs:[%[area] + 4], 0}\n"                           \
	"js %l[slow]\n"                                                                            \
	"{movl %%fs:(%[area], %[id]), %k[t]|mov %k[t], fs:[%[area] + %[id]]}\n"                    \
	"{shlq $16, %[t]|shl %[t], 16}\n"

#define SHEAF_SLOT_TEXT(at) "65536+" SHEAF_TEXT(SHEAF_SLOT_WORDS) "+" #at
#define SHEAF_SLOT(at)                                                                             \
	"{" SHEAF_SLOT_TEXT(at) "(%[handle], %[t])|[%[handle] + %[t] + " SHEAF_SLOT_TEXT(at) "]}"
#define SHEAF_SLOT_MAIN	     SHEAF_SLOT(0)
#define SHEAF_SLOT_HOME	     SHEAF_SLOT(16)
#define SHEAF_SLOT_HOME_SIZE SHEAF_SLOT(24)

/* size is loaded once and stored from the register: an add to memory would load it twice, and the
 * time of these operations is the time of a load that waits for the previous one's store. */
#define SHEAF_RSEQ_ONE_LESS                                                                        \
	"{movq |mov %[m], }" SHEAF_SLOT_MAIN "{, %[m]|}\n"                                         \
	"{movl (%[m]), %k[t]|mov %k[t], [%[m]]}\n"                                                 \
	"{subl $1, %k[t]|sub %k[t], 1}\n"                                                          \
	"jb %l[slow]\n"
#define SHEAF_RSEQ_TAKE                                                                            \
	"{movq 32(%[m], %[t], 8), %[object]|mov %[object], [%[m] + 8*%[t] + 32]}\n"                \
	"{movl %k[t], (%[m])|mov [%[m]], %k[t]}\n"

/* The home test is the only test of the pointer on free: remote, foreign and large ones fail it. */
#define SHEAF_RSEQ_IS_AT_HOME                                                                      \
	"{movq %[object], %[m]|mov %[m], %[object]}\n"                                             \
	"{subq |sub %[m], }" SHEAF_SLOT_HOME "{, %[m]|}\n"                                         \
	"{cmpq |cmp %[m], }" SHEAF_SLOT_HOME_SIZE "{, %[m]|}\n"                                    \
	"jae %l[slow]\n"
#define SHEAF_RSEQ_APPEND                                                                          \
	"{movl (%[m]), %k[t]|mov %k[t], [%[m]]}\n"                                                 \
	"{cmpl 8(%[m]), %k[t]|cmp %k[t], [%[m] + 8]}\n"                                            \
	"jae %l[slow]\n"                                                                           \
	"{movq %[object], 32(%[m], %[t], 8)|mov [%[m] + 8*%[t] + 32], %[object]}\n"                \
	"{addl $1, %k[t]|add %k[t], 1}\n"                                                          \
	"{movl %k[t], (%[m])|mov [%[m]], %k[t]}\n"
#define SHEAF_RSEQ_PUSH_TO(SHEAF)                                                                  \
	SHEAF_RSEQ_IS_AT_HOME "{movq |mov %[m], }" SHEAF "{, %[m]|}\n" SHEAF_RSEQ_APPEND
#define SHEAF_RSEQ_PUSH	    SHEAF_RSEQ_PUSH_TO(SHEAF_SLOT_MAIN)
#define SHEAF_RSEQ_CLOBBERS "memory", "cc"

#elif defined(__aarch64__)

/* x9 and x10 hold the area's address and a scratch value; t becomes the address of the slot's hot
 * words. */
#define SHEAF_RSEQ_BEGIN                                                                           \
	SHEAF_RSEQ_DESCRIPTOR                                                                      \
	"mrs x9, tpidr_el0\n"                                                                      \
	"add x9, x9, %[area]\n"                                                                    \
	"adrp %[t], 3b\n"                                                                          \
	"add %[t], %[t], :lo12:3b\n"                                                               \
	"str %[t], [x9, #8]\n"                                                                     \
	"1:\n"
#define SHEAF_RSEQ_END(aborted)                                                                    \
	"2:\n"                                                                                     \
	".pushsection __rseq_failure, \"ax?\"\n"                                                   \
	".inst 0xd428bc00\n"                                                                       \
	"4: b %l[" #aborted "]\n"                                                                  \
	".popsection\n"
#define SHEAF_RSEQ_ROW_FROM(LOAD_ID)                                                               \
	LOAD_ID "add %[t], %[handle], %[t], lsl #16\n"                                             \
		"add %[t], %[t], #16, lsl #12\n"                                                   \
		"add %[t], %[t], #" SHEAF_TEXT(SHEAF_SLOT_WORDS) "\n"
#define SHEAF_RSEQ_IF_REGISTERED                                                                   \
	"ldr %w[t], [x9, #4]\n"                                                                    \
	"tbnz %w[t], #31, %l[slow]\n"
#define SHEAF_RSEQ_ROW SHEAF_RSEQ_ROW_FROM(SHEAF_RSEQ_IF_REGISTERED "ldr %w[t], [x9, %[id]]\n")

#define SHEAF_RSEQ_ONE_LESS                                                                        \
	"ldr %[m], [%[t]]\n"                                                                       \
	"ldr %w[t], [%[m]]\n"                                                                      \
	"subs %w[t], %w[t], #1\n"                                                                  \
	"b.lo %l[slow]\n"                                                                          \
	"add x10, %[m], %[t], lsl #3\n"
#define SHEAF_RSEQ_TAKE                                                                            \
	"ldr %[object], [x10, #32]\n"                                                              \
	"str %w[t], [%[m]]\n"

#define SHEAF_RSEQ_IS_AT_HOME                                                                      \
	"ldp %[m], x10, [%[t], #16]\n"                                                             \
	"sub %[m], %[object], %[m]\n"                                                              \
	"cmp %[m], x10\n"                                                                          \
	"b.hs %l[slow]\n"
#define SHEAF_RSEQ_APPEND                                                                          \
	"ldr %w[t], [%[m]]\n"                                                                      \
	"ldr w10, [%[m], #8]\n"                                                                    \
	"cmp %w[t], w10\n"                                                                         \
	"b.hs %l[slow]\n"                                                                          \
	"add x10, %[m], %[t], lsl #3\n"                                                            \
	"str %[object], [x10, #32]\n"                                                              \
	"add %w[t], %w[t], #1\n"                                                                   \
	"str %w[t], [%[m]]\n"
#define SHEAF_RSEQ_PUSH_TO(SHEAF) SHEAF_RSEQ_IS_AT_HOME "ldr %[m], " SHEAF "\n" SHEAF_RSEQ_APPEND
#define SHEAF_RSEQ_PUSH		  SHEAF_RSEQ_PUSH_TO("[%[t]]")
#define SHEAF_RSEQ_CLOBBERS	  "memory", "cc", "x9", "x10"

#endif

#define SHEAF_RSEQ_POP SHEAF_RSEQ_ONE_LESS SHEAF_RSEQ_TAKE

#endif
