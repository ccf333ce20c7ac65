/* SPDX-License-Identifier: MIT */
/*
 * The traced tasks, and which address space each has.
 *
 *     task (thread) ---> number of a space; 0: its creator has not announced it, or it has not
 *     executed yet
 *
 * Invariants:
 * 1. At most one task of a space, its holder, is inside a call that changes the space; the others
 *    wait, stopped at the entry of their calls. So the order of lines is the order of the kernel's
 *    changes.
 * 2. A stopped task is resumed, or listens (it was stopped by a signal), or waits as in 1, or waits
 *    to be announced by its creator.
 *
 * Callers: trace.c.
 */
#ifndef RECORD_MAPS_TASKS_H
#define RECORD_MAPS_TASKS_H

#include "record.h"

struct task {
	pid_t tid, process;
	unsigned int space;
	int unannounced; /* status of its first stop, until its creator announces it; then 0 */
	bool waits;	 /* waits at the entry of a call for the space's holder */
	bool ending;
	struct call call; /* the call that it is in */
};

extern struct tasks {
	struct task *list;
	size_t n, room;
	struct space {
		pid_t holder; /* 0: none */
		bool unknown; /* what a call changed could not be read */
	} * space;	      /* by number */
	unsigned int spaces;
} tasks;

struct task *task_find(pid_t tid);
/* The pointer, like all others, is valid until the next call of task_add() or task_drop(). */
struct task *task_add(pid_t tid, pid_t process, unsigned int space);
void task_drop(struct task *task);

unsigned int task_new_space(void);
/* Whether a task of another process that is not ending has the space. */
bool task_others_have(unsigned int space, pid_t process);

/*
 * Resume a task. False: it was killed in its stop, and its exit stop will follow. A task may be in
 * a later stop than waitpid() has reported: only a task that is `ending` is resumed from its exit
 * stop.
 */
bool task_resume(const struct task *task, int signal);
/* Let it make the call that it has entered; a task that is killed before that does not make it. */
void task_resume_call(struct task *task);

/* Let the task make its call if no other task of the space is in one. */
bool task_hold(struct task *task);
/* The task leaves its call: the next one may make its own. */
void task_let_go(struct task *task);

#endif
