/* SPDX-License-Identifier: MIT */
/*
 * vfork(): its child has the memory and the thread pointer of its parent, which sleeps meanwhile.
 *
 * The kernel gives such a child no rseq area. It would read the parent's CPU number in the area
 * that both see, and its sections would not be restarted: another thread on that CPU could get the
 * same object. So the parent first gives up its area, which then says so: all calls of the child
 * take the slow paths. When the parent wakes up it registers the area again. If the system refuses
 * to end the registration, the child must not allocate.
 *
 * posix_spawn(), system() and popen() do not come here; their children allocate nothing.
 *
 * Of a shadow stack (x86 SHSTK, AArch64 GCS) the child would overwrite the entry by which the
 * parent returns. So meson.build compiles this file as one that does not support them, and the C
 * library gives none to a program that loads it.
 *
 * Callers: the program.
 */
#include <errno.h>
#include <sys/auxv.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "entry.h"
#include "os/machine.h"

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#define AT_RSEQ_ALIGN	     28
#endif
#define AREA_BYTES 32u /* as glibc registers it, if the kernel needs no more */

static bool call(unsigned long size, int flags)
{
	return !syscall(SYS_rseq, (char *)__builtin_thread_pointer() + os.rseq_offset, size, flags,
			RSEQ_SIG);
}

/* The kernel wants the size that was registered. A C library may have rounded that of the kernel's
 * fields up to their alignment. Returns it; 0: refused. */
static unsigned long unregister(void)
{
	unsigned long size = getauxval(AT_RSEQ_FEATURE_SIZE), align = getauxval(AT_RSEQ_ALIGN);

	size = size > AREA_BYTES ? size : AREA_BYTES;
	if (call(size, RSEQ_FLAG_UNREGISTER))
		return size;
	size = align ? (size + align - 1) & -align : 0;
	return size && call(size, RSEQ_FLAG_UNREGISTER) ? size : 0;
}

/* Called by the code below. Returns the size of the area that this thread gave up, or 0. */
unsigned long malloc_before_vfork(void) __attribute__((used, visibility("hidden")));
unsigned long malloc_before_vfork(void)
{
	int before = errno;
	/* The child must not be the one that begins. */
	bool has = malloc_is_open() && os.backend == OS_BACKEND_RSEQ && os_registered();
	unsigned long size = has ? unregister() : 0;

	errno = before;
	return size;
}

/* In the child, and with another result in the parent. */
pid_t malloc_after_vfork(long result, unsigned long size)
	__attribute__((used, visibility("hidden")));
pid_t malloc_after_vfork(long result, unsigned long size)
{
	int before = errno;

	if (result && size)
		call(size, 0);
	errno = result < 0 ? (int)-result : before;
	return result < 0 ? -1 : (pid_t)result;
}

/*
 * The system call returns twice on the same stack. The child's calls overwrite what lies below the
 * place of the return address, so that is in a register meanwhile; malloc_after_vfork() returns to
 * the program. Registers that hold what it needs survive the system call.
 */
#ifdef __x86_64__
__asm__(".text\n"
	".globl vfork\n"
	".type vfork, @function\n"
	"vfork:\n"
	".cfi_startproc\n"
	"endbr64\n"
	"subq $8, %rsp\n"
	".cfi_adjust_cfa_offset 8\n"
	"call malloc_before_vfork\n"
	"addq $8, %rsp\n"
	".cfi_adjust_cfa_offset -8\n"
	"movq %rax, %rsi\n"
	"popq %rdx\n"
	".cfi_adjust_cfa_offset -8\n"
	".cfi_register rip, rdx\n"
	"movl $58, %eax\n" /* vfork */
	"syscall\n"
	"pushq %rdx\n"
	".cfi_adjust_cfa_offset 8\n"
	".cfi_rel_offset rip, 0\n"
	"movq %rax, %rdi\n"
	"jmp malloc_after_vfork\n"
	".cfi_endproc\n"
	".size vfork, . - vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl vfork\n"
	".type vfork, %function\n"
	"vfork:\n"
	".cfi_startproc\n"
	"hint #34\n" /* bti c */
	"stp x29, x30, [sp, #-16]!\n"
	".cfi_adjust_cfa_offset 16\n"
	".cfi_rel_offset x29, 0\n"
	".cfi_rel_offset x30, 8\n"
	"bl malloc_before_vfork\n"
	"ldp x29, x30, [sp], #16\n"
	".cfi_adjust_cfa_offset -16\n"
	".cfi_restore x29\n"
	".cfi_restore x30\n"
	"mov x9, x0\n"
	"mov x0, #0x4111\n" /* CLONE_VM | CLONE_VFORK | SIGCHLD */
	"mov x1, #0\n"
	"mov x8, #220\n" /* clone */
	"svc #0\n"
	"mov x1, x9\n"
	"b malloc_after_vfork\n"
	".cfi_endproc\n"
	".size vfork, . - vfork\n");
#endif
