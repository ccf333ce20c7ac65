/* SPDX-License-Identifier: MIT */
/*
 * vfork(): its child has the memory and the thread pointer of its parent, which sleeps meanwhile.
 *
 * The kernel gives such a child no rseq area. It would read the parent's CPU number in the area
 * that both see, and its sections would not be restarted: another thread on that CPU could get the
 * same object. So the child registers this area for itself. Later the parent registers it again,
 * because the kernel may write only numbers that it believes to have changed.
 *
 * posix_spawn(), system() and popen() do not come here; their children allocate nothing.
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
#endif
#define AREA_BYTES 32u /* as glibc registers it, if the kernel needs no more */

/*
 * The system call returns twice on the same stack. The child's calls overwrite what lies below the
 * place of the return address, so that is in a register meanwhile; malloc_vforked() returns to the
 * program.
 */
#ifdef __x86_64__
__asm__(".text\n"
	".globl vfork\n"
	".type vfork, @function\n"
	"vfork:\n"
	".cfi_startproc\n"
	"endbr64\n"
	"popq %rdx\n"
	".cfi_adjust_cfa_offset -8\n"
	".cfi_register rip, rdx\n"
	"movl $58, %eax\n" /* vfork */
	"syscall\n"
	"pushq %rdx\n"
	".cfi_adjust_cfa_offset 8\n"
	".cfi_rel_offset rip, 0\n"
	"movq %rax, %rdi\n"
	"jmp malloc_vforked\n"
	".cfi_endproc\n"
	".size vfork, . - vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl vfork\n"
	".type vfork, %function\n"
	"vfork:\n"
	".cfi_startproc\n"
	"hint #34\n"	    /* bti c */
	"mov x0, #0x4111\n" /* CLONE_VM | CLONE_VFORK | SIGCHLD */
	"mov x1, #0\n"
	"mov x8, #220\n" /* clone */
	"svc #0\n"
	"b malloc_vforked\n"
	".cfi_endproc\n"
	".size vfork, . - vfork\n");
#endif

static bool call(unsigned int bytes, int flags)
{
	return !syscall(SYS_rseq, (char *)__builtin_thread_pointer() + os.rseq_offset, bytes, flags,
			RSEQ_SIG);
}

pid_t malloc_vforked(long result) __attribute__((used, visibility("hidden")));

pid_t malloc_vforked(long result)
{
	unsigned int feature = (unsigned int)getauxval(AT_RSEQ_FEATURE_SIZE), bytes = AREA_BYTES;

	if (result < 0) {
		errno = (int)-result;
		return -1;
	}
	if (os.backend == OS_BACKEND_RSEQ) {
		OS_KEEP_ERRNO;

		if (feature > bytes)
			bytes = feature;
		if (!result || call(bytes, RSEQ_FLAG_UNREGISTER))
			call(bytes, 0);
	}
	return (pid_t)result;
}
