/* SPDX-License-Identifier: MIT */
/* Captures reports on standard error. */
#ifndef SHEAF_TESTS_TOLD_H
#define SHEAF_TESTS_TOLD_H

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/report/report.h"

struct told {
	int file, saved;
	char text[16384];
};

/* From now on standard error is captured instead of shown. */
static inline void told_begin(struct told *told)
{
	os_misuse_forget();
	told->file = memfd_create("told", MFD_CLOEXEC);
	told->saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
	dup2(told->file, STDERR_FILENO);
}

/* Stop capturing; returns the number of lines. -1: a report is still deferred. */
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
	/* An emulator adds a line of its own when a signal ends a process. */
	lines -= strstr(told->text, "qemu: ") != NULL;
	return os_reports_kept ? -1 : lines;
}

/* The same for a layer whose callers write its deferred reports. */
static inline int told_end_kept(struct told *told)
{
	os_report_kept();
	return told_end(told);
}

#endif
