/* SPDX-License-Identifier: MIT */
/*
 * A recording of `sheaf record-maps`, read into memory: the history of several address spaces, call
 * by call. sheaf-maps(5) describes the format.
 *
 * Invariants of what recording_parse() accepts:
 * 1. Spaces are numbered from 1 in the order of their first lines; no line refers to a space that
 *    does not exist.
 * 2. Ranges are not empty, and end below PAGES_MAX.
 * 3. OP_MAP lines directly follow their OP_EXEC; OP_END lines directly precede their OP_EXIT.
 */
#ifndef VMA_RECORDING_H
#define VMA_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGES_MAX  (UINT64_C(1) << 44)
#define ERROR_ROOM 256

enum op_kind {
	OP_EXEC,
	OP_MAP,
	OP_MMAP,
	OP_MUNMAP,
	OP_MPROTECT,
	OP_BRK,
	OP_MREMAP,
	OP_DONTNEED,
	OP_FORK,
	OP_END,
	OP_EXIT,
	OP_KINDS
};

enum op_how { /* what mmap or mremap was asked for */
	HOW_ANY,
	HOW_FIXED,
	HOW_NOREPLACE,
	HOW_GROWSDOWN,
	HOW_STAY,
	HOW_MOVE,
	HOW_KEEP /* and leave the old range mapped */
};

/* Addresses and lengths in pages. */
struct op {
	enum op_kind kind;
	enum op_how how;
	bool failed;	   /* and `result` means nothing */
	bool no_memory;	   /* failed with ENOMEM, as mprotect does at a hole */
	bool grows;	   /* OP_MAP, OP_END: the stack */
	unsigned int line; /* of the file */
	unsigned int space;
	unsigned int child;   /* OP_FORK: the new space */
	unsigned int nr_maps; /* OP_EXEC: OP_MAPs behind it */
	unsigned int flags;   /* VMA_READ and so on */
	unsigned int file;    /* a number for each name; 0: none */
	uint64_t first, pages, page;
	uint64_t wanted; /* mremap: new length; brk: new end */
	uint64_t result; /* mmap, mremap: where it is; brk: the end */
};

struct recording {
	struct op *ops;
	size_t nr_ops;
	unsigned int spaces;
	char **names; /* names of files, by number */
	unsigned int nr_names;
	char *command; /* as in the recording */
	char *text;
};

extern const char *const op_names[OP_KINDS];

/*
 * Read a file, or parse a text of this many bytes and take ownership of it: it must be from
 * malloc() and have room for one more byte. There, `path` is for messages only. If the input is not
 * a complete recording, print a message with its file and line, leave the recording empty, and
 * return false.
 */
bool recording_read(struct recording *recording, const char *path, char error[ERROR_ROOM]);
bool recording_parse(struct recording *recording, const char *path, char *text, size_t size,
		     char error[ERROR_ROOM]);

void recording_free(struct recording *recording);

#endif
