/* SPDX-License-Identifier: MIT */
/*
 * What several tests need: what was told on standard error, seeded random numbers, a pinned
 * thread, one that sleeps, a child that checks, memory that runs out, rows that are all one row.
 */
#ifndef SHEAF_TESTS_HELP_H
#define SHEAF_TESTS_HELP_H

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/machine.h"
#include "os/report.h"
#include "os/section.h"
#include "page/page.h"

/* For children and threads, where cmocka's assertions cannot be used. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

struct told {
	int file, saved;
	char text[16384];
};

/* From now on standard error is kept rather than shown. */
static inline void told_begin(struct told *told)
{
	told->file = memfd_create("told", MFD_CLOEXEC);
	told->saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
	dup2(told->file, STDERR_FILENO);
}

/* Until now; how many lines they were. -1: one is still kept. */
static inline int told_end(struct told *told)
{
	ssize_t length = pread(told->file, told->text, sizeof(told->text) - 1, 0);
	int lines = 0;

	dup2(told->saved, STDERR_FILENO);
	close(told->saved);
	close(told->file);
	told->text[length < 0 ? 0 : length] = '\0';
	for (const char *at = told->text; (at = strchr(at, '\n')) != NULL; at++)
		lines++;
	return os_reports_kept ? -1 : lines;
}

/* The same of a layer whose callers write what it keeps. */
static inline int told_end_kept(struct told *told)
{
	os_report_kept();
	return told_end(told);
}

static inline uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

static inline unsigned int random_below(uint64_t *seed, unsigned int n)
{
	return (unsigned int)(random_next(seed) % n);
}

/* Keep this thread on one CPU; false if the machine does not let us. */
static inline bool pin(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0;
}

/* Return when the process's first thread sleeps: by now it waits for what the caller has. */
static inline void wait_until_first_sleeps(void)
{
	char path[64], text[512], state = 'R';

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
	while (state != 'S') {
		int file = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t length = read(file, text, sizeof(text) - 1);

		close(file);
		text[length < 0 ? 0 : length] = '\0';
		/* "pid (name) state", and a name may hold anything */
		if (!strrchr(text, ')'))
			_exit(1);
		state = strrchr(text, ')')[2];
		sched_yield();
	}
}

/* Run the body in a forked child; its wait status. One that hangs is ended with the test, by Meson. */
static inline int in_child(void (*body)(void))
{
	struct rlimit none = {0, 0};
	pid_t child = fork();
	int status = -1;

	if (child == 0) {
		/* cmocka catches these, and would go on with the next test in the child. */
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		setrlimit(RLIMIT_CORE, &none);
		body();
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	return status;
}

/* No more memory from the system than this process has now: to be used in a child. */
static inline void no_more_memory(void)
{
	struct rlimit limit = {0, 0};

	CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
}

/* Leave the node nothing but runs of one page, so that larger slabs cannot be had. */
static inline void leave_single_pages(unsigned int node)
{
	struct slab *runs[PAGE_MAX_ORDER + 1] = {NULL}, *slab;

	no_more_memory();
	for (unsigned int order = PAGE_MAX_ORDER; order <= PAGE_MAX_ORDER; order--)
		while ((slab = page_alloc(node, order)) != NULL) {
			slab->next = runs[order];
			runs[order] = slab;
		}
	for (unsigned int order = 0; order <= PAGE_MAX_ORDER; order++)
		for (slab = runs[order]; slab; slab = runs[order]) {
			runs[order] = slab->next;
			for (unsigned int i = 0; i < 1u << order; i++)
				if ((slab + i - pages.slabs) % 2 == 0)
					page_free(slab + i, 0);
		}
}

/* A handle whose rows are all the same memory: whatever row a section takes, it is this one. */
static inline char *map_one_row(void)
{
	size_t bytes = (size_t)1 << ROW_SHIFT;
	int file = memfd_create("row", MFD_CLOEXEC);
	char *rows =
		mmap(NULL, (os.nr_rows + 1) * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (rows == MAP_FAILED || ftruncate(file, (off_t)bytes))
		return NULL;
	for (uint32_t row = 0; row <= os.nr_rows; row++)
		if (mmap(rows + row * bytes, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			 file, 0) == MAP_FAILED)
			return NULL;
	close(file);
	return rows;
}

#endif
