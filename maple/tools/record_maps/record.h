/* SPDX-License-Identifier: MIT */
/*
 * Shared by the parts of record-maps: main.c (command line, output, summary), trace.c and tasks.c
 * (stops of the traced tasks), call.c (a system call becomes a line), snapshot.c (ranges as the
 * kernel lists them).
 *
 * Invariants:
 * 1. The line of a call is written after the call, and before the next call on the same space
 *    begins.
 * 2. Addresses and lengths are in pages; no line contains a directory of this machine.
 * 3. Whatever fails here, the traced program continues.
 *
 * sheaf-maps(5) describes the format of a recording.
 */
#ifndef RECORD_MAPS_RECORD_H
#define RECORD_MAPS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define VERSION	     1
#define NAME_ROOM    64	 /* bytes of a name in a recording, with its end */
#define OWN_FAILURE  125 /* exit codes, as those of timeout(1) and env(1) */
#define CANNOT_START 126
#define NOT_FOUND    127

enum kind {
	MMAP,
	MUNMAP,
	MPROTECT,
	BRK,
	MREMAP,
	DONTNEED,
	FORK,
	EXEC,
	EXIT,
	KINDS,
	THREAD, /* clone with the parent's space: no line is written */
	NONE,	/* nothing to record */
};

/* A system call between its entry and its exit. */
struct call {
	enum kind kind;
	long number;
	uint64_t arguments[6];
	uint64_t flags;	      /* clone: those for the new task */
	bool known;	      /* clone: the new task is known */
	uint64_t pages;	      /* shmdt: what it will unmap */
	char name[NAME_ROOM]; /* mmap: what is mapped */
};

/* main.c: the recording. If a line cannot be written, this is reported at the end. */
void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Write the first lines, once the program runs. Only now is an existing file overwritten. */
void put_head(void);
void count_call(enum kind kind, bool failed);
void count_ranges(pid_t tid, unsigned int space);
void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void no_memory(void);
uint64_t page_size(void);

/* call.c: at the entry of a call, find whether and how it concerns us; at its exit, write its line.
 */
void call_enter(struct call *call, pid_t tid, long number, const uint64_t arguments[6]);
void call_leave(const struct call *call, pid_t tid, unsigned int space, int64_t result);

/* snapshot.c */
struct range {
	uint64_t first, pages, offset;
	char permissions[5];
	char name[NAME_ROOM]; /* base name of the file, [stack] and such, or - */
};
/* Call a function with each range of the task's space; false if the ranges cannot be read. */
bool each_range(pid_t tid, void (*function)(const struct range *range, void *data), void *data);
/* Write all ranges, each as a line "SPACE WORD ..."; false if they cannot be read. */
bool put_ranges(pid_t tid, unsigned int space, const char *word);
/* The range that begins at this page; false if there is none. */
bool find_range(pid_t tid, uint64_t first, struct range *found);
/* The page where the task's heap begins; 0 if that cannot be read. */
uint64_t heap_start(pid_t tid);
/* The number of ranges in the task's space; 0 if they cannot be read. */
size_t nr_ranges(pid_t tid);
/* The last part of a path, in the characters that a recording may contain; "-" for none. */
void short_name(char name[NAME_ROOM], const char *path);
/* The last part of the target of a link in /proc, as above. */
void link_name(char name[NAME_ROOM], const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * trace.c. trace_begin() attaches to the first task, which must not have executed its program yet;
 * -1 and errno if that is not permitted. trace_all() records until the last task has ended, or
 * until the first task has ended and trace_enough() was called (by a signal handler; it returns
 * whether the first task has ended). It returns the first task's wait status.
 */
int trace_begin(pid_t first);
int trace_all(void);
bool trace_enough(void);
bool trace_executed(void); /* whether the first task executed the program */
unsigned int trace_processes(void);
unsigned int trace_spaces(void);

#endif
