/* SPDX-License-Identifier: MIT */
/*
 * What a program's run costs: system calls, page faults and memory at its exit, as a tracer sees
 * them. The program calls getppid() where main() begins. What the loader does counts, except its
 * search for files.
 */
#ifndef SHEAF_TESTS_START_COST_H
#define SHEAF_TESTS_START_COST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kit/process.h"

#define SKIPPED 77
#define RUNS	20

struct cost {
	long calls, faults, written, kib; /* KiB written, and resident */
};

static void skip_because(const char *why)
{
	printf("skipped: %s\n", why);
	exit(SKIPPED);
}

static long number_in(pid_t pid, const char *file, const char *key, int field)
{
	char path[64], text[4096], *at;
	FILE *from;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	from = fopen(path, "re");
	CHECK(from);
	text[fread(text, 1, sizeof(text) - 1, from)] = '\0';
	fclose(from);
	at = strstr(text, key);
	CHECK(at);
	for (at += strlen(key); field > 0; field--)
		at += strcspn(at, " ") + 1;
	return strtol(at, NULL, 10);
}

static void check_libraries(pid_t pid)
{
	char path[64], line[512];
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	CHECK(maps);
	while (fgets(line, sizeof(line), maps))
		if (strstr(line, ".so") && !strstr(line, "/libsheaf") &&
		    !strstr(line, "/libc.so") && !strstr(line, "/libc-") && !strstr(line, "/ld-")) {
			printf("loaded for the library: %s", line);
			exit(1);
		}
	fclose(maps);
}

/* Does this stop count as a call? The loader looks for libraries in the folder of the build. */
static bool counts(pid_t pid, bool *in_main)
{
	struct __ptrace_syscall_info info;
	static uint64_t call;
	static bool search;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) <= 0)
		skip_because(
			"this kernel does not describe system calls (PTRACE_GET_SYSCALL_INFO)");
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
		call = info.entry.nr;
		search = call == SYS_newfstatat && (int)info.entry.args[0] == AT_FDCWD;
#ifdef SYS_readlink
		search |= call == SYS_readlink;
#endif
		return false;
	}
	if (call == SYS_getppid)
		*in_main = true;
	return *in_main || (info.exit.rval != -ENOENT && !search);
}

static struct cost cost_of(const char *program, const char *variable)
{
	struct cost cost = {.calls = 0};
	char *arguments[] = {(char *)(uintptr_t)program, NULL},
	     *environment[] = {(char *)(uintptr_t)variable, NULL};
	pid_t pid = fork();
	bool in_main = false;
	int status;

	if (!pid) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(SKIPPED);
		execve(program, arguments, environment);
		_exit(1);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		skip_because("this process may not trace another one");
	CHECK(WIFSTOPPED(status));
	CHECK(!ptrace(PTRACE_SETOPTIONS, pid, NULL,
		      PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL));
	while (!ptrace(PTRACE_SYSCALL, pid, NULL, NULL) && waitpid(pid, &status, 0) == pid) {
		if (WIFEXITED(status))
			break;
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8)) {
			cost.faults =
				number_in(pid, "stat", ") ", 7) + number_in(pid, "stat", ") ", 9);
			cost.written = number_in(pid, "status", "RssAnon:", 0);
			cost.kib = number_in(pid, "status", "VmRSS:", 0);
			check_libraries(pid);
		} else if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
			cost.calls += counts(pid, &in_main);
		}
	}
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0 && in_main);
	return cost;
}

static long less(long one, long other)
{
	return one < other ? one : other;
}

/* The least of some runs: the first one may read files. variable: the environment, or NULL. */
static inline struct cost least_cost_of(const char *program, const char *variable)
{
	struct cost least = cost_of(program, variable);

	for (int i = 1; i < RUNS; i++) {
		struct cost cost = cost_of(program, variable);

		least.calls = less(least.calls, cost.calls);
		least.faults = less(least.faults, cost.faults);
		least.written = less(least.written, cost.written);
		least.kib = less(least.kib, cost.kib);
	}
	return least;
}

static inline bool is_at_most(const char *what, long is, long most)
{
	printf("%s: %ld, at most %ld\n", what, is, most);
	return is <= most;
}

#endif
