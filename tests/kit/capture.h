/* SPDX-License-Identifier: MIT */
/* Captures reports on standard error. */
#ifndef SHEAF_TESTS_CAPTURE_H
#define SHEAF_TESTS_CAPTURE_H

#include <fcntl.h>
#include <sheaf/group.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kit/hooks.h"

struct capture {
	int file, saved;
	char text[16384];
};

/* From now on standard error is captured instead of shown. */
static inline void capture_begin(struct capture *captured)
{
	hook_forget_misuse();
	captured->file = memfd_create("captured", MFD_CLOEXEC);
	captured->saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
	dup2(captured->file, STDERR_FILENO);
}

/* Stop capturing; returns the number of lines. -1: a report was still deferred. */
static inline int capture_end(struct capture *captured)
{
	ssize_t length = pread(captured->file, captured->text, sizeof(captured->text) - 1, 0);
	off_t before = lseek(captured->file, 0, SEEK_END);
	bool deferred;
	int lines = 0;

	kmem_group_put(NULL); /* writes deferred reports, and does nothing else */
	deferred = lseek(captured->file, 0, SEEK_END) != before;
	dup2(captured->saved, STDERR_FILENO);
	close(captured->saved);
	close(captured->file);
	captured->text[length < 0 ? 0 : length] = '\0';
	for (const char *at = captured->text; (at = strchr(at, '\n')) != NULL; at++)
		lines++;
	/* An emulator adds a line of its own when a signal ends a process. */
	lines -= strstr(captured->text, "qemu: ") != NULL;
	return deferred ? -1 : lines;
}

/* Like capture_end(), after the deferred reports are written. */
static inline int capture_end_deferred(struct capture *captured)
{
	kmem_group_put(NULL);
	return capture_end(captured);
}

/* How many of the lines begin a report: some reports have further lines. */
static inline int captured_reports(const struct capture *captured)
{
	int reports = 0;

	for (const char *at = captured->text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		reports += !strncmp(at, "libsheaf: ", 10);
	}
	return reports;
}

#endif
