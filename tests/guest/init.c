/* SPDX-License-Identifier: MIT */
/*
 * The first process of an emulated machine: runs the tests of a list, one after the other, and
 * switches the machine off. scripts/lib/guest.py writes the list and reads the console.
 *
 * A line of /tests is NAME SECONDS [VARIABLE=VALUE]... PROGRAM [ARGUMENT]..., between single
 * spaces. What the console then shows is
 *
 *     guest: NAME begins
 *     ...
 *     guest: NAME ends with STATUS after SECONDS
 *
 * and, after all of them, "guest: done". The status is an exit status, or minus the signal.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_WORDS 32

static void mount_all(void)
{
	static const char *const systems[][2] = {{"proc", "/proc"},
						 {"sysfs", "/sys"},
						 {"devtmpfs", "/dev"},
						 {"tmpfs", "/dev/shm"},
						 {"tmpfs", "/tmp"}};

	for (size_t i = 0; i < sizeof(systems) / sizeof(systems[0]); i++) {
		mkdir(systems[i][1], 0777);
		if (mount(systems[i][0], systems[i][1], systems[i][0], 0, NULL))
			perror(systems[i][1]);
	}
}

/* Execute this command. */
static void become(char **words)
{
	setsid(); /* a group, so that a test that hangs ends with its children */
	while (*words && strchr(*words, '=') && **words != '/')
		putenv(*words++);
	if (*words)
		execv(*words, words);
	perror(*words ? *words : "no program");
	_exit(127);
}

/* Reap every child until this one has ended, and return its status. It is killed when its time is
 * over. */
static int wait_for(pid_t child, int seconds)
{
	time_t end = time(NULL) + seconds;
	int status;
	pid_t ended;

	while ((ended = waitpid(-1, &status, WNOHANG)) != child) {
		const struct timespec moment = {.tv_nsec = 20000000};

		if (ended > 0)
			continue;
		if (time(NULL) > end) {
			printf("guest: killed after %d seconds\n", seconds);
			kill(-child, SIGKILL);
			end += seconds;
		}
		nanosleep(&moment, NULL);
	}
	kill(-child, SIGKILL);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void run(char *line)
{
	char *words[MAX_WORDS + 1] = {0}, *rest = NULL;
	unsigned int n = 0;
	time_t begin;
	pid_t child;
	int status;

	for (char *word = strtok_r(line, " \n", &rest); word && n < MAX_WORDS;
	     word = strtok_r(NULL, " \n", &rest))
		words[n++] = word;
	if (n < 3)
		return;
	printf("guest: %s begins\n", words[0]);
	begin = time(NULL);
	child = fork();
	if (child == 0)
		become(words + 2);
	status = child < 0 ? 126 : wait_for(child, atoi(words[1]));
	printf("guest: %s ends with %d after %ld\n", words[0], status, (long)(time(NULL) - begin));
}

int main(void)
{
	const struct rlimit no_cores = {0, 0};
	char line[1024];
	FILE *tests;

	if (getpid() != 1)
		return 0; /* as /bin/true, which a test executes */
	setvbuf(stdout, NULL, _IOLBF, 0);
	mount_all();
	setrlimit(RLIMIT_CORE, &no_cores);
	setenv("LD_LIBRARY_PATH", "/lib", 1);
	setenv("EMULATED_MACHINE", "1", 1);
	tests = fopen("/tests", "re");
	while (tests && fgets(line, sizeof(line), tests))
		run(line);
	printf("guest: done\n");
	fflush(stdout);
	sync();
	reboot(RB_POWER_OFF);
	return 1;
}
