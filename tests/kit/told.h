/* SPDX-License-Identifier: MIT */
/* Captures reports on standard error. */
#ifndef SHEAF_TESTS_TOLD_H
#define SHEAF_TESTS_TOLD_H

#include <fcntl.h>
#include <sheaf/group.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kit/hooks.h"

struct told {
	int file, saved;
	char text[16384];
};

/* From now on standard error is captured instead of shown. */
static inline void told_begin(struct told *told)
{
	hook_forget_misuse();
	told->file = memfd_create("told", MFD_CLOEXEC);
	told->saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
	dup2(told->file, STDERR_FILENO);
}

/* Stop capturing; returns the number of lines. -1: a report was still deferred. */
static inline int told_end(struct told *told)
{
	ssize_t length = pread(told->file, told->text, sizeof(told->text) - 1, 0);
	off_t before = lseek(told->file, 0, SEEK_END);
	bool deferred;
	int lines = 0;

	kmem_group_put(NULL); /* writes deferred reports, and does nothing else */
	deferred = lseek(told->file, 0, SEEK_END) != before;
	dup2(told->saved, STDERR_FILENO);
	close(told->saved);
	close(told->file);
	told->text[length < 0 ? 0 : length] = '\0';
	for (const char *at = told->text; (at = strchr(at, '\n')) != NULL; at++)
		lines++;
	/* An emulator adds a line of its own when a signal ends a process. */
	lines -= strstr(told->text, "qemu: ") != NULL;
	return deferred ? -1 : lines;
}

/* The same if reports may still be deferred. */
static inline int told_end_kept(struct told *told)
{
	kmem_group_put(NULL);
	return told_end(told);
}

/* How many of the lines begin a report: some reports have further lines. */
static inline int told_reports(const struct told *told)
{
	int reports = 0;

	for (const char *at = told->text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		reports += !strncmp(at, "libsheaf: ", 10);
	}
	return reports;
}

#endif
