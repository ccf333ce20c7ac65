/* SPDX-License-Identifier: MIT */
/*
 * What a program needs: its CPU time, resident memory and page faults. `sheaf run --compare` and
 * `sheaf bench real` run it, because a process that Python starts has at least Python's peak.
 *
 *   measure FD [NAME=VALUE]... -- PROGRAM [ARGUMENT]...
 *
 * To the descriptor: the exit code (128 + N after signal N), user and system time in us, peak in
 * KiB, faults.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void become(int fd, char **words)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(fd);
	for (; *words && strcmp(*words, "--"); words++)
		putenv(*words);
	if (!*words || !words[1])
		_exit(126);
	execvp(words[1], words + 1);
	_exit(errno == ENOENT ? 127 : 126);
}

static long long us(struct timeval time)
{
	return time.tv_sec * 1000000LL + time.tv_usec;
}

int main(int argc, char **argv)
{
	struct rusage used;
	int fd, status;
	pid_t pid;

	if (argc < 4)
		return 2;
	fd = atoi(argv[1]);
	pid = fork();
	if (pid == 0)
		become(fd, argv + 2);
	if (pid < 0 || wait4(pid, &status, 0, &used) != pid)
		return 1;
	dprintf(fd, "%d %lld %lld %ld %ld\n",
		WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), us(used.ru_utime),
		us(used.ru_stime), used.ru_maxrss, used.ru_minflt);
	return 0;
}
