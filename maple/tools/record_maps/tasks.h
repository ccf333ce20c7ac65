/* SPDX-License-Identifier: MIT */
/*
 * The traced tasks, and which address space each has.
 *
 *     task (thread) ---> number of a space; 0: its maker has not told us yet, or not executed yet
 *
 * Invariants:
 * 1. Of the tasks of one space at most one, its holder, is inside a call that changes it; others
 *    wait stopped at their call's entry. So the order of lines is the order of the kernel's
 *    changes.
 * 2. A task that is stopped is resumed, or listens (it is stopped by a signal), or waits as in 1,
 *    or waits to be announced by its maker.
 *
 * Callers: trace.c.
 */
#ifndef RECORD_MAPS_TASKS_H
#define RECORD_MAPS_TASKS_H

#include "record.h"

struct task {
	pid_t tid, process;
	unsigned int space;
	int unannounced; /* status of the stop it is in, before its maker told of it; 0: it has */
	bool waits;	 /* at the entry of a call, for the space's holder */
	bool ending;
	struct call call; /* that it is in */
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
/* The pointer, as all others, is valid until the next call of task_add() or task_drop(). */
struct task *task_add(pid_t tid, pid_t process, unsigned int space);
void task_drop(struct task *task);

unsigned int task_new_space(void);
/* Whether a task that is not ending, and not one of this process, has the space. */
bool task_others_have(unsigned int space, pid_t process);

/*
 * False: it was killed where it stopped, and the stop of its end is to come. A resumed task may be
 * in another stop than waitpid() has told of: from that of its end only who is `ending` is resumed.
 */
bool task_resume(const struct task *task, int signal);
/* Into the call that it has entered; who is killed before that does not make it. */
void task_resume_call(struct task *task);

/* Let the task into its call if no other is in one of the same space. */
bool task_hold(struct task *task);
/* The task leaves its call: the next one may go in. */
void task_let_go(struct task *task);

#endif
