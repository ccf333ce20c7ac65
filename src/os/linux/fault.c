/* SPDX-License-Identifier: MIT */
/* Handlers of SIGSEGV and SIGBUS; see guard.h. */
#include "os/guard.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "os/atomic.h"

#define NR_SIGNALS 2

static struct {
	uint32_t begun;
	bool (*explain)(const void *address, const void *context);
	struct sigaction before[NR_SIGNALS];
} watch;

static const int signals[NR_SIGNALS] = {SIGSEGV, SIGBUS};

#if defined(__x86_64__)
#define PAGE_FAULT     14 /* the processor's number for it; */
#define FAULT_ON_WRITE 2  /* a bit of its error code */

static void read_context(struct os_fault *fault, const ucontext_t *context)
{
	const greg_t *registers = context->uc_mcontext.gregs;

	fault->ip = (uintptr_t)registers[REG_RIP];
	if (registers[REG_TRAPNO] == PAGE_FAULT)
		fault->access = registers[REG_ERR] & FAULT_ON_WRITE ? OS_WRITE : OS_READ;
}
#elif defined(__aarch64__)
static void read_context(struct os_fault *fault, const ucontext_t *context)
{
	fault->ip = (uintptr_t)context->uc_mcontext.pc;
}
#else
static void read_context(struct os_fault *fault, const ucontext_t *context)
{
	(void)fault, (void)context;
}
#endif

void os_fault_read(struct os_fault *fault, const void *address, const void *context)
{
	*fault = (struct os_fault){.address = address, .access = OS_ACCESS};
	if (context)
		read_context(fault, context);
}

/* Would the instruction fault again? A signal that was sent, or that reports broken memory
 * elsewhere, comes only once. */
static bool comes_again(const siginfo_t *info)
{
	return info->si_code > 0 && !(info->si_signo == SIGBUS && info->si_code == BUS_MCEERR_AO);
}

/* There was no handler: let the system take its default action. */
static void hand_to_system(int number, siginfo_t *info, const struct sigaction *before)
{
	if (before->sa_handler == SIG_IGN && !comes_again(info))
		return;
	sigaction(number, before, NULL);
	if (!comes_again(info))
		syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), number, info);
}

static void handle(int number, siginfo_t *info, void *context)
{
	const struct sigaction *before = &watch.before[number == SIGBUS];
	int saved = errno;

	if (info->si_code > 0)
		watch.explain(info->si_addr, context);
	errno = saved;
	if (before->sa_flags & SA_SIGINFO)
		before->sa_sigaction(number, info, context);
	else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)
		before->sa_handler(number);
	else
		hand_to_system(number, info, before);
}

void os_fault_watch(bool (*explain)(const void *address, const void *context))
{
	if (os_exchange(&watch.begun, 1))
		return;
	watch.explain = explain;
	for (int i = 0; i < NR_SIGNALS; i++) {
		struct sigaction own;

		if (sigaction(signals[i], NULL, &watch.before[i]))
			continue;
		own = watch.before[i];
		own.sa_sigaction = handle;
		own.sa_flags |= SA_SIGINFO | SA_ONSTACK;
		own.sa_flags &= ~SA_RESETHAND;
		sigaction(signals[i], &own, NULL);
	}
}
