/* SPDX-License-Identifier: MIT */
/*
 * Steps with threads and with a child. One thread runs at a time, which takes the steps: it gives
 * the others their turn.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz/api/model.h"
#include "kit/process.h"

static struct {
	pthread_t thread;
	sem_t turn;
	bool exists, ends;
} threads[MAX_THREADS] = {[0] = {.exists = true}};

/* Threads that ended have returned their groups. */
static void join_threads(void)
{
	for (unsigned int i = 1; i < MAX_THREADS; i++) {
		unsigned int group = program.current[i];

		if (!threads[i].ends)
			continue;
		pthread_join(threads[i].thread, NULL);
		threads[i].exists = threads[i].ends = false;
		program.current[i] = ROOT;
		if (group)
			group_drop(group, &groups_known[group].threads);
	}
}

static void wait_for_turn(unsigned int thread)
{
	while (sem_wait(&threads[thread].turn))
		;
	program.thread = thread;
	join_threads();
	errno = ERRNO;
}

static void *work(void *number)
{
	unsigned int thread = *(unsigned int *)number;

	wait_for_turn(thread);
	pin(0);
	errno = ERRNO;
	run_steps();
	if (!threads[thread].ends)
		finish();
	sem_post(&threads[0].turn);
	return NULL;
}

/* The other thread continues with the program, and this one waits for its turn. */
static void give_turn(void)
{
	static unsigned int numbers[MAX_THREADS] = {0, 1, 2, 3};
	unsigned int to = below(MAX_THREADS), from = program.thread;

	if (to == from || program.lost_threads)
		return;
	if (!threads[to].exists) {
		sem_init(&threads[to].turn, 0, 0);
		WANT(pthread_create(&threads[to].thread, NULL, work, &numbers[to]) == 0);
		threads[to].exists = true;
	}
	may_report();
	sem_post(&threads[to].turn);
	wait_for_turn(from);
}

/* The first thread continues, once this one has ended. */
static void end_thread(void)
{
	threads[program.thread].ends = program.thread != 0 && !program.lost_threads;
}

bool thread_ends(void)
{
	return threads[program.thread].ends;
}

/* Both processes continue with the program, once. In the child other threads have vanished, with
 * their references to groups. */
static void fork_once(void)
{
	static bool forked;
	pid_t child;
	int status;

	if (forked)
		return;
	forked = true;
	child = fork();
	WANT(child >= 0);
	if (!child) {
		alarm(CHILD_SECONDS);
		program.lost_threads = true;
		return;
	}
	may_report(); /* the child's reports */
	WANT(waitpid(child, &status, 0) == child && status == 0);
}

const struct step thread_steps[] = {
	{"turn", give_turn, 5},
	{"end_thread", end_thread, 1},
	{"fork", fork_once, 1},
	{NULL, NULL, 0},
};
