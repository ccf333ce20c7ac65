/* SPDX-License-Identifier: MIT */
/*
 * What a program needs: its CPU time, resident memory and page faults. `sheaf run --compare` and
 * `sheaf bench real` run it, because a process that Python starts has at least Python's peak.
 *
 *   measure FD [--calls] [NAME=VALUE]... -- PROGRAM [ARGUMENT]...
 *
 * To the descriptor: the exit code (128 + N after signal N), user and system time in us, peak in
 * KiB, faults, and with --calls the system calls of the program itself, which take it much longer.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void become(int fd, int traced, char **words)
{
	if (traced && ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(126);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(fd);
	execvp(*words, words);
	_exit(errno == ENOENT ? 127 : 126);
}

static long long us(struct timeval time)
{
	return time.tv_sec * 1000000LL + time.tv_usec;
}

/* Waits as wait4() does, and counts the system calls after exec. */
static pid_t wait_traced(pid_t pid, int *status, struct rusage *used, long *calls)
{
	long stops = 0;
	pid_t found;

	while ((found = wait4(pid, status, __WALL, used)) == pid && WIFSTOPPED(*status)) {
		int signal = WSTOPSIG(*status);

		if (!stops && signal == SIGTRAP)
			ptrace(PTRACE_SETOPTIONS, pid, NULL,
			       PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
		stops += signal == (SIGTRAP | 0x80);
		ptrace(PTRACE_SYSCALL, pid, NULL, signal == SIGTRAP || signal & 0x80 ? 0 : signal);
	}
	*calls = (stops + 1) / 2; /* the last one, exit, does not return */
	return found;
}

int main(int argc, char **argv)
{
	int fd, status, traced;
	char **words;
	struct rusage used;
	long calls = 0;
	pid_t pid;

	if (argc < 4)
		return 2;
	fd = atoi(argv[1]);
	traced = !strcmp(argv[2], "--calls");
	/* Before fork(): the pages that this writes are not the program's faults. */
	for (words = argv + 2 + traced; *words && strcmp(*words, "--"); words++)
		putenv(*words);
	if (!*words || !*++words)
		return 2;
	pid = fork();
	if (pid == 0)
		become(fd, traced, words);
	if (pid < 0 || (traced ? wait_traced(pid, &status, &used, &calls)
			       : wait4(pid, &status, 0, &used)) != pid)
		return 1;
	dprintf(fd, "%d %lld %lld %ld %ld %ld\n",
		WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), us(used.ru_utime),
		us(used.ru_stime), used.ru_maxrss, used.ru_minflt, calls);
	return 0;
}
