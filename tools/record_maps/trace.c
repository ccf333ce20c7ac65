/* SPDX-License-Identifier: MIT */
/*
 * See record.h: the stops of every traced task.
 *
 * A space begins with an exec, or as the copy that a fork makes; threads and vfork's children share
 * their maker's. It ends with the last task that has it.
 *
 * A task may be killed at any time: requests that fail with ESRCH are followed by its end.
 */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/audit.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tasks.h"

#ifdef __x86_64__
#define OUR_ARCH	     AUDIT_ARCH_X86_64
#define RESULT_OF(registers) ((int64_t)(registers).rax)
#elif defined(__aarch64__)
#define OUR_ARCH	     AUDIT_ARCH_AARCH64
#define RESULT_OF(registers) ((int64_t)(registers).regs[0])
#else
#error "record-maps knows the system calls of x86-64 and AArch64"
#endif

#define OPTIONS                                                                                    \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |   \
	 PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXIT)
#define SYSCALL_STOP (SIGTRAP | 0x80)

static struct {
	unsigned int processes;
	pid_t first;
	int first_status;
	bool executed, told; /* what is wrong with calls is told once */
} all;

static volatile sig_atomic_t enough, first_ended;

bool trace_enough(void)
{
	enough = 1;
	return first_ended;
}

bool trace_executed(void)
{
	return all.executed;
}

unsigned int trace_processes(void)
{
	return all.processes;
}

unsigned int trace_spaces(void)
{
	return tasks.spaces;
}

/*
 * A task that is killed in a call does not stop at its exit, but the call was made. What came of it
 * is in the registers when the task ends; ENOSYS, if it was killed just before.
 */
static void finish_call(const struct task *task)
{
	struct user_regs_struct registers;
	struct iovec room = {&registers, sizeof(registers)};

	if (task->call.kind >= KINDS || task->waits ||
	    ptrace(PTRACE_GETREGSET, task->tid, (void *)NT_PRSTATUS, &room))
		return;
	if (RESULT_OF(registers) != -ENOSYS)
		call_leave(&task->call, task->tid, task->space, RESULT_OF(registers));
}

/* The task is about to have no space; with `look`, its ranges can still be read. */
static void leave(struct task *task, bool look)
{
	unsigned int space = task->space;

	if (task->ending)
		return;
	task->ending = true;
	if (look)
		finish_call(task);
	task_let_go(task);
	if (!space || task_others_have(space, 0))
		return;
	if (look)
		put_ranges(task->tid, space, "end");
	put("%u exit", space);
	count_call(EXIT, false);
}

/* An exec ends the other threads; where another one than the first did it, it takes its number. */
static void on_exec(pid_t process)
{
	char name[NAME_ROOM];
	unsigned long former = 0;
	struct task *task;
	unsigned int space;

	ptrace(PTRACE_GETEVENTMSG, process, 0, &former);
	task = task_find((pid_t)former);
	space = task ? task->space : 0;
	for (size_t i = tasks.n; i-- > 0;)
		if (tasks.list[i].process == process) {
			task_let_go(&tasks.list[i]);
			task_drop(&tasks.list[i]);
		}
	if (!space || task_others_have(space, process))
		space = task_new_space();
	task = task_add(process, process, space);
	if (process == all.first && !all.executed) {
		all.executed = true;
		put_head();
	}
	link_name(name, "/proc/%d/exe", (int)process);
	put("%u exec %s %" PRIx64, space, name, heap_start(process));
	if (!put_ranges(process, space, "map"))
		warn("cannot read the ranges of %s: %s", name, strerror(errno));
	count_call(EXEC, false);
	count_ranges(process, space);
	task_resume(task, 0);
}

static void on_new_task(struct task *maker)
{
	unsigned long tid = 0;
	uint64_t flags = maker->call.flags;
	unsigned int space = maker->space;
	struct task *made;

	ptrace(PTRACE_GETEVENTMSG, maker->tid, 0, &tid);
	if (!(flags & CLONE_VM)) {
		space = task_new_space();
		put("%u fork %u", maker->space, space);
		count_call(FORK, false);
	}
	if (!(flags & CLONE_THREAD))
		all.processes++;
	task_resume(maker, 0);
	made = task_find((pid_t)tid);
	if (!made) {
		pid_t process = maker->process;

		task_add((pid_t)tid, flags & CLONE_THREAD ? process : (pid_t)tid, space);
		return;
	}
	made->process = flags & CLONE_THREAD ? maker->process : (pid_t)tid;
	made->space = space;
	made->unannounced = false;
	task_resume(made, 0);
}

static void on_call(struct task *task)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, task->tid, sizeof(info), &info) <= 0) {
		if (errno == EIO && !all.told) {
			warn("this kernel has no PTRACE_GET_SYSCALL_INFO: Linux 5.3 is needed");
			all.told = true;
		}
		task_resume(task, 0);
		return;
	}
	if (info.arch != OUR_ARCH && !all.told) {
		warn("calls of another architecture are not recorded");
		all.told = true;
	}
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY && info.arch == OUR_ARCH && task->space) {
		call_enter(&task->call, task->tid, (long)info.entry.nr,
			   (const uint64_t *)info.entry.args);
		if (task->call.kind < KINDS) {
			if (task_hold(task))
				task_resume_call(task);
			return;
		}
	} else if (info.op == PTRACE_SYSCALL_INFO_EXIT && task->call.kind != NONE) {
		call_leave(&task->call, task->tid, task->space, info.exit.rval);
		task_let_go(task);
	}
	task_resume(task, 0);
}

/* Stopped by a signal: it stays so. The terminal's stops concern us as well: one job, as shells see
 * it. */
static void on_group_stop(const struct task *task, int signal)
{
	ptrace(PTRACE_LISTEN, task->tid, 0, 0);
	if (task->tid == all.first && signal != SIGSTOP)
		raise(SIGSTOP);
}

static bool stops(int signal)
{
	return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

static void on_stop(pid_t tid, int status)
{
	struct task *task = task_find(tid);
	int signal = WSTOPSIG(status);

	if (!task) {
		task = task_add(tid, tid, 0);
		task->unannounced = true;
		return;
	}
	switch (status >> 16) {
	case PTRACE_EVENT_EXEC:
		on_exec(tid);
		break;
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_VFORK:
	case PTRACE_EVENT_CLONE:
		on_new_task(task);
		break;
	case PTRACE_EVENT_EXIT:
		leave(task, true);
		task_resume(task, 0);
		break;
	case PTRACE_EVENT_STOP:
		if (stops(signal))
			on_group_stop(task, signal);
		else
			task_resume(task, 0);
		break;
	default:
		if (signal == SYSCALL_STOP)
			on_call(task);
		else
			task_resume(task, signal);
	}
}

int trace_begin(pid_t first)
{
	if (ptrace(PTRACE_SEIZE, first, 0, (void *)(long)OPTIONS))
		return -1;
	all.first = first;
	all.processes = 1;
	task_add(first, first, 0);
	return 0;
}

/* A maker that was killed tells of no task: whoever waits for it goes on, unrecorded. */
static void free_unannounced(void)
{
	for (size_t i = tasks.n; i-- > 0;)
		if (tasks.list[i].unannounced) {
			ptrace(PTRACE_DETACH, tasks.list[i].tid, 0, 0);
			warn("process %d is not recorded: its creator was killed",
			     (int)tasks.list[i].tid);
			task_drop(&tasks.list[i]);
		}
}

int trace_all(void)
{
	while (!(first_ended && (enough || !tasks.n))) {
		int status;
		pid_t tid = waitpid(-1, &status, __WALL);
		struct task *task;

		if (tid < 0 && errno == EINTR)
			continue;
		if (tid < 0)
			break;
		if (WIFSTOPPED(status)) {
			on_stop(tid, status);
			continue;
		}
		if (tid == all.first) {
			all.first_status = status;
			first_ended = true;
		}
		task = task_find(tid);
		if (task) {
			leave(task, false);
			task_drop(task);
		}
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
			free_unannounced();
	}
	return all.first_status;
}
