/* SPDX-License-Identifier: MIT */
/*
 * See record.h: the stops of every traced task.
 *
 * A space begins with an exec, or as the copy that a fork makes; threads and children of vfork
 * share their creator's. It ends with the last task that has it.
 *
 * A task may be killed at any time: requests that fail with ESRCH are followed by its end. A task
 * that is killed in a stop that waitpid() has reported continues to its exit stop, in which
 * requests succeed again, for that stop. There the outcome of a call that had no exit is looked up.
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
	bool executed, reported; /* a problem with calls is reported once */
	bool lost_maker;	 /* nobody will announce the task that it made */
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

static void on_stop(pid_t tid, int status);

/* The task that a call creates, and its space. Both tasks may move in the list. */
static void announce(struct task *maker, pid_t tid)
{
	uint64_t flags = maker->call.flags;
	unsigned int space = maker->space;
	pid_t process = flags & CLONE_THREAD ? maker->process : tid;
	struct task *made = task_find(tid);
	int status;

	maker->call.known = true;
	if (!(flags & CLONE_VM)) {
		space = task_new_space();
		put("%u fork %u", maker->space, space);
		count_call(FORK, false);
	}
	if (!(flags & CLONE_THREAD))
		all.processes++;
	if (!made) {
		task_add(tid, process, space);
		return;
	}
	status = made->unannounced;
	made->process = process;
	made->space = space;
	made->unannounced = 0;
	on_stop(tid, status);
}

/* It is in a call that creates a task, and has not announced that task. */
static bool is_making(const struct task *task)
{
	return (task->call.kind == FORK || task->call.kind == THREAD) && !task->call.known &&
	       !task->waits;
}

/*
 * A task that is killed in a call does not stop at its exit, but the call was made. The registers
 * have its result when the task ends; ENOSYS, if it was killed just before the call. False: they
 * cannot be read, and nobody knows what the call did.
 */
static bool finish_call(struct task *task, bool look)
{
	bool makes = task->call.kind == FORK || task->call.kind == THREAD;
	struct user_regs_struct registers;
	struct iovec room = {&registers, sizeof(registers)};

	if (task->call.kind == NONE || task->waits || (makes && !is_making(task)))
		return true;
	if (!look || ptrace(PTRACE_GETREGSET, task->tid, (void *)NT_PRSTATUS, &room))
		return false;
	if (makes && RESULT_OF(registers) > 0)
		announce(task, (pid_t)RESULT_OF(registers));
	else if (!makes && RESULT_OF(registers) != -ENOSYS)
		call_leave(&task->call, task->tid, task->space, RESULT_OF(registers));
	return true;
}

/*
 * Its exit stop was not seen: it was killed just as it was resumed, or killed again in that stop.
 */
static void lose_call(const struct task *task)
{
	if (task->call.kind == FORK || task->call.kind == THREAD)
		all.lost_maker = true;
	else
		tasks.space[task->space].unknown = true;
	warn("what process %d did last is not recorded: it was killed", (int)task->process);
}

/*
 * The task is about to have no space; with `look`, its ranges can still be read. They are not
 * written if they may differ from what the lines say, because nobody could find out why.
 */
static void leave(pid_t tid, bool look)
{
	struct task *task = task_find(tid);
	unsigned int space = task->space;

	if (task->ending)
		return;
	/* A thread that it created may end here, too: it is not the last one. */
	if (!finish_call(task, look))
		lose_call(task);
	task = task_find(tid);
	task->ending = true;
	task_let_go(task);
	if (!space || task_others_have(space, 0))
		return;
	if (look && !tasks.space[space].unknown)
		put_ranges(tid, space, "end");
	put("%u exit", space);
	count_call(EXIT, false);
}

/* An exec ends the other threads; a thread other than the first that does it takes the first one's
 * number. */
static void on_exec(pid_t process)
{
	char name[NAME_ROOM];
	struct task *task;
	unsigned int space = 0;

	for (size_t i = tasks.n; i-- > 0;)
		if (tasks.list[i].process == process) {
			space = tasks.list[i].space; /* of all its threads */
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

	ptrace(PTRACE_GETEVENTMSG, maker->tid, 0, &tid);
	if (task_resume(maker, 0)) /* else it was killed, and the message may belong to its exit */
		announce(maker, (pid_t)tid);
}

static void on_call(struct task *task)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, task->tid, sizeof(info), &info) <= 0) {
		if (errno == EIO && !all.reported) {
			warn("this kernel has no PTRACE_GET_SYSCALL_INFO: Linux 5.3 is needed");
			all.reported = true;
		}
		task_resume(task, 0);
		return;
	}
	if (info.arch != OUR_ARCH && !all.reported) {
		warn("calls of another architecture are not recorded");
		all.reported = true;
	}
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY && info.arch == OUR_ARCH && task->space) {
		call_enter(&task->call, task->tid, (long)info.entry.nr,
			   (const uint64_t *)info.entry.args);
		if (task->call.kind >= KINDS || task_hold(task))
			task_resume_call(task);
		return;
	}
	if (info.op == PTRACE_SYSCALL_INFO_EXIT && task->call.kind != NONE) {
		call_leave(&task->call, task->tid, task->space, info.exit.rval);
		task_let_go(task);
	}
	task_resume(task, 0);
}

/* Stopped by a signal: it stays stopped. Stops from the terminal stop us, too: to the shell, we are
 * one job. */
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

	if (!task)
		task = task_add(tid, tid, 0);
	if (!task->space && tid != all.first) {
		task->unannounced = status;
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
		leave(tid, true);
		task_resume(task_find(tid), 0);
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

/* A task that waits for a creator that can no longer announce it continues unrecorded. As long as
 * another creator has yet to announce a task, it may be this one. */
static void free_unannounced(void)
{
	for (size_t i = 0; i < tasks.n; i++)
		if (is_making(&tasks.list[i]))
			return;
	for (size_t i = tasks.n; i-- > 0;)
		if (tasks.list[i].unannounced) {
			ptrace(PTRACE_DETACH, tasks.list[i].tid, 0, 0);
			warn("process %d is not recorded: its creator was killed",
			     (int)tasks.list[i].tid);
			task_drop(&tasks.list[i]);
		}
}

static void on_death(pid_t tid, int status)
{
	if (tid == all.first) {
		all.first_status = status;
		first_ended = true;
	}
	if (!task_find(tid))
		return;
	leave(tid, false);
	task_drop(task_find(tid));
}

int trace_all(void)
{
	while (!(first_ended && (enough || !tasks.n))) {
		int status;
		pid_t tid = waitpid(-1, &status, __WALL);

		if (tid < 0 && errno == EINTR)
			continue;
		if (tid < 0)
			break;
		if (WIFSTOPPED(status))
			on_stop(tid, status);
		else
			on_death(tid, status);
		if (all.lost_maker)
			free_unannounced();
	}
	return all.first_status;
}
