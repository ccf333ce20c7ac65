/* SPDX-License-Identifier: MIT */
/*
 * dlopen() without RTLD_DEEPBIND, which would make a library find the C library's malloc() before
 * this one's, and so free blocks of one allocator to the other.
 *
 * The C library's dlopen() looks at its return address: the caller's run path and namespace decide
 * what is loaded. So this one ends with a jump, and leaves stack and arguments as they were. Not in
 * the static library. SHEAF_OPTIONS=deepbind leaves the flag as it is.
 *
 * Callers: the program.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "entry.h"

void *malloc_dlopen_next __attribute__((visibility("hidden")));
/* Those that stay; never 0, in whatever order the code below loads the two. */
uint32_t malloc_dlopen_flags __attribute__((visibility("hidden"))) = ~(uint32_t)RTLD_DEEPBIND;

/* Called once by the code below, or once by each of several threads. */
void malloc_find_dlopen(void) __attribute__((visibility("hidden"), used));
void malloc_find_dlopen(void)
{
	void *next = dlsym(RTLD_NEXT, "dlopen");

	if (!next)
		abort(); /* Nobody else could have loaded the caller. */
	os_options_need();
	malloc_dlopen_flags = os_options.deepbind ? UINT32_MAX : ~(uint32_t)RTLD_DEEPBIND;
	os_store_release(&malloc_dlopen_next, next);
}

#if defined(__x86_64__)
__asm__(".text\n"
	".p2align 4\n"
	".globl dlopen\n"
	".type dlopen, @function\n"
	"dlopen:\n"
	".cfi_startproc\n"
	"	endbr64\n"
	"	movq malloc_dlopen_next(%rip), %rax\n"
	"	testq %rax, %rax\n"
	"	jz 1f\n"
	"0:	andl malloc_dlopen_flags(%rip), %esi\n"
	"	jmpq *%rax\n"
	"1:	pushq %rdi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	pushq %rsi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	subq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call malloc_find_dlopen\n"
	"	addq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rsi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	movq malloc_dlopen_next(%rip), %rax\n"
	"	jmp 0b\n"
	".cfi_endproc\n"
	".size dlopen, .-dlopen\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".p2align 4\n"
	".globl dlopen\n"
	".type dlopen, %function\n"
	"dlopen:\n"
	".cfi_startproc\n"
	"	hint #34\n" /* bti c */
	"0:	adrp x16, malloc_dlopen_next\n"
	"	ldr x16, [x16, :lo12:malloc_dlopen_next]\n"
	"	cbz x16, 1f\n"
	"	adrp x17, malloc_dlopen_flags\n"
	"	ldr w17, [x17, :lo12:malloc_dlopen_flags]\n"
	"	and w1, w1, w17\n"
	"	br x16\n"
	"1:	stp x29, x30, [sp, #-32]!\n"
	"	.cfi_adjust_cfa_offset 32\n"
	"	.cfi_rel_offset x29, 0\n"
	"	.cfi_rel_offset x30, 8\n"
	"	mov x29, sp\n"
	"	stp x0, x1, [sp, #16]\n"
	"	bl malloc_find_dlopen\n"
	"	ldp x0, x1, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n"
	"	.cfi_adjust_cfa_offset -32\n"
	"	.cfi_restore x29\n"
	"	.cfi_restore x30\n"
	"	b 0b\n"
	".cfi_endproc\n"
	".size dlopen, .-dlopen\n");
#endif
