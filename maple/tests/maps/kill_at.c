/* SPDX-License-Identifier: MIT */
/*
 * With this waitpid(), record-maps sees a traced process killed at the worst moment: after the
 * recorder was notified of a stop, and before it looks at the task. When it looks, the task is
 * already in its next stop, the exit stop.
 *
 *     KILL_AT=N      at the Nth stop after the program's exec, counted from 1
 *     KILL_UNSEEN=1  and the recorder is not given that next stop, but only the death: as if
 *                    it had resumed the task just when it was killed. A process's first thread
 *                    is then only killed in calls: its death is reported after the others', so a
 *                    thread that it was making would wait forever to be announced
 *
 * The recorder also sees each new task's first stop before its creator's event, which is always
 * possible.
 *
 * Writes "kill-at: killed" to standard error when it kills. Nothing here depends on time.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tasks.h"

static bool is_end(int status)
{
	return status >> 16 == PTRACE_EVENT_EXIT;
}

static bool is_first_thread(pid_t tid)
{
	const struct task *task = task_find(tid);

	return !task || task->process == tid;
}

static void kill_here(pid_t tid)
{
	siginfo_t next;

	fprintf(stderr, "kill-at: killed\n");
	syscall(SYS_tkill, tid, SIGKILL);
	waitid(P_PID, (id_t)tid, &next, WSTOPPED | WEXITED | WNOWAIT | __WALL);
}

static bool wanted(pid_t tid, int status)
{
	bool unseen = getenv("KILL_UNSEEN");

	return WIFSTOPPED(status) && !is_end(status) &&
	       !(unseen && status >> 16 && is_first_thread(tid));
}

static bool makes(int status)
{
	int event = status >> 16;

	return event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
	       event == PTRACE_EVENT_CLONE;
}

/* As wait4(), but a new task comes before its maker's word of it. */
static pid_t new_first(pid_t which, int *status, int options)
{
	static pid_t maker;
	static int word;
	unsigned long made = 0;
	pid_t tid;

	if (maker && (which == -1 || which == maker)) {
		tid = maker;
		*status = word;
		maker = 0;
		return tid;
	}
	tid = wait4(which, status, options, NULL);
	if (which != -1 || tid <= 0 || !WIFSTOPPED(*status) || !makes(*status) ||
	    ptrace(PTRACE_GETEVENTMSG, tid, 0, &made) || task_find((pid_t)made))
		return tid;
	maker = tid;
	word = *status;
	return wait4((pid_t)made, status, options, NULL);
}

/* The recorder's calls come here, but not those of libc. */
pid_t waitpid(pid_t which, int *status, int options)
{
	static long stops;
	static pid_t killed, thread; /* thread: until its death was reported, nothing else is */
	const char *at = getenv("KILL_AT");
	pid_t tid = new_first(thread ? thread : which, status, options);

	if (tid <= 0 || !at || !trace_executed())
		return tid;
	if (tid == thread && !WIFSTOPPED(*status))
		thread = 0;
	if (tid == killed && is_end(*status) && getenv("KILL_UNSEEN")) {
		ptrace(PTRACE_CONT, tid, 0, 0);
		return waitpid(which, status, options);
	}
	if (killed || !wanted(tid, *status) || ++stops != atol(at))
		return tid;
	killed = tid;
	thread = is_first_thread(tid) ? 0 : tid;
	kill_here(tid);
	return tid;
}
